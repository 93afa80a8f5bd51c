//! Who is measured, and at what.

use crate::Result;
use std::error::Error;
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Task {
    /// Making ids.
    Mint,
    /// One append after the other.
    Single,
    /// Many appends in flight.
    InFlight,
    /// One pipeline after the other.
    Pipeline,
    /// Several pipelines in flight.
    Pipelines,
    /// Reading a stream page by page.
    Pages,
    /// One append after the other on the caller's thread.
    Blocking,
    /// Several threads that do so.
    Threads,
    /// Handing out the entries of a group, a hundred fetched at a time, and acknowledging them.
    Consume,
    /// The same with a thousand fetched at a time.
    ConsumeThousand,
    /// Many events published at once.
    Publish,
    /// Events heard by one listener.
    Hear,
    /// The same by the processor time that it takes, which neither the server nor a lack of cores limits.
    HearWork,
}

impl Task {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Mint => "ids, one thread",
            Self::Single => "appends, one at a time",
            Self::InFlight => "appends, 64 in flight",
            Self::Pipeline => "pipelines of 1 000 appends, one at a time",
            Self::Pipelines => "pipelines of 1 000 appends, 4 in flight",
            Self::Pages => "reads in pages of 1 000 records",
            Self::Blocking => "blocking appends, one thread",
            Self::Threads => "blocking appends, 8 threads",
            Self::Consume => "entries consumed, COUNT 100",
            Self::ConsumeThousand => "entries consumed, COUNT 1 000",
            Self::Publish => "events published, 64 in flight",
            Self::Hear => "events heard by one listener",
            Self::HearWork => "events heard, of its processor time",
        }
    }
}

/// One who does it.
pub(crate) struct Contender {
    pub(crate) task: Task,
    pub(crate) name: &'static str,
    /// Runs one round and answers how many a second.
    pub(crate) run: Box<dyn FnMut() -> Result<f64>>,
    pub(crate) rates: Vec<f64>,
}

impl Contender {
    pub(crate) fn new(task: Task, name: &'static str, run: impl FnMut() -> Result<f64> + 'static) -> Self {
        Self { task, name, run: Box::new(run), rates: Vec::new() }
    }

    /// The least, the middle and the greatest rate.
    pub(crate) fn spread(&self) -> [f64; 3] {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        match (rates.first(), rates.get(rates.len() / 2), rates.last()) {
            (Some(least), Some(middle), Some(greatest)) => [*least, *middle, *greatest],
            _ => [0.0; 3],
        }
    }
}

/// How many a second.
pub(crate) fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Times what is done.
pub(crate) fn timed(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let started = Instant::now();
    work().map(|()| started.elapsed())
}

/// Times several tasks that do the same on a runtime.
pub(crate) fn together<W, E>(runtime: &Runtime, tasks: usize, work: impl Fn() -> W) -> Result<Duration>
where
    W: Future<Output = std::result::Result<(), E>> + Send + 'static,
    E: Error + Send + 'static,
{
    timed(|| {
        runtime.block_on(async {
            let mut running = JoinSet::new();
            (0..tasks).for_each(|_| drop(running.spawn(work())));
            while let Some(ended) = running.join_next().await {
                ended??;
            }
            Ok(())
        })
    })
}

/// The runtimes that asynchronous contenders run on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    OneWorker,
    CurrentThread,
}

impl Kind {
    pub(crate) fn runtime(self) -> Result<Runtime> {
        let mut builder = match self {
            Self::OneWorker => Builder::new_multi_thread(),
            Self::CurrentThread => Builder::new_current_thread(),
        };
        Ok(builder.worker_threads(1).enable_all().build()?)
    }
}
