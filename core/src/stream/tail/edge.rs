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
    /// How many were ever added.
    added: u64,
    /// The first entry that is there.
    first: Option<EntryId>,
    /// The last entry that was ever there.
    last: EntryId,
}

impl Edge {
    const NOTHING: Self = Self { length: 0, added: 0, first: None, last: EntryId::MIN };

    pub(super) fn read(reply: Value) -> Result<Self> {
        if let Value::ServerError(error) = &reply
            && reply::is_no_such_key(error)
        {
            return Ok(Self::NOTHING);
        }
        let number = |name| reply::member(reply.clone(), name)?.map_or(Ok(0), reply::count);
        let last = reply::member(reply.clone(), "last-generated-id")?.map_or(Ok(EntryId::MIN), reply::entry_id);
        let first = match reply::member(reply.clone(), "first-entry")? {
            None | Some(Value::Nil) => None,
            Some(entry) => reply::list(entry)?.into_iter().next().map(reply::entry_id).transpose()?,
        };
        Ok(Self { length: number("length")?, added: number("entries-added")?, first, last: last? })
    }

    /// How many entries have left the stream.
    fn removed(&self) -> u64 {
        self.added.saturating_sub(self.length)
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
/// gap may then be told where none is, never the other way round.
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
            None => Self { after: edge.last, number: Some(edge.added), is_entry: true },
            Some(EntryId::MIN) => Self { after: EntryId::MIN, number: Some(edge.removed()), is_entry: false },
            Some(after) => {
                let number = (after >= edge.last && edge.added > 0).then_some(edge.added);
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
            Some(begin) => read.iter().position(|entry_id| *entry_id == begin).and_then(|at| {
                (edge.removed() + 1).checked_sub(at as u64)
            }),
        };
        let missing = match (begins, self.number, number) {
            (None, ..) if edge.first.is_some() => false,
            (_, Some(before), Some(number)) => number != before + 1,
            _ => self.is_entry || edge.removed() > 0,
        };
        let gap = missing.then(|| Gap::new(self.after, *first));
        let number = match number {
            _ if *last == edge.last => Some(edge.added),
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
        let missing = self.number != Some(edge.added);
        let gap = missing.then(|| Gap::new(self.after, edge.last));
        *self = Self { after: edge.last, number: Some(edge.added), is_entry: true };
        gap
    }
}
