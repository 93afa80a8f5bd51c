//! A consumer of a group, and what it hands out.

use super::delivery::Delivery;
use super::door::{From as Begin, OpenDoor};
use super::engine::Engine;
use super::member::Member;
use super::options::ConsumerOptions;
use super::state::{State, Taken, Taker};
use super::verdict::Inner;
use crate::clock::deadline;
use crate::connection::door::Door;
use crate::connection::lane::Lane;
use crate::connection::shared::Shared;
#[cfg(doc)]
use crate::error::Code;
use crate::error::Result;
use crate::notice::{Board, Notices};
use crate::operation::monitor::{Monitor, Polled};
use crate::process::Origin;
use crate::stream::Key;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// A consumer of a group: it hands out the group's entries, each at least once.
///
/// It reads on a connection of its own and ahead of its handlers, `count` entries at most. What is in hand is kept from
/// other consumers; what a dead consumer had comes to a living one after `min_idle`; what fails comes back. Handlers must be
/// idempotent: the branded id tells an entry that comes twice. See the project's `docs/consuming.md`.
///
/// There are two ways to use it. [`Consumer::run`] calls a handler with each entry. [`Consumer::next`] pulls them, also
/// as a [`futures_core::Stream`], and each [`Delivery`] gets its verdict by hand.
///
/// ```no_run
/// # async fn example(stream: echomq::Stream) -> echomq::Result<()> {
/// use echomq::{ConsumerOptions, Start};
///
/// let consumer = stream.consumer(ConsumerOptions::new("mailer", Start::New)?).await?;
/// while let Some(delivery) = consumer.next().await? {
///     match delivery.record().get("to") {
///         Some(to) => { /* write the mail */ delivery.ack() }
///         None => delivery.fail("there is nobody to write to"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// Clones are the same consumer. Dropping the last one stops it without waiting for anything.
#[derive(Clone)]
pub struct Consumer {
    handle: Arc<Handle>,
    polled: Polled,
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.handle.0.monitor.forget(&mut self.polled);
    }
}

/// What users hold; dropping the last one stops the engine.
struct Handle(Arc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        // In a forked child there is no engine, and its locks may be held by threads that are not there.
        if self.0.origin.is_here() {
            self.0.monitor.change(|state| state.stop(Instant::now()));
        }
    }
}

impl Consumer {
    /// Opens the group's door and a lane, and starts the engine on the current runtime.
    pub(crate) async fn start(door: Shared, key: Key, options: ConsumerOptions) -> Result<Self> {
        options.check()?;
        let (group, consumer) = (options.group.clone(), options.consumer_name());
        let begin = Begin::Start(options.start);
        let opened = door.run(Ok(OpenDoor::new(key.clone(), group.clone(), begin))).await?;
        let lane = Lane::open(door.settings().clone()).await?;
        let monitor = Monitor::new(State::new(&options));
        let member = Member { key, group, consumer };
        let inner = Arc::new(Inner {
            member,
            options,
            door,
            origin: Origin::here(),
            monitor,
            notices: Board::of_driven(),
        });
        tokio::spawn(Engine::new(inner.clone(), lane, opened.position).run());
        Ok(Self { handle: Arc::new(Handle(inner)), polled: Polled::default() })
    }

    /// The group's name.
    pub fn group(&self) -> &str {
        &self.inner().member.group
    }

    /// The consumer's own name.
    pub fn name(&self) -> &str {
        &self.inner().member.consumer
    }

    /// What it was started with.
    pub fn options(&self) -> &ConsumerOptions {
        &self.inner().options
    }

    /// The next entry; nothing once the consumer has stopped.
    ///
    /// Fails once with the reason when the consumer cannot go on: [`Code::WrongType`], [`Code::VersionFence`], or
    /// [`Code::Closed`] when the client was closed. Everything else is overcome and told by a [`Notice`](crate::Notice).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&self) -> Result<Option<Delivery>> {
        Ok(self.take(1).await?.pop())
    }

    /// The next entries, up to `max`; none once the consumer has stopped. Fails as [`Consumer::next`] does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn take(&self, max: usize) -> Result<Vec<Delivery>> {
        self.take_as(Taker::Anyone, max).await
    }

    /// Between 1 and `max_n` entries, after waiting `max_wait` for more than are there; none once the consumer has
    /// stopped. Fails as [`Consumer::next`] does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next_batch(&self) -> Result<Vec<Delivery>> {
        self.take_batch(Taker::Anyone).await
    }

    pub(super) async fn take_batch(&self, taker: Taker) -> Result<Vec<Delivery>> {
        self.is_batch_ready(taker).await;
        self.take_as(taker, self.inner().options.max_n()).await
    }

    /// Waits until there is an entry to take, or the consumer has stopped, and takes nothing.
    ///
    /// It is for who takes elsewhere, with [`Consumer::wait_next`] and no time: the thread of an event loop, for example.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn ready(&self) {
        self.is_ready(Taker::Anyone).await;
    }

    pub(super) async fn is_ready(&self, taker: Taker) {
        if self.ask(taker).is_ok() {
            self.inner().monitor.until(|state| state.is_ready(taker).then_some(())).await;
        }
    }

    /// Waits until there is a batch to take with [`Consumer::ready_batch`], or the consumer has stopped, and takes nothing.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn batch_ready(&self) {
        self.is_batch_ready(Taker::Anyone).await;
    }

    /// Takes a batch without waiting: nothing where there is nothing, or where what is there still waits for more, and an
    /// empty list once the consumer has stopped. Fails as [`Consumer::next`] does.
    pub fn ready_batch(&self) -> Result<Option<Vec<Delivery>>> {
        self.take_ready_batch(Taker::Anyone)
    }

    pub(super) fn take_ready_batch(&self, taker: Taker) -> Result<Option<Vec<Delivery>>> {
        let (most, wait) = (self.inner().options.max_n(), self.inner().options.max_wait);
        self.ask(taker)?;
        if !wait.is_zero() && !self.inner().monitor.with(|state| state.batch_is_due(most)) {
            return Ok(None);
        }
        self.wait_take(taker, most, Duration::ZERO)
    }

    pub(super) async fn is_batch_ready(&self, taker: Taker) {
        let (most, wait) = (self.inner().options.max_n(), self.inner().options.max_wait);
        if !wait.is_zero() && self.ask(taker).is_ok() {
            let first = |state: &mut State| {
                state.want(most);
                (state.available() > 0 || state.is_over()).then_some(())
            };
            self.inner().monitor.until(first).await;
            self.inner().monitor.wake();
            let due = |state: &mut State| state.batch_is_due(most).then_some(());
            tokio::select! {
                () = self.inner().monitor.until(due) => {}
                () = sleep_until((Instant::now() + wait).into()) => {
                    self.inner().monitor.with(State::batch_has_waited);
                }
            }
        }
        self.is_ready(taker).await;
    }

    pub(super) async fn take_as(&self, taker: Taker, max: usize) -> Result<Vec<Delivery>> {
        self.ask(taker)?;
        let (taken, wake) = self.inner().monitor.until(|state| state.take(taker, max)).await;
        self.taken(taken, wake)
    }

    /// Waits on the caller's thread, for at most that long, for up to `max` entries: nothing where none came in time, and
    /// an empty list once the consumer has stopped. Fails as [`Consumer::next`] does.
    pub fn wait_next(&self, max: usize, at_most: Duration) -> Result<Option<Vec<Delivery>>> {
        self.wait_take(Taker::Anyone, max, at_most)
    }

    pub(super) fn wait_take(
        &self,
        taker: Taker,
        max: usize,
        at_most: Duration,
    ) -> Result<Option<Vec<Delivery>>> {
        self.ask(taker)?;
        match self.inner().monitor.wait(at_most, |state| state.take(taker, max)) {
            Some((taken, wake)) => self.taken(taken, wake).map(Some),
            None => Ok(None),
        }
    }

    fn taken(&self, taken: Taken, wake: bool) -> Result<Vec<Delivery>> {
        if wake {
            self.inner().monitor.wake();
        }
        match taken {
            Taken::Entries(entries) => Ok(entries
                .into_iter()
                .map(|entry| Delivery::new(self.inner().clone(), entry.record, entry.attempts))
                .collect()),
            Taken::End(None) => Ok(Vec::new()),
            Taken::End(Some(error)) => Err(error),
        }
    }

    /// Whether it hands out entries: false as soon as it stops, since it was told to, its client is being closed, or it
    /// cannot go on.
    pub fn is_running(&self) -> bool {
        self.check().is_ok() && !self.inner().monitor.with(|state| state.is_over())
    }

    /// Fetches and hands out nothing more until [`Consumer::resume`]. What is in hand stays there.
    pub fn pause(&self) {
        if self.check().is_ok() {
            self.inner().monitor.change(|state| state.pause(true));
        }
    }

    /// Goes on after [`Consumer::pause`].
    pub fn resume(&self) {
        if self.check().is_ok() {
            self.inner().monitor.change(|state| state.pause(false));
        }
    }

    /// Waits until every verdict given so far is on the server.
    ///
    /// Verdicts travel in batches of their own accord; this is for who must know. Fails with the reason when one could not
    /// be brought there yet; it is tried again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn flush(&self) -> Result<()> {
        self.check()?;
        self.inner().acknowledge(self.inner().monitor.with(State::take_acknowledgements));
        self.inner().monitor.until(State::verdicts_arrived).await
    }

    /// Waits on the caller's thread, for at most that long, as [`Consumer::flush`] does; nothing where it did not suffice.
    pub fn wait_flush(&self, at_most: Duration) -> Option<Result<()>> {
        if let Err(error) = self.check() {
            return Some(Err(error));
        }
        self.inner().acknowledge(self.inner().monitor.with(State::take_acknowledgements));
        self.inner().monitor.wait(at_most, State::verdicts_arrived)
    }

    /// Hands out nothing more, waits `within` that time for what is in hand, and brings the last verdicts to the server.
    ///
    /// What was fetched and not handed out is given back to the group: another consumer takes it with its next beat.
    /// Answers how many entries are left without a verdict on the server; they stay pending, and none is lost. Stopping
    /// again answers the same.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not take the stop back.
    pub async fn stop(&self, within: Duration) -> usize {
        if self.begin_stop(within).is_err() {
            return 0;
        }
        self.inner().monitor.until(|state| state.has_ended().then(|| state.unfinished())).await
    }

    /// Waits until the consumer hands out nothing more, because it is to stop or cannot go on.
    ///
    /// For a binding that holds entries which were taken and not begun, and is to give them back then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn stopping(&self) {
        if self.check().is_ok() {
            self.inner().monitor.until(|state| state.is_over().then_some(())).await;
        }
    }

    /// Stops without waiting for the end, which [`Consumer::wait_stopped`] does.
    ///
    /// Fails with [`Code::Closed`] in a forked child.
    pub fn begin_stop(&self, within: Duration) -> Result<()> {
        self.check()?;
        self.inner().monitor.change(|state| state.stop(deadline(within)));
        Ok(())
    }

    /// Waits on the caller's thread, for at most that long, for the end of a stop; nothing where it did not suffice.
    pub fn wait_stopped(&self, at_most: Duration) -> Option<usize> {
        if self.check().is_err() {
            return Some(0);
        }
        self.inner().monitor.wait(at_most, |state| state.has_ended().then(|| state.unfinished()))
    }

    /// What the consumer tells beside its deliveries.
    ///
    /// The last 1 024 wait to be taken; each is taken once, by whoever asks first.
    pub fn notices(&self) -> Notices {
        self.inner().notices.notices()
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.handle.0
    }

    /// Lets the engine know that a taker is about to wait.
    fn ask(&self, taker: Taker) -> Result<()> {
        self.check()?;
        self.inner().monitor.change_if(|state| ((), state.ask(taker)));
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.inner().origin.check()
    }
}

impl futures_core::Stream for Consumer {
    type Item = Result<Delivery>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(error) = self.ask(Taker::Anyone) {
            return Poll::Ready(Some(Err(error)));
        }
        let this = self.get_mut();
        let Self { handle, polled } = &mut *this;
        let taken =
            std::task::ready!(handle.0.monitor.poll(context, polled, |state| state.take(Taker::Anyone, 1)));
        Poll::Ready(this.taken(taken.0, taken.1).map(|mut deliveries| deliveries.pop()).transpose())
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Consumer({})", self.inner().member)
    }
}
