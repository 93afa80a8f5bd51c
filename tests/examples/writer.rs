//! A writer in Rust for the fault tests; see `workers/README.md`.

use echomq::{Client, EventId, Options, Stream};
use echomq_tests::Given;
use futures_util::future::try_join_all;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut given = Given::read();
    let (log, gate, name) = (given.take("log")?, given.take("gate")?, given.take("name")?);
    let (stream, how, batch) =
        (given.take("stream")?, given.take("how")?, given.take("batch")?.parse::<usize>()?);
    let count = given.take("count").ok().map(|count| count.parse::<usize>()).transpose()?;
    let at_once = given.take("at_once").ok().map_or(Ok(1), |at_once| at_once.parse::<usize>())?;
    let time = given.take("time").ok().map(|time| time.parse().map(Duration::from_millis)).transpose()?;
    let mut options = Options::new(&given.take("url")?)?;
    for (name, value) in given.rest() {
        options.set(name, value)?;
    }
    let client = Client::connect(&options).await?;
    let stream = client.stream("codemojex", &stream)?;

    std::fs::write(&log, "ready\n")?;
    while !Path::new(&gate).exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let begun = Instant::now();
    let mut ids = Vec::new();
    while count.is_none_or(|count| ids.len() < count) && time.is_none_or(|time| begun.elapsed() < time) {
        let record = |n: usize| [("writer", name.clone()), ("n", n.to_string())];
        let singles = count.map_or(at_once, |count| at_once.min(count - ids.len()));
        let calls = (ids.len()..ids.len() + singles).map(|n| match &how[..] {
            "sequenced" => stream.append_sequenced(record(n)),
            _ => stream.append(record(n)),
        });
        ids.extend(try_join_all(calls).await?);
        let left = count.map_or(batch, |count| batch.min(count - ids.len()));
        let records: Vec<_> = (ids.len()..ids.len() + left).map(record).collect();
        if !records.is_empty() {
            ids.extend(append_batch(&stream, &how, records).await?);
        }
    }
    let lines: String = ids.iter().map(|id| format!("appended {id}\n")).collect();
    File::options().append(true).open(log)?.write_all(lines.as_bytes())?;
    client.close(Duration::from_secs(5)).await;
    Ok(())
}

async fn append_batch(
    stream: &Stream,
    how: &str,
    records: Vec<[(&str, String); 2]>,
) -> echomq::Result<Vec<EventId>> {
    match how {
        "sequenced" => stream.append_batch_sequenced(records).await,
        _ => stream.append_batch_atomic(records).await,
    }
}
