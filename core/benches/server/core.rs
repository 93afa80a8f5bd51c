//! The core.

use crate::contender::{Contender, Kind, Task, rate, timed, together};
use crate::payload::{BATCH, BATCHES, FIELDS, GROUP, IN_FLIGHT, QUEUE, STREAM, THREADS};
use crate::{Effort, Result};
use echomq::{ConsumerOptions, Delivery, Options, Range, Start, Stream, blocking};
use std::rc::Rc;
use tokio::runtime::Runtime;

pub(crate) const ONE_WORKER: &str = "echomq, one worker thread";
pub(crate) const CURRENT_THREAD: &str = "echomq, current-thread runtime";
pub(crate) const BLOCKING: &str = "echomq";

pub(crate) fn contenders(url: &str, effort: Effort) -> Result<Vec<Contender>> {
    let mut contenders = asynchronous(Kind::OneWorker, ONE_WORKER, url, effort)?;
    contenders.extend(asynchronous(Kind::CurrentThread, CURRENT_THREAD, url, effort)?);
    contenders.extend(blocking_contenders(url, effort)?);
    Ok(contenders)
}

fn asynchronous(kind: Kind, name: &'static str, url: &str, effort: Effort) -> Result<Vec<Contender>> {
    let runtime = Rc::new(kind.runtime()?);
    let client = runtime.block_on(echomq::Client::connect(&Options::new(url)?.node_id(2)))?;
    let stream = client.stream(QUEUE, STREAM)?;
    let contender = |task: Task, work: fn(&Runtime, &Stream, usize) -> Result<f64>, amount: usize| {
        let (runtime, stream) = (runtime.clone(), stream.clone());
        Contender::new(task, name, move || work(&runtime, &stream, effort.of(amount)))
    };
    Ok(vec![
        contender(Task::Single, |runtime, stream, count| appends(runtime, stream, 1, count), 10_000),
        contender(
            Task::InFlight,
            |runtime, stream, count| appends(runtime, stream, IN_FLIGHT, count),
            200_000,
        ),
        contender(Task::Pipeline, |runtime, stream, count| pipelines(runtime, stream, 1, count), 200),
        contender(Task::Pipelines, |runtime, stream, count| pipelines(runtime, stream, BATCHES, count), 200),
        contender(Task::Pages, pages, 200),
        contender(Task::Consume, |runtime, stream, pages| consume(runtime, stream, 100, pages), 200),
        contender(
            Task::ConsumeThousand,
            |runtime, stream, pages| consume(runtime, stream, 1_000, pages),
            200,
        ),
    ])
}

/// Each task waits for its append before it makes the next.
fn appends(runtime: &Runtime, stream: &Stream, tasks: usize, count: usize) -> Result<f64> {
    let each = count / tasks;
    let time = together(runtime, tasks, || {
        let stream = stream.clone();
        async move {
            for _ in 0..each {
                stream.append(FIELDS).await?;
            }
            Ok::<(), echomq::Error>(())
        }
    })?;
    Ok(rate(each * tasks, time))
}

fn pipelines(runtime: &Runtime, stream: &Stream, tasks: usize, count: usize) -> Result<f64> {
    let each = count / tasks;
    let time = together(runtime, tasks, || {
        let stream = stream.clone();
        async move {
            for _ in 0..each {
                for result in stream.append_batch(vec![FIELDS; BATCH]).await? {
                    result?;
                }
            }
            Ok::<(), echomq::Error>(())
        }
    })?;
    Ok(rate(each * tasks * BATCH, time))
}

fn pages(runtime: &Runtime, stream: &Stream, pages: usize) -> Result<f64> {
    pipelines(runtime, stream, 1, pages)?;
    let time = together(runtime, 1, || {
        let mut reader = stream.read(Range::all());
        async move {
            let mut read = 0;
            while let Some(page) = reader.next_page().await? {
                read += page.len();
            }
            assert_eq!(read, pages * BATCH);
            Ok::<(), echomq::Error>(())
        }
    })?;
    Ok(rate(pages * BATCH, time))
}

/// Pulls entries and acknowledges each, until all acknowledgements are on the server.
fn consume(runtime: &Runtime, stream: &Stream, count: usize, pages: usize) -> Result<f64> {
    pipelines(runtime, stream, 1, pages)?;
    let options = ConsumerOptions::new(GROUP, Start::Head)?.count(count);
    let time = together(runtime, 1, || {
        let (stream, options) = (stream.clone(), options.clone());
        async move {
            let consumer = stream.consumer(options).await?;
            for _ in 0..pages * BATCH {
                consumer.next().await?.into_iter().for_each(Delivery::ack);
            }
            consumer.flush().await
        }
    })?;
    Ok(rate(pages * BATCH, time))
}

fn blocking_contenders(url: &str, effort: Effort) -> Result<Vec<Contender>> {
    let client = blocking::Client::open(&Options::new(url)?.node_id(3))?;
    let stream = client.stream(QUEUE, STREAM)?;
    let contender = |task, threads: usize, amount: usize| {
        let stream = stream.clone();
        Contender::new(task, BLOCKING, move || blocking_appends(&stream, threads, effort.of(amount)))
    };
    Ok(vec![contender(Task::Blocking, 1, 10_000), contender(Task::Threads, THREADS, 40_000)])
}

fn blocking_appends(stream: &blocking::Stream, threads: usize, count: usize) -> Result<f64> {
    let each = count / threads;
    let work = || (0..each).try_for_each(|_| stream.append(FIELDS).map(drop));
    let time = timed(|| {
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            running
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        Ok(())
    })?;
    Ok(rate(each * threads, time))
}
