//! What the Elixir face is measured against: the same rounds on the core itself.
//!
//! Started with a URL. Each line of its input is a round, `single`, `flight`, `batch`, `consume`, `publish` or `deliver` and a
//! number of records or events; the answer is the seconds that it took. `flight` keeps 64 appends on their way, `batch` appends
//! 1 000 records at a time, `consume` reads with `count` 100 and acknowledges. `publish` keeps 64 events on their way, and
//! `deliver` hears what the server itself publishes. `latency` consumes what it appends at 1 000 records a second, and
//! answers the seconds from append to handler for half of them and for 99 of 100.

use echomq::{
    Client, ConsumerOptions, Event, Events, Heard, Message, Options, Signal, Start, Stream, Subscriber,
    SubscriberOptions,
};
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::interval;

const IN_FLIGHT: usize = 64;
const BATCH: usize = 1_000;
const JOB: &str = "JOB000xY9Wvvcd";
const FLOOD: &str = r#"
for n = 1, tonumber(ARGV[1]) do
  redis.call('PUBLISH', KEYS[1], '{"event":"completed","job":"JOB000xY9Wvvcd","attempts":"1"}')
end
"#;

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
        if round == "latency" {
            let [half, most] = runtime.block_on(runtime.spawn(latency(stream.clone(), records)))??;
            println!("{half} {most}");
            stdout().flush()?;
            continue;
        }
        if round == "consume" {
            runtime.block_on(batches(stream.clone(), records))?;
        }
        let events = client.events("bench")?;
        let listener = match round {
            "deliver" => Some(runtime.block_on(events.listen())?),
            _ => None,
        };
        let subscriber =
            listener.as_ref().map(|listener| listener.subscribe(SubscriberOptions::new().buffer(records)));
        // On the runtime, as a service of Rust would be.
        let stream = stream.clone();
        let begin = Instant::now();
        let done = match round {
            "single" => runtime.spawn(one_by_one(stream, records)),
            "flight" => runtime.spawn(in_flight(stream, records)),
            "batch" => runtime.spawn(batches(stream, records)),
            "consume" => runtime.spawn(consume(stream, records)),
            "publish" => runtime.spawn(publish(events, records)),
            "deliver" => {
                let subscriber = subscriber.ok_or("nobody listens")??;
                runtime.spawn(hear(client.clone(), subscriber, records))
            }
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

async fn consume(stream: Stream, records: usize) -> Outcome {
    let consumer = stream.consumer(ConsumerOptions::new("bench", Start::Head)?.count(100)).await?;
    for _ in 0..records {
        if let Some(delivery) = consumer.next().await? {
            delivery.ack();
        }
    }
    Ok(consumer.flush().await?)
}

async fn publish(events: Events, count: usize) -> Outcome {
    let mut tasks = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let events = events.clone();
        tasks.spawn(async move {
            for _ in 0..count / IN_FLIGHT {
                events.publish(Signal::new("completed", JOB)?.with("attempts", "1")?).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

async fn hear(client: Client, subscriber: Subscriber, count: usize) -> Outcome {
    let events = count.to_string();
    let flood = tokio::spawn(client.command(["EVAL", FLOOD, "1", "emq:{bench}:events", &events]));
    for _ in 0..count {
        let heard = subscriber.next().await?.ok_or("the listener has ended")?;
        match heard {
            Heard::Event(event) if is_right(&event) => {}
            _ => return Err("something else was heard".into()),
        }
    }
    flood.await??;
    Ok(())
}

fn is_right(event: &Event) -> bool {
    event.name() == "completed" && event.get("job") == Some(JOB)
}

async fn latency(stream: Stream, records: usize) -> Result<[f64; 2], Box<dyn Error + Send + Sync>> {
    let consumer = stream.consumer(ConsumerOptions::new("bench", Start::New)?.count(100)).await?;
    let (began, (told, mut seen)) = (Instant::now(), mpsc::unbounded_channel());
    let reading = consumer.clone();
    tokio::spawn(async move {
        let handler = |message: Message| {
            let at = message.record().get("at").and_then(|at| str::from_utf8(at).ok()?.parse::<u64>().ok());
            let late = at.map(|at| began.elapsed().saturating_sub(Duration::from_micros(at)));
            let _ = told.send(late.unwrap_or_default());
            async { Ok::<(), String>(()) }
        };
        reading.run(handler).await
    });
    let mut pace = interval(Duration::from_millis(1));
    for _ in 0..records {
        pace.tick().await;
        let mut record = record().to_vec();
        record.push(("at", began.elapsed().as_micros().to_string()));
        stream.append(record).await?;
    }
    let mut late = Vec::with_capacity(records);
    while late.len() < records {
        late.extend(seen.recv().await);
    }
    consumer.stop(Duration::from_secs(1)).await;
    late.sort_unstable();
    Ok([late[records / 2], late[records * 99 / 100]].map(|late| late.as_secs_f64()))
}
