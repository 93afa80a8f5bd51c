//! The events of a queue.

use super::stream::Stream;
use crate::cancel::mark::Cancel;
use crate::cancel::token::CancelToken;
use crate::cancel::watch::watch;
use crate::connection::door::Door;
use crate::connection::local::Local;
use crate::connection::shared::Shared;
#[cfg(doc)]
use crate::error::Code;
use crate::error::Result;
use crate::events::Channel;
use crate::events::announce::Announced;
use crate::events::hub::Hub;
use crate::events::listener::Listener;
use crate::events::progress::UpdateProgress;
use crate::events::publish::Publish;
use crate::events::signal::Signal;
use crate::id::branded::BrandedId;
use crate::record::Fields;
use crate::stream::Keys;
use crate::stream::writers::Writers;
use std::fmt;
use std::time::Duration;

/// The lifecycle events of a queue: fire and forget.
///
/// Delivery is at most once: whoever does not listen at that moment does not hear it. What must not be missed belongs into a
/// [`Stream`](crate::Stream); see the project's `docs/events.md` for the choice.
///
/// With [`Client`](crate::Client) each call answers a [`Pending`](crate::Pending), to be awaited; with
/// [`blocking::Client`](crate::blocking::Client) the answer itself.
///
/// ```no_run
/// # async fn example(client: echomq::Client) -> echomq::Result<()> {
/// use echomq::Signal;
///
/// let events = client.events("codemojex")?;
/// let listening = events.publish(Signal::new("completed", "JOB000xY9Wvvcd")?).await?;
/// println!("{listening} listened");
/// # Ok(())
/// # }
/// ```
///
/// Every call can also fail with [`Code::Auth`], which names the channel rule where the user lacks it, [`Code::Overloaded`],
/// [`Code::Disconnected`], [`Code::Timeout`], [`Code::Closed`] and [`Code::Server`].
#[derive(Clone)]
pub struct Events<D = Shared> {
    door: D,
    hub: Hub,
    channel: Channel,
    keys: Keys,
}

/// A verdict, and what became of its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided<T> {
    /// What the transition answered.
    pub verdict: T,
    /// How many listened, or why the event was not published. The transition has happened all the same.
    pub published: Result<u64>,
}

impl<D: Door> Events<D> {
    pub(super) fn new(door: D, hub: Hub, channel: Channel, keys: Keys) -> Self {
        Self { door, hub, channel, keys }
    }

    /// The channel on the server.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Publishes an event, and answers how many listened, as the server counts them.
    ///
    /// Fails with [`Code::TooLarge`] for more bytes than `max_record_bytes`, and with [`Code::UnknownOutcome`] when the connection
    /// broke before the answer came: it is not sent again, since it could be heard twice.
    ///
    /// # Cancel safety
    ///
    /// Dropping the answer does not take the event back.
    pub fn publish(&self, signal: Signal) -> D::Answer<u64> {
        self.door.run(Publish::new(self.channel.clone(), &signal, self.max_bytes()))
    }

    /// Writes a job's progress into its row and publishes the event `progress`, in one step of the server's. Answers how
    /// many listened.
    ///
    /// Fails with [`Code::Gone`] where the job has no row, with [`Code::MalformedId`], [`Code::InvalidOption`] for a value that is
    /// no UTF-8, [`Code::TooLarge`] and [`Code::WrongType`]; nothing was changed then and nothing published. Fails with
    /// [`Code::UnknownOutcome`] as [`Events::publish`] does.
    pub fn update_progress(&self, job: impl AsRef<[u8]>, progress: impl AsRef<[u8]>) -> D::Answer<u64> {
        let (job, progress) = (job.as_ref(), progress.as_ref());
        self.door.run(UpdateProgress::new(self.channel.clone(), job, progress, self.max_bytes()))
    }

    /// Appends a record to a stream of the queue, and then publishes an event with its place: the members `stream` and `id`
    /// stand before the further ones. A listener that missed something reads from the last id that it knows.
    ///
    /// The same as [`Stream::append_and_publish`](crate::Stream::append_and_publish) of a stream with one writer, and fails as that
    /// does, and with [`Code::InvalidName`] for the stream.
    pub fn append_and_publish(
        &self,
        stream: &str,
        fields: impl Into<Fields>,
        signal: Signal,
    ) -> D::Answer<Announced> {
        match self.stream(stream, Writers::One) {
            Ok(stream) => stream.append_and_publish(fields, signal),
            Err(error) => D::ready(Err(error)),
        }
    }

    /// The same for a stream of several writers.
    pub fn append_sequenced_and_publish(
        &self,
        stream: &str,
        fields: impl Into<Fields>,
        signal: Signal,
    ) -> D::Answer<Announced> {
        match self.stream(stream, Writers::Many) {
            Ok(stream) => stream.append_and_publish(fields, signal),
            Err(error) => D::ready(Err(error)),
        }
    }

    /// Listens to the queue's events. It answers when the server has confirmed the subscription.
    ///
    /// With [`blocking::Client`](crate::blocking::Client) the listener hears on the process's [`runtime`](crate::runtime()).
    ///
    /// Fails with [`Code::Auth`], which names the channel rule where the user lacks it, with [`Code::Disconnected`] when there was
    /// no connection until the client's `timeout`, and with [`Code::VersionFence`].
    pub fn listen(&self) -> D::Answer<Listener> {
        let Self { door, hub, channel, .. } = self.clone();
        self.door.spawn(async move { Ok(Listener::new(hub.hold(door.shared().await?, channel).await?)) })
    }

    /// Cancels a job in whatever process it runs: writes a mark with a time to live, one day where none is given, and then
    /// publishes the event `cancel` with the reason. Answers how many listened.
    ///
    /// Fails with [`Code::MalformedId`], [`Code::InvalidOption`] for a reason that is no UTF-8 or a time to live under a
    /// millisecond, [`Code::TooLarge`], and with [`Code::UnknownOutcome`]; cancelling again does no harm.
    pub fn cancel(
        &self,
        job: impl AsRef<[u8]>,
        reason: impl AsRef<[u8]>,
        time_to_live: Option<Duration>,
    ) -> D::Answer<u64> {
        let (job, reason) = (job.as_ref(), reason.as_ref());
        self.door.run(Cancel::new(self.channel.clone(), job, reason, time_to_live, self.max_bytes()))
    }

    /// A token that trips when the job is cancelled, or was before, by whatever process. It answers when the subscription is
    /// confirmed and the mark is read, which is read again after every gap.
    ///
    /// It watches for as long as a clone of the token lives. Fails with [`Code::MalformedId`], and as [`Events::listen`] does.
    ///
    /// ```no_run
    /// # async fn example(client: echomq::Client) -> echomq::Result<()> {
    /// let token = client.events("codemojex")?.watch("JOB000xY9Wvvcd").await?;
    /// for step in 0..100 {
    ///     if let Err(cancelled) = token.check() {
    ///         println!("stopped before step {step}: {}", cancelled.reason());
    ///         break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(&self, job: impl AsRef<[u8]>) -> D::Answer<CancelToken> {
        let job = match BrandedId::parse(job) {
            Ok(job) => job,
            Err(error) => return D::ready(Err(error.about("job"))),
        };
        let Self { door, hub, channel, .. } = self.clone();
        self.door.spawn(async move { watch(hub.hold(door.shared().await?, channel).await?, job).await })
    }

    fn stream(&self, stream: &str, writers: Writers) -> Result<Stream<D>> {
        let key = self.keys.get(self.channel.keys(), stream)?;
        Ok(Stream::new(self.door.clone(), key).writers(writers))
    }

    fn max_bytes(&self) -> usize {
        self.door.settings().max_record_bytes
    }
}

impl Events<Shared> {
    /// Runs a transition, and publishes an event when it has decided: when it answers a verdict. Where it answers nothing, or
    /// fails, nothing is published and its answer comes back as it is.
    ///
    /// ```no_run
    /// # async fn example(client: echomq::Client) -> echomq::Result<()> {
    /// use echomq::Signal;
    ///
    /// let events = client.events("codemojex")?;
    /// let completed = Signal::new("completed", "JOB000xY9Wvvcd")?;
    /// let decided = events.after_verdict(completed, async { Ok::<_, echomq::Error>(Some("done")) }).await?;
    /// assert!(decided.is_some_and(|decided| decided.verdict == "done"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn after_verdict<T, E>(
        &self,
        signal: Signal,
        transition: impl Future<Output = Result<Option<T>, E>>,
    ) -> Result<Option<Decided<T>>, E> {
        match transition.await? {
            Some(verdict) => Ok(Some(Decided { verdict, published: self.publish(signal).await })),
            None => Ok(None),
        }
    }
}

impl Events<Local> {
    /// Runs a transition, and publishes an event when it has decided; see
    /// [`Events::after_verdict`](crate::Events::after_verdict).
    pub fn after_verdict<T, E>(
        &self,
        signal: Signal,
        transition: impl FnOnce() -> Result<Option<T>, E>,
    ) -> Result<Option<Decided<T>>, E> {
        Ok(transition()?.map(|verdict| Decided { verdict, published: self.publish(signal) }))
    }
}

impl<D: Door> fmt::Debug for Events<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({})", self.channel())
    }
}
