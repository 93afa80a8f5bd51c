//! Acknowledgements on their way to the server: they travel together, and again where they did not arrive.

use crate::error::Error;
use crate::id::entry_id::EntryId;
use std::collections::HashSet;
use std::mem;
use std::time::{Duration, Instant};

/// How long an acknowledgement waits for others to go with it.
const WITHIN: Duration = Duration::from_millis(5);

/// The acknowledgements of a consumer.
#[derive(Debug, Default)]
pub(super) struct Acknowledgements {
    waiting: Vec<EntryId>,
    /// When those that wait are to leave.
    by: Option<Instant>,
    /// Entries whose acknowledgement left and was not confirmed.
    unconfirmed: HashSet<EntryId>,
    /// Why some did not arrive that are to be sent again.
    error: Option<Error>,
}

impl Acknowledgements {
    pub(super) fn push(&mut self, entry_id: EntryId) {
        self.waiting.push(entry_id);
    }

    /// How many wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When those that wait are to leave.
    pub(super) fn by(&self) -> Option<Instant> {
        self.by
    }

    /// Sees to it that those that wait leave in time. True where that is news.
    pub(super) fn schedule(&mut self, now: Instant) -> bool {
        let news = !self.waiting.is_empty() && self.by.is_none();
        if news {
            self.by = Some(now + WITHIN);
        }
        news
    }

    /// All that wait, which leave now.
    pub(super) fn take(&mut self) -> Vec<EntryId> {
        self.by = None;
        self.unconfirmed.extend(&self.waiting);
        mem::take(&mut self.waiting)
    }

    /// Some arrived.
    pub(super) fn confirmed(&mut self, entries: &[EntryId]) {
        self.forget(entries);
        if self.waiting.is_empty() && self.unconfirmed.is_empty() {
            self.error = None;
        }
    }

    /// Some did not arrive, and are to be sent again then.
    pub(super) fn again(&mut self, entries: Vec<EntryId>, at: Instant, error: Error) {
        self.forget(&entries);
        self.waiting.extend(entries);
        self.by.get_or_insert(at);
        self.error = Some(error);
    }

    fn forget(&mut self, entries: &[EntryId]) {
        for entry_id in entries {
            self.unconfirmed.remove(entry_id);
        }
    }

    /// Whether none waits, as far as no call is on its way; the reason where they could not be brought to the server yet.
    pub(super) fn outcome(&self) -> Option<Result<(), Error>> {
        match &self.error {
            Some(error) => Some(Err(error.clone())),
            None => self.waiting.is_empty().then_some(Ok(())),
        }
    }

    /// The entries that were handled without the server knowing for certain.
    pub(super) fn open(&self) -> impl Iterator<Item = &EntryId> {
        self.waiting.iter().chain(&self.unconfirmed)
    }
}
