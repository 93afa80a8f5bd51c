//! A listener in each language, left running while the server is started again and again under a publisher.

use crate::bus::Bus;
use crate::{each, times};
use echomq::{Client, Code, Options, Signal};
use echomq_tests::{Kind, Language, Program, wait_until};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

const JOB: &str = "JOB000xY9Wvvcd";
const OTHER_JOB: &str = "JOB000xY9Wvvce";

/// One event every two milliseconds.
const PACE: Duration = Duration::from_millis(2);

/// How many events are heard between two restarts, at least.
const BETWEEN: usize = 100;

/// Publishes numbered events on tasks of its own, whatever becomes of them, until it is dropped.
struct Publisher {
    outcomes: Arc<Mutex<Outcomes>>,
    publishing: JoinHandle<()>,
    _runtime: Runtime,
}

/// The numbers of the events that were published, and of those of which nobody knows.
#[derive(Default)]
struct Outcomes {
    published: BTreeSet<u64>,
    unknown: BTreeSet<u64>,
}

impl Publisher {
    fn start(bus: &Bus) -> Self {
        let runtime = Runtime::new().unwrap();
        let options = Options::new(&bus.server.url()).unwrap();
        let events = runtime.block_on(Client::connect(&options)).unwrap().events("codemojex").unwrap();
        let outcomes = Arc::<Mutex<Outcomes>>::default();
        let noting = outcomes.clone();
        let publishing = runtime.spawn(async move {
            let mut pace = tokio::time::interval(PACE);
            for n in 0.. {
                pace.tick().await;
                let signal = Signal::new("counted", JOB).unwrap().with("n", n.to_string()).unwrap();
                let outcomes = noting.clone();
                events.publish(signal).on_complete(move |outcome| {
                    let mut outcomes = outcomes.lock().unwrap();
                    match outcome {
                        Ok(_) => outcomes.published.insert(n),
                        Err(error) if error.code() == Code::UnknownOutcome => outcomes.unknown.insert(n),
                        Err(_) => false,
                    };
                });
            }
        });
        Self { outcomes, publishing, _runtime: runtime }
    }

    /// Ends it, and answers what was published.
    fn end(self) -> Arc<Mutex<Outcomes>> {
        self.publishing.abort();
        self.outcomes
    }
}

/// What a listener says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Heard(u64),
    Gap,
}

fn said(program: &mut Program) -> Vec<Said> {
    let lines = program.lines().iter().map(|line| line.split(' ').collect::<Vec<_>>());
    lines
        .filter_map(|words| match words[..] {
            ["heard", "counted", n] => Some(Said::Heard(n.parse().unwrap())),
            ["gap", "0", "true"] => Some(Said::Gap),
            ["ready"] => None,
            _ => panic!("a listener said {words:?}"),
        })
        .collect()
}

fn gaps(said: &[Said]) -> usize {
    said.iter().filter(|said| **said == Said::Gap).count()
}

/// Waits until each of the listeners has been told of so many gaps and heard enough behind the last.
fn wait_for(listeners: &mut [Program], wanted: usize) {
    for program in listeners {
        program.wait_for("events behind the gap", |lines| {
            let is_gap = |line: &&String| line.starts_with("gap");
            let behind = lines.iter().rposition(|line| is_gap(&line)).map_or(0, |at| at + 1);
            lines.iter().filter(is_gap).count() >= wanted && lines.len() > behind + BETWEEN
        });
    }
}

/// No event twice, none out of order, none that was not published, and none missing but where a gap says so.
fn check(said: &[Said], outcomes: &Outcomes) {
    let mut last: Option<u64> = None;
    let mut gap = false;
    for said in said {
        let Said::Heard(n) = *said else {
            gap = true;
            continue;
        };
        assert!(last.is_none_or(|last| last < n), "{n} comes after {last:?}");
        assert!(outcomes.published.contains(&n) || outcomes.unknown.contains(&n), "nobody published {n}");
        if let (Some(last), false) = (last, gap) {
            let missing: Vec<_> = outcomes.published.range(last + 1..n).collect();
            assert!(missing.is_empty(), "{missing:?} are missing and no gap says so");
        }
        (last, gap) = (Some(n), false);
    }
}

fn start(bus: &Bus, job: &str) -> Vec<Program> {
    let url = bus.server.url();
    let start = |language| {
        let arguments = [("url", url.as_str()), ("job", job)];
        let mut program = Program::start(language, "listener", bus.folder.path(), &arguments);
        program.wait_for("the subscription", |lines| lines.iter().any(|line| line == "ready"));
        program
    };
    Language::ALL.map(start).into()
}

/// How many signs of life the server was asked for.
fn pings(bus: &mut Bus) -> u64 {
    let statistics: String = bus.plain.query(["INFO", "commandstats"]);
    let calls = statistics.split("cmdstat_ping:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// For how many seconds each listening connection has asked for nothing.
fn silent_for(bus: &mut Bus) -> Vec<u64> {
    let clients: String = bus.plain.query(["CLIENT", "LIST", "TYPE", "PUBSUB"]);
    let idle = clients.split_whitespace().filter_map(|word| word.strip_prefix("idle="));
    idle.map(|seconds| seconds.parse().unwrap()).collect()
}

#[test]
fn a_listener_that_stood_still_for_long_takes_nobody_for_dead() {
    each(|kind| {
        let mut bus = Bus::start(kind);
        let mut listeners = start(&bus, OTHER_JOB);
        listeners.iter().for_each(Program::stand_still);
        // Each asks once in a second; after two, a server that does not answer is given up.
        wait_until("all were silent for longer", || {
            let silent_for = silent_for(&mut bus);
            silent_for.len() == listeners.len() && silent_for.iter().all(|seconds| *seconds >= 3)
        });
        let asked = pings(&mut bus);
        listeners.iter().for_each(Program::go_on);
        wait_until("each has asked again, and was answered", || {
            pings(&mut bus) >= asked + 3 * listeners.len() as u64
        });
        bus.plain.command(["PUBLISH", "emq:{codemojex}:events", r#"{"event":"counted","n":"1"}"#]);
        for program in &mut listeners {
            program.wait_for("the event", |lines| lines.iter().any(|line| line == "heard counted 1"));
            assert_eq!(said(program), [Said::Heard(1)], "{}", program.language().name());
        }
    });
}

#[test]
fn every_language_listens_again_after_each_restart_and_says_what_may_be_missing() {
    each(|kind| {
        let mut bus = Bus::start(kind);
        let mut listeners = start(&bus, OTHER_JOB);
        let publisher = Publisher::start(&bus);
        let restarts = times(20, 100);
        for restart in 0..restarts {
            wait_for(&mut listeners, restart);
            bus.server.restart();
            bus.reconnect();
        }
        wait_for(&mut listeners, restarts);
        let outcomes = publisher.end();
        let outcomes = outcomes.lock().unwrap();
        for program in &mut listeners {
            let said = said(program);
            check(&said, &outcomes);
            assert_eq!(gaps(&said), restarts);
            println!(
                "{}, {}: heard {} of {} events, {restarts} gaps",
                kind.name(),
                program.language().name(),
                said.len() - restarts,
                outcomes.published.len(),
            );
        }
    });
}

#[test]
fn a_job_that_is_cancelled_while_every_watcher_is_cut_off_is_cancelled_in_every_language() {
    let mut bus = Bus::start(Kind::Valkey);
    let mut listeners = start(&bus, JOB);
    // With the mark alone: the event was published to nobody.
    bus.plain.command(["MULTI"]);
    bus.plain.command(["CLIENT", "KILL", "TYPE", "pubsub"]);
    bus.plain.command(["SET", "emq:{codemojex}:cancel:JOB000xY9Wvvcd", "while away", "PX", "60000"]);
    bus.plain.command(["EXEC"]);
    for program in &mut listeners {
        program.wait_for("the reason", |lines| lines.iter().any(|line| line == "cancelled while away"));
        program.terminate();
        program.wait_for_success();
    }
}
