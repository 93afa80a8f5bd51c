use echomq::{Client, EventId, Heard, Options, Range, Signal, SubscriberOptions};

#[tokio::main]
async fn main() -> echomq::Result<()> {
    let url = std::env::var("ECHOMQ_URL").unwrap_or("redis://localhost:6379".into());
    let client = Client::connect(&Options::new(&url)?).await?;
    let (events, games) = (client.events("codemojex")?, client.stream("codemojex", "games")?);
    let subscriber = events.listen().await?.subscribe(SubscriberOptions::new())?;

    // The stream remembers the record; whoever listens hears at once where it is.
    let completed = Signal::new("completed", "JOB000xY9Wvvcd")?;
    events.append_and_publish("games", [("kind", "won"), ("player", "ada")], completed).await?;

    while let Some(heard) = subscriber.next().await? {
        // After a gap, too, the stream is read from the last id that is known.
        let Heard::Event(event) = heard else { continue };
        let id = EventId::parse(event.get("id").unwrap_or_default())?;
        for record in games.read(Range::all().from(id)).all().await? {
            println!("{id} {}", String::from_utf8_lossy(record.get("player").unwrap_or_default()));
        }
        break;
    }
    Ok(())
}
