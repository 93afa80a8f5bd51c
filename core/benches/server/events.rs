//! Events: published, and heard by one listener, which reads each one's name.

use crate::contender::{Contender, Kind, Task, rate, timed, together};
use crate::payload::{BATCH, IN_FLIGHT, QUEUE};
use crate::{Effort, Result, bare, core};
use echomq::{Client, Heard, Options, Signal, SubscriberOptions};
use futures_util::StreamExt;
use redis::RedisResult;
use std::fs;
use std::rc::Rc;
use std::time::Duration;
use tokio::runtime::Runtime;

const CHANNEL: &str = "emq:{bench}:events";
const PUBLISHED: usize = 200_000;
const HEARD: usize = 100_000;
/// How many steps of a publisher are on their way.
const STEPS: usize = 2;

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

fn ours(kind: Kind, url: &str, effort: Effort) -> Result<[Contender; 3]> {
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
    let count = effort.of(HEARD);
    let [heard, work] = [Task::Hear, Task::HearWork].map(|task| {
        let (runtime, client, url) = (runtime.clone(), client.clone(), url.to_owned());
        Contender::new(task, name, move || {
            let listener = runtime.block_on(client.events(QUEUE)?.listen())?;
            let subscriber = listener.subscribe(SubscriberOptions::new().buffer(count))?;
            heard(task, &runtime, &url, count, async move {
                for _ in 0..count {
                    match subscriber.next().await? {
                        Some(Heard::Event(event)) => assert_eq!(event.name(), "completed"),
                        other => return Err(format!("{other:?} is no event").into()),
                    }
                }
                Ok(())
            })
        })
    });
    Ok([published, heard, work])
}

fn theirs(kind: Kind, url: &str, effort: Effort) -> Result<[Contender; 3]> {
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
    let count = effort.of(HEARD);
    let [heard, work] = [Task::Hear, Task::HearWork].map(|task| {
        let (runtime, client, url) = (runtime.clone(), client.clone(), url.to_owned());
        Contender::new(task, name, move || {
            let mut ear = runtime.block_on(client.get_async_pubsub())?;
            runtime.block_on(ear.subscribe(CHANNEL))?;
            heard(task, &runtime, &url, count, async move {
                let mut messages = ear.into_on_message();
                for _ in 0..count {
                    let message = messages.next().await.ok_or("the connection has ended")?;
                    let event: serde_json::Value = serde_json::from_slice(message.get_payload_bytes())?;
                    assert_eq!(event["event"], "completed");
                }
                Ok(())
            })
        })
    });
    Ok([published, heard, work])
}

fn publish(payload: Vec<u8>) -> redis::Cmd {
    let mut command = redis::cmd("PUBLISH");
    command.arg(CHANNEL).arg(payload);
    command
}

/// How fast everything is heard that the server hands out, or with how little work.
///
/// It publishes in steps of a script, which takes as little of its time as can be. Two are on their way, so that one is
/// written out while the next is worked through.
fn heard(
    task: Task,
    runtime: &Runtime,
    url: &str,
    count: usize,
    hearing: impl Future<Output = Result<()>>,
) -> Result<f64> {
    let mut step = redis::cmd("EVAL");
    step.arg("for _ = 1, ARGV[1] do redis.call('PUBLISH', KEYS[1], ARGV[2]) end").arg(1).arg(CHANNEL);
    step.arg(BATCH).arg(signal()?.payload());
    let mut publishing = Vec::new();
    for _ in 0..STEPS {
        let (step, mut connection) = (step.clone(), redis::Client::open(url)?.get_connection()?);
        let steps = count / BATCH / STEPS;
        publishing.push(move || (0..steps).try_for_each(|_| step.query::<()>(&mut connection)));
    }
    let publishing: Vec<_> = publishing.into_iter().map(std::thread::spawn).collect();
    let before = processor_time()?;
    let mut time = timed(|| runtime.block_on(hearing))?;
    if task == Task::HearWork {
        time = processor_time()?.saturating_sub(before);
    }
    for publishing in publishing {
        publishing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    Ok(rate(count, time))
}

/// For how long the threads of this process have run. Those that publish wait for their answers, and take next to none.
fn processor_time() -> Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir("/proc/self/task")? {
        // One that has published all is gone.
        let Ok(times) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        nanoseconds += times.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}
