//! The server's own limit: `redis-benchmark`, which sends bytes made once and does not look at the answers.

use crate::contender::{Contender, Task};
use crate::payload::{BATCH, FIELDS, KEY};
use crate::{Effort, Result};
use echomq::{EventId, Options, blocking};
use std::net::SocketAddr;
use std::process::Command;

pub(crate) const LIMIT: &str = "the server's limit (redis-benchmark)";

const PROGRAM: &str = "redis-benchmark";

pub(crate) fn contenders(address: SocketAddr, effort: Effort) -> Result<Vec<Contender>> {
    if Command::new(PROGRAM).arg("--version").output().is_err() {
        return Err("redis-benchmark is missing: run scripts/bootstrap".into());
    }
    let appends = |task: Task, clients: usize, depth: usize, count: usize| {
        let mut words = vec!["XADD", KEY, "*"];
        words.extend(FIELDS.iter().flat_map(|(name, value)| [name, value]));
        Contender::new(task, LIMIT, move || run(address, clients, depth, effort.of(count), &words))
    };
    Ok(vec![
        appends(Task::Single, 1, 1, 10_000),
        appends(Task::InFlight, 1, 64, 400_000),
        appends(Task::Pipeline, 1, 1_000, 400_000),
        appends(Task::Pipelines, 4, 1_000, 400_000),
        Contender::new(Task::Pages, LIMIT, move || {
            fill(address)?;
            let count = BATCH.to_string();
            let words = ["XRANGE", KEY, "-", "+", "COUNT", &count];
            Ok(run(address, 1, 1, effort.of(200), &words)? * BATCH as f64)
        }),
        appends(Task::Blocking, 1, 1, 10_000),
        appends(Task::Threads, 8, 1, 40_000),
    ])
}

/// Puts one page on the server.
fn fill(address: SocketAddr) -> Result<()> {
    let client = blocking::Client::open(&Options::new(&format!("redis://{address}"))?.node_id(4))?;
    let stream = client.stream(crate::payload::QUEUE, crate::payload::STREAM)?;
    let ids: echomq::Result<Vec<EventId>> = stream.append_batch(vec![FIELDS; BATCH])?.into_iter().collect();
    ids?;
    Ok(())
}

/// Answers requests a second.
fn run(address: SocketAddr, clients: usize, depth: usize, count: usize, words: &[&str]) -> Result<f64> {
    let output = Command::new(PROGRAM)
        .args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "--csv"])
        .args(["-c", &clients.to_string(), "-P", &depth.to_string(), "-n", &count.to_string()])
        .args(words)
        .output()?;
    let told = String::from_utf8_lossy(&output.stdout);
    // The last line holds the command and seven figures, each in quotes, the rate first.
    let figure = told.lines().last().and_then(|line| line.rsplit("\",\"").nth(6)?.parse().ok());
    figure.ok_or_else(|| format!("redis-benchmark did not answer with a rate: {told}").into())
}
