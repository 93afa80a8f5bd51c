//! Removing consumers, which would take what is pending for them out of the group: so a script looks and removes in one
//! step (`lua/remove_consumers.lua`).

use super::{BROKEN, info, unknown};
use crate::error::{Code, Error, Result};
use crate::operation::minter::Minter;
use crate::operation::sent::Sent;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::script::{self, Form, REMOVE_CONSUMERS};
use crate::stream::Key;
use redis::{ServerError, Value};
use std::sync::Arc;
use std::time::Duration;

/// The script with what it is asked.
struct Removal {
    key: Key,
    group: Arc<str>,
    form: Form,
    sent: Sent,
}

impl Removal {
    fn new(key: Key, group: Arc<str>) -> Self {
        Self { key, group, form: Form::Hash, sent: Sent::default() }
    }

    fn command(&self, which: &str, value: &str, commands: &mut Packed) {
        let mut command = REMOVE_CONSUMERS.call(self.form, &[&self.key], 3, commands);
        command.arg(&*self.group).arg(which).arg(value);
    }

    /// The reply, or nothing where the server did not know the script and is to be sent it whole.
    fn reply(&mut self, replies: Vec<Value>) -> Option<Value> {
        match replies.into_iter().next().unwrap_or(Value::Nil) {
            Value::ServerError(error) if script::is_unknown(&error) => {
                self.form = Form::Source;
                self.sent.take_back();
                None
            }
            reply => Some(reply),
        }
    }

    /// The names of those that went.
    fn names(&self, reply: Value) -> Result<Vec<String>> {
        let names = reply::accepted(reply).and_then(reply::list);
        let names = names.and_then(|names| names.into_iter().map(info::name).collect());
        names.map_err(|error: Error| error.about(&*self.key))
    }

    fn abandon(&self, why: Error, what: &str) -> Error {
        match self.sent.is_open() {
            true => unknown(&self.key, what, why.message(), "asking again does no harm"),
            false => why.about(&*self.key),
        }
    }
}

/// Removes one consumer. Where the answer was lost it is asked again; that it is gone then may be this removal's doing.
pub(crate) struct RemoveConsumer {
    removal: Removal,
    consumer: Arc<str>,
}

impl RemoveConsumer {
    pub(crate) fn new(key: Key, group: Arc<str>, consumer: Arc<str>) -> Self {
        Self { removal: Removal::new(key, group), consumer }
    }

    fn holds(&self, error: &ServerError) -> Error {
        let (consumer, group) = (&self.consumer, &self.removal.group);
        let pending = error.details().unwrap_or("some");
        Error::new(
            Code::State,
            format!(
                "pending for the consumer `{consumer}` of the group `{group}`: {pending}; it stays until that is \
                 acknowledged or claimed by another"
            ),
        )
        .about(&*self.removal.key)
    }

    fn what(&self) -> String {
        format!("the removal of the consumer `{}` of the group `{}`", self.consumer, self.removal.group)
    }

    fn gone(&self) -> Error {
        let key = &self.removal.key;
        match self.removal.sent.is_again() {
            true => unknown(key, &self.what(), BROKEN, "the consumer is not there now"),
            false => Error::new(
                Code::Gone,
                format!("there is no consumer `{}` in the group `{}`", self.consumer, self.removal.group),
            )
            .about(&**key),
        }
    }
}

impl Operation for RemoveConsumer {
    type Reply = ();

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        self.removal.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        self.removal.command("CONSUMER", &self.consumer, commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        Step::Done(match self.removal.reply(replies) {
            None => return Step::Again,
            Some(Value::ServerError(error)) if error.code() == "EMQSTATE" => Err(self.holds(&error)),
            Some(names) => self.removal.names(names).and_then(|names| match names.is_empty() {
                true => Err(self.gone()),
                false => Ok(()),
            }),
        })
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.removal.sent.take_back();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // The next server may be another one, which does not know the script.
        self.removal.form = Form::Source;
        self.removal.sent.lost();
        Step::Again
    }

    fn unsent(&mut self) {
        self.removal.sent.take_back();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(self.removal.abandon(why, &self.what()))
    }
}

/// Removes all consumers that hold nothing and are idle. Sent again, it would name others, so it is sent once.
pub(crate) struct SweepConsumers {
    removal: Removal,
    idle: Duration,
}

impl SweepConsumers {
    pub(crate) fn new(key: Key, group: Arc<str>, idle: Duration) -> Self {
        Self { removal: Removal::new(key, group), idle }
    }

    fn what(&self) -> String {
        format!("the removal of idle consumers of the group `{}`", self.removal.group)
    }
}

impl Operation for SweepConsumers {
    type Reply = Vec<String>;

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        self.removal.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        self.removal.command("IDLE", &self.idle.as_millis().to_string(), commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        match self.removal.reply(replies) {
            None => Step::Again,
            Some(names) => Step::Done(self.removal.names(names)),
        }
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.removal.sent.take_back();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        Step::Done(Err(unknown(&self.removal.key, &self.what(), BROKEN, "asking again does no harm")))
    }

    fn unsent(&mut self) {
        self.removal.sent.take_back();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(self.removal.abandon(why, &self.what()))
    }
}
