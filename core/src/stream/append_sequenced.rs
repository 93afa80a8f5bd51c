//! Appends to a stream with several writers, whose ids the server decides (`docs/protocol.md` §4,
//! `lua/append_sequenced.lua`).

use super::Key;
use super::append::removed_since;
use super::batch_atomic::check_fields;
use super::info::{self, StreamInfo};
use crate::error::{Code, Error, Result};
use crate::id::branded::{EventId, LENGTH};
use crate::id::entry_id::EntryId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::{Arguments, Packed};
use crate::record::{Fields, reply};
use crate::script::{self, APPEND_SEQUENCED, Form};
use redis::Value;
use std::time::Duration;

/// Appends one record or all of a batch. `R` is the receipt of the one, or those of all.
pub(crate) struct AppendSequenced<R> {
    key: Key,
    records: Vec<Fields>,
    /// One id a record, made when they are sent; the server takes it or gives another.
    candidates: Vec<EventId>,
    question: Question,
    /// The candidates are of a leased node, with which no other process writes.
    leased: bool,
    /// What this client knew of the stream before it sent the question first.
    seen: Option<u64>,
    /// This round asks how the stream stands, ahead of the append.
    looks: bool,
    form: Form,
    receipt: fn(Vec<EventId>) -> Option<R>,
}

/// One question to the sequencer, which may be sent again after a lost answer and gets the same answer.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    expiry_ms: u64,
    owner: String,
    /// The candidate is ahead of the server's clock, as far as this client knows.
    ahead: bool,
    /// It is on its way, or was and may have been answered.
    pub(crate) sent: bool,
    /// An answer was lost before.
    pub(crate) again: bool,
}

impl Question {
    /// `timeout` is the longest that the client asks for.
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { expiry_ms: expiry_ms(timeout), owner: String::new(), ahead: true, sent: false, again: false }
    }

    /// Takes whose question it is, and where its candidate stands.
    pub(crate) fn prepare(&mut self, candidate: Option<EventId>, minter: &Minter) {
        if self.owner.is_empty() {
            minter.owner().clone_into(&mut self.owner);
        }
        if !self.sent {
            let candidate = candidate.map_or(u64::MAX, |id| id.unix_ms());
            self.ahead = minter.server_clock().now().is_none_or(|now| candidate > now);
        }
        self.sent = true;
    }

    /// It certainly was not answered, and may be another one when it is sent next.
    pub(crate) fn forget(&mut self) {
        (self.sent, self.again) = (false, false);
    }

    /// The question and how long its answer is kept: two values. Without a candidate it has no name.
    pub(crate) fn write(&self, candidate: Option<EventId>, command: &mut Arguments<'_>) {
        let name = candidate.map_or_else(String::new, |id| format!("{id}{}", self.owner));
        command.arg(name).number(self.expiry_ms);
    }

    /// How often it is sent, and what is known of its candidate.
    fn sent(&self) -> u64 {
        2 * u64::from(self.again) + u64::from(self.ahead)
    }
}

/// How long an answer of the sequencer's is kept at least: twice the client's longest deadline, and a minute.
fn expiry_ms(timeout: Duration) -> u64 {
    const CENTURY: u128 = 100 * 366 * 24 * 3_600_000;
    timeout.as_millis().saturating_mul(2).clamp(60_000, CENTURY) as u64
}

impl AppendSequenced<EventId> {
    /// `timeout` is the client's. Fails with `too_large` for a record with more fields than a script can pass on.
    pub(crate) fn one(key: Key, record: Fields, timeout: Duration) -> Result<Self> {
        check_fields(&record).map_err(|error| error.about(&*key))?;
        Ok(Self::new(key, vec![record], timeout, |ids| ids.into_iter().next()))
    }
}

impl AppendSequenced<Vec<EventId>> {
    /// `timeout` is the client's. Fails with `too_large` for a record with more fields than a script can pass on.
    pub(crate) fn batch(key: Key, records: Vec<Fields>, timeout: Duration) -> Result<Self> {
        records.iter().try_for_each(check_fields).map_err(|error| error.about(&*key))?;
        Ok(Self::of_checked(key, records, timeout))
    }

    /// Of records that [`check_fields`] has let through.
    pub(super) fn of_checked(key: Key, records: Vec<Fields>, timeout: Duration) -> Self {
        Self::new(key, records, timeout, Some)
    }
}

impl<R> AppendSequenced<R> {
    fn new(
        key: Key,
        records: Vec<Fields>,
        timeout: Duration,
        receipt: fn(Vec<EventId>) -> Option<R>,
    ) -> Self {
        Self {
            key,
            records,
            candidates: Vec::new(),
            question: Question::new(timeout),
            leased: false,
            seen: None,
            looks: false,
            form: Form::Hash,
            receipt,
        }
    }

    fn receipts(&self, ids: Vec<EventId>) -> Result<R> {
        let count = ids.len();
        if count == self.records.len()
            && let Some(receipt) = (self.receipt)(ids)
        {
            self.key.seen().add(count);
            return Ok(receipt);
        }
        let records = self.records.len();
        Err(Error::new(Code::Server, format!("the server answered {count} ids for {records} records"))
            .about(&*self.key))
    }

    /// Nothing was carried out. What was sent behind it may have been, so the candidates are made anew.
    fn forget(&mut self) {
        self.question.forget();
        self.candidates.clear();
    }

    /// Takes what the server said of the stream, where this round asked for it.
    fn look(&mut self, replies: &mut Vec<Value>) {
        if std::mem::take(&mut self.looks) && replies.len() > 1 {
            let info = StreamInfo::read(replies.remove(0));
            self.key.seen().set(info.ok().and_then(|info| info.added()));
        }
    }

    fn appended(&mut self, reply: Value) -> Step<R> {
        match reply {
            Value::ServerError(error) if script::is_unknown(&error) => {
                self.form = Form::Source;
                if !self.question.again {
                    self.forget();
                }
                Step::Again
            }
            // Neither an answer nor a record, and the candidates may have been appended and removed.
            Value::Nil if self.question.again => {
                self.key.seen().set(None);
                Step::Done(Err(self.unknown(removed_since())))
            }
            reply => Step::Done(match ids(reply).and_then(|ids| self.receipts(ids)) {
                Ok(receipt) => Ok(receipt),
                // What the first sending will do when its last bytes arrive, nobody knows.
                Err(error) if self.question.again => Err(self.unknown(error)),
                Err(error) => Err(error.about(&*self.key)),
            }),
        }
    }

    fn unknown(&self, why: Error) -> Error {
        let what = match self.records.len() {
            1 => "the record may or may not have been appended, under the id of this error or one of the \
                  sequencer's above it"
                .to_owned(),
            records => format!(
                "the {records} records may all have been appended or none, under ids from that of this error on"
            ),
        };
        let error = Error::new(
            Code::UnknownOutcome,
            format!("{what}: {}; a read from that id on tells", why.message()),
        )
        .about(&*self.key)
        .because(why);
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

/// A candidate as the scripts take it, or two empty values for none.
pub(crate) fn write_candidate(candidate: Option<EventId>, command: &mut Arguments<'_>) {
    match candidate {
        Some(id) => command.arg(EntryId::from(id).text().as_bytes()).arg(id.as_bytes()),
        None => command.arg("").arg(""),
    };
}

impl<R: Send + 'static> Operation for AppendSequenced<R> {
    type Reply = R;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.candidates.is_empty() {
            let candidates: Result<Vec<EventId>> = self.records.iter().map(|_| minter.mint()).collect();
            self.candidates = candidates.map_err(|error| error.about(&*self.key))?;
            self.leased = minter.is_leased();
        }
        if !self.question.sent {
            self.seen = self.key.seen().get();
        }
        self.looks = !self.question.again && self.key.seen().claim();
        self.question.prepare(self.candidates.first().copied(), minter);
        Ok(())
    }

    fn mints(&self) -> bool {
        self.candidates.is_empty()
    }

    fn commands(&self, commands: &mut Packed) {
        if self.looks {
            info::ask(&self.key, commands);
        }
        let first = self.candidates.first().copied();
        let values: usize = self.records.iter().map(|fields| 3 + 2 * fields.len()).sum();
        let asked = self.key.asked(first);
        let keys = [&*self.key, self.key.sequencer(), &asked];
        let mut command = APPEND_SEQUENCED.call(self.form, &keys, 5 + values, commands);
        self.question.write(first, &mut command);
        command.number(self.question.sent());
        match self.seen {
            Some(seen) => command.number(seen),
            None => command.arg(""),
        };
        command.number(u64::from(self.leased));
        for (candidate, fields) in self.candidates.iter().zip(&self.records) {
            write_candidate(Some(*candidate), &mut command);
            command.number(2 * fields.len() as u64);
            fields.write_own(&mut command);
        }
    }

    fn answered(&mut self, mut replies: Vec<Value>) -> Step<Self::Reply> {
        self.look(&mut replies);
        self.appended(replies.pop().unwrap_or(Value::Nil))
    }

    fn unavailable(&mut self, mut replies: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.look(&mut replies);
        let reply = replies.pop().unwrap_or(Value::Nil);
        if reply::unavailable(&reply).is_none() {
            return self.appended(reply);
        }
        if !self.question.again {
            self.forget();
        }
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        if std::mem::take(&mut self.looks) {
            self.key.seen().release();
        }
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        self.question.again = true;
        Step::Again
    }

    fn unsent(&mut self) {
        if std::mem::take(&mut self.looks) {
            self.key.seen().release();
        }
        if !self.question.again {
            self.forget();
        }
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        if std::mem::take(&mut self.looks) {
            self.key.seen().release();
        }
        Err(if self.question.sent { self.unknown(why) } else { why.about(&*self.key) })
    }

    fn finds_out(&self) -> bool {
        self.question.sent
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

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn batch(records: usize) -> AppendSequenced<Vec<EventId>> {
        let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
        AppendSequenced::batch(key, vec![Fields::from([("k", "v")]); records], TIMEOUT).unwrap()
    }

    fn reply(text: &str) -> Vec<Value> {
        vec![redis::parse_redis_value(text.as_bytes()).unwrap()]
    }

    /// The values behind the keys, after how the stream stands was asked for where it was.
    fn sent(operation: &mut AppendSequenced<Vec<EventId>>, minter: &Minter) -> (bool, String) {
        let mut commands = Packed::default();
        operation.prepare(minter).unwrap();
        operation.commands(&mut commands);
        let mut texts = commands.texts();
        let append = texts.pop().unwrap();
        let looked = texts == ["XINFO STREAM emq:{q}:stream:s"];
        assert!(looked || texts.is_empty(), "{texts:?}");
        let (call, values) =
            append.split_once(" 3 emq:{q}:stream:s emq:{q}:seq emq:{q}:asked:347137920 ").unwrap();
        (looked, format!("{} {values}", call.split(' ').next().unwrap()))
    }

    #[test]
    fn the_question_its_candidates_and_their_records() {
        let (minter, mut operation) = (minter(880), batch(2));
        let (looked, text) = sent(&mut operation, &minter);
        assert!(looked, "how the stream stands is not known yet");
        let ids: Vec<EventId> = operation.candidates.clone();
        let [first, second] = [0, 1].map(|n| (EntryId::from(ids[n]), ids[n]));
        let question = format!("{}{}", ids[0], minter.owner());
        let records = format!("{} {} 2 k v {} {} 2 k v", first.0, first.1, second.0, second.1);
        assert_eq!(text, format!("EVALSHA {question} 60000 1  0 {records}"));
        let ids = "EVT0NgWEfAER90EVT0NgWEfAER91";
        let mut replies = reply("-ERR no such key\r\n");
        replies.extend(reply(&format!("$28\r\n{ids}\r\n")));
        let Step::Done(Ok(answer)) = operation.answered(replies) else { panic!() };
        assert_eq!(answer.iter().map(EventId::as_str).collect::<String>(), ids);
        assert_eq!(operation.key.seen().get(), Some(2));
        for text in ["$14\r\nEVT0NgWEfAER90\r\n", "$0\r\n\r\n", ":2\r\n"] {
            let Step::Done(Err(error)) = operation.answered(reply(text)) else { panic!("{text}") };
            assert_eq!(error.code(), Code::Server);
        }
    }

    /// What is known of the server's clock decides whether the candidate is tried before the question is looked up.
    #[test]
    fn a_candidate_is_ahead_unless_it_is_known_not_to_be() {
        for (server, sent_as) in
            [(None, 1), (Some(1_735_689_600_000 - 1_000), 1), (Some(1_735_689_600_000), 0)]
        {
            let minter = minter(884);
            if let Some(ms) = server {
                minter.set_server_time(ms, std::time::Instant::now());
            }
            let mut operation = batch(1);
            sent(&mut operation, &minter);
            assert_eq!(operation.question.sent(), sent_as);
            // What was first believed is what the script must know when it is sent again.
            minter.set_server_time(1_735_689_600_000, std::time::Instant::now());
            assert!(matches!(operation.lost(), Step::Again));
            sent(&mut operation, &minter);
            assert_eq!(operation.question.sent(), 2 + sent_as);
        }
    }

    #[test]
    fn a_server_that_does_not_know_the_script_gets_new_candidates() {
        let (minter, mut operation) = (minter(847), batch(1));
        assert!(sent(&mut operation, &minter).1.starts_with("EVALSHA "));
        let candidate = operation.candidates[0];
        assert!(matches!(operation.answered(reply("-NOSCRIPT No matching script.\r\n")), Step::Again));
        assert_eq!(operation.abandon(Error::new(Code::Timeout, "late")).unwrap_err().code(), Code::Timeout);
        assert!(sent(&mut operation, &minter).1.starts_with("EVAL "));
        assert!(operation.candidates[0] > candidate);
    }

    #[test]
    fn what_the_server_could_not_serve_gets_new_candidates_and_is_not_in_doubt() {
        let (minter, mut operation) = (minter(885), batch(1));
        sent(&mut operation, &minter);
        let candidate = operation.candidates[0];
        let why = || Error::new(Code::Unavailable, "loading");
        assert!(matches!(operation.unavailable(reply("-LOADING no\r\n"), why()), Step::Later(_)));
        assert_eq!(operation.abandon(why()).unwrap_err().code(), Code::Unavailable);
        sent(&mut operation, &minter);
        assert!(operation.candidates[0] > candidate);
        // Once an answer was lost, the question stays the same.
        let candidate = operation.candidates[0];
        assert!(matches!(operation.lost(), Step::Again));
        assert!(matches!(operation.unavailable(reply("-LOADING no\r\n"), why()), Step::Later(_)));
        sent(&mut operation, &minter);
        assert_eq!(operation.candidates[0], candidate);
        assert_eq!(operation.abandon(why()).unwrap_err().code(), Code::UnknownOutcome);
        // The look ahead of it was refused, and it was not.
        let mut looking = batch(1);
        assert!(sent(&mut looking, &minter).0);
        let mut replies = reply("-BUSY no\r\n");
        replies.extend(reply("$14\r\nEVT0NgWEfAER90\r\n"));
        assert!(matches!(looking.unavailable(replies, why()), Step::Done(Ok(_))));
    }

    #[test]
    fn a_lost_answer_is_asked_for_again_by_the_same_question() {
        let (minter, mut operation) = (minter(882), batch(2));
        let (_, first) = sent(&mut operation, &minter);
        let candidate = operation.candidates[0];
        for _ in 0..2 {
            assert!(matches!(operation.lost(), Step::Again));
            let again = first.replace("EVALSHA", "EVAL").replace(" 60000 1 ", " 60000 3 ");
            assert_eq!(sent(&mut operation, &minter), (false, again));
        }
        let ids = "EVT0NgWEfAER90EVT0NgWEfAER91";
        let Step::Done(Ok(answer)) = operation.answered(reply(&format!("$28\r\n{ids}\r\n"))) else {
            panic!()
        };
        assert_eq!(answer.iter().map(EventId::as_str).collect::<String>(), ids);
        // Nobody can tell; and a refusal says nothing of the first sending.
        for text in ["$-1\r\n", "-ERR no\r\n"] {
            let Step::Done(Err(error)) = operation.answered(reply(text)) else { panic!("{text}") };
            assert_eq!((error.code(), error.id()), (Code::UnknownOutcome, Some(candidate.as_str())));
            assert!(error.cause().is_some());
        }
        let error = operation.abandon(Error::new(Code::Timeout, "late")).unwrap_err();
        assert_eq!((error.code(), error.id()), (Code::UnknownOutcome, Some(candidate.as_str())));
    }

    #[test]
    fn an_answer_is_kept_for_twice_the_longest_deadline_and_a_minute_at_least() {
        for (timeout, ms) in [
            (Duration::ZERO, 60_000),
            (Duration::from_secs(5), 60_000),
            (Duration::from_millis(30_001), 60_002),
            (Duration::MAX, 100 * 366 * 24 * 3_600_000),
        ] {
            assert_eq!(expiry_ms(timeout), ms);
        }
    }
}
