//! What `XINFO STREAM` says of a record that an append was refused for: whether it may have been there
//! (`docs/protocol.md` §4, lost replies).

use super::Key;
use crate::error::Result;
use crate::id::entry_id::EntryId;
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamInfo {
    length: u64,
    /// The last entry that was ever there.
    last: EntryId,
    /// The first one that is there.
    first: Option<EntryId>,
    /// The greatest that was removed by its id; nothing where the server does not say so.
    max_deleted: Option<EntryId>,
    /// How many were ever added; nothing where the server does not say so.
    added: Option<u64>,
}

impl StreamInfo {
    const NO_KEY: Self =
        Self { length: 0, last: EntryId::MIN, first: None, max_deleted: Some(EntryId::MIN), added: Some(0) };

    /// A member that the reply does not have is unknown, never 0.
    pub(crate) fn read(reply: Value) -> Result<Self> {
        if let Value::ServerError(error) = &reply
            && reply::is_no_such_key(error)
        {
            return Ok(Self::NO_KEY);
        }
        let mut members = reply::Members::read(reply)?;
        let first = match members.take("first-entry") {
            Value::Nil => None,
            entry => Some(reply::record(entry)?.entry_id()),
        };
        let max_deleted = match members.take("max-deleted-entry-id") {
            Value::Nil => None,
            id => Some(reply::entry_id(id)?),
        };
        Ok(Self {
            length: reply::count(members.take("length"))?,
            last: reply::entry_id(members.take("last-generated-id"))?,
            first,
            max_deleted,
            added: reply::optional_count(members.take("entries-added"))?,
        })
    }

    /// The stream's top.
    pub(crate) fn last(&self) -> EntryId {
        self.last
    }

    /// How many entries were ever added, where the server says so.
    pub(crate) fn added(&self) -> Option<u64> {
        self.added
    }

    /// Whether an entry that is not there may have been there and removed since.
    ///
    /// `seen` is how many entries had been added when this client last knew: a key that was made again has fewer. Where
    /// it never knew, nobody can tell.
    pub(crate) fn may_have_held(&self, id: EntryId, seen: Option<u64>) -> bool {
        let made_again = match (self.added, seen) {
            (Some(added), Some(seen)) => added < seen,
            _ => true,
        };
        self.length == 0
            || self.first.is_none_or(|first| first > id)
            || self.max_deleted.is_none_or(|deleted| deleted >= id)
            || made_again
    }
}

/// `XINFO STREAM key`
pub(crate) fn ask(key: &Key, commands: &mut Packed) {
    commands.command(3).arg("XINFO").arg("STREAM").arg(&**key);
}

/// How many entries had been added to a stream when this client last knew.
#[derive(Debug)]
pub(crate) struct Seen(AtomicU64);

const NEVER: u64 = u64::MAX;
/// Somebody asks for it.
const ASKED: u64 = u64::MAX - 1;

impl Seen {
    pub(crate) const fn never() -> Self {
        Self(AtomicU64::new(NEVER))
    }

    /// Nothing where it was never known.
    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|added| *added < ASKED)
    }

    /// What was known before, or has been learnt of the same stream since. What is known now may be of a stream that was made
    /// anew meanwhile, which tells nothing of the one that was known before.
    pub(crate) fn since(&self, before: Option<u64>) -> Option<u64> {
        before.map(|before| self.get().map_or(before, |now| now.max(before)))
    }

    /// Takes what the server said. What it did not say is not known.
    pub(crate) fn set(&self, added: Option<u64>) {
        self.0.store(added.filter(|added| *added < ASKED).unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// So many more were acknowledged.
    pub(crate) fn add(&self, records: usize) {
        let more = |added: u64| (added < ASKED).then(|| added.saturating_add(records as u64).min(ASKED - 1));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    /// Whether the caller is to ask for it: it was never known, and nobody else asks.
    pub(crate) fn claim(&self) -> bool {
        self.0.compare_exchange(NEVER, ASKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The answer will not come: the next may ask.
    pub(crate) fn release(&self) {
        let _ = self.0.compare_exchange(ASKED, NEVER, Ordering::Relaxed, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(members: &str) -> StreamInfo {
        let members: Vec<&str> = members.split(' ').collect();
        let mut reply = format!("*{}\r\n", members.len());
        for member in members {
            match member.strip_prefix(':') {
                Some(number) => reply.push_str(&format!(":{number}\r\n")),
                None if member == "nil" => reply.push_str("$-1\r\n"),
                None if member.starts_with("entry=") => {
                    let id = &member[6..];
                    reply.push_str(&format!("*2\r\n+{id}\r\n*2\r\n+k\r\n+v\r\n"));
                }
                None => reply.push_str(&format!("+{member}\r\n")),
            }
        }
        StreamInfo::read(redis::parse_redis_value(reply.as_bytes()).unwrap()).unwrap()
    }

    /// The law's list, one line a condition.
    #[test]
    fn what_may_have_been_there() {
        let id = EntryId::new(7, 5);
        let usual =
            "length :2 last-generated-id 9-0 max-deleted-entry-id 7-4 entries-added :9 first-entry entry=7-4";
        assert!(!info(usual).may_have_held(id, Some(9)));
        for (from, to) in [
            ("max-deleted-entry-id 7-4", "max-deleted-entry-id 7-5"),
            ("max-deleted-entry-id 7-4", "max-deleted-entry-id 8-0"),
            ("entry=7-4", "entry=7-6"),
            ("entry=7-4", "nil"),
            ("length :2", "length :0"),
            ("entries-added :9", "entries-added :8"),
            ("entries-added :9 ", ""),
            ("max-deleted-entry-id 7-4 ", ""),
        ] {
            let changed = usual.replace(from, to);
            assert_ne!(changed, usual);
            assert!(info(&changed).may_have_held(id, Some(9)), "{changed}");
        }
        assert!(info(usual).may_have_held(id, None), "it was never seen");
    }

    #[test]
    fn what_was_seen_counts_on() {
        let seen = Seen::never();
        seen.add(3);
        assert_eq!(seen.get(), None);
        assert!(seen.claim());
        assert!(!seen.claim(), "one asks");
        assert_eq!(seen.get(), None);
        seen.release();
        assert!(seen.claim());
        seen.set(Some(5));
        seen.release();
        seen.add(2);
        assert_eq!(seen.get(), Some(7));
        assert!(!seen.claim());
        assert_eq!((seen.since(None), seen.since(Some(6)), seen.since(Some(8))), (None, Some(7), Some(8)));
        seen.set(None);
        assert_eq!(seen.since(Some(8)), Some(8));
        assert!(seen.claim());
    }
}
