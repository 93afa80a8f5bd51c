//! A bare connection of redis-rs, as it comes: what the core stands on.

use crate::contender::{Contender, Kind, Task, rate, timed, together};
use crate::payload::{BATCH, BATCHES, FIELDS, GROUP, IN_FLIGHT, KEY, THREADS};
use crate::{Effort, Result};
use redis::aio::MultiplexedConnection;
use redis::streams::StreamReadReply;
use redis::{Client, Cmd, Pipeline, RedisResult, Value, cmd, pipe};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::Runtime;

pub(crate) const ONE_WORKER: &str = "redis-rs, one worker thread";
pub(crate) const CURRENT_THREAD: &str = "redis-rs, current-thread runtime";
pub(crate) const BLOCKING: &str = "redis-rs, one connection";
pub(crate) const CONNECTIONS: &str = "redis-rs, a connection a thread";

pub(crate) fn contenders(url: &str, effort: Effort) -> Result<Vec<Contender>> {
    let client = Client::open(url)?;
    let mut contenders = asynchronous(Kind::OneWorker, ONE_WORKER, &client, effort)?;
    contenders.extend(asynchronous(Kind::CurrentThread, CURRENT_THREAD, &client, effort)?);
    contenders.push(blocking(Task::Blocking, BLOCKING, &client, 1, effort.of(10_000))?);
    contenders.push(blocking(Task::Threads, CONNECTIONS, &client, THREADS, effort.of(40_000))?);
    Ok(contenders)
}

fn append() -> Cmd {
    let mut command = cmd("XADD");
    command.arg(KEY).arg("*");
    FIELDS.iter().for_each(|(name, value)| {
        command.arg(name).arg(value);
    });
    command
}

fn batch() -> Pipeline {
    let mut pipeline = pipe();
    (0..BATCH).for_each(|_| {
        pipeline.add_command(append());
    });
    pipeline
}

fn asynchronous(kind: Kind, name: &'static str, client: &Client, effort: Effort) -> Result<Vec<Contender>> {
    let runtime = Rc::new(kind.runtime()?);
    let connection = runtime.block_on(client.get_multiplexed_async_connection())?;
    let contender =
        |task: Task, work: fn(&Runtime, &MultiplexedConnection, usize) -> Result<f64>, amount: usize| {
            let (runtime, connection) = (runtime.clone(), connection.clone());
            Contender::new(task, name, move || work(&runtime, &connection, effort.of(amount)))
        };
    Ok(vec![
        contender(Task::Single, |runtime, connection, count| appends(runtime, connection, 1, count), 10_000),
        contender(
            Task::InFlight,
            |runtime, connection, count| appends(runtime, connection, IN_FLIGHT, count),
            200_000,
        ),
        contender(Task::Pipeline, |runtime, connection, count| pipelines(runtime, connection, 1, count), 200),
        contender(
            Task::Pipelines,
            |runtime, connection, count| pipelines(runtime, connection, BATCHES, count),
            200,
        ),
        contender(Task::Pages, pages, 200),
        contender(Task::Consume, |runtime, connection, pages| consume(runtime, connection, 100, pages), 200),
        contender(
            Task::ConsumeThousand,
            |runtime, connection, pages| consume(runtime, connection, 1_000, pages),
            200,
        ),
    ])
}

fn appends(runtime: &Runtime, connection: &MultiplexedConnection, tasks: usize, count: usize) -> Result<f64> {
    let each = count / tasks;
    let time = together(runtime, tasks, || {
        let mut connection = connection.clone();
        async move {
            for _ in 0..each {
                append().query_async::<String>(&mut connection).await?;
            }
            RedisResult::Ok(())
        }
    })?;
    Ok(rate(each * tasks, time))
}

fn pipelines(
    runtime: &Runtime,
    connection: &MultiplexedConnection,
    tasks: usize,
    count: usize,
) -> Result<f64> {
    let each = count / tasks;
    let time = together(runtime, tasks, || {
        let mut connection = connection.clone();
        async move {
            for _ in 0..each {
                batch().query_async::<Vec<String>>(&mut connection).await?;
            }
            RedisResult::Ok(())
        }
    })?;
    Ok(rate(each * tasks * BATCH, time))
}

/// Looks no further into a page than its last entry id, which the next page needs.
fn pages(runtime: &Runtime, connection: &MultiplexedConnection, pages: usize) -> Result<f64> {
    pipelines(runtime, connection, 1, pages)?;
    let time = together(runtime, 1, || {
        let mut connection = connection.clone();
        async move {
            let (mut from, mut read) = ("-".to_owned(), 0);
            loop {
                let mut command = cmd("XRANGE");
                command.arg(KEY).arg(&from).arg("+").arg("COUNT").arg(BATCH);
                let page: Vec<Value> = command.query_async(&mut connection).await?;
                read += page.len();
                let Some(Value::Array(last)) = page.last() else { break };
                let Some(Value::BulkString(id)) = last.first() else { break };
                from = format!("({}", String::from_utf8_lossy(id));
            }
            assert_eq!(read, pages * BATCH);
            RedisResult::Ok(())
        }
    })?;
    Ok(rate(pages * BATCH, time))
}

/// Reads a page, looks at its entry ids, and acknowledges them before it reads the next.
fn consume(runtime: &Runtime, connection: &MultiplexedConnection, count: usize, pages: usize) -> Result<f64> {
    pipelines(runtime, connection, 1, pages)?;
    let time = together(runtime, 1, || {
        let mut connection = connection.clone();
        async move {
            let create = cmd("XGROUP").arg("CREATE").arg(KEY).arg(GROUP).arg("0").clone();
            create.query_async::<()>(&mut connection).await?;
            let mut read = 0;
            while read < pages * BATCH {
                let mut command = cmd("XREADGROUP");
                command
                    .arg("GROUP")
                    .arg(GROUP)
                    .arg("c")
                    .arg("COUNT")
                    .arg(count)
                    .arg("STREAMS")
                    .arg(KEY)
                    .arg(">");
                let reply: StreamReadReply = command.query_async(&mut connection).await?;
                let mut acknowledge = cmd("XACK");
                acknowledge.arg(KEY).arg(GROUP);
                for entry in reply.keys.iter().flat_map(|key| &key.ids) {
                    acknowledge.arg(&entry.id);
                    read += 1;
                }
                acknowledge.query_async::<u64>(&mut connection).await?;
            }
            RedisResult::Ok(())
        }
    })?;
    Ok(rate(pages * BATCH, time))
}

fn blocking(
    task: Task,
    name: &'static str,
    client: &Client,
    threads: usize,
    count: usize,
) -> Result<Contender> {
    let connections: RedisResult<Vec<_>> =
        (0..threads).map(|_| client.get_connection().map(Mutex::new)).collect();
    let (connections, each) = (connections?, count / threads);
    Ok(Contender::new(task, name, move || {
        let time = timed(|| {
            std::thread::scope(|scope| {
                let work = |connection: &Mutex<redis::Connection>| {
                    let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                    (0..each).try_for_each(|_| append().query::<String>(&mut connection).map(drop))
                };
                let running: Vec<_> =
                    connections.iter().map(|connection| scope.spawn(move || work(connection))).collect();
                running.into_iter().try_for_each(|thread| {
                    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
            })?;
            Ok(())
        })?;
        Ok(rate(each * threads, time))
    }))
}
