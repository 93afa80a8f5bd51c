//! What trips a token from other processes: the mark, and the event.
//!
//! The channel is listened to before the mark is read, so nothing is missed in between; and the mark is read again after
//! every gap, so that a process which was away learns of what it missed.

use super::mark::{CANCEL, REASON, ReadMark};
use super::token::{CancelToken, WeakToken};
use crate::connection::backoff::Backoff;
use crate::connection::door::Door;
use crate::error::{Code, Error, Result};
use crate::events::Channel;
use crate::events::event::Event;
use crate::events::hub::{Hold, Sink};
use crate::id::branded::BrandedId;
use crate::process::Origin;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::runtime::Handle as Runtime;
use tokio::time::sleep;

/// Watches a job through a hold: a token that trips when the job is cancelled, or was before.
///
/// Fails where the mark cannot be read.
pub(crate) async fn watch(hold: Hold, job: BrandedId) -> Result<CancelToken> {
    let (door, channel) = (hold.door().clone(), hold.channel().clone());
    let token = CancelToken::with_watch(hold);
    let watch = Watch {
        channel: channel.clone(),
        job,
        token: token.downgrade(),
        runtime: Runtime::current(),
        origin: door.origin(),
    };
    if let Some(hold) = token.watch() {
        hold.attach(Arc::new(watch));
    }
    if let Some(reason) = door.run(Ok(ReadMark::new(channel, job))).await? {
        token.cancel(reason);
    }
    Ok(token)
}

/// What hears that a job is cancelled.
struct Watch {
    channel: Channel,
    job: BrandedId,
    token: WeakToken,
    runtime: Runtime,
    origin: Origin,
}

impl Sink for Watch {
    fn hear(&self, events: &[Event]) {
        let cancels = |event: &&Event| event.name() == CANCEL && event.job() == Some(self.job);
        if let Some(event) = events.iter().find(cancels)
            && let Some(token) = self.token.upgrade()
        {
            // A callback that panics, which the process reports, is no reason to listen no longer.
            let trip = || token.cancel(event.get(REASON).unwrap_or_default());
            let _ = catch_unwind(AssertUnwindSafe(trip));
        }
    }

    fn resubscribed(&self) {
        if self.origin.is_here() {
            self.runtime.spawn(read_mark(self.channel.clone(), self.job, self.token.clone()));
        }
    }

    fn end(&self, error: Option<Error>) {
        if let Some(token) = self.token.upgrade() {
            token.watch_ended(error);
        }
    }
}

/// Reads the mark after a gap, again until it could be read, for as long as somebody has the token.
async fn read_mark(channel: Channel, job: BrandedId, token: WeakToken) {
    let mut backoff: Option<Backoff> = None;
    loop {
        let Some(door) = token.upgrade().and_then(|token| token.watch().map(|hold| hold.door().clone()))
        else {
            return;
        };
        let mark = door.run(Ok(ReadMark::new(channel.clone(), job)));
        let settings = door.settings();
        let wait = backoff
            .get_or_insert_with(|| Backoff::new(settings.reconnect_min, settings.reconnect_max))
            .wait();
        drop(door);
        match (mark.await, token.upgrade()) {
            (_, None) | (Ok(None), _) => return,
            (Ok(Some(reason)), Some(token)) => {
                token.cancel(reason);
                return;
            }
            (Err(error), Some(token)) if matches!(error.code(), Code::Closed | Code::VersionFence) => {
                return token.watch_ended(Some(error));
            }
            (Err(_), Some(token)) => {
                drop(token);
                sleep(wait).await;
            }
        }
    }
}
