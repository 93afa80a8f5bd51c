//! Lifecycle events, published and forgotten (`docs/protocol.md` §7).
//!
//! Delivery is at most once. Whoever may have missed something is told so by an [`EventGap`](mailbox::EventGap); what must not be
//! missed belongs into a stream.

pub(crate) mod announce;
pub(crate) mod event;
pub(crate) mod hub;
pub(crate) mod listener;
pub(crate) mod mailbox;
mod members;
pub(crate) mod options;
pub(crate) mod progress;
pub(crate) mod publish;
pub(crate) mod reduction;
pub(crate) mod signal;
pub(crate) mod subscriber;

use crate::id::branded::BrandedId;
use crate::keyspace::Keyspace;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The channel of a queue's events, spelled once, with the keys that belong to it.
#[derive(Clone)]
pub struct Channel {
    keys: Keyspace,
    spelled: Arc<str>,
}

impl Channel {
    pub(crate) fn new(keys: Keyspace) -> Self {
        Self { spelled: keys.events().into(), keys }
    }

    /// The keys of the queue.
    pub(crate) fn keys(&self) -> &Keyspace {
        &self.keys
    }

    /// The key of a job's row.
    pub(crate) fn job(&self, job: BrandedId) -> String {
        self.keys.job(job)
    }

    /// The key of a job's cancel mark.
    pub(crate) fn mark(&self, job: BrandedId) -> String {
        self.keys.cancel(job)
    }
}

impl Deref for Channel {
    type Target = str;

    fn deref(&self) -> &str {
        &self.spelled
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}
