use echomq::{Client, ConsumerOptions, Options, Start};
use std::time::Duration;

#[tokio::main]
async fn main() -> echomq::Result<()> {
    let url = std::env::var("ECHOMQ_URL").unwrap_or("redis://localhost:6379".into());
    let client = Client::connect(&Options::new(&url)?).await?;
    let games = client.stream("codemojex", "games")?;
    let consumer = games.consumer(ConsumerOptions::new("mailer", Start::New)?).await?;

    let id = games.append([("kind", "won"), ("player", "ada")]).await?;
    if let Some(delivery) = consumer.next().await? {
        let player = delivery.record().get("player").unwrap_or_default();
        println!("{id} {}", String::from_utf8_lossy(player));
        delivery.ack();
    }
    consumer.stop(Duration::from_secs(5)).await;
    Ok(())
}
