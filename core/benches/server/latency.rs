//! How long it takes from an append to the handler, at a thousand records a second, beside a bare loop.

use crate::contender::Kind;
use crate::payload::{FIELDS, GROUP, KEY, QUEUE, STREAM};
use crate::{Effort, Result};
use echomq::{Client, ConsumerOptions, Options, Record, Start};
use echomq_tests::Plain;
use redis::streams::StreamReadReply;
use redis::{AsyncConnectionConfig, cmd};
use std::fmt::Write;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

/// How many records each round measures.
const RECORDS: usize = 5_000;

/// The pace of the writer.
const EVERY: Duration = Duration::from_millis(1);

/// The field that says when a record was appended, in microseconds since the start of the round.
const AT: &str = "at";

const NAMES: [&str; 2] = ["echomq, one worker thread", "redis-rs, one worker thread"];

/// A table of the latencies of all rounds together.
pub(crate) fn table(url: &str, plain: &mut Plain, effort: Effort) -> Result<String> {
    let count = effort.of(RECORDS);
    let rounds = effort.rounds.min(3);
    let mut latencies: [Vec<u64>; 2] = Default::default();
    for _ in 0..rounds {
        for (contender, latencies) in latencies.iter_mut().enumerate() {
            plain.command(["FLUSHALL"]);
            let started = Instant::now();
            let runtime = Kind::OneWorker.runtime()?;
            let measured = runtime.block_on(async {
                let writer = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
                let create = cmd("XGROUP").arg("CREATE").arg(KEY).arg(GROUP).arg("0").arg("MKSTREAM").clone();
                create.query_async::<()>(&mut writer.clone()).await?;
                let reader = match contender {
                    0 => tokio::spawn(ours(url.to_owned(), started, count)),
                    _ => tokio::spawn(bare(url.to_owned(), started, count)),
                };
                write(writer, started, count).await?;
                reader.await?.map_err(|error| -> Box<dyn std::error::Error> { error.into() })
            })?;
            latencies.extend(measured);
        }
    }
    let mut table = format!(
        "Append to handler at {} records a second, {} records each:\n\n| contender | p50 | p99 | p99.9 |\n| --- | --: | --: | --: |\n",
        1_000_000 / EVERY.as_micros(),
        rounds * count
    );
    for (name, mut latencies) in NAMES.into_iter().zip(latencies) {
        latencies.sort_unstable();
        let of = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
        writeln!(table, "| {name} | {} µs | {} µs | {} µs |", of(0.5), of(0.99), of(0.999))?;
    }
    Ok(table)
}

fn micros(started: Instant) -> u64 {
    started.elapsed().as_micros() as u64
}

/// Appends at an even pace, whatever the readers do.
async fn write(mut writer: redis::aio::MultiplexedConnection, started: Instant, count: usize) -> Result<()> {
    let mut pace = interval(EVERY);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for _ in 0..count {
        pace.tick().await;
        let mut command = cmd("XADD");
        command.arg(KEY).arg("*");
        FIELDS.iter().for_each(|(name, value)| {
            command.arg(name).arg(value);
        });
        command.arg(AT).arg(micros(started));
        command.query_async::<String>(&mut writer).await?;
    }
    Ok(())
}

fn latency(at: Option<&[u8]>, started: Instant) -> u64 {
    let at = at.and_then(|at| str::from_utf8(at).ok()).and_then(|at| at.parse::<u64>().ok());
    micros(started).saturating_sub(at.unwrap_or_default())
}

async fn ours(url: String, started: Instant, count: usize) -> std::result::Result<Vec<u64>, String> {
    let read = async || -> echomq::Result<Vec<u64>> {
        let client = Client::connect(&Options::new(&url)?).await?;
        let options = ConsumerOptions::new(GROUP, Start::Head)?;
        let consumer = client.stream(QUEUE, STREAM)?.consumer(options).await?;
        let mut latencies = Vec::with_capacity(count);
        while latencies.len() < count
            && let Some(delivery) = consumer.next().await?
        {
            latencies.push(latency(Record::get(delivery.record(), AT), started));
            delivery.ack();
        }
        Ok(latencies)
    };
    read().await.map_err(|error| error.to_string())
}

async fn bare(url: String, started: Instant, count: usize) -> std::result::Result<Vec<u64>, String> {
    let read = async || -> redis::RedisResult<Vec<u64>> {
        // Without one of its own, redis-rs cuts a blocked read off after half a second.
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(5)));
        let client = redis::Client::open(url.as_str())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut latencies = Vec::with_capacity(count);
        while latencies.len() < count {
            let mut command = cmd("XREADGROUP");
            command.arg("GROUP").arg(GROUP).arg("c").arg("COUNT").arg(100).arg("BLOCK").arg(1_000);
            command.arg("STREAMS").arg(KEY).arg(">");
            let reply: Option<StreamReadReply> = command.query_async(&mut connection).await?;
            let mut acknowledge = cmd("XACK");
            acknowledge.arg(KEY).arg(GROUP);
            let before = latencies.len();
            for entry in reply.iter().flat_map(|reply| &reply.keys).flat_map(|key| &key.ids) {
                let at: Option<Vec<u8>> = entry.get(AT);
                latencies.push(latency(at.as_deref(), started));
                acknowledge.arg(&entry.id);
            }
            if latencies.len() > before {
                acknowledge.query_async::<u64>(&mut connection).await?;
            }
        }
        Ok(latencies)
    };
    read().await.map_err(|error| error.to_string())
}
