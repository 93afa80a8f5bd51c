//! The door of a group: it exists, and where it begins is pinned on the server (`docs/protocol.md` §6.1).

use crate::error::{Code, Error, Result};
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::stream::Key;
use crate::stream::start::Start;
use redis::Value;
use std::sync::Arc;

/// Where the group is to begin if it has to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// Where its user said.
    Start(Start),
    /// Behind the last entry that is known to have been given out: the group was there before and was lost.
    Position(EntryId),
}

/// `XGROUP CREATE key group <start> MKSTREAM`; that the group is there already is no error.
pub(crate) struct OpenDoor {
    key: Key,
    group: Arc<str>,
    from: From,
    question: Question,
    created: bool,
}

/// What the door found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Whether the group had to be made.
    pub(crate) created: bool,
    /// What lies behind this entry has not been given to any consumer yet.
    pub(crate) position: EntryId,
}

#[derive(Clone, Debug)]
enum Question {
    /// `XINFO STREAM`: is this still the stream whose group was lost?
    Stream(EntryId),
    /// `XGROUP CREATE`, beginning there.
    Create(String),
    /// `XINFO GROUPS`: where does it stand?
    Position,
}

impl OpenDoor {
    pub(crate) fn new(key: Key, group: Arc<str>, from: From) -> Self {
        let question = match from {
            From::Start(start) => Question::Create(start.entry_id_text()),
            From::Position(position) => Question::Stream(position),
        };
        Self { key, group, from, question, created: false }
    }

    /// A stream that is gone, or whose last id is lower than what was given out, is another stream: all of it is unseen.
    fn begin(reply: Value, position: EntryId) -> Result<String> {
        if let Value::ServerError(error) = &reply
            && reply::is_no_such_key(error)
        {
            return Ok(EntryId::MIN.to_string());
        }
        let last = reply::member(reply, "last-generated-id")?.unwrap_or(Value::Nil);
        let last = EntryId::parse(reply::bytes(last)?)?;
        Ok(if last < position { EntryId::MIN } else { position }.to_string())
    }

    fn position(&self, reply: Value) -> Result<EntryId> {
        if let Value::ServerError(error) = &reply
            && reply::is_no_such_key(error)
        {
            return Err(self.vanished());
        }
        for group in reply::list(reply::accepted(reply)?)? {
            if reply::member(group.clone(), "name")?.map(reply::bytes).transpose()?.as_deref()
                == Some(self.group.as_bytes())
            {
                let last = reply::member(group, "last-delivered-id")?.unwrap_or(Value::Nil);
                return EntryId::parse(reply::bytes(last)?);
            }
        }
        Err(self.vanished())
    }

    fn vanished(&self) -> Error {
        Error::new(Code::NoGroup, format!("the group {} vanished while its door was opened", self.group))
    }

    fn step(&mut self, reply: Value) -> Result<Option<Opened>> {
        match (&self.question, reply) {
            (Question::Stream(position), reply) => {
                self.question = Question::Create(Self::begin(reply, *position)?);
            }
            (Question::Create(_), Value::ServerError(error)) if error.code() == "BUSYGROUP" => {
                self.question = Question::Position;
            }
            (Question::Create(_), reply) => {
                reply::accepted(reply)?;
                self.created = true;
                self.question = Question::Position;
            }
            (Question::Position, reply) => {
                return Ok(Some(Opened { created: self.created, position: self.position(reply)? }));
            }
        }
        Ok(None)
    }
}

impl Operation for OpenDoor {
    type Reply = Opened;

    fn commands(&self, commands: &mut Packed) {
        match &self.question {
            Question::Stream(_) => {
                commands.command(3).arg("XINFO").arg("STREAM").arg(&*self.key);
            }
            Question::Create(begin) => {
                let mut command = commands.command(6);
                command.arg("XGROUP").arg("CREATE").arg(&*self.key).arg(&*self.group);
                command.arg(begin).arg("MKSTREAM");
            }
            Question::Position => {
                commands.command(3).arg("XINFO").arg("GROUPS").arg(&*self.key);
            }
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        match self.step(replies.into_iter().next().unwrap_or(Value::Nil)) {
            Ok(Some(opened)) => Step::Done(Ok(opened)),
            Ok(None) => Step::Again,
            Err(error) => Step::Done(Err(error.about(&*self.key))),
        }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // Whether it was made is not known any longer, but it is made only once.
        *self = Self::new(self.key.clone(), self.group.clone(), self.from);
        Step::Again
    }
}
