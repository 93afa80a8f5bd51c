//! Reading a range, a page at a time, so that memory stays bounded (`docs/protocol.md` §5).

use super::Key;
use super::page_size::{PAGE_BYTES, PageSize};
use super::range::Range;
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::{Record, reply};
use redis::Value;
use std::ops::Bound;

/// How many records a page has unless the reader says otherwise.
const PAGE: usize = 1_000;

/// Where a reader stands in its range.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    key: Key,
    from: Bound<EntryId>,
    to: Bound<EntryId>,
    newest_first: bool,
    remaining: Option<u64>,
    size: PageSize,
    ended: bool,
}

impl Cursor {
    pub(crate) fn new(key: Key, range: Range, newest_first: bool) -> Self {
        let (from, to) = range.bounds();
        let size = PageSize::new(PAGE, PAGE_BYTES).with(key.sizes());
        Self { key, from, to, newest_first, remaining: None, size, ended: false }
    }

    /// Gives no more than that many records in all.
    pub(crate) fn limit(&mut self, records: u64) {
        self.remaining = Some(records);
    }

    /// Asks for that many records at a time at most, and at least one.
    pub(crate) fn page(&mut self, records: u64) {
        self.size = self.size.with_max_entries(usize::try_from(records).unwrap_or(usize::MAX));
    }

    /// Asks for about that many bytes at a time at most, and at least one.
    pub(crate) fn page_bytes(&mut self, bytes: u64) {
        self.size = self.size.with_max_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// The next page to ask for; nothing at the end.
    pub(crate) fn next(&self) -> Option<ReadPage> {
        if self.ended || self.remaining == Some(0) {
            return None;
        }
        let (from, to, newest_first) = (self.from, self.to, self.newest_first);
        let (size, remaining) = (self.size, self.remaining);
        Some(ReadPage { key: self.key.clone(), from, to, newest_first, size, remaining })
    }

    /// Moves behind a page that was read, and answers its records.
    pub(crate) fn advance(&mut self, page: Page) -> Vec<Record> {
        let Page { records, asked, size } = page;
        self.size = size;
        self.size.teach(self.key.sizes());
        let Some(last) = records.last() else {
            self.ended = true;
            return records;
        };
        self.ended = (records.len() as u64) < asked;
        if let Some(remaining) = &mut self.remaining {
            *remaining -= (records.len() as u64).min(*remaining);
        }
        let (moved, end) = match self.newest_first {
            true => (&mut self.to, EntryId::MIN),
            false => (&mut self.from, EntryId::MAX),
        };
        *moved = Bound::Excluded(last.entry_id());
        // The server takes no bound beyond the last position there is.
        self.ended |= last.entry_id() == end;
        records
    }

    /// A page did not come in time, after it was asked for in the size it ended with.
    pub(crate) fn cut(&mut self) {
        let asked = asked(&self.size, self.remaining);
        self.size.cut(usize::try_from(asked).unwrap_or(usize::MAX));
        self.size.teach(self.key.sizes());
    }
}

/// How many records to ask for.
fn asked(size: &PageSize, remaining: Option<u64>) -> u64 {
    let next = size.next() as u64;
    remaining.map_or(next, |remaining| remaining.min(next))
}

/// A page that was read.
#[derive(Debug)]
pub(crate) struct Page {
    records: Vec<Record>,
    /// How many records it was asked for.
    asked: u64,
    /// What is known of sizes now.
    size: PageSize,
}

/// `XRANGE` or `XREVRANGE` of one page.
#[derive(Debug)]
pub(crate) struct ReadPage {
    key: Key,
    from: Bound<EntryId>,
    to: Bound<EntryId>,
    newest_first: bool,
    size: PageSize,
    remaining: Option<u64>,
}

impl Operation for ReadPage {
    type Reply = Page;

    fn commands(&self, commands: &mut Packed) {
        let (from, to) = (spell(self.from), spell(self.to));
        let (name, first, second) =
            if self.newest_first { ("XREVRANGE", to, from) } else { ("XRANGE", from, to) };
        let mut command = commands.command(6);
        command.arg(name).arg(&*self.key).arg(first).arg(second).arg("COUNT");
        command.number(asked(&self.size, self.remaining));
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        let page = reply::records(reply).map(|records| {
            let asked = asked(&self.size, self.remaining);
            self.size.came(records.len(), records.iter().map(Record::size).sum());
            Page { records, asked, size: self.size }
        });
        Step::Done(page.map_err(|error| error.about(&*self.key)))
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // It may have been more than the way, or the server, carries at once.
        let asked = asked(&self.size, self.remaining);
        self.size.cut(usize::try_from(asked).unwrap_or(usize::MAX));
        Step::Again
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
