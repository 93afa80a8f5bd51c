//! When and where to look for idle entries: those of dead peers, and failed ones whose time has come.

use crate::id::entry_id::EntryId;
use std::collections::BTreeSet;
use std::mem;
use std::time::Instant;

/// How many failed entries are called back on time; those beyond come back with the next beat.
const MAX_DUE: usize = 10_000;

/// How the scan for idle entries stands.
#[derive(Debug)]
pub(super) struct Scan {
    /// Where the next one begins.
    cursor: EntryId,
    /// How many entries the one under way may bring.
    reserved: usize,
    /// The last one found as many as it asked for, so the next follows at once.
    more: bool,
    /// When failed entries are to come back.
    due: BTreeSet<(Instant, EntryId)>,
}

impl Scan {
    pub(super) fn new() -> Self {
        Self { cursor: EntryId::MIN, reserved: 0, more: false, due: BTreeSet::new() }
    }

    /// How many entries the one under way may bring.
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Whether one is to be sent now.
    pub(super) fn is_wanted(&self, now: Instant, beat: bool) -> bool {
        self.reserved == 0 && (beat || self.more || self.has_due(now))
    }

    /// Whether there is something for one to bring, now or later, and none is under way.
    pub(super) fn waits(&self) -> bool {
        self.reserved == 0 && (self.more || !self.due.is_empty())
    }

    /// One is sent that may bring so many entries: where it begins.
    ///
    /// For entries that are called back it begins at the lowest of them; else where the last one ended, so that entries
    /// that fail again and again do not keep it from the rest.
    pub(super) fn begin(&mut self, now: Instant, count: usize) -> EntryId {
        self.reserved = count;
        let later = self.due.split_off(&(now, EntryId::MAX));
        let due = mem::replace(&mut self.due, later);
        due.into_iter().map(|(_, entry_id)| entry_id).min().unwrap_or(self.cursor)
    }

    /// The one under way ended, there and with so many entries of those it asked for at last, or failed.
    pub(super) fn end(&mut self, found: Option<(EntryId, usize, usize)>) {
        if let Some((cursor, found, asked)) = found {
            self.cursor = cursor;
            self.more = found >= asked;
        }
        self.reserved = 0;
    }

    /// A failed entry is to come back then. False where there are too many of them.
    pub(super) fn call_back(&mut self, entry_id: EntryId, at: Instant) -> bool {
        self.due.len() < MAX_DUE && self.due.insert((at, entry_id))
    }

    /// When the next failed entry is to come back.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn has_due(&self, now: Instant) -> bool {
        self.next_due().is_some_and(|at| at <= now)
    }
}
