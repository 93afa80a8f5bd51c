//! A consumer in Rust for the fault tests; see `workers/README.md`.

use echomq::{Client, ConsumerOptions, Message, Notices, Options};
use echomq_tests::{Given, Log, Terminated};
use std::error::Error;
use std::io;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut given = Given::read();
    let log = Log::open(&given.take("log")?)?;
    let mut options = Options::new(&given.take("url")?)?;
    options.set("node_id", &given.take("node_id")?)?;
    options.set("timeout", &given.take("timeout")?)?;
    let stream = given.take("stream")?;

    let terminated = Terminated::watch()?;
    let client = Client::connect(&options).await?;
    let options = ConsumerOptions::parse(given.rest())?;
    let consumer = client.stream("codemojex", &stream)?.consumer(options).await?;
    let notices = tokio::spawn(tell(consumer.notices(), log.clone()));
    log.line("ready")?;

    let stop = async {
        terminated.wait().await;
        let left = consumer.stop(Duration::from_secs(20)).await;
        log.line(&format!("stopped {left}")).map_err(Box::<dyn Error>::from)
    };
    let run = async { consumer.run(|message| handle(&log, message)).await.map_err(Box::<dyn Error>::from) };
    tokio::try_join!(run, stop)?;
    notices.await??;
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

async fn handle(log: &Log, message: Message) -> Result<(), String> {
    let entry = format!("{} {}", message.id().ok_or("an entry without an id")?, message.attempts());
    log.line(&format!("begun {entry}")).map_err(|error| error.to_string())?;
    let record = message.record();
    if record.get("die").is_some() {
        // Ends this process before the call returns.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    if let Some(pause) = record.get("pause").and_then(|ms| std::str::from_utf8(ms).ok()?.parse().ok()) {
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    log.line(&format!("handled {entry}")).map_err(|error| error.to_string())
}

async fn tell(notices: Notices, log: Log) -> io::Result<()> {
    while let Some(notice) = notices.next().await {
        let id = notice.id().map_or("-".to_owned(), |id| id.to_string());
        log.line(&format!("notice {} {id}", notice.kind()))?;
    }
    Ok(())
}
