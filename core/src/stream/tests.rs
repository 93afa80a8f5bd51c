//! The appends as a property: whatever breaks, each record is in the stream once, in order, and its caller knows.
//!
//! A stream is modelled as what the server's documentation says of it: a list whose entry ids rise. The line carries
//! appends and batches to it over connections that break at any command, on the way there or on the way back.

use super::Key;
use super::append::Append;
use super::batch::AppendBatch;
use super::batch_atomic::AppendBatchAtomic;
use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use crate::id::mint::Mint;
use crate::keyspace::Keyspace;
use crate::operation::line::{Bounds, Line, Outgoing, Settled};
use crate::operation::minter::Minter;
use crate::operation::pending::Pending;
use crate::record::Fields;
use crate::record::packed::Packed;
use proptest::prelude::*;
use redis::Value;
use std::time::{Duration, Instant};

struct Model {
    entries: Vec<(EntryId, Vec<Value>)>,
    /// All that was ever written, whatever became of it.
    written: Vec<EventId>,
    last: EntryId,
    max_deleted: EntryId,
    added: i64,
}

fn text(text: impl ToString) -> Value {
    Value::SimpleString(text.to_string())
}

impl Model {
    fn new() -> Self {
        let (last, max_deleted) = (EntryId::MIN, EntryId::MIN);
        Self { entries: Vec::new(), written: Vec::new(), last, max_deleted, added: 0 }
    }

    fn apply(&mut self, arguments: &[Vec<u8>]) -> Value {
        let id = |text: &[u8]| EntryId::parse(text).unwrap();
        match &arguments[0][..] {
            b"XADD" if id(&arguments[2]) > self.last => {
                self.add(id(&arguments[2]), &arguments[3..]);
                Value::BulkString(arguments[2].clone())
            }
            b"XADD" => refusal(),
            b"XRANGE" => {
                let found = self.entries.iter().filter(|(entry, _)| *entry == id(&arguments[2]));
                let entry = |(id, fields): &(EntryId, Vec<Value>)| {
                    Value::Array(vec![text(id), Value::Array(fields.clone())])
                };
                Value::Array(found.map(entry).collect())
            }
            b"XINFO" => {
                let first =
                    self.entries.first().map(|(id, _)| Value::Array(vec![text(id), Value::Array(vec![])]));
                Value::Array(vec![
                    text("length"),
                    Value::Int(self.entries.len() as i64),
                    text("last-generated-id"),
                    text(self.last),
                    text("max-deleted-entry-id"),
                    text(self.max_deleted),
                    text("entries-added"),
                    Value::Int(self.added),
                    text("first-entry"),
                    first.unwrap_or(Value::Nil),
                ])
            }
            b"EVALSHA" | b"EVAL" => self.append_batch(&arguments[4..]),
            other => panic!("{}", other.escape_ascii()),
        }
    }

    fn add(&mut self, id: EntryId, fields: &[Vec<u8>]) {
        self.last = id;
        self.added += 1;
        if let Ok(id) = EventId::parse(&fields[1]) {
            self.written.push(id);
        }
        self.entries.push((id, fields.iter().cloned().map(Value::BulkString).collect()));
    }

    /// `append_batch.lua`, of well-formed values.
    fn append_batch(&mut self, mut values: &[Vec<u8>]) -> Value {
        let number = |value: &[u8]| str::from_utf8(value).unwrap().parse::<u64>().unwrap();
        if EntryId::new(number(&values[0]), number(&values[1])) <= self.last {
            return redis::parse_redis_value(format!("-EMQSTALE {}\r\n", self.last).as_bytes()).unwrap();
        }
        let mut records = 0;
        while let [ms, seq, count, rest @ ..] = values {
            let (fields, next) = rest.split_at(number(count) as usize);
            self.add(EntryId::new(number(ms), number(seq)), fields);
            (values, records) = (next, records + 1);
        }
        Value::Int(records)
    }

    /// Removes one entry by its id, or the oldest ones, which leaves no trace but a later first entry.
    fn remove(&mut self, place: usize, trims: bool) {
        if self.entries.is_empty() {
            return;
        }
        let place = place % self.entries.len();
        if trims {
            self.entries.drain(..=place);
        } else {
            let (id, _) = self.entries.remove(place);
            self.max_deleted = self.max_deleted.max(id);
        }
    }

    /// The key is deleted: another one may come in its place.
    fn delete(&mut self) {
        self.entries.clear();
        (self.last, self.max_deleted, self.added) = (EntryId::MIN, EntryId::MIN, 0);
    }

    fn ids(&self) -> Vec<EventId> {
        let id = |fields: &[Value]| match &fields[1] {
            Value::BulkString(id) => EventId::parse(id).unwrap(),
            other => panic!("{other:?}"),
        };
        self.entries.iter().map(|(_, fields)| id(fields)).collect()
    }
}

fn refusal() -> Value {
    let text = "-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n";
    redis::parse_redis_value(text.as_bytes()).unwrap()
}

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    Append,
    Batch(usize),
    Atomic(usize),
    /// Another client removes entries: one, or the oldest.
    Remove(usize, bool),
    /// The key is deleted.
    Delete,
    /// The server cannot serve the next so many commands.
    Refuse(usize),
    /// Another client appends below or above what this one writes.
    Other(u64),
    /// So many commands leave, the server sees so many of them, and so many of its answers come back; where that is not
    /// all of them the connection breaks, and the server may see the rest only after the next connection's first words.
    Exchange {
        sent: usize,
        seen: usize,
        heard: usize,
        late: bool,
    },
}

fn exchanges() -> impl Strategy<Value = Event> {
    (1..8_usize, 0..9_usize, 0..9_usize, any::<bool>())
        .prop_map(|(sent, seen, heard, late)| Event::Exchange { sent, seen, heard, late })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        Just(Event::Append),
        (0..4_usize).prop_map(Event::Batch),
        (0..4_usize).prop_map(Event::Atomic),
        exchanges(),
    ];
    prop::collection::vec(event, 1..60)
}

/// The same on a server that refuses, with a stream that others write and remove from.
fn troubles() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => Just(Event::Append),
        2 => (0..4_usize).prop_map(Event::Batch),
        2 => (0..4_usize).prop_map(Event::Atomic),
        8 => exchanges(),
        2 => (0..9_usize, any::<bool>()).prop_map(|(place, trims)| Event::Remove(place, trims)),
        1 => Just(Event::Delete),
        2 => (1..5_usize).prop_map(Event::Refuse),
        1 => (0..4_u64).prop_map(Event::Other),
    ];
    prop::collection::vec(event, 1..60)
}

struct Bench {
    line: Line,
    key: Key,
    minter: Minter,
    model: Model,
    /// Commands of a broken connection that the server has yet to see.
    late: Vec<Vec<Vec<u8>>>,
    /// So many commands are answered by `-LOADING`.
    refusing: usize,
    singles: Vec<Pending<EventId>>,
    atomics: Vec<(usize, Pending<Vec<EventId>>)>,
    batches: Vec<Pending<Vec<Result<EventId>>>>,
}

impl Bench {
    fn new() -> Self {
        Self {
            line: Line::new(Bounds { weight: 1_000, bytes: usize::MAX }),
            minter: Minter::new(Clock::system(), Some(Mint::new(900).unwrap()), None),
            model: Model::new(),
            late: Vec::new(),
            refusing: 0,
            atomics: Vec::new(),
            key: Key::new(&Keyspace::new("q").unwrap(), "s").unwrap(),
            singles: Vec::new(),
            batches: Vec::new(),
        }
    }

    fn happen(&mut self, event: &Event) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let key = self.key.clone();
        match event {
            Event::Append => {
                let append = Append::new(key, None, Fields::from([("k", "v")]));
                self.singles.push(self.line.submit(append, deadline).unwrap());
            }
            Event::Batch(records) => {
                let records = vec![Ok(Fields::new()); records + 1];
                self.batches.push(self.line.submit(AppendBatch::new(key, records), deadline).unwrap());
            }
            Event::Atomic(records) => {
                let records: Vec<Fields> =
                    (0..=*records).map(|n| Fields::from([("n", n.to_string())])).collect();
                let (count, atomic) = (records.len(), AppendBatchAtomic::new(key, records).unwrap());
                self.atomics.push((count, self.line.submit(atomic, deadline).unwrap()));
            }
            Event::Remove(place, trims) => self.model.remove(*place, *trims),
            Event::Delete => self.model.delete(),
            Event::Refuse(commands) => self.refusing += commands,
            // A foreign entry just above the top, so that what is on its way below it is refused.
            Event::Other(above) => {
                let id = EntryId::new(self.model.last.ms().max(1) + above, self.model.last.seq() | 1 << 40);
                self.model.add(id, &[b"k".to_vec(), b"other".to_vec()]);
            }
            Event::Exchange { sent, seen, heard, late } => self.exchange(*sent, *seen, *heard, *late),
        }
    }

    /// Has everything answered over a connection that holds.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        // After breaks few leave at once.
        for _ in 0..200 {
            self.exchange(1_000, 1_000, 1_000, false);
        }
        prop_assert!(self.line.is_empty());
        Ok(())
    }

    fn exchange(&mut self, sent: usize, seen: usize, heard: usize, late: bool) {
        let mut commands = Packed::default();
        let outgoing = Outgoing::prepare(
            self.line.take(Bounds { weight: sent, bytes: usize::MAX }),
            &self.minter,
            &mut commands,
        );
        self.line.sent(outgoing).tell();
        let commands = commands.unpacked();
        // A new connection's first command may be seen before the last bytes of the old one.
        let late_commands = std::mem::take(&mut self.late);
        let mut replies = Vec::new();
        for (number, command) in commands.iter().take(seen).enumerate() {
            if self.refusing > 0 {
                self.refusing -= 1;
                replies.push(redis::parse_redis_value(b"-LOADING the dataset in memory\r\n").unwrap());
            } else {
                replies.push(self.model.apply(command));
            }
            if number == 0 {
                late_commands.iter().for_each(|command| drop(self.model.apply(command)));
            }
        }
        let whole = replies.len() == commands.len() && heard >= replies.len();
        let heard = replies.into_iter().take(heard);
        let answered = heard.filter_map(|reply| self.line.answer(reply)).collect();
        self.line.settle(Settled::read(answered)).tell();
        if !whole {
            let lost = self.line.broken(u64::MAX, &Error::new(Code::Disconnected, "closed")).ask();
            self.line.recover(lost).tell();
            if late {
                self.late = commands.into_iter().skip(seen).collect();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn each_record_is_there_once_in_order_and_its_caller_knows(events in events()) {
        let mut bench = Bench::new();
        events.iter().for_each(|event| bench.happen(event));
        bench.finish()?;
        let mut written = bench.model.ids();
        prop_assert!(written.is_sorted_by(|a, b| a < b), "each is there once, in order");
        // An operation that was alone on its way on three connections that broke, and never found, ends with what is known.
        let given_up = |error: &Error| {
            error.code() == Code::UnknownOutcome && error.message().contains("broke each of the ")
        };
        let mut answers: Vec<Result<EventId>> = Vec::new();
        answers.extend(bench.singles.iter_mut().map(|single| single.try_take().expect("an answer")));
        for batch in &mut bench.batches {
            answers.extend(batch.try_take().expect("an answer").expect("results"));
        }
        for (records, atomic) in &mut bench.atomics {
            match atomic.try_take().expect("an answer") {
                Ok(ids) => answers.extend(ids.into_iter().map(Ok)),
                Err(error) => {
                    prop_assert!(given_up(&error), "{}", error);
                    // All of it or nothing.
                    let first = written.iter().position(|id| Some(id.as_str()) == error.id());
                    first.map(|first| written.drain(first..first + *records));
                }
            }
        }
        for answer in answers {
            match answer {
                Ok(id) => {
                    prop_assert!(written.contains(&id), "{} was answered and is not there", id);
                    written.retain(|written| *written != id);
                }
                Err(error) => {
                    prop_assert!(given_up(&error), "{}", error);
                    written.retain(|written| Some(written.as_str()) != error.id());
                }
            }
        }
        prop_assert_eq!(written, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    /// No answer claims more than is so: what was acknowledged was written, once; what was refused never was and never will
    /// be; and in doubt is nothing but what was lost with the key or may have been removed.
    #[test]
    fn no_answer_claims_more_than_is_so(events in troubles()) {
        let mut bench = Bench::new();
        events.iter().for_each(|event| bench.happen(event));
        bench.refusing = 0;
        bench.finish()?;
        // Each with how many records the answer is about.
        let mut answers: Vec<(Result<EventId>, usize)> = Vec::new();
        answers.extend(bench.singles.iter_mut().map(|single| (single.try_take().expect("an answer"), 1)));
        for batch in &mut bench.batches {
            let results = batch.try_take().expect("an answer").expect("results");
            answers.extend(results.into_iter().map(|result| (result, 1)));
        }
        for (count, atomic) in &mut bench.atomics {
            match atomic.try_take().expect("an answer") {
                Ok(ids) => answers.extend(ids.into_iter().map(|id| (Ok(id), 1))),
                Err(error) => answers.push((Err(error), *count)),
            }
        }
        let written = &bench.model.written;
        let deleted = events.iter().any(|event| matches!(event, Event::Delete));
        let times = |id: EventId| written.iter().filter(|written| **written == id).count();
        let mut untold = written.clone();
        let mut told = |id: EventId, count: usize| {
            if let Some(at) = untold.iter().position(|written| *written == id) {
                untold.drain(at..at + count);
            }
        };
        for (answer, count) in answers {
            match answer {
                // Once a key. What was written to a key that was deleted may be written to the next one.
                Ok(id) => {
                    prop_assert!(times(id) > 0, "{id} was acknowledged and never written");
                    told(id, 1);
                }
                Err(error) => {
                    // It broke the connections on which its questions were asked, and certainly was not written.
                    let Some(id) = error.id() else {
                        prop_assert_eq!(error.code(), Code::Disconnected);
                        continue;
                    };
                    let id = EventId::parse(id).unwrap();
                    match error.code() {
                        // A key that was made again and has as many entries by now as the old one had cannot be told.
                        Code::NonMonotonic => prop_assert!(deleted || times(id) == 0, "{}", error),
                        Code::UnknownOutcome => {
                            prop_assert!(error.cause().is_some(), "{}", error);
                            told(id, count);
                        }
                        other => prop_assert!(false, "{other}"),
                    }
                }
            }
        }
        if !deleted {
            let mut all = written.clone();
            all.sort();
            all.dedup();
            prop_assert_eq!(all.len(), written.len(), "nothing was written twice");
            prop_assert_eq!(untold, [], "what was written is acknowledged or in doubt");
        }
    }
}

#[test]
fn a_second_writer_is_reported_with_the_top() {
    let mut bench = Bench::new();
    let top = EntryId::new(9_999_999_999_999, 7);
    bench.model.add(top, &[b"k".to_vec(), b"v".to_vec()]);
    bench.happen(&Event::Append);
    bench.exchange(9, 9, 9, false);
    bench.exchange(9, 9, 9, false);
    let error = bench.singles[0].try_take().unwrap().unwrap_err();
    assert_eq!((error.code(), error.top()), (Code::NonMonotonic, Some("9999999999999-7")));
    assert_eq!(bench.model.entries.len(), 1);
}
