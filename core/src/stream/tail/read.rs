//! One blocking read of a tail.

use super::edge::{Edge, LookAtEdge};
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::Record;
use crate::record::packed::Packed;
use crate::record::reply::{self, Entry};
use crate::stream::Key;
use redis::Value;
use std::time::Duration;

/// `XREAD COUNT n BLOCK ms STREAMS key <after>`, and how the stream stands when that is answered.
pub(super) struct ReadAfter {
    pub(super) key: Key,
    pub(super) after: EntryId,
    pub(super) count: usize,
    /// How long the server waits for an entry. Never nothing, which would be for ever.
    pub(super) block: Duration,
}

impl Operation for ReadAfter {
    type Reply = (Vec<Record>, Edge);

    fn commands(&self, commands: &mut Packed) {
        let mut command = commands.command(8);
        command.arg("XREAD").arg("COUNT").number(self.count as u64);
        command.arg("BLOCK").number((self.block.as_millis() as u64).max(1));
        command.arg("STREAMS").arg(&*self.key).arg(self.after.text().as_bytes());
        drop(command);
        LookAtEdge::command(&self.key, commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let mut replies = replies.into_iter();
        let (entries, edge) = (replies.next().unwrap_or(Value::Nil), replies.next().unwrap_or(Value::Nil));
        let read = || {
            let records = reply::stream_entries(entries)?.into_iter().filter_map(|entry| match entry {
                Entry::Record(record) => Some(record),
                Entry::Removed(_) => None,
            });
            Ok((records.collect(), Edge::read(edge)?))
        };
        Step::Done(read().map_err(|error: crate::error::Error| error.about(&*self.key)))
    }
}
