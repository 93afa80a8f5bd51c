//! A listener on a queue's events.

use super::hub::Hold;
use super::options::SubscriberOptions;
use super::reduction::Reduction;
use super::subscriber::Subscriber;
use crate::connection::door::Door;
#[cfg(doc)]
use crate::error::Code;
use crate::error::{Error, Result};
use crate::events::mailbox::Heard;
use crate::notice::Notices;
use std::fmt;
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;

/// A listener on a queue's events: one subscription, off which any number of subscribers hear.
///
/// The subscription was confirmed when the listener was made, and is made again by itself after each loss of the connection,
/// for as long as it takes. All listeners of a client share one connection.
///
/// ```no_run
/// # async fn example(client: echomq::Client) -> echomq::Result<()> {
/// use echomq::{Heard, SubscriberOptions};
///
/// let listener = client.events("codemojex")?.listen().await?;
/// let subscriber = listener.subscribe(SubscriberOptions::new())?;
/// while let Some(heard) = subscriber.next().await? {
///     match heard {
///         Heard::Event(event) => println!("{} {:?}", event.name(), event.job()),
///         Heard::Gap(_) => println!("something may be missing here: read the stream"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// Clones are the same listener. It ends when it is closed, or the last clone and the last subscriber are gone.
#[derive(Clone)]
pub struct Listener {
    hold: Arc<Hold>,
    runtime: Runtime,
}

/// How a listener's subscription stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListenerStatus {
    /// Whether the server sends events, as far as the listener has noticed.
    pub connected: bool,
    /// How often the channel was subscribed to again.
    pub resubscriptions: u64,
    /// Why there is no connection.
    pub error: Option<Error>,
}

impl Listener {
    /// A listener through a hold, whose handlers run on the current runtime.
    pub(crate) fn new(hold: Hold) -> Self {
        Self { hold: Arc::new(hold), runtime: Runtime::current() }
    }

    /// The queue.
    pub fn queue(&self) -> &str {
        self.hold.channel().keys().queue()
    }

    /// The channel on the server.
    pub fn channel(&self) -> &str {
        self.hold.channel()
    }

    /// Hears every event from now on, with a buffer of its own.
    ///
    /// Fails with [`Code::InvalidOption`] for a buffer without room, and with [`Code::Closed`] in a forked child.
    pub fn subscribe(&self, options: SubscriberOptions) -> Result<Subscriber> {
        Subscriber::new(self.hold.clone(), options.capacity()?)
    }

    /// Folds everything that is heard from now on into a state, which can be read at any time.
    ///
    /// The handler gets the state and what was heard, and answers the next state. One that fails or panics leaves the state as
    /// it was, is counted, and goes on with the next event. It runs on the client's runtime, so it must not wait.
    ///
    /// Fails as [`Listener::subscribe`] does.
    ///
    /// ```no_run
    /// # async fn example(client: echomq::Client) -> echomq::Result<()> {
    /// use echomq::{Heard, SubscriberOptions};
    ///
    /// let listener = client.events("codemojex")?.listen().await?;
    /// let completed = listener.reduce(SubscriberOptions::new(), 0, |count: &u64, heard: Heard| match heard {
    ///     Heard::Event(event) if event.name() == "completed" => Ok(count + 1),
    ///     Heard::Event(_) => Ok(*count),
    ///     Heard::Gap(_) => Err("the count is too low now"),
    /// })?;
    /// println!("{} jobs completed", completed.state());
    /// # Ok(())
    /// # }
    /// ```
    pub fn reduce<S, E, H>(&self, options: SubscriberOptions, state: S, handler: H) -> Result<Reduction<S>>
    where
        S: Send + Sync + 'static,
        E: fmt::Display + 'static,
        H: FnMut(&S, Heard) -> Result<S, E> + Send + 'static,
    {
        Ok(Reduction::start(self.subscribe(options)?, &self.runtime, state, handler))
    }

    /// What the listener tells beside its events: that the connection was lost, at once, and that the channel is subscribed to
    /// again. Of one loss each is told once, however many attempts it takes.
    ///
    /// ```no_run
    /// # async fn example(listener: echomq::Listener) {
    /// let notices = listener.notices();
    /// while let Some(notice) = notices.next().await {
    ///     println!("{}: {}", notice.kind(), notice.message());
    /// }
    /// # }
    /// ```
    ///
    /// They end with the listener; [`Listener::ended`] answers why.
    pub fn notices(&self) -> Notices {
        self.hold.notices()
    }

    /// How the subscription stands.
    pub fn status(&self) -> ListenerStatus {
        self.hold.status()
    }

    /// Waits until the listener has ended, and answers why where it could not go on: [`Code::Auth`] when the user may not listen
    /// any longer, [`Code::VersionFence`], or [`Code::Closed`] when the client was closed. Nothing where it was closed itself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn ended(&self) -> Option<Error> {
        match self.hold.door().origin().check() {
            Ok(()) => self.hold.ended().await,
            Err(closed) => Some(closed),
        }
    }

    /// Ends the listener. Its subscribers can take what they have already.
    pub fn close(&self) {
        self.hold.release();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.channel())
    }
}
