//! How much a consumer fetches: entries and bytes, by its readers and by its scan.

use super::{Phase, State};
use crate::id::entry_id::EntryId;
use std::time::Instant;

impl State {
    /// How many entries are held ahead of the handlers, or about to be.
    fn ahead(&self) -> usize {
        self.buffer.len() + self.lent.iter().sum::<usize>() + self.scan.reserved() + self.reading
    }

    /// How many entries may be held ahead of the handlers: `count`, or as many as fit into a page.
    fn most(&self) -> usize {
        self.pages.next()
    }

    /// How many more entries fit beside those that are held ahead, as far as sizes are known.
    fn fitting(&self) -> usize {
        let ahead = self.ahead();
        let elsewhere = ahead - self.buffer.len();
        let fitting = self.pages.beside(self.bytes.saturating_add(self.pages.expected(elsewhere)));
        if ahead == 0 { fitting.max(1) } else { fitting }
    }

    /// How many entries to fetch now: none while enough are held ahead of the handlers.
    pub(in crate::group) fn room(&self) -> usize {
        let (ahead, most) = (self.ahead(), self.most());
        let enough = ahead > most / 2 && ahead >= self.wanted;
        if self.paused || self.phase != Phase::Running || enough {
            0
        } else {
            most.saturating_sub(ahead).min(self.fitting())
        }
    }

    /// How many new entries another read is to ask for: half of what may be held, so that the server works on the next
    /// read while the entries of the last one are handled. One place is left to the scan for idle entries.
    pub(super) fn read_size(&self) -> usize {
        if self.paused || self.phase != Phase::Running {
            return 0;
        }
        let (ahead, most) = (self.ahead(), self.most());
        let spare = usize::from(most > 1 && self.wanted < most);
        let room = most.saturating_sub(ahead + spare);
        let worth_it =
            2 * (room + spare) >= most || (self.reading == 0 && (ahead <= most / 2 || ahead < self.wanted));
        if worth_it { room.min(most.div_ceil(2)).min(self.fitting()) } else { 0 }
    }

    /// A page has come: so many entries of so many bytes.
    pub(in crate::group) fn page_came(&mut self, entries: usize, bytes: usize) {
        self.pages.came(entries, bytes);
    }

    /// A page of so many entries was on its way when the connection broke, or did not come in time.
    pub(in crate::group) fn page_cut(&mut self, entries: usize) {
        self.pages.cut(entries);
    }

    /// A read is sent: how many entries it is to ask for. Nothing while there is no room.
    pub(in crate::group) fn begin_read(&mut self) -> Option<usize> {
        let size = self.read_size();
        self.reading += size;
        (size > 0).then_some(size)
    }

    /// A read was answered, or will not be.
    pub(in crate::group) fn end_read(&mut self, size: usize) {
        self.reading -= size;
    }

    /// For each that waits for room, whether it has some: a read of new entries, one of entries that were delivered before,
    /// and the scan where there is something that waits for it.
    pub(super) fn rooms(&self) -> [bool; 3] {
        let scan = self.scan.waits() && self.scan_room() > 0;
        [self.read_size() > 0, self.redelivery_room() > 0, scan]
    }

    /// Whether there is room now for one that had none before.
    pub(super) fn has_room_again(&self, before: [bool; 3]) -> bool {
        before.iter().zip(self.rooms()).any(|(had, has)| has && !had)
    }

    /// How many entries to fetch now that were delivered before.
    pub(in crate::group) fn redelivery_room(&self) -> usize {
        self.suspects.limit(self.room(), |entry_id| self.hand.contains_key(entry_id))
    }

    /// Where a scan is to begin and how many entries it may bring; nothing while none is wanted, there is no room, or one
    /// is under way.
    pub(in crate::group) fn begin_scan(&mut self, now: Instant, beat: bool) -> Option<(EntryId, usize)> {
        if !self.scan.is_wanted(now, beat) {
            return None;
        }
        let count = self.scan_room();
        (count > 0).then(|| (self.scan.begin(now, count), count))
    }

    /// How many entries a scan may bring.
    pub(super) fn scan_room(&self) -> usize {
        if self.paused || self.phase != Phase::Running {
            return 0;
        }
        // A read that is blocked leaves one place; where there is only one it must not keep it for itself.
        let reading = if self.most() == 1 { self.reading } else { 0 };
        let count = self.most().saturating_sub(self.ahead() - reading);
        self.suspects.limit(count, |entry_id| self.hand.contains_key(entry_id))
    }

    /// A scan ended, there and with so many entries of those it asked for at last, or failed.
    pub(in crate::group) fn scan_ended(&mut self, found: Option<(EntryId, usize, usize)>) {
        self.scan.end(found);
        self.attention = true;
    }
}
