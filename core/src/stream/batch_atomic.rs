//! Many records in one step of the server's: all of them or none (`docs/protocol.md` §4, `lua/append_batch.lua`).

use super::Key;
use super::append::{Found, found, look_up, refused};
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::{Fields, reply};
use crate::script::{self, APPEND_BATCH, Form};
use redis::{ServerError, Value};

/// How many fields a record that a script appends can have: a script passes no more arguments to one command.
pub(super) const MAX_FIELDS: usize = 3_499;

/// Appends all records or none.
pub(crate) struct AppendBatchAtomic {
    key: Key,
    records: Vec<Fields>,
    /// One id a record, made when the batch is sent.
    ids: Vec<EventId>,
    question: Question,
    form: Form,
    /// An answer to the append was lost before.
    resent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Append,
    /// An answer was lost; is the first record there? Then so are the others.
    Lost,
    /// It was refused, with this top, after an answer was lost; is the first record there?
    Refused(Option<EntryId>),
}

impl AppendBatchAtomic {
    /// Fails with `too_large` for a record with more fields than a script can pass on.
    pub(crate) fn new(key: Key, records: Vec<Fields>) -> Result<Self> {
        if let Some(fields) = records.iter().map(Fields::len).find(|fields| *fields > MAX_FIELDS) {
            return Err(Error::new(
                Code::TooLarge,
                format!("a record has {fields} fields, in an atomic batch it can have {MAX_FIELDS}"),
            )
            .about(&*key));
        }
        Ok(Self {
            key,
            records,
            ids: Vec::new(),
            question: Question::Append,
            form: Form::Hash,
            resent: false,
        })
    }

    fn append_command(&self, commands: &mut Packed) {
        let values = self.records.iter().map(|fields| 5 + 2 * fields.len()).sum();
        let mut command = APPEND_BATCH.call(self.form, &[&self.key], values, commands);
        for (id, fields) in self.ids.iter().zip(&self.records) {
            let entry_id = EntryId::from(*id);
            command.number(entry_id.ms()).number(entry_id.seq()).number(2 + 2 * fields.len() as u64);
            fields.write(*id, &mut command);
        }
    }

    fn first(&self) -> Option<EventId> {
        self.ids.first().copied()
    }

    fn refused(&self, top: Option<EntryId>) -> Error {
        match self.first() {
            Some(id) => refused(&self.key, id, top),
            None => {
                Error::new(Code::NonMonotonic, "the batch is not above the stream's top").about(&*self.key)
            }
        }
    }

    fn ask(&mut self, question: Question) -> Step<Vec<EventId>> {
        self.question = question;
        Step::Again
    }

    fn appended(&mut self, reply: Value) -> Step<Vec<EventId>> {
        match reply {
            Value::ServerError(error) if script::is_unknown(&error) => {
                // Nothing was carried out. What was sent behind it may have been, so the ids are made anew.
                self.form = Form::Source;
                self.ids.clear();
                Step::Again
            }
            Value::ServerError(error) if error.code() == "EMQSTALE" => {
                let top = top(&error);
                if self.resent {
                    self.ask(Question::Refused(top))
                } else {
                    Step::Done(Err(self.refused(top)))
                }
            }
            reply => Step::Done(match reply::count(reply) {
                Ok(count) if count == self.ids.len() as u64 => Ok(self.ids.clone()),
                Ok(count) => Err(Error::new(
                    Code::Server,
                    format!("the server appended {count} of {} records of an atomic batch", self.ids.len()),
                )
                .about(&*self.key)),
                Err(error) => Err(error.about(&*self.key)),
            }),
        }
    }

    fn looked_up(&mut self, reply: Value) -> Step<Vec<EventId>> {
        let Some(first) = self.first() else { return Step::Again };
        match (found(reply, first), self.question) {
            (Ok(Found::Record), _) => Step::Done(Ok(self.ids.clone())),
            (Ok(Found::Nothing), Question::Lost) => {
                self.resent = true;
                self.ask(Question::Append)
            }
            (Ok(_), Question::Refused(top)) => Step::Done(Err(self.refused(top))),
            (Ok(_), _) => Step::Done(Err(self.refused(None))),
            (Err(error), _) => Step::Done(Err(self.unknown(error.message()))),
        }
    }

    fn unknown(&self, why: &str) -> Error {
        let error = Error::new(
            Code::UnknownOutcome,
            format!(
                "the {} records of the atomic batch may all have been appended or none: {why}",
                self.records.len()
            ),
        )
        .about(&*self.key);
        match self.first() {
            Some(id) => error.with_id(id),
            None => error,
        }
    }
}

fn top(error: &ServerError) -> Option<EntryId> {
    EntryId::parse(error.details()?.split(' ').next()?).ok()
}

impl Operation for AppendBatchAtomic {
    type Reply = Vec<EventId>;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.ids.is_empty() {
            let ids: Result<Vec<EventId>> = self.records.iter().map(|_| minter.mint()).collect();
            self.ids = ids.map_err(|error| error.about(&*self.key))?;
        }
        Ok(())
    }

    fn mints(&self) -> bool {
        self.ids.is_empty()
    }

    fn commands(&self, commands: &mut Packed) {
        match (self.question, self.first()) {
            (Question::Lost | Question::Refused(_), Some(first)) => look_up(&self.key, first, commands),
            _ => self.append_command(commands),
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        match self.question {
            Question::Append => self.appended(reply),
            _ => self.looked_up(reply),
        }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        if self.question == Question::Append {
            self.question = Question::Lost;
        }
        Step::Again
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(if self.ids.is_empty() { why.about(&*self.key) } else { self.unknown(why.message()) })
    }

    fn finds_out(&self) -> bool {
        !self.ids.is_empty()
    }

    fn weight(&self) -> usize {
        self.records.len()
    }

    fn bytes(&self) -> usize {
        self.records.iter().map(Fields::size).sum()
    }
}
