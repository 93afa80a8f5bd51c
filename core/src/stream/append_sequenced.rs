//! Appends to a stream with several writers, whose ids the server decides (`docs/protocol.md` §4,
//! `lua/append_sequenced.lua`).

use super::Key;
use super::append::{Found, found, look_up};
use super::batch_atomic::MAX_FIELDS;
use crate::error::{Code, Error, Result};
use crate::id::branded::{EventId, LENGTH};
use crate::id::entry_id::EntryId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::{Arguments, Packed};
use crate::record::{Fields, reply};
use crate::script::{self, APPEND_SEQUENCED, Form};
use redis::Value;

/// Appends one record or all of a batch. `R` is the receipt of the one, or those of all.
pub(crate) struct AppendSequenced<R> {
    key: Key,
    records: Vec<Fields>,
    /// One id a record, made when they are sent; the server takes it or gives another.
    candidates: Vec<EventId>,
    question: Question,
    form: Form,
    receipt: fn(Vec<EventId>) -> Option<R>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Append,
    /// An answer was lost; is the first record there, under its candidate?
    Lost,
}

impl AppendSequenced<EventId> {
    /// Fails with `too_large` for a record with more fields than a script can pass on.
    pub(crate) fn one(key: Key, record: Fields) -> Result<Self> {
        let record = Self::checked(record).map_err(|error| error.about(&*key))?;
        Ok(Self::new(key, vec![record], |ids| ids.into_iter().next()))
    }
}

impl AppendSequenced<Vec<EventId>> {
    /// Fails with `too_large` for a record with more fields than a script can pass on.
    pub(crate) fn batch(key: Key, records: Vec<Fields>) -> Result<Self> {
        let records: Result<Vec<Fields>> = records.into_iter().map(Self::checked).collect();
        let records = records.map_err(|error| error.about(&*key))?;
        Ok(Self::of_checked(key, records))
    }

    /// Of records that [`AppendSequenced::checked`] has let through.
    pub(super) fn of_checked(key: Key, records: Vec<Fields>) -> Self {
        Self::new(key, records, Some)
    }
}

impl<R> AppendSequenced<R> {
    fn new(key: Key, records: Vec<Fields>, receipt: fn(Vec<EventId>) -> Option<R>) -> Self {
        let (candidates, question, form) = (Vec::new(), Question::Append, Form::Hash);
        Self { key, records, candidates, question, form, receipt }
    }

    /// Refuses a record with more fields than a script can pass on.
    pub(super) fn checked(record: Fields) -> Result<Fields> {
        match record.len() {
            fields if fields > MAX_FIELDS => Err(Error::new(
                Code::TooLarge,
                format!("a record has {fields} fields, appended by a script it can have {MAX_FIELDS}"),
            )),
            _ => Ok(record),
        }
    }

    fn receipts(&self, ids: Vec<EventId>) -> Result<R> {
        let count = ids.len();
        if count == self.records.len()
            && let Some(receipt) = (self.receipt)(ids)
        {
            return Ok(receipt);
        }
        let records = self.records.len();
        Err(Error::new(Code::Server, format!("the server answered {count} ids for {records} records"))
            .about(&*self.key))
    }

    fn appended(&mut self, reply: Value) -> Step<R> {
        match reply {
            Value::ServerError(error) if script::is_unknown(&error) => {
                // Nothing was carried out. What was sent behind it may have been, so the candidates are made anew.
                self.form = Form::Source;
                self.candidates.clear();
                Step::Again
            }
            reply => {
                let ids = ids(reply).map_err(|error| error.about(&*self.key));
                Step::Done(ids.and_then(|ids| self.receipts(ids)))
            }
        }
    }

    /// Candidates rise, so where the first was taken, all were. Where it was not, nobody can tell: the records may stand
    /// under ids of the sequencer, and may still come to stand there, out of what the old connection carried.
    fn looked_up(&mut self, reply: Value) -> Step<R> {
        let Some(first) = self.candidates.first().copied() else { return Step::Again };
        Step::Done(match found(reply, first) {
            Ok(Found::Record) => self.receipts(self.candidates.clone()),
            Ok(_) => Err(self.unknown("the connection broke before the answer came")),
            Err(error) => Err(self.unknown(error.message())),
        })
    }

    fn unknown(&self, why: &str) -> Error {
        let what = match self.records.len() {
            1 => "the record may or may not have been appended, under the id of this error or one of the \
                  sequencer's above it"
                .to_owned(),
            records => format!(
                "the {records} records may all have been appended or none, under ids from that of this error on"
            ),
        };
        let error = Error::new(Code::UnknownOutcome, format!("{what}: {why}; a read from that id on tells"))
            .about(&*self.key);
        match self.candidates.first() {
            Some(id) => error.with_id(*id),
            None => error,
        }
    }
}

/// The branded ids of the answer, end to end.
fn ids(reply: Value) -> Result<Vec<EventId>> {
    reply::bytes(reply)?.chunks(LENGTH).map(EventId::parse).collect()
}

/// A candidate as the scripts take it, or three empty values for none.
pub(crate) fn write_candidate(candidate: Option<EventId>, command: &mut Arguments<'_>) {
    match candidate {
        Some(id) => {
            let entry_id = EntryId::from(id);
            command.number(entry_id.ms()).number(entry_id.seq()).arg(id.as_bytes());
        }
        None => {
            command.arg("").arg("").arg("");
        }
    }
}

impl<R: Send + 'static> Operation for AppendSequenced<R> {
    type Reply = R;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.candidates.is_empty() {
            let candidates: Result<Vec<EventId>> = self.records.iter().map(|_| minter.mint()).collect();
            self.candidates = candidates.map_err(|error| error.about(&*self.key))?;
        }
        Ok(())
    }

    fn mints(&self) -> bool {
        self.candidates.is_empty()
    }

    fn commands(&self, commands: &mut Packed) {
        if let (Question::Lost, Some(first)) = (self.question, self.candidates.first()) {
            return look_up(&self.key, *first, commands);
        }
        let values = self.records.iter().map(|fields| 4 + 2 * fields.len()).sum();
        let keys = [&*self.key, self.key.sequencer()];
        let mut command = APPEND_SEQUENCED.call(self.form, &keys, values, commands);
        for (candidate, fields) in self.candidates.iter().zip(&self.records) {
            write_candidate(Some(*candidate), &mut command);
            command.number(2 * fields.len() as u64);
            fields.write_own(&mut command);
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        match self.question {
            Question::Append => self.appended(reply),
            Question::Lost => self.looked_up(reply),
        }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        self.question = Question::Lost;
        Step::Again
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(if self.candidates.is_empty() { why.about(&*self.key) } else { self.unknown(why.message()) })
    }

    fn finds_out(&self) -> bool {
        !self.candidates.is_empty()
    }

    fn weight(&self) -> usize {
        self.records.len()
    }

    fn bytes(&self) -> usize {
        self.records.iter().map(Fields::size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::id::mint::Mint;
    use crate::keyspace::Keyspace;

    fn minter(node: u16) -> Minter {
        Minter::new(Clock::standing(1_735_689_600_000), Some(Mint::new(node).unwrap()), None)
    }

    fn batch(records: usize) -> AppendSequenced<Vec<EventId>> {
        let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
        AppendSequenced::batch(key, vec![Fields::from([("k", "v")]); records]).unwrap()
    }

    fn reply(text: &str) -> Vec<Value> {
        vec![redis::parse_redis_value(text.as_bytes()).unwrap()]
    }

    fn sent(operation: &mut AppendSequenced<Vec<EventId>>, minter: &Minter) -> String {
        let mut commands = Packed::default();
        operation.prepare(minter).unwrap();
        operation.commands(&mut commands);
        commands.texts().remove(0)
    }

    #[test]
    fn the_answer_has_one_id_for_each_record() {
        let minter = minter(880);
        let mut operation = batch(2);
        let call = sent(&mut operation, &minter);
        let first = operation.candidates[0];
        assert!(
            call.contains(&format!(
                " 2 emq:{{q}}:stream:s emq:{{q}}:seq 1735689600000 3604480 {first} 2 k v "
            ))
        );
        let ids = "EVT0NgWEfAER90EVT0NgWEfAER91";
        let Step::Done(Ok(answer)) = operation.answered(reply(&format!("$28\r\n{ids}\r\n"))) else {
            panic!()
        };
        assert_eq!(answer.iter().map(EventId::as_str).collect::<String>(), ids);
        for text in ["$14\r\nEVT0NgWEfAER90\r\n", "$0\r\n\r\n", ":2\r\n"] {
            let Step::Done(Err(error)) = operation.answered(reply(text)) else { panic!("{text}") };
            assert_eq!(error.code(), Code::Server);
        }
    }

    #[test]
    fn a_server_that_does_not_know_the_script_gets_new_candidates() {
        let (minter, mut operation) = (minter(881), batch(1));
        assert!(sent(&mut operation, &minter).starts_with("EVALSHA "));
        let candidate = operation.candidates[0];
        assert!(matches!(operation.answered(reply("-NOSCRIPT No matching script.\r\n")), Step::Again));
        assert_eq!(operation.abandon(Error::new(Code::Timeout, "late")).unwrap_err().code(), Code::Timeout);
        assert!(sent(&mut operation, &minter).starts_with("EVAL "));
        assert!(operation.candidates[0] > candidate);
    }

    #[test]
    fn a_lost_answer_is_asked_after_and_nothing_is_sent_again() {
        let (minter, mut operation) = (minter(882), batch(2));
        sent(&mut operation, &minter);
        let first = operation.candidates[0];
        let entry_id = EntryId::from(first);
        for _ in 0..2 {
            assert!(matches!(operation.lost(), Step::Again));
            let question = format!("XRANGE emq:{{q}}:stream:s {entry_id} {entry_id}");
            assert_eq!(sent(&mut operation, &minter), question);
        }
        let record = |id: &str| format!("*1\r\n*2\r\n+{entry_id}\r\n*2\r\n$2\r\nid\r\n$14\r\n{id}\r\n");
        let Step::Done(Ok(ids)) = operation.answered(reply(&record(first.as_str()))) else { panic!() };
        assert_eq!(ids, operation.candidates);
        for text in ["*0\r\n".to_owned(), record("EVT0NgWEfAER90"), "-ERR no\r\n".to_owned()] {
            let Step::Done(Err(error)) = operation.answered(reply(&text)) else { panic!("{text}") };
            assert_eq!((error.code(), error.id()), (Code::UnknownOutcome, Some(first.as_str())));
        }
        let error = operation.abandon(Error::new(Code::Timeout, "late")).unwrap_err();
        assert_eq!((error.code(), error.id()), (Code::UnknownOutcome, Some(first.as_str())));
    }
}
