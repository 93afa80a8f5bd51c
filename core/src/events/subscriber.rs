//! One of those who hear a listener's events.

use super::event::Event;
use super::hub::{Hold, Sink};
use super::mailbox::{Heard, Mailbox};
use crate::connection::door::Door;
#[cfg(doc)]
use crate::error::Code;
use crate::error::{Error, Result};
use crate::operation::monitor::{Monitor, Polled};
use crate::process::Origin;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// One of any number that hear a [`Listener`](crate::Listener)'s events, each at its own pace and with its own buffer.
///
/// It is asked with [`Subscriber::next`], or as a [`futures_core::Stream`]. Events come in the order in which the server
/// handed them out, each at most once. What may be missing is told in its place by a [`Heard::Gap`].
///
/// Clones are the same subscriber. Dropping the last one ends it.
#[derive(Clone)]
pub struct Subscriber {
    handle: Arc<Handle>,
    polled: Polled,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.handle.inner.monitor.forget(&mut self.polled);
    }
}

struct Handle {
    inner: Arc<Inner>,
    sink: Arc<dyn Sink>,
    hold: Arc<Hold>,
}

struct Inner {
    monitor: Monitor<Mailbox>,
    origin: Origin,
}

impl Sink for Inner {
    fn hear(&self, events: &[Event]) {
        self.monitor.change(|mailbox| events.iter().for_each(|event| mailbox.push(event.clone())));
    }

    fn resubscribed(&self) {
        self.monitor.change(Mailbox::reconnected);
    }

    fn end(&self, error: Option<Error>) {
        self.monitor.change(|mailbox| mailbox.end(error));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.hold.detach(&self.sink);
    }
}

impl Subscriber {
    /// Hears through a hold, with a buffer for so many events.
    pub(super) fn new(hold: Arc<Hold>, capacity: usize) -> Result<Self> {
        let origin = hold.door().origin();
        origin.check()?;
        let inner = Arc::new(Inner { monitor: Monitor::new(Mailbox::new(capacity)), origin });
        let sink: Arc<dyn Sink> = inner.clone();
        hold.attach(sink.clone());
        Ok(Self { handle: Arc::new(Handle { inner, sink, hold }), polled: Polled::default() })
    }

    /// What comes next; nothing once the subscriber or its listener was closed and everything was taken.
    ///
    /// Fails once with the reason when the listener cannot go on: [`Code::Auth`] when the user may not listen any longer,
    /// [`Code::VersionFence`], or [`Code::Closed`] when the client was closed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&self) -> Result<Option<Heard>> {
        Ok(self.take(1).await?.pop())
    }

    /// What comes next, between 1 and `max`; none once the end is reached. See [`Subscriber::next`].
    pub async fn take(&self, max: usize) -> Result<Vec<Heard>> {
        self.inner().origin.check()?;
        self.inner().monitor.until(|mailbox| mailbox.take(max)).await
    }

    /// Waits until there is something to take, or the end is reached, and takes nothing.
    ///
    /// It is for who takes elsewhere, with [`Subscriber::wait_take`] and no time: the thread of an event loop, for example.
    pub async fn ready(&self) {
        if self.inner().origin.is_here() {
            self.inner().monitor.until(|mailbox| mailbox.is_ready().then_some(())).await;
        }
    }

    /// Waits on the caller's thread, for at most that long, for up to `max`: nothing where none came in time, and an empty
    /// list once the end is reached. Fails as [`Subscriber::next`] does.
    pub fn wait_take(&self, max: usize, at_most: Duration) -> Result<Option<Vec<Heard>>> {
        self.inner().origin.check()?;
        self.inner().monitor.wait(at_most, |mailbox| mailbox.take(max)).transpose()
    }

    /// Gives what was taken and not used back, in its order, to be taken again.
    pub fn give_back(&self, heard: Vec<Heard>) {
        if self.inner().origin.is_here() {
            self.inner().monitor.change(|mailbox| mailbox.give_back(heard));
        }
    }

    /// For how many events its buffer has room.
    pub fn buffer(&self) -> usize {
        self.inner().monitor.with(|mailbox| mailbox.capacity())
    }

    /// Ends the subscriber. What it has already can be taken.
    pub fn close(&self) {
        if self.inner().origin.is_here() {
            self.handle.hold.detach(&self.handle.sink);
            self.handle.sink.end(None);
        }
    }

    fn inner(&self) -> &Inner {
        &self.handle.inner
    }
}

impl futures_core::Stream for Subscriber {
    type Item = Result<Heard>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Self { handle, polled } = &mut *this;
        if let Err(error) = handle.inner.origin.check() {
            return Poll::Ready(Some(Err(error)));
        }
        let taken = handle.inner.monitor.poll(context, polled, |mailbox| mailbox.take(1));
        taken.map(|taken| taken.map(|mut heard| heard.pop()).transpose())
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscriber({})", &**self.handle.hold.channel())
    }
}
