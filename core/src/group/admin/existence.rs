//! Making a group and removing it.
//!
//! A request whose answer was lost is sent again, since a group is made or removed once. Only where the second answer is
//! that there was nothing to do, nobody knows whose doing that was.

use super::{ask_existence, is_decided, is_missing, unknown};
use crate::error::{Error, Result};
use crate::operation::minter::Minter;
use crate::operation::sent::Sent;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::stream::Key;
use crate::stream::start::Start;
use redis::Value;
use std::sync::Arc;

/// `XGROUP CREATE … MKSTREAM`. Answers whether it made the group.
pub(crate) struct CreateGroup {
    key: Key,
    group: Arc<str>,
    start: Start,
    sent: Sent,
}

/// `XGROUP DESTROY`. Answers whether the group was there.
pub(crate) struct RemoveGroup {
    key: Key,
    group: Arc<str>,
    sent: Sent,
}

impl CreateGroup {
    pub(crate) fn new(key: Key, group: Arc<str>, start: Start) -> Self {
        Self { key, group, start, sent: Sent::default() }
    }

    fn unknown(&self, why: &str, advice: &str) -> Error {
        unknown(&self.key, &format!("making the group `{}`", self.group), why, advice)
    }
}

impl Operation for CreateGroup {
    type Reply = bool;

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        self.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        let mut command = commands.command(6);
        command.arg("XGROUP").arg("CREATE").arg(&*self.key).arg(&*self.group);
        command.arg(self.start.entry_id_text()).arg("MKSTREAM");
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        Step::Done(match reply {
            Value::ServerError(error) if error.code() == "BUSYGROUP" => match self.sent.is_again() {
                true => Err(self.unknown(super::BROKEN, "the group is there now")),
                false => Ok(false),
            },
            reply => reply::accepted(reply).map(|_| true).map_err(|error| error.about(&*self.key)),
        })
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.sent.take_back();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        self.sent.lost();
        Step::Again
    }

    fn unsent(&mut self) {
        self.sent.take_back();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(match self.sent.is_open() {
            false => why.about(&*self.key),
            true => self.unknown(why.message(), "making it again does no harm"),
        })
    }
}

impl RemoveGroup {
    pub(crate) fn new(key: Key, group: Arc<str>) -> Self {
        Self { key, group, sent: Sent::default() }
    }

    fn unknown(&self, why: &str, advice: &str) -> Error {
        unknown(&self.key, &format!("the removal of the group `{}`", self.group), why, advice)
    }
}

impl Operation for RemoveGroup {
    type Reply = bool;

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        self.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        commands.command(4).arg("XGROUP").arg("DESTROY").arg(&*self.key).arg(&*self.group);
        ask_existence(&self.key, commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let mut replies = replies.into_iter();
        let removed = reply::count(replies.next().unwrap_or(Value::Nil));
        let missing = is_missing(replies.next().unwrap_or(Value::Nil));
        Step::Done(match removed {
            Ok(1..) => Ok(true),
            Err(error) if !missing => Err(error.about(&*self.key)),
            _ if self.sent.is_again() => Err(self.unknown(super::BROKEN, "the group is not there now")),
            _ => Ok(false),
        })
    }

    fn unavailable(&mut self, replies: Vec<Value>, why: Error) -> Step<Self::Reply> {
        if is_decided(&replies) {
            return self.answered(replies);
        }
        self.sent.take_back();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        self.sent.lost();
        Step::Again
    }

    fn cut(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        if is_decided(&replies) { self.answered(replies) } else { self.lost() }
    }

    fn unsent(&mut self) {
        self.sent.take_back();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(match self.sent.is_open() {
            false => why.about(&*self.key),
            true => self.unknown(why.message(), "look whether the group is there"),
        })
    }
}
