//! New entries: those that no consumer of the group was given before (`docs/protocol.md` §6.3).

use super::member::Member;
use super::page::Page;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::time::Duration;

/// `XREADGROUP GROUP g c COUNT n BLOCK ms STREAMS key >`, on a lane.
pub(crate) struct ReadNew {
    pub(crate) member: Member,
    pub(crate) count: usize,
    /// How long the server waits for an entry. Never nothing, which would be for ever.
    pub(crate) block: Duration,
}

impl Operation for ReadNew {
    type Reply = Page;

    fn commands(&self, commands: &mut Packed) {
        let mut command = self.member.read(7, commands);
        command.arg("COUNT").number(self.count as u64);
        command.arg("BLOCK").number((self.block.as_millis() as u64).max(1));
        command.arg("STREAMS").arg(&*self.member.key).arg(">");
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        // Whether the group is gone, the server a replica, or nothing has happened: the next answer tells.
        if reply::is_unblocked(&reply) {
            return Step::Again;
        }
        Step::Done(
            reply::stream_entries(reply)
                .map(Page::first_time)
                .map_err(|error| error.about(&*self.member.key)),
        )
    }
}
