//! One record, appended once or reported (`docs/protocol.md` §4).

use super::Key;
use super::info::{self, StreamInfo};
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::{Fields, reply};
use redis::Value;

/// Appends one record.
pub(crate) struct Append {
    key: Key,
    record: Appending,
}

impl Append {
    /// Appends under the id given, or under one minted when the record is sent.
    pub(crate) fn new(key: Key, id: Option<EventId>, fields: Fields) -> Self {
        Self { key, record: Appending::new(id, fields) }
    }
}

impl Operation for Append {
    type Reply = EventId;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        self.record.prepare(&self.key, minter)
    }

    fn mints(&self) -> bool {
        self.record.mints()
    }

    fn commands(&self, commands: &mut Packed) {
        self.record.command(&self.key, commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        self.record.answered(&self.key, reply)
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.record.unavailable();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        self.record.lost();
        Step::Again
    }

    fn unsent(&mut self) {
        self.record.unsent();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(self.record.abandon(&self.key, why))
    }

    fn finds_out(&self) -> bool {
        self.record.finds_out()
    }

    fn bytes(&self) -> usize {
        self.record.size()
    }
}

/// A record on its way into a stream.
///
/// Its id makes a lost reply answerable: the entry is looked up, and sent again only where it is missing. A refusal
/// after that may be the first sending's doing, so it is looked up once more; where it is not there then, the stream's
/// `XINFO` says whether it may have been.
#[derive(Debug)]
pub(crate) struct Appending {
    fields: Fields,
    id: Option<EventId>,
    /// Its id is made when it is sent, and made anew where it certainly was not written and has been overtaken.
    minted: bool,
    /// The id is of a leased node, with which no other process writes.
    leased: bool,
    /// What this client knew of the stream before it sent the record first.
    seen: Option<u64>,
    question: Question,
    /// It is on its way, or was and may have been applied.
    sent: bool,
    /// An answer to the append was lost before.
    resent: bool,
    /// A sending was refused because the server could not serve, so a later id of this client may stand above.
    delayed: bool,
}

/// What is being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    /// `XADD`: append it.
    Append,
    /// `XRANGE`: an answer was lost; is it there?
    Lost,
    /// `XRANGE`: it was refused after an answer was lost; is it there?
    Refused,
    /// `XINFO STREAM`: it was refused; what is the top, and may it have been there?
    Top,
}

impl Appending {
    pub(crate) fn new(id: Option<EventId>, fields: Fields) -> Self {
        Self {
            fields,
            minted: id.is_none(),
            id,
            leased: false,
            seen: None,
            question: Question::Append,
            sent: false,
            resent: false,
            delayed: false,
        }
    }

    /// Whether its id is minted when it is sent.
    pub(crate) fn mints(&self) -> bool {
        self.id.is_none()
    }

    /// The bytes of its names and values.
    pub(crate) fn size(&self) -> usize {
        self.fields.size()
    }

    pub(crate) fn prepare(&mut self, key: &Key, minter: &Minter) -> Result<()> {
        if self.id.is_none() {
            self.id = Some(minter.mint()?);
            self.leased = minter.is_leased();
        }
        if !self.sent {
            self.seen = key.seen().get();
        }
        self.sent = true;
        Ok(())
    }

    pub(crate) fn command(&self, key: &Key, commands: &mut Packed) {
        let Some(id) = self.id else { return };
        match self.question {
            Question::Append => self.fields.append_command(key, id, commands),
            Question::Lost | Question::Refused => look_up(key, id, commands),
            Question::Top => info::ask(key, commands),
        }
    }

    pub(crate) fn answered(&mut self, key: &Key, reply: Value) -> Step<EventId> {
        let Some(id) = self.id else { return Step::Done(Err(reply::unexpected("an id", &reply))) };
        match self.question {
            Question::Append => match reply {
                Value::ServerError(error) if reply::is_not_above_top(&error) => {
                    self.ask(if self.resent { Question::Refused } else { Question::Top })
                }
                reply => match confirmed(reply, id) {
                    Ok(id) => Self::written(key, id),
                    // What the first sending did, or will do when its last bytes arrive, nobody knows.
                    Err(error) if self.resent => Step::Done(Err(self.unknown(key, id, error))),
                    Err(error) => Step::Done(Err(error.about(&**key))),
                },
            },
            Question::Lost | Question::Refused => match found(reply, id, &self.fields) {
                Err(error) => Step::Done(Err(self.unknown(key, id, error))),
                Ok(Found::Record) => Self::written(key, id),
                Ok(Found::Another) => Step::Done(Err(taken(key, id))),
                Ok(Found::Nothing) if self.question == Question::Lost => {
                    self.resent = true;
                    self.ask(Question::Append)
                }
                Ok(Found::Nothing) => self.ask(Question::Top),
            },
            Question::Top => self.decided(key, id, StreamInfo::read(reply)),
        }
    }

    /// The server refused the id; where an answer was lost before, `info` says whether the record may have been there.
    fn decided(&mut self, key: &Key, id: EventId, info: Result<StreamInfo>) -> Step<EventId> {
        let seen = key.seen().since(self.seen);
        if let Ok(info) = &info {
            key.seen().set(info.added());
        }
        if !self.resent {
            return Step::Done(Err(refused(key, id, info.ok().map(|info| info.last()))));
        }
        let entry_id = EntryId::from(id);
        match info {
            Err(error) => Step::Done(Err(self.unknown(key, id, error))),
            Ok(info) if info.last() == entry_id && self.leased => Step::Done(Ok(id)),
            Ok(info) if info.may_have_held(entry_id, seen) => {
                Step::Done(Err(self.unknown(key, id, removed_since())))
            }
            Ok(_) if self.minted && self.delayed => {
                self.forget();
                self.resent = false;
                self.ask(Question::Append)
            }
            Ok(info) => Step::Done(Err(refused(key, id, Some(info.last())))),
        }
    }

    fn written(key: &Key, id: EventId) -> Step<EventId> {
        key.seen().add(1);
        Step::Done(Ok(id))
    }

    fn ask(&mut self, question: Question) -> Step<EventId> {
        self.question = question;
        Step::Again
    }

    /// What was asked was not applied. A record that was not written at all may get another id.
    pub(crate) fn unavailable(&mut self) {
        if self.question == Question::Append {
            self.delayed = true;
            if !self.resent {
                self.forget();
            }
        }
    }

    /// Nothing of what was asked had left.
    pub(crate) fn unsent(&mut self) {
        if self.question == Question::Append && !self.resent {
            self.forget();
        }
    }

    /// Whether it is on its way, or was and may have been applied.
    pub(crate) fn is_sent(&self) -> bool {
        self.sent
    }

    /// It certainly was not written.
    pub(crate) fn forget(&mut self) {
        self.sent = false;
        if self.minted {
            self.id = None;
        }
    }

    /// The answer is lost. A record that certainly was not written has none.
    pub(crate) fn lost(&mut self) {
        if self.sent && self.question == Question::Append {
            self.question = Question::Lost;
        }
    }

    pub(crate) fn abandon(&self, key: &Key, why: Error) -> Error {
        match self.id {
            Some(id) if self.question == Question::Top && !self.resent => refused(key, id, None).because(why),
            Some(id) if self.sent => self.unknown(key, id, why),
            _ => why.about(&**key),
        }
    }

    /// Whether an answer was lost that is being asked after.
    pub(crate) fn finds_out(&self) -> bool {
        self.resent || self.question != Question::Append
    }

    fn unknown(&self, key: &Key, id: EventId, why: Error) -> Error {
        Error::new(
            Code::UnknownOutcome,
            format!(
                "the record {id} may or may not have been appended: {}; ask again with append_id",
                why.message()
            ),
        )
        .about(&**key)
        .with_id(id)
        .because(why)
    }
}

/// Why nobody can tell of a record that is not there.
pub(crate) fn removed_since() -> Error {
    Error::new(
        Code::NonMonotonic,
        "an answer was lost, the server refuses the id now, and entries at or above it have been removed since",
    )
}

/// An answer was lost, and another record stands under the id.
pub(crate) fn taken(key: &Key, id: EventId) -> Error {
    let entry_id = EntryId::from(id);
    Error::new(
        Code::NodeConflict,
        format!(
            "another process wrote another record under the id {id} ({entry_id}): it mints with the same node id; this \
             record was not appended"
        ),
    )
    .about(&**key)
    .with_id(id)
}

/// `XRANGE key id id`
pub(crate) fn look_up(key: &Key, id: EventId, commands: &mut Packed) {
    let entry_id = EntryId::from(id).text();
    commands.command(4).arg("XRANGE").arg(&**key).arg(entry_id.as_bytes()).arg(entry_id.as_bytes());
}

/// What stands at an entry id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The record that was sent.
    Record,
    /// An entry that someone else wrote.
    Another,
    Nothing,
}

pub(crate) fn found(reply: Value, id: EventId, fields: &Fields) -> Result<Found> {
    Ok(match reply::records(reply)?.first() {
        Some(record) if record.id() == Some(id) && fields == record => Found::Record,
        Some(_) => Found::Another,
        None => Found::Nothing,
    })
}

fn confirmed(reply: Value, id: EventId) -> Result<EventId> {
    let entry_id = reply::bytes(reply)?;
    if entry_id == EntryId::from(id).text().as_bytes() {
        return Ok(id);
    }
    Err(Error::new(Code::Server, format!("the server appended {id} under {}", entry_id.escape_ascii())))
}

/// What a refusal means, and what to do.
const ANOTHER_WRITER: &str = "another writer is at work on this stream; where several clients append to one stream, each \
                              opens it with `writers` `many`";

/// The refusal of an id that is not above the stream's top.
pub(crate) fn refused(key: &Key, id: EventId, top: Option<EntryId>) -> Error {
    let entry_id = EntryId::from(id);
    let error = match top {
        Some(top) => Error::new(
            Code::NonMonotonic,
            format!(
                "the id {id} ({entry_id}) is not above the stream's top {top}, of the instant {} ms: {ANOTHER_WRITER}",
                top.ms()
            ),
        )
        .with_top(top.to_string()),
        None => Error::new(
            Code::NonMonotonic,
            format!("the id {id} ({entry_id}) is not above the stream's top: {ANOTHER_WRITER}"),
        ),
    };
    error.about(&**key).with_id(id)
}
