//! Entries that were delivered before and never got a verdict: one of them may have killed its process.
//!
//! Where deliveries are counted against `max_attempts` such entries are fetched and handled one at a time, and the next one
//! only when the server has the verdict on the last. So the one in hand when a process dies is the one whose count rises, and
//! no entry beside it becomes a dead letter.

use crate::id::entry_id::EntryId;
use std::collections::HashSet;

/// How many failed entries are remembered; beyond them all are suspects again when they come back.
const MAX_FAILED: usize = 10_000;

/// Which entries are suspects.
#[derive(Debug)]
pub(super) struct Suspects {
    /// Deliveries are counted.
    watched: bool,
    /// Fetched, and without a verdict that the server knows of.
    held: HashSet<EntryId>,
    /// Their handlers failed here and killed nothing, so they may come back together with others.
    failed: HashSet<EntryId>,
    /// Whoever pulls found nothing.
    hungry: bool,
}

impl Suspects {
    pub(super) fn new(watched: bool) -> Self {
        Self { watched, held: HashSet::new(), failed: HashSet::new(), hungry: false }
    }

    /// An entry was fetched.
    pub(super) fn fetched(&mut self, entry_id: EntryId, attempts: u64) {
        if self.watched && attempts > 1 && !self.failed.remove(&entry_id) {
            self.held.insert(entry_id);
        }
    }

    /// The handler of an entry failed.
    pub(super) fn failed(&mut self, entry_id: EntryId) {
        if self.watched {
            if self.failed.len() == MAX_FAILED {
                self.failed.clear();
            }
            self.failed.insert(entry_id);
        }
    }

    pub(super) fn contains(&self, entry_id: EntryId) -> bool {
        self.held.contains(&entry_id)
    }

    /// The server knows the verdict on an entry, or it stays pending without one. True where it was a suspect.
    pub(super) fn cleared(&mut self, entry_id: EntryId) -> bool {
        self.held.remove(&entry_id)
    }

    /// How many of so many entries that were delivered before may be fetched now.
    ///
    /// Whoever pulls entries and keeps them must not wait for ever: where nothing else is there, the next one is fetched
    /// beside those in hand.
    pub(super) fn limit(&self, entries: usize, in_hand: impl Fn(&EntryId) -> bool) -> usize {
        match self.watched {
            false => entries,
            true if self.held.is_empty() || (self.hungry && self.held.iter().all(in_hand)) => entries.min(1),
            true => 0,
        }
    }

    /// Whoever pulls found nothing. True where that is news.
    pub(super) fn hunger(&mut self) -> bool {
        self.watched && !std::mem::replace(&mut self.hungry, true)
    }

    pub(super) fn fed(&mut self) {
        self.hungry = false;
    }
}
