//! Moving a group to another place of its stream.
//!
//! The end of the stream is turned into a position first, so that the move itself can be sent again: carried out twice, it
//! skips nothing that was appended in between.

use super::{ask_existence, is_decided, is_missing, no_group, unknown};
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

/// `XGROUP SETID`.
pub(crate) struct Seek {
    key: Key,
    group: Arc<str>,
    question: Question,
    sent: Sent,
}

enum Question {
    /// `XINFO STREAM`: where does the stream end?
    End,
    /// `XGROUP SETID`: move there.
    Move(String),
}

impl Seek {
    pub(crate) fn new(key: Key, group: Arc<str>, start: Start) -> Self {
        let question = match start {
            Start::New => Question::End,
            start => Question::Move(start.entry_id_text()),
        };
        Self { key, group, question, sent: Sent::default() }
    }

    fn ended(&mut self, reply: Value) -> Result<Step<()>> {
        if let Value::ServerError(error) = &reply
            && reply::is_no_such_key(error)
        {
            return Err(no_group(&self.key, &self.group));
        }
        let end = reply::entry_id(reply::Members::read(reply)?.take("last-generated-id"))?;
        self.question = Question::Move(end.to_string());
        Ok(Step::Again)
    }

    fn moved(&self, reply: Value, missing: bool) -> Result<()> {
        match reply::accepted(reply) {
            Ok(_) => Ok(()),
            Err(_) if missing => Err(no_group(&self.key, &self.group)),
            Err(error) => Err(error),
        }
    }
}

impl Operation for Seek {
    type Reply = ();

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        if let Question::Move(_) = self.question {
            self.sent.begin();
        }
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        match &self.question {
            Question::End => {
                commands.command(3).arg("XINFO").arg("STREAM").arg(&*self.key);
            }
            Question::Move(position) => {
                let mut command = commands.command(5);
                command.arg("XGROUP").arg("SETID").arg(&*self.key).arg(&*self.group).arg(position);
                drop(command);
                ask_existence(&self.key, commands);
            }
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let mut replies = replies.into_iter();
        let reply = replies.next().unwrap_or(Value::Nil);
        let step = match self.question {
            Question::End => self.ended(reply),
            Question::Move(_) => self
                .moved(reply, is_missing(replies.next().unwrap_or(Value::Nil)))
                .map(|()| Step::Done(Ok(()))),
        };
        step.unwrap_or_else(|error| Step::Done(Err(error.about(&*self.key))))
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
        let what = format!("moving the group `{}`", self.group);
        Err(match self.sent.is_open() {
            true => unknown(&self.key, &what, why.message(), "moving it again does no harm"),
            false => why.about(&*self.key),
        })
    }
}
