//! What the Elixir face is measured against: the same rounds on the core itself.
//!
//! Started with a URL. Each line of its input is a round, `single`, `flight` or `batch` and a number of records; the
//! answer is the seconds that it took. `flight` keeps 64 appends on their way, `batch` appends 1 000 records at a time.

use echomq::{Client, Options, Stream};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;
use tokio::task::JoinSet;

const IN_FLIGHT: usize = 64;
const BATCH: usize = 1_000;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let url = std::env::args().nth(1).ok_or("the URL of a server is missing")?;
    let runtime = echomq::runtime()?;
    let options = Options::new(&url)?.node_id(2);
    let client = runtime.block_on(async { <Client>::connect(&options).await })?;
    let stream = client.stream("bench", "core")?;
    for line in stdin().lock().lines() {
        let line = line?;
        let (round, records) = line.split_once(' ').ok_or("a round is a word and a number")?;
        let records: usize = records.parse()?;
        // On the runtime, as a service of Rust would be.
        let stream = stream.clone();
        let begin = Instant::now();
        let done = match round {
            "single" => runtime.spawn(one_by_one(stream, records)),
            "flight" => runtime.spawn(in_flight(stream, records)),
            "batch" => runtime.spawn(batches(stream, records)),
            _ => return Err("no such round".into()),
        };
        runtime.block_on(done)??;
        println!("{}", begin.elapsed().as_secs_f64());
        stdout().flush()?;
    }
    Ok(())
}

fn record() -> [(&'static str, String); 3] {
    [("kind", "order.placed".to_owned()), ("player", "PLR0NgWEfAEJfs".to_owned()), ("note", "x".repeat(130))]
}

async fn one_by_one(stream: Stream, records: usize) -> Outcome {
    for _ in 0..records {
        stream.append(record()).await?;
    }
    Ok(())
}

async fn in_flight(stream: Stream, records: usize) -> Outcome {
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        tasks.spawn(one_by_one(stream.clone(), records / IN_FLIGHT));
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn batches(stream: Stream, records: usize) -> Outcome {
    for _ in 0..records / BATCH {
        let batch = (0..BATCH).map(|_| record());
        for result in stream.append_batch(batch).await? {
            result?;
        }
    }
    Ok(())
}
