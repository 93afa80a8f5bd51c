//! What a group gave out: entries with how often each was delivered (`docs/protocol.md` §6.5 and §6.9).

use super::member::Member;
use crate::error::Result;
use crate::id::entry_id::EntryId;
use crate::record::Record;
use crate::record::packed::Packed;
use crate::record::reply::{self, Entry};
use redis::Value;

/// Entries that a group gave to one of its consumers.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Each with its delivery count, this delivery included.
    pub(crate) deliveries: Vec<(Record, u64)>,
    /// Entries that are pending although their data was trimmed away.
    pub(crate) removed: Vec<EntryId>,
    /// The last entry looked at; nothing where there was none.
    pub(crate) last: Option<EntryId>,
    /// How many entries came, and about how many bytes they have.
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
}

impl Page {
    /// A page of new entries, each delivered for the first time.
    pub(super) fn first_time(entries: Vec<Entry>) -> Self {
        let mut page = Self::default();
        page.deliveries.reserve_exact(entries.len());
        page.entries = entries.len();
        for entry in entries {
            page.last = Some(entry.entry_id());
            match entry {
                Entry::Record(record) => {
                    page.bytes += record.size();
                    page.deliveries.push((record, 1));
                }
                Entry::Removed(entry_id) => page.removed.push(entry_id),
            }
        }
        page
    }

    /// Leaves out whatever lies behind an entry.
    pub(super) fn keep_up_to(&mut self, up_to: EntryId) {
        self.deliveries.retain(|(record, _)| record.entry_id() <= up_to);
        self.removed.retain(|entry_id| *entry_id <= up_to);
    }

    /// `XPENDING key group <id> <id> 1 <consumer>` for each entry: one round trip for all counts.
    pub(super) fn ask_counts(&self, member: &Member, commands: &mut Packed) {
        for (record, _) in &self.deliveries {
            let entry_id = record.entry_id().text();
            commands
                .command(7)
                .arg("XPENDING")
                .arg(&*member.key)
                .arg(&*member.group)
                .arg(entry_id.as_bytes())
                .arg(entry_id.as_bytes())
                .arg("1")
                .arg(&*member.consumer);
        }
    }

    /// Takes the counts. What is not pending for this consumer any longer is settled or in other hands, and left out.
    pub(super) fn take_counts(&mut self, replies: Vec<Value>) -> Result<()> {
        let deliveries = std::mem::take(&mut self.deliveries);
        for ((record, _), reply) in deliveries.into_iter().zip(replies) {
            if let Some(count) = reply::delivery_count(reply)? {
                self.deliveries.push((record, count));
            }
        }
        Ok(())
    }
}
