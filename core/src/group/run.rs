//! Handlers called by the consumer, and the workers that call them.

use super::consumer::Consumer;
use super::delivery::{Delivery, Message};
use super::state::Taker;
use super::verdict::Failure;
use crate::error::{Code, Error, Result, panic_text};
use futures_util::FutureExt;
use futures_util::future::try_join_all;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

impl Consumer {
    /// Calls a handler with each entry until the consumer stops: as many at a time as `concurrency` says, one by one
    /// without it.
    ///
    /// `Ok` acknowledges the entry. An error, or a panic, is a failure: the entry comes back, or becomes a dead letter, and
    /// the consumer goes on. Fails as [`Consumer::next`] does.
    ///
    /// ```no_run
    /// # async fn example(stream: echomq::Stream) -> echomq::Result<()> {
    /// use echomq::{ConsumerOptions, Message, Start};
    ///
    /// let options = ConsumerOptions::new("mailer", Start::Head)?.concurrency(4).order_by("player").max_attempts(5);
    /// let consumer = stream.consumer(options).await?;
    /// consumer
    ///     .run(|message: Message| async move {
    ///         match message.record().get("to") {
    ///             Some(_) => Ok(()),
    ///             None => Err("there is nobody to write to"),
    ///         }
    ///     })
    ///     .await
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the handlers that run; their entries stay pending and come back after `min_idle`.
    pub async fn run<H, F, E>(&self, handler: H) -> Result<()>
    where
        H: Fn(Message) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<Failure>,
    {
        try_join_all(self.workers().map(|worker| handle_each(worker, &handler))).await.map(drop)
    }

    /// Calls a handler with batches of up to `max_n` entries, after waiting `max_wait` for more than are there; otherwise
    /// as [`Consumer::run`]. The verdict is on all of the batch.
    pub async fn run_batches<H, F, E>(&self, handler: H) -> Result<()>
    where
        H: Fn(Vec<Message>) -> F,
        F: Future<Output = Result<(), E>>,
        E: Into<Failure>,
    {
        try_join_all(self.workers().map(|worker| handle_batches(worker, &handler))).await.map(drop)
    }

    fn workers(&self) -> impl Iterator<Item = Worker> {
        (0..self.options().concurrency).map(|number| Worker { consumer: self.clone(), number })
    }

    /// One of the workers of a consumer, `concurrency` in all, among which the order of `order_by` is kept.
    ///
    /// [`Consumer::run`] stands on them; they are public for other ways to run handlers, in a language binding for
    /// example. Fails with [`Code::InvalidOption`] for a worker that the consumer does not have.
    pub fn worker(&self, number: usize) -> Result<Worker> {
        let workers = self.options().concurrency;
        if number >= workers {
            let message = format!("there are {workers} workers, counted from 0, and none is {number}");
            return Err(Error::new(Code::InvalidOption, message).about("concurrency"));
        }
        Ok(Worker { consumer: self.clone(), number })
    }
}

async fn handle_each<H, F, E>(worker: Worker, handler: &H) -> Result<()>
where
    H: Fn(Message) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<Failure>,
{
    while let Some((message, open)) = worker.next().await?.and_then(Delivery::split) {
        open.close(verdict(AssertUnwindSafe(async { handler(message).await }).catch_unwind().await));
    }
    Ok(())
}

async fn handle_batches<H, F, E>(worker: Worker, handler: &H) -> Result<()>
where
    H: Fn(Vec<Message>) -> F,
    F: Future<Output = Result<(), E>>,
    E: Into<Failure>,
{
    loop {
        let batch = worker.next_batch().await?;
        if batch.is_empty() {
            return Ok(());
        }
        let (messages, open): (Vec<_>, Vec<_>) = batch.into_iter().filter_map(Delivery::split).unzip();
        let verdict = verdict(AssertUnwindSafe(async { handler(messages).await }).catch_unwind().await);
        open.into_iter().for_each(|open| open.close(verdict.clone()));
    }
}

fn verdict<E: Into<Failure>>(handled: std::thread::Result<Result<(), E>>) -> Result<(), Failure> {
    match handled {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => Err(Failure::new(format!("the handler panicked: {}", panic_text(&*panic)))),
    }
}

/// One of the workers of a [`Consumer`]: it handles one entry after the other.
///
/// Where `order_by` is set, the entries of a value go to one worker as long as that has any of them in hand.
pub struct Worker {
    consumer: Consumer,
    number: usize,
}

impl Worker {
    /// The next entry; nothing once the consumer has stopped. See [`Consumer::next`].
    pub async fn next(&self) -> Result<Option<Delivery>> {
        Ok(self.take(1).await?.pop())
    }

    /// The next entries, up to `max` and to half of `count`, to be handled one by one; none once the consumer has stopped.
    ///
    /// Those behind the first still count as held ahead of the handler. One of several workers gets one entry, so that a slow
    /// handler keeps nothing waiting that another could begin. See [`Consumer::next`].
    pub async fn take(&self, max: usize) -> Result<Vec<Delivery>> {
        self.consumer.take_as(Taker::Worker(self.number), self.most(max)).await
    }

    /// With more than half of `count` taken and not begun, nothing would be fetched until some of it is settled.
    fn most(&self, max: usize) -> usize {
        let options = self.consumer.options();
        if options.concurrency > 1 { max.min(1) } else { max.min((options.count / 2).max(1)) }
    }

    /// The next batch, to be handled at once; see [`Consumer::next_batch`].
    pub async fn next_batch(&self) -> Result<Vec<Delivery>> {
        self.consumer.take_batch(Taker::Batch(self.number)).await
    }

    /// Waits until there is an entry to take, or the consumer has stopped, and takes nothing; see [`Consumer::ready`].
    pub async fn ready(&self) {
        self.consumer.is_ready(Taker::Worker(self.number)).await;
    }

    /// Waits until there is a batch to take with [`Worker::ready_batch`], or the consumer has stopped, and takes nothing.
    pub async fn batch_ready(&self) {
        self.consumer.is_batch_ready(Taker::Batch(self.number)).await;
    }

    /// Takes a batch without waiting; see [`Consumer::ready_batch`].
    pub fn ready_batch(&self) -> Result<Option<Vec<Delivery>>> {
        self.consumer.take_ready_batch(Taker::Batch(self.number))
    }

    /// Waits on the caller's thread, for at most that long; see [`Worker::take`] and [`Consumer::wait_next`].
    pub fn wait_take(&self, max: usize, at_most: Duration) -> Result<Option<Vec<Delivery>>> {
        self.consumer.wait_take(Taker::Worker(self.number), self.most(max), at_most)
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({}, {:?})", self.number, self.consumer)
    }
}
