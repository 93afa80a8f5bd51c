use echomq::{Client, Options, Range};

#[tokio::main]
async fn main() -> echomq::Result<()> {
    let url = std::env::var("ECHOMQ_URL").unwrap_or("redis://localhost:6379".into());
    let client = Client::connect(&Options::new(&url)?).await?;
    let events = client.stream("codemojex", "events")?;

    let id = events.append([("kind", "guessed"), ("player", "ada")]).await?;
    for record in events.read(Range::all().from(id)).all().await? {
        println!("{id} {}", String::from_utf8_lossy(record.get("player").unwrap_or_default()));
    }
    Ok(())
}
