//! A listener in Rust for the fault tests; see `workers/README.md`.

use echomq::{Client, Heard, Options, SubscriberOptions};
use echomq_tests::{Given, Log, Terminated};
use std::error::Error;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut given = Given::read();
    let log = Log::open(&given.take("log")?)?;

    let terminated = Terminated::watch()?;
    let client = Client::connect(&Options::new(&given.take("url")?)?).await?;
    let events = client.events("codemojex")?;
    let listener = events.listen().await?;
    let subscriber = listener.subscribe(SubscriberOptions::new())?;
    let token = events.watch(&given.take("job")?).await?;
    log.line("ready")?;

    let hear = async {
        while let Some(heard) = subscriber.next().await? {
            match heard {
                Heard::Event(event) => {
                    log.line(&format!("heard {} {}", event.name(), event.get("n").unwrap_or("-")))?;
                }
                Heard::Gap(gap) => log.line(&format!("gap {} {}", gap.missed(), gap.reconnected()))?,
            }
        }
        Ok::<(), Box<dyn Error>>(())
    };
    let watch = async {
        let reason = token.cancelled().await?;
        log.line(&format!("cancelled {reason}")).map_err(Box::<dyn Error>::from)
    };
    let stop = async {
        terminated.wait().await;
        listener.close();
        Ok(())
    };
    tokio::try_join!(hear, watch, stop)?;
    client.close(Duration::from_secs(5)).await;
    Ok(())
}
