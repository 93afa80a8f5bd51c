//! A listener in Rust for the fault tests; see `workers/README.md`.

use echomq::{Client, Heard, Options, SubscriberOptions};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut given: BTreeMap<String, String> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.split_once('=').map(|(name, value)| (name.into(), value.into())))
        .collect();
    let mut argument = |name: &str| given.remove(name).ok_or(format!("{name} is missing"));
    let log = File::options().append(true).create(true).open(argument("log")?)?;

    let mut terminated = signal(SignalKind::terminate())?;
    let client = Client::connect(&Options::new(&argument("url")?)?).await?;
    let events = client.events("codemojex")?;
    let listener = events.listen().await?;
    let subscriber = listener.subscribe(SubscriberOptions::new())?;
    let token = events.watch(&argument("job")?).await?;
    line(&log, "ready")?;

    let hear = async {
        while let Some(heard) = subscriber.next().await? {
            match heard {
                Heard::Event(event) => {
                    line(&log, &format!("heard {} {}", event.name(), event.get("n").unwrap_or("-")))?;
                }
                Heard::Gap(gap) => line(&log, &format!("gap {} {}", gap.missed(), gap.reconnected()))?,
            }
        }
        Ok::<(), Box<dyn Error>>(())
    };
    let watch = async {
        let reason = token.cancelled().await;
        line(&log, &format!("cancelled {reason}")).map_err(Box::<dyn Error>::from)
    };
    let stop = async {
        terminated.recv().await;
        listener.close();
        Ok(())
    };
    tokio::try_join!(hear, watch, stop)?;
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

fn line(mut log: &File, text: &str) -> io::Result<()> {
    log.write_all(format!("{text}\n").as_bytes())
}
