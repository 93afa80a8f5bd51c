//! A writer in Rust for the fault tests; see `workers/README.md`.

use echomq::{Client, EventId, Options, Stream};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut given: BTreeMap<String, String> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.split_once('=').map(|(name, value)| (name.into(), value.into())))
        .collect();
    let mut argument = |name: &str| given.remove(name).ok_or(format!("{name} is missing"));
    let (log, gate, name) = (argument("log")?, argument("gate")?, argument("name")?);
    let (stream, how, batch) = (argument("stream")?, argument("how")?, argument("batch")?.parse::<usize>()?);
    let count = argument("count").ok().map(|count| count.parse::<usize>()).transpose()?;
    let time = argument("time").ok().map(|time| time.parse().map(Duration::from_millis)).transpose()?;
    let mut options = Options::new(&argument("url")?)?;
    for (name, value) in &given {
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
        ids.push(match &how[..] {
            "sequenced" => stream.append_sequenced(record(ids.len())).await?,
            _ => stream.append(record(ids.len())).await?,
        });
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
