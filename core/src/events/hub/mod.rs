//! The listening connection of a client: one for all its listeners and watches, made when the first one comes.
//!
//! Each channel is subscribed to once, however many hear it. The connection is opened again whenever it breaks, for as long
//! as anybody listens; then each channel is subscribed to again, and whoever hears it is told that something may be missing.

mod engine;
mod heartbeat;
mod incoming;
mod state;

use super::Channel;
use super::event::Event;
use super::listener::ListenerStatus;
use crate::connection::door::{Door, closed, too_late};
use crate::connection::shared::Shared;
use crate::error::{Error, Result};
use crate::notice::{Board, Notices};
use crate::operation::monitor::Monitor;
use crate::process::Origin;
use engine::Engine;
use state::{Standing, State};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout_at;

/// What hears a channel.
pub(crate) trait Sink: Send + Sync {
    /// Events came, in this order.
    fn hear(&self, events: &[Event]);

    /// The connection was lost, and the channel is subscribed to again.
    fn resubscribed(&self);

    /// Nothing more comes; the reason where it was not wanted.
    fn end(&self, error: Option<Error>);
}

/// What a client's listeners share.
#[derive(Clone)]
pub struct Hub(Arc<Inner>);

struct Inner {
    monitor: Monitor<State>,
    origin: Origin,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner { monitor: Monitor::new(State::default()), origin: Origin::here() }))
    }

    /// Subscribes to a channel, and answers when the server has confirmed it.
    ///
    /// Fails with `auth`, which names the channel rule where that is missing, with `disconnected` when there was no connection
    /// until the client's timeout, with `version_fence` and `closed`.
    pub(crate) async fn hold(&self, door: Shared, channel: Channel) -> Result<Hold> {
        self.0.origin.check()?;
        let deadline = Instant::now() + door.settings().timeout;
        let notices = Board::of_driven();
        let (number, starts) = self.0.monitor.change(|state| state.hold(&channel, notices.clone()));
        let hold = Hold { hub: self.clone(), channel, number, notices, door };
        if starts {
            tokio::spawn(Engine::new(self.0.clone(), &hold.door).run());
        }
        let standing = self.0.monitor.until(|state| match state.standing(&hold.channel, number) {
            Standing::Confirmed => Some(Ok(())),
            Standing::Wanted => None,
            Standing::Ended(why) => Some(Err(why.unwrap_or_else(closed).about(&*hold.channel))),
        });
        match timeout_at(deadline.into(), standing).await {
            Ok(standing) => standing.map(|()| hold),
            Err(_) => {
                let cause = self.0.monitor.with(|state| state.status(&hold.channel, number).error);
                Err(too_late(cause.as_ref()).about(&*hold.channel))
            }
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

/// A channel that is wanted. Dropping it ends what hears through it.
pub(crate) struct Hold {
    hub: Hub,
    channel: Channel,
    number: u64,
    notices: Board,
    door: Shared,
}

impl Hold {
    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The client that listens.
    pub(crate) fn door(&self) -> &Shared {
        &self.door
    }

    /// Has something hear the channel from now on; it ends at once where the channel is not wanted any longer.
    pub(crate) fn attach(&self, sink: Arc<dyn Sink>) {
        let ended = self.hub.0.monitor.with(|state| match state.standing(&self.channel, self.number) {
            Standing::Ended(why) => Some(why),
            Standing::Wanted | Standing::Confirmed => {
                state.attach(&self.channel, self.number, sink.clone());
                None
            }
        });
        if let Some(why) = ended {
            sink.end(why);
        }
    }

    /// Waits until it has ended, and answers why where that was not wanted.
    pub(crate) async fn ended(&self) -> Option<Error> {
        let ended = |state: &mut State| match state.standing(&self.channel, self.number) {
            Standing::Ended(why) => Some(why),
            Standing::Wanted | Standing::Confirmed => None,
        };
        self.hub.0.monitor.until(ended).await
    }

    /// Something hears the channel no longer.
    pub(crate) fn detach(&self, sink: &Arc<dyn Sink>) {
        if self.hub.0.origin.is_here() {
            self.hub.0.monitor.with(|state| state.detach(&self.channel, sink));
        }
    }

    pub(crate) fn status(&self) -> ListenerStatus {
        self.hub.0.monitor.with(|state| state.status(&self.channel, self.number))
    }

    /// How the connection comes and goes.
    pub(crate) fn notices(&self) -> Notices {
        self.notices.notices()
    }

    /// Ends what hears through it. Doing so again changes nothing.
    pub(crate) fn release(&self) {
        if self.hub.0.origin.is_here() {
            let sinks = self.hub.0.monitor.change(|state| state.release(&self.channel, self.number));
            sinks.iter().for_each(|sink| sink.end(None));
            self.notices.end();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}
