//! The node lease on a line: what mints waits for it, in its place, and the question for it goes first.

use super::entry::Entry;
use crate::error::{Error, Result};
use crate::operation::lease::{Hold, Lease, Release};
use crate::operation::pending::pending;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The age of the entries made here, which stand before all others.
pub(super) const FIRST: u64 = 0;

/// What the line knows of the node lease.
#[derive(Default)]
pub(super) struct Node {
    lease: Option<Arc<Lease>>,
    /// Whether the lease is given back when the line ends.
    releases: bool,
    /// What mints waits.
    held: bool,
    /// The answer to the question under way.
    asked: Option<Arc<OnceLock<Result<()>>>>,
    /// The connection is another one than that of the last question.
    reconnected: bool,
    /// There is a connection, as far as the line has heard.
    carried: bool,
    /// Whether the lease that is being given back is still to be answered.
    released: Option<Arc<OnceLock<()>>>,
}

impl Node {
    pub(super) fn new(lease: Arc<Lease>, releases: bool) -> Self {
        Self { lease: Some(lease), releases, ..Self::default() }
    }

    /// Something that mints was not sent.
    pub(super) fn hold(&mut self) {
        self.held = true;
    }

    /// Whether what mints waits.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Whether what does not mint goes ahead of what waits.
    pub(super) fn is_passed(&self) -> bool {
        self.held && self.lease.as_ref().is_some_and(|lease| lease.is_later())
    }

    /// Whether no lease will come for what mints.
    pub(super) fn is_without(&self) -> bool {
        self.lease.is_none()
    }

    /// Why what mints still waits, where the server has said.
    pub(super) fn refusal(&self) -> Option<Error> {
        self.lease.as_ref().filter(|_| self.held)?.refusal()
    }

    /// The connection broke. A lease is given back only where it still stands.
    pub(super) fn broken(&mut self) {
        self.reconnected = true;
        self.carried = false;
        self.released = None;
    }

    /// Whether the answer is awaited that the lease was given back.
    pub(super) fn is_releasing(&self) -> bool {
        self.released.as_ref().is_some_and(|released| released.get().is_none())
    }

    /// Whether the question for the lease is to be sent.
    fn wants(&self) -> bool {
        let unanswered = self.asked.as_ref().is_some_and(|asked| asked.get().is_none());
        self.lease
            .as_ref()
            .is_some_and(|lease| !unanswered && (self.held || self.reconnected && lease.is_held()))
    }

    /// Whether the lease is to be given back before a line that has nothing else left ends.
    pub(super) fn is_to_release(&self) -> bool {
        self.releases && self.carried && self.lease.as_ref().is_some_and(|lease| lease.is_held())
    }

    /// The question, where it is to be sent. There is a connection.
    pub(super) fn question(&mut self) -> Option<Entry> {
        self.carried = true;
        let wanted = self.wants();
        let reconnected = mem::take(&mut self.reconnected);
        let lease = self.lease.clone().filter(|_| wanted)?;
        if reconnected {
            lease.suspend();
        }
        let answer = Arc::new(OnceLock::new());
        self.asked = Some(answer.clone());
        let (promise, pending) = pending();
        // It is set once.
        pending.on_complete(move |answered| drop(answer.set(answered)));
        Some(Entry::new(FIRST, Instant::now() + lease.time(), Hold::new(lease), promise))
    }

    /// The last entry of a line that ends.
    pub(super) fn release(&mut self) -> Option<Entry> {
        let lease = self.lease.clone().filter(|_| self.is_to_release())?;
        self.releases = false;
        let (promise, pending) = pending::<()>();
        let released = Arc::new(OnceLock::new());
        self.released = Some(released.clone());
        pending.on_complete(move |_| {
            // It is set once.
            let _ = released.set(());
        });
        Some(Entry::new(FIRST, Instant::now() + lease.time(), Release::new(lease), promise))
    }

    /// Looks for the answer. What mints goes on, or fails with the error.
    pub(super) fn answered(&mut self) -> Option<Error> {
        let answer = self.asked.take_if(|asked| asked.get().is_some())?;
        self.held = false;
        answer.get().and_then(|answer| answer.clone().err())
    }
}
