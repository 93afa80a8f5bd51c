//! Consumers of three languages in one group, killed at random instants.

use crate::bus::{Bus, STREAM, set};
use crate::consumer::Consumer;
use crate::stream_writer::Writer;
use crate::{each, seed, times};
use echomq::EventId;
use echomq_tests::wait::DEADLINE;
use echomq_tests::{Kind, Language, wait::STEP};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Three running consumers of three languages.
struct Group<'a> {
    bus: &'a Bus,
    random: fastrand::Rng,
    running: Vec<(String, Consumer)>,
    /// The language that no running one is of.
    idle: Language,
    started: usize,
    /// What all that ever ran have handled, with how often.
    handled: BTreeMap<EventId, usize>,
}

impl<'a> Group<'a> {
    fn start(bus: &'a Bus, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut languages = Language::ALL.to_vec();
        random.shuffle(&mut languages);
        let idle = languages.remove(0);
        let mut group = Self { bus, random, running: Vec::new(), idle, started: 0, handled: BTreeMap::new() };
        for language in languages {
            let name = group.new_name();
            group.begin(language, name);
        }
        group.running.iter_mut().for_each(|(_, consumer)| consumer.wait_until_ready());
        group
    }

    fn new_name(&mut self) -> String {
        self.started += 1;
        format!("c{}", self.started)
    }

    fn begin(&mut self, language: Language, name: String) {
        let consumer = Consumer::start(self.bus, language, "g", &[("consumer", &name)]);
        self.running.push((name, consumer));
    }

    /// Kills one of the three, at work or while it starts, and starts another: of the same language or of the one that is
    /// idle, under the same name or a new one.
    fn kill_one(&mut self) {
        let (name, mut killed) = self.running.swap_remove(self.random.usize(..3));
        if self.random.bool() {
            killed.wait_until_ready();
        }
        thread::sleep(Duration::from_millis(self.random.u64(..1_000)));
        killed.program.kill();
        self.count(&mut killed);
        let mut language = killed.program.language();
        if self.random.bool() {
            std::mem::swap(&mut language, &mut self.idle);
        }
        let name = if self.random.bool() { name } else { self.new_name() };
        self.begin(language, name);
    }

    fn count(&mut self, consumer: &mut Consumer) {
        consumer.look();
        for (id, times) in std::mem::take(&mut consumer.handled) {
            *self.handled.entry(id).or_default() += times;
        }
    }

    /// Waits until all are handled, as long as anything is.
    fn wait_until_handled(&mut self, ids: &[EventId]) {
        let (mut deadline, mut most) = (Instant::now() + DEADLINE, 0);
        loop {
            for (name, mut consumer) in std::mem::take(&mut self.running) {
                self.count(&mut consumer);
                self.running.push((name, consumer));
            }
            if ids.iter().all(|id| self.handled.contains_key(id)) {
                return;
            }
            if self.handled.len() > most {
                (deadline, most) = (Instant::now() + DEADLINE, self.handled.len());
            }
            if Instant::now() > deadline {
                let missing = ids.iter().filter(|id| !self.handled.contains_key(id)).count();
                let (_, consumer) = &mut self.running[0];
                consumer.program.give_up(&format!("{missing} of {} records were not handled", ids.len()));
            }
            thread::sleep(STEP);
        }
    }
}

#[test]
fn no_kill_of_a_consumer_loses_a_record() {
    each(|kind| kill_at_random_instants(kind, times(5, 50)));
}

fn kill_at_random_instants(kind: Kind, kills: usize) {
    let seed = seed();
    println!("{}: kills with ECHOMQ_FAULTS_SEED={seed}", kind.name());
    let mut bus = Bus::start(kind);
    let writer = Writer::at_rate(&bus, 2_000);
    let mut group = Group::start(&bus, seed);
    for _ in 0..kills {
        group.kill_one();
    }
    let ids = writer.end();
    group.wait_until_handled(&ids);
    let Group { mut running, mut handled, .. } = group;
    bus.wait_for_no_pending(["g"]);
    for (_, consumer) in &mut running {
        consumer.wait_until_ready();
        assert_eq!(consumer.stop(), 0);
        for (id, times) in &consumer.handled {
            *handled.entry(*id).or_default() += times;
        }
    }
    assert_eq!(bus.pending("g"), 0);
    assert_eq!(set(bus.ids(STREAM)), set(ids.iter().copied()));
    assert!(handled.keys().copied().eq(set(ids.iter().copied())));
    let repeats: usize = handled.values().map(|times| times - 1).sum();
    println!("{}: {kills} kills, {} records, all handled, {repeats} repeats", kind.name(), ids.len());
}
