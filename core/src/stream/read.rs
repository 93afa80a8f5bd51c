//! Reading a range, a page at a time, so that memory stays bounded (`docs/protocol.md` §5).

use super::Key;
use super::range::Range;
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::{Record, reply};
use redis::Value;
use std::ops::Bound;

/// How many records a page has unless the reader says otherwise.
const PAGE: u64 = 1_000;

/// Where a reader stands in its range.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    key: Key,
    from: Bound<EntryId>,
    to: Bound<EntryId>,
    newest_first: bool,
    remaining: Option<u64>,
    page: u64,
    ended: bool,
}

impl Cursor {
    pub(crate) fn new(key: Key, range: Range, newest_first: bool) -> Self {
        let (from, to) = range.bounds();
        Self { key, from, to, newest_first, remaining: None, page: PAGE, ended: false }
    }

    /// Gives no more than that many records in all.
    pub(crate) fn limit(&mut self, records: u64) {
        self.remaining = Some(records);
    }

    /// Asks for that many records at a time, at least one.
    pub(crate) fn page(&mut self, records: u64) {
        self.page = records.max(1);
    }

    /// The next page to ask for; nothing at the end.
    pub(crate) fn next(&self) -> Option<ReadPage> {
        let count = self.remaining.map_or(self.page, |remaining| remaining.min(self.page));
        if self.ended || count == 0 {
            return None;
        }
        let (from, to, newest_first) = (self.from, self.to, self.newest_first);
        Some(ReadPage { key: self.key.clone(), from, to, newest_first, count })
    }

    /// Moves behind a page that was read.
    pub(crate) fn advance(&mut self, page: &[Record]) {
        let asked = self.remaining.map_or(self.page, |remaining| remaining.min(self.page));
        let Some(last) = page.last() else {
            self.ended = true;
            return;
        };
        self.ended = (page.len() as u64) < asked;
        if let Some(remaining) = &mut self.remaining {
            *remaining -= (page.len() as u64).min(*remaining);
        }
        let (moved, end) = match self.newest_first {
            true => (&mut self.to, EntryId::MIN),
            false => (&mut self.from, EntryId::MAX),
        };
        *moved = Bound::Excluded(last.entry_id());
        // The server takes no bound beyond the last position there is.
        self.ended |= last.entry_id() == end;
    }
}

/// `XRANGE` or `XREVRANGE` of one page.
#[derive(Debug)]
pub(crate) struct ReadPage {
    key: Key,
    from: Bound<EntryId>,
    to: Bound<EntryId>,
    newest_first: bool,
    count: u64,
}

impl Operation for ReadPage {
    type Reply = Vec<Record>;

    fn commands(&self, commands: &mut Packed) {
        let (from, to) = (spell(self.from), spell(self.to));
        let (name, first, second) =
            if self.newest_first { ("XREVRANGE", to, from) } else { ("XRANGE", from, to) };
        let mut command = commands.command(6);
        command.arg(name).arg(&*self.key).arg(first).arg(second).arg("COUNT").number(self.count);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        Step::Done(reply::records(reply).map_err(|error| error.about(&*self.key)))
    }
}

fn spell(bound: Bound<EntryId>) -> String {
    match bound {
        Bound::Unbounded | Bound::Included(EntryId::MIN) => "-".to_owned(),
        Bound::Included(EntryId::MAX) => "+".to_owned(),
        Bound::Included(id) => id.to_string(),
        Bound::Excluded(id) => format!("({id}"),
    }
}
