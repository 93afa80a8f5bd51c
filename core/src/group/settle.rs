//! Telling the group what became of its entries (`docs/protocol.md` §6.6 and §6.7).

use super::member::Member;
use crate::error::Result;
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::script::{self, Form, KEEP_PENDING};
use redis::Value;
use std::time::Duration;

/// `XACK key group id…`: asked again after a lost reply, it changes nothing more.
pub(crate) struct Acknowledge {
    pub(crate) member: Member,
    pub(crate) entries: Vec<EntryId>,
}

impl Operation for Acknowledge {
    type Reply = u64;

    fn commands(&self, commands: &mut Packed) {
        let mut command = commands.command(3 + self.entries.len());
        command.arg("XACK").arg(&*self.member.key).arg(&*self.member.group);
        for entry_id in &self.entries {
            command.arg(entry_id.text().as_bytes());
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        Step::Done(reply::count(reply).map_err(|error| error.about(&*self.member.key)))
    }
}

/// `keep_pending.lua`: says how long the entries that are pending for this consumer have been idle.
///
/// With no time at all they are kept from being reclaimed; with the whole of `min_idle` any consumer may take them at
/// once.
pub(crate) struct KeepPending {
    member: Member,
    idle: Duration,
    entries: Vec<EntryId>,
    form: Form,
}

impl KeepPending {
    pub(crate) fn new(member: Member, idle: Duration, entries: Vec<EntryId>) -> Self {
        Self { member, idle, entries, form: Form::Hash }
    }

    fn read(reply: Value) -> Result<u64> {
        reply::count(reply)
    }
}

impl Operation for KeepPending {
    /// How many were still pending for the consumer.
    type Reply = u64;

    fn commands(&self, commands: &mut Packed) {
        let Member { key, group, consumer } = &self.member;
        let mut command = KEEP_PENDING.call(self.form, &[key], 3 + self.entries.len(), commands);
        command.arg(&**group).arg(&**consumer).number(self.idle.as_millis() as u64);
        for entry_id in &self.entries {
            command.arg(entry_id.text().as_bytes());
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        match replies.into_iter().next().unwrap_or(Value::Nil) {
            Value::ServerError(error) if script::is_unknown(&error) => {
                self.form = Form::Source;
                Step::Again
            }
            reply => Step::Done(Self::read(reply).map_err(|error| error.about(&*self.member.key))),
        }
    }
}

/// `XPENDING key group (<after> + 1000 consumer`: what is pending for this consumer behind an entry.
pub(crate) struct Unseen {
    pub(crate) member: Member,
    pub(crate) after: EntryId,
}

impl Operation for Unseen {
    type Reply = Vec<EntryId>;

    fn commands(&self, commands: &mut Packed) {
        let after = format!("({}", self.after);
        let mut command = commands.command(7);
        command.arg("XPENDING").arg(&*self.member.key).arg(&*self.member.group);
        command.arg(after).arg("+").arg("1000").arg(&*self.member.consumer);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        Step::Done(reply::pending_entries(reply).map_err(|error| error.about(&*self.member.key)))
    }
}
