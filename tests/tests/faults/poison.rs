//! A record whose handler kills its own process, in each language.

use crate::bus::{Bus, key};
use crate::consumer::Consumer;
use crate::each;
use echomq::EventId;
use echomq_tests::wait::{DEADLINE, STEP};
use echomq_tests::{Kind, Language};
use std::collections::BTreeSet;
use std::time::Instant;

/// One language's stream, and the consumer that a supervisor starts again whenever it has died.
struct Supervised {
    language: Language,
    stream: String,
    /// Whether the consumer is started under the same name again.
    one_name: bool,
    poison: EventId,
    good: BTreeSet<EventId>,
    starts: usize,
    running: Consumer,
    /// At which attempts the poisonous record was begun.
    attempts: Vec<u64>,
    handled: BTreeSet<EventId>,
}

impl Supervised {
    fn start(bus: &Bus, language: Language, one_name: bool) -> Self {
        let stream = format!("{}-{one_name}", language.name());
        let records = (0..10).map(|n: usize| {
            let instruction = if n == 4 { "die" } else { "live" };
            [("n", n.to_string()), (instruction, String::new())]
        });
        let mut ids = bus.stream(&stream).append_batch_atomic(records).unwrap();
        let poison = ids.remove(4);
        Self {
            running: Self::begin(bus, language, &stream, "c0"),
            language,
            stream,
            one_name,
            poison,
            good: ids.into_iter().collect(),
            starts: 1,
            attempts: Vec::new(),
            handled: BTreeSet::new(),
        }
    }

    fn begin(bus: &Bus, language: Language, stream: &str, name: &str) -> Consumer {
        let options = [
            ("stream", stream),
            ("consumer", name),
            ("max_attempts", "3"),
            ("min_idle", "300"),
            ("beat", "50"),
        ];
        Consumer::start(bus, language, "g", &options)
    }

    /// Starts it again where it has died; whether all there is to see was seen.
    fn is_done(&mut self, bus: &Bus) -> bool {
        let died = self.running.program.has_ended();
        self.running.look();
        self.handled.extend(self.running.handled.keys());
        if died {
            self.take_attempts();
            let name = if self.one_name { "c0".to_owned() } else { format!("c{}", self.starts) };
            self.running = Self::begin(bus, self.language, &self.stream, &name);
            self.starts += 1;
        }
        !died && self.running.has_told("dead_letter") && self.handled.is_superset(&self.good)
    }

    fn take_attempts(&mut self) {
        let begun = self.running.begun.iter().filter(|(id, _)| *id == self.poison);
        self.attempts.extend(begun.map(|(_, attempts)| attempts));
    }
}

#[test]
fn a_record_that_kills_its_consumer_becomes_a_dead_letter_and_the_others_are_handled() {
    each(|kind| poison(kind, true));
}

#[test]
fn a_record_that_kills_one_consumer_after_the_other_becomes_a_dead_letter() {
    each(|kind| poison(kind, false));
}

fn poison(kind: Kind, one_name: bool) {
    let mut bus = Bus::start(kind);
    let mut all: Vec<_> =
        Language::ALL.into_iter().map(|language| Supervised::start(&bus, language, one_name)).collect();
    let deadline = Instant::now() + DEADLINE;
    // Each is looked at, also when another is not done.
    while all.iter_mut().filter_map(|supervised| (!supervised.is_done(&bus)).then_some(())).count() > 0 {
        if Instant::now() > deadline {
            let state = |one: &Supervised| {
                let missing = one.good.difference(&one.handled).count();
                let dead = one.running.notices.iter().filter(|(kind, _)| kind == "dead_letter").count();
                format!("{}: {missing} good ones not handled, {dead} dead, {} starts", one.stream, one.starts)
            };
            panic!("{:?}", all.iter().map(state).collect::<Vec<_>>());
        }
        std::thread::sleep(STEP);
    }
    for supervised in &mut all {
        assert_eq!(supervised.running.stop(), 0);
        supervised.take_attempts();
        let name = &supervised.stream;
        assert_eq!(supervised.attempts, [1, 2, 3], "{name}");
        let dead: Vec<(String, Vec<String>)> =
            bus.plain.query(["XRANGE", &format!("{}:dead", key(name)), "-", "+"]);
        let [(_, fields)] = &dead[..] else { panic!("{name}: one dead letter, not {dead:?}") };
        let value = |name: &str| {
            let pair = fields.chunks(2).find(|pair| pair[0] == name).unwrap();
            pair[1].as_str()
        };
        assert_eq!(value("origin"), supervised.poison.as_str());
        assert_eq!((value("attempts"), value("group")), ("3", "g"));
        assert_eq!(fields[fields.len() - 4..], ["n", "4", "die", ""]);
        let pending: Vec<redis::Value> = bus.plain.query(["XPENDING", &key(name), "g", "-", "+", "10"]);
        assert!(pending.is_empty(), "{name}");
    }
}
