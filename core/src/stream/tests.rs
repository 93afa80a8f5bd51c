//! The appends as a property: whatever breaks, each record is in the stream once, in order, and its caller knows.
//!
//! A stream is modelled as what the server's documentation says of it: a list whose entry ids rise. The line carries
//! appends and batches to it over connections that break at any command, on the way there or on the way back.

use super::Key;
use super::append::Append;
use super::batch::AppendBatch;
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

#[derive(Default)]
struct Model {
    entries: Vec<(EntryId, Vec<Value>)>,
}

impl Model {
    fn apply(&mut self, arguments: &[Vec<u8>]) -> Value {
        let id = |text: &[u8]| EntryId::parse(text).unwrap();
        let top = self.entries.last().map_or(EntryId::MIN, |(id, _)| *id);
        match &arguments[0][..] {
            b"XADD" if id(&arguments[2]) > top => {
                let fields = arguments[3..].iter().cloned().map(Value::BulkString).collect();
                self.entries.push((id(&arguments[2]), fields));
                Value::BulkString(arguments[2].clone())
            }
            b"XADD" => refusal(),
            b"XRANGE" => {
                let found = self.entries.iter().filter(|(entry, _)| *entry == id(&arguments[2]));
                let entry = |(id, fields): &(EntryId, Vec<Value>)| {
                    Value::Array(vec![Value::SimpleString(id.to_string()), Value::Array(fields.clone())])
                };
                Value::Array(found.map(entry).collect())
            }
            b"XINFO" => Value::Array(vec![
                Value::SimpleString("last-generated-id".into()),
                Value::SimpleString(top.to_string()),
            ]),
            other => panic!("{}", other.escape_ascii()),
        }
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
    /// So many commands leave, the server sees so many of them, and so many of its answers come back; where that is not
    /// all of them the connection breaks, and the server may see the rest only after the next connection's first words.
    Exchange {
        sent: usize,
        seen: usize,
        heard: usize,
        late: bool,
    },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        Just(Event::Append),
        (0..4_usize).prop_map(Event::Batch),
        (1..8_usize, 0..9_usize, 0..9_usize, any::<bool>())
            .prop_map(|(sent, seen, heard, late)| Event::Exchange { sent, seen, heard, late }),
    ];
    prop::collection::vec(event, 1..60)
}

struct Bench {
    line: Line,
    minter: Minter,
    model: Model,
    /// Commands of a broken connection that the server has yet to see.
    late: Vec<Vec<Vec<u8>>>,
    singles: Vec<Pending<EventId>>,
    batches: Vec<Pending<Vec<Result<EventId>>>>,
}

impl Bench {
    fn new() -> Self {
        Self {
            line: Line::new(Bounds { weight: 1_000, bytes: usize::MAX }),
            minter: Minter::new(Clock::system(), Some(Mint::new(900).unwrap()), None),
            model: Model::default(),
            late: Vec::new(),
            singles: Vec::new(),
            batches: Vec::new(),
        }
    }

    fn happen(&mut self, event: &Event) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
        match event {
            Event::Append => {
                let append = Append::new(key, None, Fields::from([("k", "v")]));
                self.singles.push(self.line.submit(append, deadline).unwrap());
            }
            Event::Batch(records) => {
                let records = vec![Ok(Fields::new()); records + 1];
                self.batches.push(self.line.submit(AppendBatch::new(key, records), deadline).unwrap());
            }
            Event::Exchange { sent, seen, heard, late } => self.exchange(*sent, *seen, *heard, *late),
        }
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
            replies.push(self.model.apply(command));
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
        for _ in 0..8 {
            bench.exchange(1_000, 1_000, 1_000, false);
        }
        prop_assert!(bench.line.is_empty());
        let mut answered: Vec<EventId> = Vec::new();
        for mut single in bench.singles {
            answered.push(single.try_take().expect("an answer").expect("a receipt"));
        }
        for mut batch in bench.batches {
            for result in batch.try_take().expect("an answer").expect("results") {
                answered.push(result.expect("a receipt"));
            }
        }
        answered.sort();
        prop_assert_eq!(bench.model.ids(), answered);
    }
}

#[test]
fn a_second_writer_is_reported_with_the_top() {
    let mut bench = Bench::new();
    let top = EntryId::new(9_999_999_999_999, 7);
    bench.model.entries.push((top, vec![Value::Nil, Value::Nil]));
    bench.happen(&Event::Append);
    bench.exchange(9, 9, 9, false);
    bench.exchange(9, 9, 9, false);
    let error = bench.singles[0].try_take().unwrap().unwrap_err();
    assert_eq!((error.code(), error.top()), (Code::NonMonotonic, Some("9999999999999-7")));
    assert_eq!(bench.model.entries.len(), 1);
}
