//! One record, appended once or reported (`docs/protocol.md` §4).

use super::Key;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::{Fields, Record, reply};
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
        self.record.prepare(minter)
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

    fn lost(&mut self) -> Step<Self::Reply> {
        self.record.lost();
        Step::Again
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
/// after that may be the first sending's doing, so it is looked up once more.
#[derive(Debug)]
pub(crate) struct Appending {
    fields: Fields,
    id: Option<EventId>,
    question: Question,
    /// An answer to the append was lost before.
    resent: bool,
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
    /// `XINFO STREAM`: it was refused; what is the top?
    Top,
}

impl Appending {
    pub(crate) fn new(id: Option<EventId>, fields: Fields) -> Self {
        Self { fields, id, question: Question::Append, resent: false }
    }

    /// Whether its id is minted when it is sent.
    pub(crate) fn mints(&self) -> bool {
        self.id.is_none()
    }

    /// The bytes of its names and values.
    pub(crate) fn size(&self) -> usize {
        self.fields.size()
    }

    pub(crate) fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.id.is_none() {
            self.id = Some(minter.mint()?);
        }
        Ok(())
    }

    pub(crate) fn command(&self, key: &Key, commands: &mut Packed) {
        let Some(id) = self.id else { return };
        match self.question {
            Question::Append => self.fields.append_command(key, id, commands),
            Question::Lost | Question::Refused => look_up(key, id, commands),
            Question::Top => ask_top(key, commands),
        }
    }

    pub(crate) fn answered(&mut self, key: &Key, reply: Value) -> Step<EventId> {
        let Some(id) = self.id else { return Step::Done(Err(reply::unexpected("an id", &reply))) };
        match self.question {
            Question::Append => match reply {
                Value::ServerError(error) if reply::is_not_above_top(&error) => {
                    self.ask(if self.resent { Question::Refused } else { Question::Top })
                }
                reply => Step::Done(confirmed(reply, id).map_err(|error| error.about(&**key))),
            },
            Question::Lost | Question::Refused => match found(reply, id) {
                Err(error) => Step::Done(Err(self.unknown(key, id, error.message()))),
                Ok(Found::Record) => Step::Done(Ok(id)),
                Ok(Found::Another) => self.ask(Question::Top),
                Ok(Found::Nothing) if self.question == Question::Lost => {
                    self.resent = true;
                    self.ask(Question::Append)
                }
                Ok(Found::Nothing) => self.ask(Question::Top),
            },
            Question::Top => Step::Done(Err(refused(key, id, top(reply).ok()))),
        }
    }

    fn ask(&mut self, question: Question) -> Step<EventId> {
        self.question = question;
        Step::Again
    }

    pub(crate) fn lost(&mut self) {
        if self.question == Question::Append {
            self.question = Question::Lost;
        }
    }

    pub(crate) fn abandon(&self, key: &Key, why: Error) -> Error {
        match self.id {
            Some(id) if self.question == Question::Top => refused(key, id, None),
            // What the server refused last, it did not append.
            Some(_) if self.question == Question::Append && why.code() == Code::Unavailable => {
                why.about(&**key)
            }
            Some(id) => self.unknown(key, id, why.message()),
            None => why.about(&**key),
        }
    }

    /// Whether an answer was lost that is being asked after.
    pub(crate) fn finds_out(&self) -> bool {
        self.resent || self.question != Question::Append
    }

    fn unknown(&self, key: &Key, id: EventId, why: &str) -> Error {
        Error::new(
            Code::UnknownOutcome,
            format!("the record {id} may or may not have been appended: {why}; ask again with append_id"),
        )
        .about(&**key)
        .with_id(id)
    }
}

/// `XRANGE key id id`
pub(crate) fn look_up(key: &Key, id: EventId, commands: &mut Packed) {
    let entry_id = EntryId::from(id).text();
    commands.command(4).arg("XRANGE").arg(&**key).arg(entry_id.as_bytes()).arg(entry_id.as_bytes());
}

/// What stands at an entry id.
pub(crate) enum Found {
    /// The record that was sent.
    Record,
    /// An entry that someone else wrote.
    Another,
    Nothing,
}

pub(crate) fn found(reply: Value, id: EventId) -> Result<Found> {
    Ok(match reply::records(reply)?.first().map(Record::id) {
        Some(Some(found)) if found == id => Found::Record,
        Some(_) => Found::Another,
        None => Found::Nothing,
    })
}

/// `XINFO STREAM key`, whose last id outlives the entry that had it.
fn ask_top(key: &Key, commands: &mut Packed) {
    commands.command(3).arg("XINFO").arg("STREAM").arg(&**key);
}

fn top(reply: Value) -> Result<EntryId> {
    let id = reply::member(reply, "last-generated-id")?.unwrap_or(Value::Nil);
    EntryId::parse(reply::bytes(id)?)
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
