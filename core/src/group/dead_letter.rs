//! Dead letters: entries that a group gave up, moved aside, and put back (`docs/protocol.md` §6, `lua/dead_letter.lua`,
//! `lua/put_back.lua`).

use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::script::{self, DEAD_LETTER, Form, PUT_BACK};
use crate::stream::Key;
use crate::stream::append::{Found, found, look_up};
use crate::stream::append_sequenced::write_candidate;
use redis::Value;
use std::sync::Arc;

/// What became of an entry that was to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is this dead letter now.
    Moved(EventId),
    /// It was not pending any more: someone acknowledged it, or an answer was lost and it had been moved already.
    Settled,
    /// Its data had been trimmed away; it was acknowledged.
    Lost,
}

/// Moves an entry of a group to the dead letters, and acknowledges it, in one step.
///
/// An entry that is not pending is left alone, so it can be sent again after a lost answer.
pub(crate) struct DeadLetter {
    key: Key,
    group: Arc<str>,
    entry_id: EntryId,
    attempts: u64,
    error: Vec<u8>,
    candidate: Option<EventId>,
    /// The server refused a candidate, so the id is left to its sequencer.
    without_candidate: bool,
    /// When it was sent first, in Unix milliseconds.
    at: Option<u64>,
    form: Form,
}

impl DeadLetter {
    pub(crate) fn new(key: Key, group: Arc<str>, entry_id: EntryId, attempts: u64, error: Vec<u8>) -> Self {
        let (candidate, without_candidate, at, form) = (None, false, None, Form::Hash);
        Self { key, group, entry_id, attempts, error, candidate, without_candidate, at, form }
    }

    fn read(&self, reply: Value) -> Result<Outcome> {
        match reply::accepted(reply)? {
            Value::Int(0) => Ok(Outcome::Settled),
            Value::Int(-1) => Ok(Outcome::Lost),
            id => EventId::parse(reply::bytes(id)?).map(Outcome::Moved),
        }
    }
}

impl Operation for DeadLetter {
    type Reply = Outcome;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.candidate.is_none() && !self.without_candidate {
            // Where this host can make no id, the sequencer does.
            self.candidate = minter.mint().ok();
        }
        self.at.get_or_insert_with(|| minter.now());
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        let dead = self.key.dead_letters();
        let keys = [&*self.key, &*dead, self.key.sequencer()];
        let mut command = DEAD_LETTER.call(self.form, &keys, 8, commands);
        command.arg(&*self.group).arg(self.entry_id.text().as_bytes());
        write_candidate(self.candidate, &mut command);
        command.number(self.attempts).arg(&self.error).number(self.at.unwrap_or_default());
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        if let Value::ServerError(error) = &reply
            && script::is_unknown(error)
        {
            self.form = Form::Source;
            self.candidate = None;
            return Step::Again;
        }
        match self.read(reply) {
            Err(error) if error.code() == Code::ClockAhead && !self.without_candidate => {
                self.candidate = None;
                self.without_candidate = true;
                Step::Again
            }
            outcome => Step::Done(outcome.map_err(|error| error.about(&*self.key))),
        }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        Step::Again
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        if self.at.is_none() {
            return Err(why.about(&*self.key));
        }
        let entry_id = self.entry_id;
        Err(Error::new(
            Code::UnknownOutcome,
            format!("the entry {entry_id} may or may not be a dead letter now: {}", why.message()),
        )
        .about(&*self.key))
    }
}

/// Appends a dead letter's own fields to its stream and removes it, in one step.
///
/// Only the sending that finds the dead letter appends anything, so it can be sent again after a lost answer, whatever
/// the old connection still brings. Where a second sending finds nothing, the first may have done it, or someone else.
pub(crate) struct PutBack {
    key: Key,
    id: EventId,
    candidate: Option<EventId>,
    question: Question,
    form: Form,
    sent: bool,
    /// An answer was lost before.
    resent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    PutBack,
    /// A dead letter that was there is gone after a lost answer; does the new record stand under its candidate?
    Candidate(EventId),
}

impl PutBack {
    pub(crate) fn new(key: Key, id: EventId) -> Self {
        let (candidate, question, form) = (None, Question::PutBack, Form::Hash);
        Self { key, id, candidate, question, form, sent: false, resent: false }
    }

    fn put_back(&mut self, reply: Value) -> Step<EventId> {
        match reply {
            Value::ServerError(error) if script::is_unknown(&error) => {
                self.form = Form::Source;
                Step::Again
            }
            Value::Nil if !self.resent => {
                let dead = self.key.dead_letters();
                Step::Done(Err(Error::new(Code::Gone, format!("there is no dead letter {}", self.id))
                    .about(&*dead)
                    .with_id(self.id)))
            }
            Value::Nil => match self.candidate {
                Some(candidate) => {
                    self.question = Question::Candidate(candidate);
                    Step::Again
                }
                None => Step::Done(Err(self.gone_since())),
            },
            reply => match reply::bytes(reply).and_then(EventId::parse) {
                Ok(id) => Step::Done(Ok(id)),
                Err(error) if self.resent => Step::Done(Err(self.unknown(error.message()))),
                Err(error) => Step::Done(Err(error.about(&*self.key))),
            },
        }
    }

    fn gone_since(&self) -> Error {
        self.unknown("an answer was lost, and it is not among the dead letters any more")
    }

    fn unknown(&self, why: &str) -> Error {
        let id = self.id;
        let error = Error::new(
            Code::UnknownOutcome,
            format!("the dead letter {id} may or may not have been put back: {why}"),
        );
        error.about(&*self.key).with_id(self.candidate.unwrap_or(id))
    }
}

impl Operation for PutBack {
    type Reply = EventId;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.candidate.is_none() {
            // A client that has leased no node needs none for this: the sequencer gives the id.
            self.candidate = match minter.mint() {
                Err(error) if error.code() == Code::NodeLeaseLost => None,
                minted => Some(minted.map_err(|error| error.about(&*self.key))?),
            };
        }
        self.sent = true;
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        if let Question::Candidate(candidate) = self.question {
            return look_up(&self.key, candidate, commands);
        }
        let dead = self.key.dead_letters();
        let keys = [&*self.key, &*dead, self.key.sequencer()];
        let mut command = PUT_BACK.call(self.form, &keys, 4, commands);
        command.arg(EntryId::from(self.id).text().as_bytes());
        write_candidate(self.candidate, &mut command);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        match self.question {
            Question::PutBack => self.put_back(reply),
            Question::Candidate(candidate) => Step::Done(match found(reply, candidate) {
                Ok(Found::Record) => Ok(candidate),
                Ok(_) => Err(self.gone_since()),
                Err(error) => Err(self.unknown(error.message())),
            }),
        }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        self.resent = true;
        Step::Again
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(if self.sent { self.unknown(why.message()) } else { why.about(&*self.key) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::id::mint::Mint;
    use crate::keyspace::Keyspace;

    const T: u64 = 1_735_689_600_000;

    fn minter(node: Option<u16>) -> Minter {
        Minter::new(Clock::standing(T), node.map(|node| Mint::new(node).unwrap()), None)
    }

    fn key() -> Key {
        Key::new(&Keyspace::new("q").unwrap(), "s").unwrap()
    }

    fn dead_letter() -> DeadLetter {
        DeadLetter::new(key(), "g".into(), EntryId::new(7, 8), 3, b"no".to_vec())
    }

    fn reply(text: &str) -> Vec<Value> {
        vec![redis::parse_redis_value(text.as_bytes()).unwrap()]
    }

    fn sent(operation: &mut impl Operation, minter: &Minter) -> String {
        let mut commands = Packed::default();
        operation.prepare(minter).unwrap();
        operation.commands(&mut commands);
        assert_eq!(commands.count(), 1);
        let text = commands.texts().remove(0);
        // What follows the script and the number of its keys.
        match text.split_once(" emq:{q}:stream:s emq:{q}:stream:s:dead emq:{q}:seq ") {
            Some((call, values)) => format!("{} {values}", call.split(' ').next().unwrap()),
            None => text,
        }
    }

    #[test]
    fn it_is_sent_the_same_after_a_lost_answer() {
        let (minter, mut operation) = (minter(Some(870)), dead_letter());
        let id = "1735689600000-3563520";
        let branded = EventId::try_from(id.parse::<EntryId>().unwrap()).unwrap();
        let values = format!("g 7-8 1735689600000 3563520 {branded} 3 no 1735689600000");
        assert_eq!(sent(&mut operation, &minter), format!("EVALSHA {values}"));
        assert!(matches!(operation.lost(), Step::Again));
        assert_eq!(sent(&mut operation, &minter), format!("EVAL {values}"));
        let moved = operation.answered(reply("$14\r\nEVT0NgWEfAER90\r\n"));
        assert!(matches!(moved, Step::Done(Ok(Outcome::Moved(id))) if id.as_str() == "EVT0NgWEfAER90"));
        assert!(matches!(operation.answered(reply(":0\r\n")), Step::Done(Ok(Outcome::Settled))));
        assert!(matches!(operation.answered(reply(":-1\r\n")), Step::Done(Ok(Outcome::Lost))));
        for (text, expected) in [
            (":1\r\n", Code::Server),
            ("$1\r\nx\r\n", Code::MalformedId),
            ("-NOGROUP no\r\n", Code::NoGroup),
            ("-EMQAHEAD stream 2 1\r\n", Code::StreamAhead),
        ] {
            assert!(
                matches!(operation.answered(reply(text)), Step::Done(Err(error)) if error.code() == expected)
            );
        }
    }

    #[test]
    fn a_host_that_makes_no_id_leaves_it_to_the_sequencer() {
        let mut operation = dead_letter();
        assert_eq!(sent(&mut operation, &minter(None)), "EVALSHA g 7-8    3 no 1735689600000");
        let (minter, mut operation) = (minter(Some(871)), dead_letter());
        sent(&mut operation, &minter);
        assert!(matches!(operation.answered(reply("-EMQAHEAD clock 2 1\r\n")), Step::Again));
        assert_eq!(sent(&mut operation, &minter), "EVALSHA g 7-8    3 no 1735689600000");
    }

    #[test]
    fn a_server_that_does_not_know_the_scripts_gets_them_whole() {
        let minter = minter(Some(872));
        let (mut dead_letter, mut put_back) = (dead_letter(), PutBack::new(key(), minter.mint().unwrap()));
        let unknown = "-NOSCRIPT No matching script.\r\n";
        assert!(sent(&mut dead_letter, &minter).starts_with("EVALSHA "));
        assert!(matches!(dead_letter.answered(reply(unknown)), Step::Again));
        assert!(sent(&mut dead_letter, &minter).starts_with("EVAL "));
        assert!(sent(&mut put_back, &minter).starts_with("EVALSHA "));
        assert!(matches!(put_back.answered(reply(unknown)), Step::Again));
        assert!(sent(&mut put_back, &minter).starts_with("EVAL "));
    }

    #[test]
    fn what_was_never_sent_is_not_in_doubt() {
        let why = || Error::new(Code::Disconnected, "no connection");
        let minter = minter(Some(873));
        let (mut dead_letter, mut put_back) = (dead_letter(), PutBack::new(key(), minter.mint().unwrap()));
        assert_eq!(dead_letter.abandon(why()).unwrap_err().code(), Code::Disconnected);
        assert_eq!(put_back.abandon(why()).unwrap_err().code(), Code::Disconnected);
        sent(&mut dead_letter, &minter);
        sent(&mut put_back, &minter);
        assert_eq!(dead_letter.abandon(why()).unwrap_err().code(), Code::UnknownOutcome);
        assert_eq!(put_back.abandon(why()).unwrap_err().code(), Code::UnknownOutcome);
    }

    #[test]
    fn a_dead_letter_that_is_gone_after_a_lost_answer() {
        let minter = minter(Some(874));
        let mut put_back = PutBack::new(key(), minter.mint().unwrap());
        sent(&mut put_back, &minter);
        assert!(matches!(put_back.lost(), Step::Again));
        sent(&mut put_back, &minter);
        assert!(matches!(put_back.answered(reply("$-1\r\n")), Step::Again));
        let candidate = put_back.candidate.unwrap();
        let entry_id = EntryId::from(candidate);
        assert_eq!(sent(&mut put_back, &minter), format!("XRANGE emq:{{q}}:stream:s {entry_id} {entry_id}"));
        // The connection breaks once more, and the question is the same.
        assert!(matches!(put_back.lost(), Step::Again));
        assert!(sent(&mut put_back, &minter).starts_with("XRANGE "));
        let record = format!("*1\r\n*2\r\n+{entry_id}\r\n*2\r\n$2\r\nid\r\n$14\r\n{candidate}\r\n");
        assert!(matches!(put_back.answered(reply(&record)), Step::Done(Ok(id)) if id == candidate));
        let Step::Done(Err(error)) = put_back.answered(reply("*0\r\n")) else { panic!("it is not there") };
        assert_eq!((error.code(), error.id()), (Code::UnknownOutcome, Some(candidate.as_str())));

        // Without a candidate there is nothing to look for; and a refusal says nothing of the first sending.
        let without = Minter::new(Clock::standing(T), None, None);
        for answer in ["$-1\r\n", "-OOM no\r\n"] {
            let mut put_back = PutBack::new(key(), candidate);
            sent(&mut put_back, &without);
            assert!(matches!(put_back.lost(), Step::Again));
            sent(&mut put_back, &without);
            let Step::Done(Err(error)) = put_back.answered(reply(answer)) else { panic!("{answer}") };
            assert_eq!(error.code(), Code::UnknownOutcome);
        }
    }
}
