//! A consumer program and what it has told so far.

use crate::bus::{Bus, STREAM, next_node};
use echomq::EventId;
use echomq_tests::wait::DEADLINE;
use echomq_tests::{Language, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// A consumer in one of the languages; see `workers/README.md`.
pub struct Consumer {
    pub program: Program,
    read: usize,
    is_ready: bool,
    /// Each handler that began: the entry and which attempt it is.
    pub begun: Vec<(EventId, u64)>,
    /// What was handled, with how often.
    pub handled: BTreeMap<EventId, usize>,
    /// Kinds of notices, with the ids they name.
    pub notices: Vec<(String, Option<EventId>)>,
    /// How many entries a stop left without a verdict.
    pub left: Option<usize>,
}

impl Consumer {
    /// Starts a consumer that reads a group from the stream's beginning, with these options beside some that suit a test.
    pub fn start(bus: &Bus, language: Language, group: &str, options: &[(&str, &str)]) -> Self {
        Self::start_at(&bus.server.url(), bus, language, group, options)
    }

    /// The same, through a proxy.
    pub fn start_at(url: &str, bus: &Bus, language: Language, group: &str, options: &[(&str, &str)]) -> Self {
        let node = next_node().to_string();
        let mut arguments = BTreeMap::from([
            ("url", url),
            ("node_id", &node),
            ("timeout", "5000"),
            ("stream", STREAM),
            ("group", group),
            ("start", "head"),
            ("beat", "50"),
            ("min_idle", "1000"),
        ]);
        arguments.extend(options.iter().copied());
        let arguments: Vec<_> = arguments.into_iter().collect();
        Self {
            program: Program::start(language, "consumer", bus.folder.path(), &arguments),
            read: 0,
            is_ready: false,
            begun: Vec::new(),
            handled: BTreeMap::new(),
            notices: Vec::new(),
            left: None,
        }
    }

    /// One in each language, each alone in a group of its language's name, once all have started.
    pub fn start_each(bus: &Bus, options: &[(&str, &str)]) -> Vec<Self> {
        let mut consumers: Vec<Self> = Language::ALL
            .into_iter()
            .map(|language| Self::start(bus, language, language.name(), options))
            .collect();
        consumers.iter_mut().for_each(Self::wait_until_ready);
        consumers
    }

    /// Takes in what it has told since the last look.
    pub fn look(&mut self) {
        let lines = self.program.lines();
        let new: Vec<String> = lines[self.read..].to_vec();
        self.read = lines.len();
        for line in new {
            let id = |text: &str| text.parse::<EventId>().unwrap();
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["ready"] => self.is_ready = true,
                ["begun", entry, attempts] => self.begun.push((id(entry), attempts.parse().unwrap())),
                ["handled", entry, _] => *self.handled.entry(id(entry)).or_default() += 1,
                ["notice", kind, "-"] => self.notices.push((kind.to_owned(), None)),
                ["notice", kind, entry] => self.notices.push((kind.to_owned(), Some(id(entry)))),
                ["stopped", left] => self.left = Some(left.parse().unwrap()),
                _ => panic!("no line of a consumer: {line}"),
            }
        }
    }

    /// Waits for something that it tells, as long as it goes on telling anything.
    #[track_caller]
    pub fn wait_for(&mut self, what: &str, mut condition: impl FnMut(&Self) -> bool) {
        let (mut deadline, mut read) = (Instant::now() + DEADLINE, self.read);
        loop {
            let ended = self.program.has_ended();
            self.look();
            if condition(self) {
                return;
            }
            if self.read > read {
                (deadline, read) = (Instant::now() + DEADLINE, self.read);
            }
            if ended || Instant::now() > deadline {
                self.program.give_up(&format!("waited in vain for {what}"));
            }
            std::thread::sleep(echomq_tests::wait::STEP);
        }
    }

    #[track_caller]
    pub fn wait_until_ready(&mut self) {
        self.wait_for("its start", |consumer| consumer.is_ready);
    }

    #[track_caller]
    pub fn wait_until_handled(&mut self, ids: &[EventId]) {
        self.wait_for("every record to be handled", |consumer| {
            ids.iter().all(|id| consumer.handled.contains_key(id))
        });
    }

    #[track_caller]
    pub fn wait_for_notice(&mut self, kind: &str) {
        self.wait_for(&format!("the notice {kind}"), |consumer| consumer.has_told(kind));
    }

    pub fn has_told(&self, kind: &str) -> bool {
        self.notices.iter().any(|(told, _)| told == kind)
    }

    /// What it handled, without repeats.
    pub fn distinct(&self) -> BTreeSet<EventId> {
        self.handled.keys().copied().collect()
    }

    /// Asks it to end, waits for that, and answers how many entries it left without a verdict.
    #[track_caller]
    pub fn stop(&mut self) -> usize {
        self.program.terminate();
        self.program.wait_for_success();
        self.look();
        match self.left {
            Some(left) => left,
            None => self.program.give_up("it ended without a stop"),
        }
    }
}
