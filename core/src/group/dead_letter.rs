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
use crate::stream::append_sequenced::{Question, write_candidate};
use redis::Value;
use std::sync::Arc;
use std::time::Duration;

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
/// Its question gets the same answer again, and an entry that is not pending is left alone, so it can be sent again after a
/// lost answer.
pub(crate) struct DeadLetter {
    key: Key,
    group: Arc<str>,
    entry_id: EntryId,
    attempts: u64,
    error: Vec<u8>,
    candidate: Option<EventId>,
    question: Question,
    /// The server refused a candidate, so the id is left to its sequencer.
    without_candidate: bool,
    /// Whether it waits for the node that the user gave; no node is leased for it.
    waits_for_node: bool,
    /// When it was sent first, in Unix milliseconds.
    at: Option<u64>,
    form: Form,
}

impl DeadLetter {
    /// `timeout` is the client's.
    pub(crate) fn new(
        key: Key,
        group: Arc<str>,
        entry_id: EntryId,
        attempts: u64,
        error: Vec<u8>,
        timeout: Duration,
    ) -> Self {
        let (candidate, without_candidate, at, form) = (None, false, None, Form::Hash);
        let question = Question::new(timeout);
        Self {
            key,
            group,
            entry_id,
            attempts,
            error,
            candidate,
            question,
            without_candidate,
            waits_for_node: false,
            at,
            form,
        }
    }

    /// Has its id made with the node that the user gave.
    pub(crate) fn with_given_node(self) -> Self {
        Self { waits_for_node: true, ..self }
    }

    fn read(&self, reply: Value) -> Result<Outcome> {
        match reply::accepted(reply)? {
            Value::Int(0) => Ok(Outcome::Settled),
            Value::Int(-1) => Ok(Outcome::Lost),
            Value::Int(-2) => Err(too_many_fields(self.entry_id)),
            id => EventId::parse(reply::bytes(id)?).map(Outcome::Moved),
        }
    }
}

impl Operation for DeadLetter {
    type Reply = Outcome;

    fn mints(&self) -> bool {
        self.waits_for_node && self.candidate.is_none() && !self.without_candidate && !self.question.sent
    }

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.candidate.is_none() && !self.without_candidate {
            // Where this host can make no id, or has leased no node, the sequencer does: a consumer needs no lease.
            self.candidate = match minter.mint() {
                Err(error) if self.mints() && error.code() == Code::NodeLeaseLost => return Err(error),
                minted => minted.ok(),
            };
        }
        self.at.get_or_insert_with(|| minter.now());
        self.question.prepare(self.candidate, minter);
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        let dead = self.key.dead_letters();
        let asked = self.key.asked(self.candidate);
        let keys = [&*self.key, &*dead, self.key.sequencer(), &asked];
        let mut command = DEAD_LETTER.call(self.form, &keys, 9, commands);
        command.arg(&*self.group).arg(self.entry_id.text().as_bytes());
        self.question.write(self.candidate, &mut command);
        write_candidate(self.candidate, &mut command);
        command.number(self.attempts).arg(&self.error).number(self.at.unwrap_or_default());
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        if let Value::ServerError(error) = &reply
            && script::is_unknown(error)
        {
            self.form = Form::Source;
            take_back(&mut self.question);
            if !self.question.sent {
                self.candidate = None;
            }
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

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        take_back(&mut self.question);
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        self.question.again = true;
        Step::Again
    }

    fn unsent(&mut self) {
        take_back(&mut self.question);
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        if !self.question.sent {
            return Err(why.about(&*self.key));
        }
        let entry_id = self.entry_id;
        Err(Error::new(
            Code::UnknownOutcome,
            format!("the entry {entry_id} may or may not be a dead letter now: {}", why.message()),
        )
        .about(&*self.key)
        .because(why))
    }
}

/// The last sending of a question was certainly not carried out. Unless an answer was lost before, nothing is in doubt.
fn take_back(question: &mut Question) {
    if !question.again {
        question.forget();
    }
}

/// What a script cannot do with an entry of too many fields.
fn too_many_fields(entry_id: impl std::fmt::Display) -> Error {
    Error::new(
        Code::TooLarge,
        format!(
            "the entry {entry_id} has more fields than a script can pass on to one command: a dead letter can have 3745 of \
             its own"
        ),
    )
}

/// Appends a dead letter's own fields to its stream and removes it, in one step.
///
/// Only the sending that finds the dead letter appends anything, and its question gets the same answer again, so it can be
/// sent again after a lost answer, whatever the old connection still brings.
pub(crate) struct PutBack {
    key: Key,
    id: EventId,
    candidate: Option<EventId>,
    question: Question,
    form: Form,
}

impl PutBack {
    /// `timeout` is the client's.
    pub(crate) fn new(key: Key, id: EventId, timeout: Duration) -> Self {
        Self { key, id, candidate: None, question: Question::new(timeout), form: Form::Hash }
    }

    fn read(&self, reply: Value) -> Result<EventId> {
        match reply {
            // A first sending without a candidate is not on record; with one, it was never carried out.
            Value::Nil if self.question.again && self.candidate.is_none() => Err(self.unknown(Error::new(
                Code::Gone,
                "an answer was lost, and it is not among the dead letters any more",
            ))),
            Value::Nil => {
                let dead = self.key.dead_letters();
                Err(Error::new(Code::Gone, format!("there is no dead letter {}", self.id))
                    .about(&*dead)
                    .with_id(self.id))
            }
            Value::Int(-2) => Err(too_many_fields(self.id).about(&*self.key).with_id(self.id)),
            reply => match reply::bytes(reply).and_then(EventId::parse) {
                Ok(id) => Ok(id),
                Err(error) if self.question.again => Err(self.unknown(error)),
                Err(error) => Err(error.about(&*self.key)),
            },
        }
    }

    fn unknown(&self, why: Error) -> Error {
        let id = self.id;
        let error = Error::new(
            Code::UnknownOutcome,
            format!("the dead letter {id} may or may not have been put back: {}", why.message()),
        );
        error.about(&*self.key).with_id(self.candidate.unwrap_or(id)).because(why)
    }
}

impl Operation for PutBack {
    type Reply = EventId;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.mints() {
            self.candidate = Some(minter.mint().map_err(|error| error.about(&*self.key))?);
        }
        self.question.prepare(self.candidate, minter);
        Ok(())
    }

    fn mints(&self) -> bool {
        self.candidate.is_none() && !self.question.sent
    }

    fn commands(&self, commands: &mut Packed) {
        let dead = self.key.dead_letters();
        let asked = self.key.asked(self.candidate);
        let keys = [&*self.key, &*dead, self.key.sequencer(), &asked];
        let mut command = PUT_BACK.call(self.form, &keys, 5, commands);
        command.arg(EntryId::from(self.id).text().as_bytes());
        self.question.write(self.candidate, &mut command);
        write_candidate(self.candidate, &mut command);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        match replies.into_iter().next().unwrap_or(Value::Nil) {
            Value::ServerError(error) if script::is_unknown(&error) => {
                self.form = Form::Source;
                take_back(&mut self.question);
                Step::Again
            }
            reply => Step::Done(self.read(reply)),
        }
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        take_back(&mut self.question);
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        self.question.again = true;
        Step::Again
    }

    fn unsent(&mut self) {
        take_back(&mut self.question);
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(if self.question.sent { self.unknown(why) } else { why.about(&*self.key) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::id::mint::Mint;
    use crate::keyspace::Keyspace;

    const T: u64 = 1_735_689_600_000;
    const TIMEOUT: Duration = Duration::from_secs(5);

    fn minter(node: Option<u16>) -> Minter {
        Minter::new(Clock::standing(T), node.map(|node| Mint::new(node).unwrap()), None)
    }

    fn key() -> Key {
        Key::new(&Keyspace::new("q").unwrap(), "s").unwrap()
    }

    fn dead_letter() -> DeadLetter {
        DeadLetter::new(key(), "g".into(), EntryId::new(7, 8), 3, b"no".to_vec(), TIMEOUT)
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
        let keys = " 4 emq:{q}:stream:s emq:{q}:stream:s:dead emq:{q}:seq emq:{q}:asked:";
        let (call, values) = text.split_once(keys).unwrap();
        format!("{} {values}", call.split(' ').next().unwrap())
    }

    #[test]
    fn it_is_sent_the_same_after_a_lost_answer() {
        let (minter, mut operation) = (minter(Some(870)), dead_letter());
        let id = "1735689600000-3563520";
        let branded = EventId::try_from(id.parse::<EntryId>().unwrap()).unwrap();
        let owner = minter.owner();
        let values = format!("347137920 g 7-8 {branded}{owner} 60000 {id} {branded} 3 no 1735689600000");
        assert_eq!(sent(&mut operation, &minter), format!("EVALSHA {values}"));
        assert!(matches!(operation.lost(), Step::Again));
        assert_eq!(sent(&mut operation, &minter), format!("EVAL {values}"));
        let moved = operation.answered(reply("$14\r\nEVT0NgWEfAER90\r\n"));
        assert!(matches!(moved, Step::Done(Ok(Outcome::Moved(id))) if id.as_str() == "EVT0NgWEfAER90"));
        assert!(matches!(operation.answered(reply(":0\r\n")), Step::Done(Ok(Outcome::Settled))));
        assert!(matches!(operation.answered(reply(":-1\r\n")), Step::Done(Ok(Outcome::Lost))));
        for (text, expected) in [
            (":1\r\n", Code::Server),
            (":-2\r\n", Code::TooLarge),
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
        assert_eq!(sent(&mut operation, &minter(None)), "EVALSHA 0 g 7-8  60000   3 no 1735689600000");
        let (minter, mut operation) = (minter(Some(871)), dead_letter());
        sent(&mut operation, &minter);
        assert!(matches!(operation.answered(reply("-EMQAHEAD clock 2 1\r\n")), Step::Again));
        assert_eq!(sent(&mut operation, &minter), "EVALSHA 0 g 7-8  60000   3 no 1735689600000");
    }

    #[test]
    fn a_server_that_does_not_know_the_scripts_gets_them_whole() {
        let minter = minter(Some(872));
        let (mut dead_letter, mut put_back) =
            (dead_letter(), PutBack::new(key(), minter.mint().unwrap(), TIMEOUT));
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
        let (mut dead_letter, mut put_back) =
            (dead_letter(), PutBack::new(key(), minter.mint().unwrap(), TIMEOUT));
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
        let id = minter.mint().unwrap();
        let mut put_back = PutBack::new(key(), id, TIMEOUT);
        let first = sent(&mut put_back, &minter);
        assert!(matches!(put_back.lost(), Step::Again));
        // The same question, so that the answer would be the same.
        assert_eq!(sent(&mut put_back, &minter), first.replace("EVALSHA", "EVAL"));
        let Step::Done(Err(error)) = put_back.answered(reply("$-1\r\n")) else { panic!("it is not there") };
        assert_eq!((error.code(), error.id()), (Code::Gone, Some(id.as_str())));

        // A refusal says nothing of the first sending.
        let mut put_back = PutBack::new(key(), id, TIMEOUT);
        sent(&mut put_back, &minter);
        assert!(matches!(put_back.lost(), Step::Again));
        sent(&mut put_back, &minter);
        let Step::Done(Err(error)) = put_back.answered(reply("-OOM no\r\n")) else { panic!("an error") };
        assert_eq!(error.code(), Code::UnknownOutcome);
        assert!(error.cause().is_some());
    }

    #[test]
    fn what_the_server_could_not_serve_is_asked_again_and_not_in_doubt() {
        let minter = minter(Some(875));
        let why = || Error::new(Code::Unavailable, "loading");
        let (mut dead_letter, mut put_back) =
            (dead_letter(), PutBack::new(key(), minter.mint().unwrap(), TIMEOUT));
        sent(&mut dead_letter, &minter);
        sent(&mut put_back, &minter);
        assert!(matches!(dead_letter.unavailable(reply("-LOADING\r\n"), why()), Step::Later(_)));
        assert!(matches!(put_back.unavailable(reply("-LOADING\r\n"), why()), Step::Later(_)));
        assert_eq!(dead_letter.abandon(why()).unwrap_err().code(), Code::Unavailable);
        assert_eq!(put_back.abandon(why()).unwrap_err().code(), Code::Unavailable);
    }
}
