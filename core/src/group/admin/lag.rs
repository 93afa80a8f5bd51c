//! How many records are ahead of a group: unknown rather than wrong.
//!
//! The server's own number is how many entries were ever added less how many the group has read. Entries that were trimmed
//! away unread stay in it, so it is taken as it is only where nothing was ever removed.

use super::info::StreamInfo;
use crate::id::entry_id::EntryId;

/// Up to how many records are counted to verify the server's number.
const MAX_COUNTED: u64 = 1_000;

/// The lag of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lag {
    Known(u64),
    Unknown,
    /// The server says so many, and it may be fewer.
    AtMost(u64),
}

/// What a snapshot says of the lag of a group that stands at `last_delivered`, and for which the server answered `lag`.
pub(super) fn judge(stream: &StreamInfo, last_delivered: EntryId, lag: Option<u64>) -> Lag {
    let Some(lag) = lag else { return Lag::Unknown };
    match stream.first {
        None => Lag::Known(0),
        Some(_) if last_delivered >= stream.last_generated => Lag::Known(0),
        Some(first) if last_delivered < first => Lag::Known(stream.length),
        Some(_) if stream.added == Some(stream.length) => Lag::Known(lag),
        Some(_) if lag <= MAX_COUNTED => Lag::AtMost(lag),
        Some(_) => Lag::Unknown,
    }
}

/// Counts the records ahead of several groups in one reading: from the group that is furthest behind to the end that the
/// snapshot knew.
#[derive(Debug)]
pub(super) struct Counting {
    after: EntryId,
    to: EntryId,
    at_most: u64,
}

impl Counting {
    /// `groups` are positions and the server's numbers; nothing where there is none.
    pub(super) fn new(groups: impl IntoIterator<Item = (EntryId, u64)>, to: EntryId) -> Option<Self> {
        groups.into_iter().fold(None, |counting, (position, lag)| {
            let Self { after, at_most, .. } = counting.unwrap_or(Self { after: position, to, at_most: lag });
            Some(Self { after: after.min(position), to, at_most: at_most.max(lag) })
        })
    }

    /// The bounds of the reading, and how many entries to read: one more than there are if the numbers are right.
    pub(super) fn range(&self) -> (String, String, u64) {
        (format!("({}", self.after), self.to.to_string(), self.at_most + 1)
    }

    /// The lag of a group that stands at `position`, of which the server says it is `at_most`.
    ///
    /// `entries` is what was read. Where it is more than the server's numbers allow, nothing is known.
    pub(super) fn lag(&self, entries: &[EntryId], position: EntryId, at_most: u64) -> Option<u64> {
        let ahead = entries.iter().filter(|entry| **entry > position).count() as u64;
        (entries.len() as u64 <= self.at_most && ahead <= at_most).then_some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> EntryId {
        EntryId::new(ms, 0)
    }

    fn stream(length: u64, added: Option<u64>, first: Option<u64>, last: u64) -> StreamInfo {
        StreamInfo { length, added, first: first.map(at), last_generated: at(last) }
    }

    #[test]
    fn what_a_snapshot_says() {
        for (stream, position, answered, expected) in [
            // The server does not know, or is too old to say.
            (stream(5, Some(5), Some(1), 5), 3, None, Lag::Unknown),
            (stream(5, None, Some(1), 5), 3, None, Lag::Unknown),
            // All was delivered, whatever the server counts.
            (stream(1, Some(5), Some(5), 5), 5, Some(3), Lag::Known(0)),
            (stream(1, Some(5), Some(5), 5), 9, Some(3), Lag::Known(0)),
            (stream(0, Some(5), None, 5), 1, Some(4), Lag::Known(0)),
            // All that is left is ahead.
            (stream(1, Some(5), Some(5), 5), 1, Some(4), Lag::Known(1)),
            (stream(3, Some(5), Some(3), 5), 0, Some(5), Lag::Known(3)),
            // Nothing was ever removed.
            (stream(5_000, Some(5_000), Some(1), 5_000), 1, Some(4_999), Lag::Known(4_999)),
            // Something was removed, so the number is to be verified, or is too large for that.
            (stream(4, Some(5), Some(2), 5), 2, Some(3), Lag::AtMost(3)),
            (stream(4_000, Some(5_000), Some(1), 5_000), 4_000, Some(1_000), Lag::AtMost(1_000)),
            (stream(4_000, Some(5_000), Some(1), 5_000), 3_999, Some(1_001), Lag::Unknown),
            (stream(4, None, Some(2), 5), 2, Some(3), Lag::AtMost(3)),
        ] {
            assert_eq!(
                judge(&stream, at(position), answered),
                expected,
                "{stream:?} {position} {answered:?}"
            );
        }
    }

    #[test]
    fn one_reading_counts_for_all_groups() {
        assert!(Counting::new([], at(9)).is_none());
        let counting = Counting::new([(at(6), 4), (at(4), 5), (at(8), 1)], at(9)).unwrap();
        assert_eq!(counting.range(), ("(4-0".to_owned(), "9-0".to_owned(), 6));
        let entries = [at(5), at(7), at(9)];
        assert_eq!(counting.lag(&entries, at(4), 5), Some(3));
        assert_eq!(counting.lag(&entries, at(6), 4), Some(2));
        assert_eq!(counting.lag(&entries, at(8), 1), Some(1));
    }

    #[test]
    fn more_than_the_server_counted_is_unknown() {
        let counting = Counting::new([(at(4), 2), (at(8), 1)], at(9)).unwrap();
        let entries = [at(5), at(7), at(9)];
        assert_eq!(counting.lag(&entries, at(4), 2), None);
        assert_eq!(counting.lag(&entries, at(8), 1), None);
        assert_eq!(counting.lag(&entries[1..], at(8), 0), None);
    }
}
