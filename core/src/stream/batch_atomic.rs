//! Many records in one step of the server's: all of them or none (`docs/protocol.md` §4, `lua/append_batch.lua`).

use super::Key;
use super::append::{Found, found, look_up, refused, removed_since, taken};
use super::info::{self, StreamInfo};
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
    /// The ids are of a leased node, with which no other process writes.
    leased: bool,
    /// What this client knew of the stream before it sent the batch first.
    seen: Option<u64>,
    question: Question,
    form: Form,
    /// It is on its way, or was and may have been applied.
    sent: bool,
    /// An answer to the append was lost before.
    resent: bool,
    /// A sending was refused because the server could not serve, so a later id of this client may stand above.
    delayed: bool,
}

/// What is being asked. All of a batch was written where one record of it is there: the first, or the last where the first
/// has been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Append,
    /// An answer was lost; is it there?
    Lost,
    /// It was refused after an answer was lost; is it there?
    Refused,
    /// It was refused and is not there; may it have been?
    Top,
}

impl AppendBatchAtomic {
    /// Fails with `too_large` for a record with more fields than a script can pass on.
    pub(crate) fn new(key: Key, records: Vec<Fields>) -> Result<Self> {
        records.iter().try_for_each(check_fields).map_err(|error| error.about(&*key))?;
        Ok(Self {
            key,
            records,
            ids: Vec::new(),
            leased: false,
            seen: None,
            question: Question::Append,
            form: Form::Hash,
            sent: false,
            resent: false,
            delayed: false,
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

    /// The first and the last record with their ids, once there are any.
    fn ends(&self) -> Option<[(EventId, &Fields); 2]> {
        let first = (*self.ids.first()?, self.records.first()?);
        Some([first, (*self.ids.last()?, self.records.last()?)])
    }

    fn refused(&self, top: Option<EntryId>) -> Error {
        match self.ids.first() {
            Some(id) => refused(&self.key, *id, top),
            None => {
                Error::new(Code::NonMonotonic, "the batch is not above the stream's top").about(&*self.key)
            }
        }
    }

    fn ask(&mut self, question: Question) -> Step<Vec<EventId>> {
        self.question = question;
        Step::Again
    }

    fn written(&self) -> Step<Vec<EventId>> {
        self.key.seen().add(self.ids.len());
        Step::Done(Ok(self.ids.clone()))
    }

    /// It certainly was not written, so it may get other ids.
    fn forget(&mut self) {
        (self.sent, self.resent) = (false, false);
        self.ids.clear();
        self.question = Question::Append;
    }

    fn appended(&mut self, reply: Value) -> Step<Vec<EventId>> {
        match reply {
            Value::ServerError(error) if script::is_unknown(&error) => {
                // Nothing was carried out. What was sent behind it may have been, so the ids are made anew.
                self.form = Form::Source;
                self.forget();
                Step::Again
            }
            Value::ServerError(error) if error.code() == "EMQSTALE" => {
                if self.resent {
                    self.ask(Question::Refused)
                } else {
                    Step::Done(Err(self.refused(top(&error))))
                }
            }
            reply => match reply::count(reply) {
                Ok(count) if count == self.ids.len() as u64 => self.written(),
                Ok(count) => Step::Done(Err(Error::new(
                    Code::Server,
                    format!("the server appended {count} of {} records of an atomic batch", self.ids.len()),
                )
                .about(&*self.key))),
                // What the first sending did, or will do when its last bytes arrive, nobody knows.
                Err(error) if self.resent => Step::Done(Err(self.unknown(error))),
                Err(error) => Step::Done(Err(error.about(&*self.key))),
            },
        }
    }

    fn looked_up(&mut self, replies: Vec<Value>) -> Step<Vec<EventId>> {
        let Some(ends) = self.ends() else { return Step::Again };
        let mut found_there = Vec::new();
        for (reply, (id, fields)) in replies.into_iter().zip(ends) {
            match found(reply, id, fields) {
                Ok(found) => found_there.push((id, found)),
                Err(error) => return Step::Done(Err(self.unknown(error))),
            }
        }
        if found_there.iter().any(|(_, found)| *found == Found::Record) {
            return self.written();
        }
        match found_there.iter().find(|(_, found)| *found == Found::Another) {
            Some((id, _)) => Step::Done(Err(taken(&self.key, *id))),
            None if self.question == Question::Lost => {
                self.resent = true;
                self.ask(Question::Append)
            }
            None => self.ask(Question::Top),
        }
    }

    /// It was refused after a lost answer and is not there.
    fn decided(&mut self, info: Result<StreamInfo>) -> Step<Vec<EventId>> {
        let Some([_, (last, _)]) = self.ends() else { return Step::Again };
        let (last, seen) = (EntryId::from(last), self.key.seen().since(self.seen));
        let info = match info {
            Ok(info) => info,
            Err(error) => return Step::Done(Err(self.unknown(error))),
        };
        self.key.seen().set(info.added());
        if info.last() == last && self.leased {
            return Step::Done(Ok(self.ids.clone()));
        }
        // Where the top is below the last record, the batch was not written.
        if info.last() >= last && info.may_have_held(last, seen) {
            return Step::Done(Err(self.unknown(removed_since())));
        }
        if self.delayed {
            self.forget();
            return Step::Again;
        }
        Step::Done(Err(self.refused(Some(info.last()))))
    }

    fn unknown(&self, why: Error) -> Error {
        let error = Error::new(
            Code::UnknownOutcome,
            format!(
                "the {} records of the atomic batch may all have been appended or none: {}",
                self.records.len(),
                why.message()
            ),
        )
        .about(&*self.key)
        .because(why);
        match self.ids.first() {
            Some(id) => error.with_id(*id),
            None => error,
        }
    }
}

/// Refuses a record with more fields than a script can pass on to one command.
pub(super) fn check_fields(record: &Fields) -> Result<()> {
    match record.len() {
        fields if fields > MAX_FIELDS => Err(Error::new(
            Code::TooLarge,
            format!(
                "a record has {fields} fields; appended by a script it can have {MAX_FIELDS}, since a script can pass no more to \
                 one command"
            ),
        )),
        _ => Ok(()),
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
            self.leased = minter.is_leased();
        }
        if !self.sent {
            self.seen = self.key.seen().get();
        }
        self.sent = true;
        Ok(())
    }

    fn mints(&self) -> bool {
        self.ids.is_empty()
    }

    fn commands(&self, commands: &mut Packed) {
        match (self.question, self.ends()) {
            (Question::Lost | Question::Refused, Some(ends)) => {
                ends.iter().for_each(|(id, _)| look_up(&self.key, *id, commands));
            }
            (Question::Top, _) => info::ask(&self.key, commands),
            _ => self.append_command(commands),
        }
    }

    fn answered(&mut self, mut replies: Vec<Value>) -> Step<Self::Reply> {
        match self.question {
            Question::Append => self.appended(replies.pop().unwrap_or(Value::Nil)),
            Question::Lost | Question::Refused => self.looked_up(replies),
            Question::Top => self.decided(StreamInfo::read(replies.pop().unwrap_or(Value::Nil))),
        }
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        if self.question == Question::Append {
            self.delayed = true;
            if !self.resent {
                self.forget();
            }
        }
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        if self.question == Question::Append {
            self.question = Question::Lost;
        }
        Step::Again
    }

    fn unsent(&mut self) {
        if self.question == Question::Append && !self.resent {
            self.forget();
        }
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(if self.sent { self.unknown(why) } else { why.about(&*self.key) })
    }

    fn finds_out(&self) -> bool {
        self.sent
    }

    fn weight(&self) -> usize {
        self.records.len()
    }

    fn bytes(&self) -> usize {
        self.records.iter().map(Fields::size).sum()
    }
}
