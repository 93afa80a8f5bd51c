//! Events: published, and heard by one listener, which reads each one's name.

use crate::contender::{Contender, Kind, Task, rate, timed, together};
use crate::payload::{BATCH, IN_FLIGHT, QUEUE};
use crate::{Effort, Result, bare, core};
use echomq::{Client, Heard, Options, Signal, SubscriberOptions};
use futures_util::StreamExt;
use redis::RedisResult;
use std::rc::Rc;
use tokio::runtime::Runtime;

const CHANNEL: &str = "emq:{bench}:events";
const PUBLISHED: usize = 200_000;
const HEARD: usize = 200_000;

pub(crate) fn contenders(url: &str, effort: Effort) -> Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    for kind in [Kind::OneWorker, Kind::CurrentThread] {
        contenders.extend(ours(kind, url, effort)?);
        contenders.extend(theirs(kind, url, effort)?);
    }
    Ok(contenders)
}

fn signal() -> echomq::Result<Signal> {
    Signal::new("completed", "JOB000xY9Wvvcd")?.with("player", "PLR0NgWEfAEJfs")?.with("points", "120")
}

fn ours(kind: Kind, url: &str, effort: Effort) -> Result<[Contender; 2]> {
    let runtime = Rc::new(kind.runtime()?);
    let client = runtime.block_on(Client::connect(&Options::new(url)?.node_id(4)))?;
    let name = if kind == Kind::OneWorker { core::ONE_WORKER } else { core::CURRENT_THREAD };
    let published = {
        let (runtime, events) = (runtime.clone(), client.events(QUEUE)?);
        let each = effort.of(PUBLISHED) / IN_FLIGHT;
        Contender::new(Task::Publish, name, move || {
            let time = together(&runtime, IN_FLIGHT, || {
                let events = events.clone();
                async move {
                    for _ in 0..each {
                        events.publish(signal()?).await?;
                    }
                    Ok::<(), echomq::Error>(())
                }
            })?;
            Ok(rate(each * IN_FLIGHT, time))
        })
    };
    let (url, count) = (url.to_owned(), effort.of(HEARD));
    let heard = Contender::new(Task::Hear, name, move || {
        let listener = runtime.block_on(client.events(QUEUE)?.listen())?;
        let subscriber = listener.subscribe(SubscriberOptions::new().buffer(count))?;
        heard(&runtime, &url, count, async move {
            for _ in 0..count {
                match subscriber.next().await? {
                    Some(Heard::Event(event)) => assert_eq!(event.name(), "completed"),
                    other => return Err(format!("{other:?} is no event").into()),
                }
            }
            Ok(())
        })
    });
    Ok([published, heard])
}

fn theirs(kind: Kind, url: &str, effort: Effort) -> Result<[Contender; 2]> {
    let runtime = Rc::new(kind.runtime()?);
    let client = redis::Client::open(url)?;
    let connection = runtime.block_on(client.get_multiplexed_async_connection())?;
    let name = if kind == Kind::OneWorker { bare::ONE_WORKER } else { bare::CURRENT_THREAD };
    let published = {
        let runtime = runtime.clone();
        let each = effort.of(PUBLISHED) / IN_FLIGHT;
        Contender::new(Task::Publish, name, move || {
            let time = together(&runtime, IN_FLIGHT, || {
                let mut connection = connection.clone();
                async move {
                    for _ in 0..each {
                        publish(signal().map(|signal| signal.payload()).unwrap_or_default())
                            .query_async::<u64>(&mut connection)
                            .await?;
                    }
                    RedisResult::Ok(())
                }
            })?;
            Ok(rate(each * IN_FLIGHT, time))
        })
    };
    let (url, count) = (url.to_owned(), effort.of(HEARD));
    let heard = Contender::new(Task::Hear, name, move || {
        let mut ear = runtime.block_on(client.get_async_pubsub())?;
        runtime.block_on(ear.subscribe(CHANNEL))?;
        heard(&runtime, &url, count, async move {
            let mut messages = ear.into_on_message();
            for _ in 0..count {
                let message = messages.next().await.ok_or("the connection has ended")?;
                let event: serde_json::Value = serde_json::from_slice(message.get_payload_bytes())?;
                assert_eq!(event["event"], "completed");
            }
            Ok(())
        })
    });
    Ok([published, heard])
}

fn publish(payload: Vec<u8>) -> redis::Cmd {
    let mut command = redis::cmd("PUBLISH");
    command.arg(CHANNEL).arg(payload);
    command
}

/// Times how long it takes until everything that another thread publishes, in pipelines, is heard.
fn heard(
    runtime: &Runtime,
    url: &str,
    count: usize,
    hearing: impl Future<Output = Result<()>>,
) -> Result<f64> {
    let mut connection = redis::Client::open(url)?.get_connection()?;
    let mut batch = redis::pipe();
    let payload = signal()?.payload();
    (0..BATCH).for_each(|_| {
        batch.add_command(publish(payload.clone())).ignore();
    });
    let publishing =
        std::thread::spawn(move || (0..count / BATCH).try_for_each(|_| batch.query::<()>(&mut connection)));
    let time = timed(|| runtime.block_on(hearing))?;
    publishing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok(rate(count, time))
}
