//! A consumer in Rust for the fault tests; see `workers/README.md`.

use echomq::{Client, ConsumerOptions, Message, Notices, Options};
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
    let mut options = Options::new(&argument("url")?)?;
    options.set("node_id", &argument("node_id")?)?;
    options.set("timeout", &argument("timeout")?)?;
    let stream = argument("stream")?;

    let mut terminated = signal(SignalKind::terminate())?;
    let client = Client::connect(&options).await?;
    let options = ConsumerOptions::parse(given.iter().map(|(name, value)| (&name[..], &value[..])))?;
    let consumer = client.stream("codemojex", &stream)?.consumer(options).await?;
    let notices = tokio::spawn(tell(consumer.notices(), log.try_clone()?));
    line(&log, "ready")?;

    let stop = async {
        terminated.recv().await;
        let left = consumer.stop(Duration::from_secs(20)).await;
        line(&log, &format!("stopped {left}")).map_err(Box::<dyn Error>::from)
    };
    let run = async { consumer.run(|message| handle(&log, message)).await.map_err(Box::<dyn Error>::from) };
    tokio::try_join!(run, stop)?;
    notices.await??;
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

async fn handle(log: &File, message: Message) -> Result<(), String> {
    let entry = format!("{} {}", message.id().ok_or("an entry without an id")?, message.attempts());
    line(log, &format!("begun {entry}")).map_err(|error| error.to_string())?;
    let record = message.record();
    if record.get("die").is_some() {
        // Ends this process before the call returns.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    if let Some(pause) = record.get("pause").and_then(|ms| std::str::from_utf8(ms).ok()?.parse().ok()) {
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    line(log, &format!("handled {entry}")).map_err(|error| error.to_string())
}

async fn tell(notices: Notices, log: File) -> io::Result<()> {
    while let Some(notice) = notices.next().await {
        let id = notice.id().map_or("-".to_owned(), |id| id.to_string());
        line(&log, &format!("notice {} {id}", notice.kind()))?;
    }
    Ok(())
}

fn line(mut log: &File, text: &str) -> io::Result<()> {
    log.write_all(format!("{text}\n").as_bytes())
}
