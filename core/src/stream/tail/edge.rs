//! Where a stream begins and ends, and whether a reader missed what was trimmed away.

use super::Gap;
use crate::error::Result;
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::stream::Key;
use crate::stream::start::Start;
use redis::Value;

/// How a stream stands: `XINFO STREAM`, or all zero where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    /// How many entries there are.
    length: u64,
    /// How many were ever added; nothing where the server does not say so, as Redis 6.2 does not.
    added: Option<u64>,
    /// The first entry that is there.
    first: Option<EntryId>,
    /// The last entry that was ever there.
    last: EntryId,
    /// How many bytes the first and the last entry have.
    bytes: usize,
}

impl Edge {
    const NOTHING: Self = Self { length: 0, added: Some(0), first: None, last: EntryId::MIN, bytes: 0 };

    /// A count that the reply does not have is unknown, never 0; without a length or a last id it is no such reply.
    pub(super) fn read(reply: Value) -> Result<Self> {
        if let Value::ServerError(error) = &reply
            && reply::is_no_such_key(error)
        {
            return Ok(Self::NOTHING);
        }
        let mut members = reply::Members::read(reply)?;
        let (mut first, mut bytes) = (None, 0);
        for name in ["first-entry", "last-entry"] {
            let entry = match members.take(name) {
                Value::Nil => continue,
                entry => reply::record(entry)?,
            };
            bytes += entry.size();
            first.get_or_insert(entry.entry_id());
        }
        Ok(Self {
            length: reply::count(members.take("length"))?,
            added: reply::optional_count(members.take("entries-added"))?,
            first,
            last: reply::entry_id(members.take("last-generated-id"))?,
            bytes,
        })
    }

    /// How many entries have left the stream; nothing where that is not known.
    fn removed(&self) -> Option<u64> {
        self.added.map(|added| added.saturating_sub(self.length))
    }

    /// About how many bytes the answer has: two entries are in it.
    pub(super) fn size(&self) -> usize {
        self.bytes
    }

    /// How many entries those are.
    pub(super) fn entries(&self) -> usize {
        usize::from(self.first.is_some()) * 2
    }
}

/// `XINFO STREAM key`
pub(super) struct LookAtEdge(Key);

impl LookAtEdge {
    pub(super) fn new(key: Key) -> Self {
        Self(key)
    }

    pub(super) fn command(key: &Key, commands: &mut Packed) {
        commands.command(3).arg("XINFO").arg("STREAM").arg(&**key);
    }
}

impl Operation for LookAtEdge {
    type Reply = Edge;

    fn commands(&self, commands: &mut Packed) {
        Self::command(&self.0, commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        Step::Done(Edge::read(reply).map_err(|error| error.about(&*self.0)))
    }
}

/// Where a reader stands.
///
/// Entries are counted as they are added, so a reader that knows the number of the last one it saw knows whether the next
/// one follows it. Entries that were deleted from the middle of the stream are counted as if they had been trimmed away: a
/// gap may then be told where none is, never the other way round. The same holds where the server does not count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Everything up to here was given.
    after: EntryId,
    /// Which entry of all that were ever added that is; nothing where it is not known.
    number: Option<u64>,
    /// Whether `after` is an entry that was there once, and not just a position.
    is_entry: bool,
}

impl Place {
    /// Where to begin on a stream that stands so. The end of the stream is turned into an id here, once.
    pub(super) fn new(start: Start, edge: &Edge) -> Self {
        let is_entry = matches!(start, Start::After(_));
        match start.position() {
            None => Self { after: edge.last, number: edge.added, is_entry: true },
            Some(EntryId::MIN) => Self { after: EntryId::MIN, number: edge.removed(), is_entry: false },
            Some(after) => {
                let number = edge.added.filter(|added| after >= edge.last && *added > 0);
                Self { after, number, is_entry }
            }
        }
    }

    pub(super) fn after(&self) -> EntryId {
        self.after
    }

    /// Moves behind entries that were read, of a stream that stood so just afterwards; the gap in front of them.
    pub(super) fn advance(&mut self, read: &[EntryId], edge: &Edge) -> Option<Gap> {
        let Some((first, last)) = read.first().zip(read.last()) else { return self.nothing_read(edge) };
        // The number of the first entry read, counted from where the stream begins now.
        let begins = edge.first.filter(|begin| begin >= first);
        let number = match begins {
            // Something up to where this reader stood is still there, so nothing behind it is missing.
            None if edge.first.is_some() => self.number.map(|number| number + 1),
            None => None,
            Some(begin) => read
                .iter()
                .position(|entry_id| *entry_id == begin)
                .and_then(|at| (edge.removed()? + 1).checked_sub(at as u64)),
        };
        let missing = match (begins, self.number, number) {
            (None, ..) if edge.first.is_some() => false,
            (_, Some(before), Some(number)) => number != before + 1,
            _ => self.is_entry || edge.removed().is_none_or(|removed| removed > 0),
        };
        let gap = missing.then(|| Gap::new(self.after, *first));
        let number = match number {
            _ if *last == edge.last => edge.added,
            number => number.map(|number| number + read.len() as u64 - 1),
        };
        *self = Self { after: *last, number, is_entry: true };
        gap
    }

    /// Nothing was there to be read: nothing was added, or all of it is gone again.
    fn nothing_read(&mut self, edge: &Edge) -> Option<Gap> {
        // What is there was added after the read had ended, and is read next.
        if edge.length > 0 || edge.last <= self.after {
            return None;
        }
        let missing = self.number.is_none() || self.number != edge.added;
        let gap = missing.then(|| Gap::new(self.after, edge.last));
        *self = Self { after: edge.last, number: edge.added, is_entry: true };
        gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seq: u64) -> EntryId {
        EntryId::new(1, seq)
    }

    /// A stream as the server keeps it: what is there, and how many were ever added.
    struct Model {
        entries: Vec<EntryId>,
        added: u64,
        /// Whether it says how many were added.
        counts: bool,
    }

    impl Model {
        fn edge(&self) -> Edge {
            Edge {
                length: self.entries.len() as u64,
                added: self.counts.then_some(self.added),
                first: self.entries.first().copied(),
                last: if self.added == 0 { EntryId::MIN } else { at(self.added) },
                bytes: 0,
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Change {
        Append(u64),
        Trim(usize),
        Read(usize),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (1..5_u64).prop_map(Change::Append),
            (0..6_usize).prop_map(Change::Trim),
            (1..6_usize).prop_map(Change::Read),
        ]
    }

    proptest! {
        /// Whatever is appended and trimmed: a reader from the head is told of a gap exactly where it misses something; of a
        /// server that does not count, also where it may have missed something.
        #[test]
        fn a_gap_is_told_exactly_where_something_is_missing(
            before in 0..6_u64,
            kept in 0..6_usize,
            changes in prop::collection::vec(change(), 0..60),
            counts: bool,
        ) {
            let mut model = Model { entries: (1..=before).map(at).collect(), added: before, counts };
            let cut = model.entries.len().saturating_sub(kept);
            model.entries.drain(..cut);
            let mut place = Place::new(Start::Head, &model.edge());
            // The last entry that was given, or that was gone before the reader began.
            let mut given = cut as u64;
            for change in changes {
                match change {
                    Change::Append(count) => {
                        model.entries.extend((model.added + 1..=model.added + count).map(at));
                        model.added += count;
                    }
                    Change::Trim(keep) => {
                        let cut = model.entries.len().saturating_sub(keep);
                        model.entries.drain(..cut);
                    }
                    Change::Read(count) => {
                        let behind = model.entries.iter().filter(|entry_id| **entry_id > place.after());
                        let read: Vec<EntryId> = behind.take(count).copied().collect();
                        let gap = place.advance(&read, &model.edge());
                        let next = read.first().map_or(model.added + 1, |entry_id| entry_id.seq());
                        let missed = next > given + 1;
                        // Whoever has the entry before the first that is there misses nothing, whoever counts.
                        let certain = counts || model.entries.first().is_some_and(|first| first.seq() <= given);
                        let right = if certain { gap.is_some() == missed } else { gap.is_some() || !missed };
                        prop_assert!(right, "{:?} behind {}, read {:?}", gap, given, read);
                        given = read.last().map_or(if missed { model.added } else { given }, |entry_id| entry_id.seq());
                    }
                }
            }
        }
    }

    #[test]
    fn a_place_that_is_gone_is_a_gap_unless_it_was_the_end() {
        let edge = |first: u64, last: u64| Edge {
            length: last + 1 - first,
            added: Some(last),
            first: (first <= last).then(|| at(first)),
            last: at(last),
            bytes: 0,
        };
        let id = |seq| crate::id::branded::EventId::try_from(EntryId::new(1_735_689_600_000, seq)).unwrap();
        // It was the end when the reader began: what follows is counted from there.
        let mut end = Place { after: at(5), number: Some(5), is_entry: true };
        assert_eq!(end.advance(&[at(6)], &edge(6, 6)), None);
        // It is gone, and nobody knows what lay behind it.
        let mut gone = Place { after: at(5), number: None, is_entry: true };
        assert_eq!(gone.advance(&[at(6)], &edge(6, 6)), Some(Gap::new(at(5), at(6))));
        // It is still there.
        let mut there = Place { after: at(5), number: None, is_entry: true };
        assert_eq!(there.advance(&[at(6)], &edge(5, 6)), None);
        assert!(Place::new(Start::After(id(1)), &Edge::NOTHING).number.is_none());
    }
    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    /// `XINFO STREAM` as Redis 6.2 answers it, or as later servers do; a map (RESP3) or a flat list (RESP2).
    fn answer(added: Option<i64>, entries: [u64; 2], resp3: bool) -> Value {
        let entry = |seq: u64| {
            Value::Array(vec![text(&at(seq).to_string()), Value::Array(vec![text("k"), text("v")])])
        };
        let mut members = vec![
            ("length", Value::Int((entries[1] - entries[0] + 1) as i64)),
            ("radix-tree-keys", Value::Int(1)),
            ("radix-tree-nodes", Value::Int(2)),
            ("last-generated-id", text(&at(entries[1]).to_string())),
        ];
        if let Some(added) = added {
            members.push(("max-deleted-entry-id", text("0-0")));
            members.push(("entries-added", Value::Int(added)));
        }
        members.extend([
            ("groups", Value::Int(0)),
            ("first-entry", entry(entries[0])),
            ("last-entry", entry(entries[1])),
        ]);
        let members = members.into_iter().map(|(name, value)| (text(name), value));
        match resp3 {
            true => Value::Map(members.collect()),
            false => Value::Array(members.flat_map(|(name, value)| [name, value]).collect()),
        }
    }

    #[test]
    fn a_count_that_the_server_does_not_give_is_unknown() {
        for resp3 in [false, true] {
            let old = Edge::read(answer(None, [3, 7], resp3)).unwrap();
            assert_eq!((old.length, old.added, old.first, old.last), (5, None, Some(at(3)), at(7)));
            let new = Edge::read(answer(Some(7), [3, 7], resp3)).unwrap();
            assert_eq!((new.added, new.removed()), (Some(7), Some(2)));
            assert!(new.size() > 2 * 64 && new.entries() == 2);
        }
        let nothing = Value::Array(vec![text("length"), Value::Int(0)]);
        assert_eq!(Edge::read(nothing).unwrap_err().code(), crate::error::Code::Server);
    }

    /// A live tail of Redis 6.2 behind which more is trimmed than it has read.
    #[test]
    fn a_tail_of_a_server_that_does_not_count_is_told_what_it_may_have_missed() {
        let edge = |first, last| Edge::read(answer(None, [first, last], false)).unwrap();
        let mut place = Place::new(Start::New, &edge(1, 5));
        assert_eq!(place.advance(&[at(6), at(7)], &edge(4, 7)), None, "what it had seen is still there");
        assert_eq!(place.advance(&[at(20)], &edge(20, 20)), Some(Gap::new(at(7), at(20))));
        assert_eq!(place.advance(&[at(21)], &edge(20, 21)), None);
        assert_eq!(place.advance(&[], &edge(20, 21)), None);
    }
}
