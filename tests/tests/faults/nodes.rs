//! Node leases of whole processes: killed, stopped, and many at once.

use echomq::{Clock, EventId, Options, blocking::Client};
use echomq_tests::{Kind, Language, Plain, Program, Server, wait_until};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

const NODES: &str = "{emq}:nodes";

struct Bench {
    server: Server,
    plain: Plain,
    folder: tempfile::TempDir,
}

impl Bench {
    fn start() -> Self {
        Self::of(Kind::Valkey)
    }

    fn of(kind: Kind) -> Self {
        let server = Server::start(kind);
        let plain = Plain::connect(&server);
        Self { server, plain, folder: tempfile::tempdir().unwrap() }
    }

    fn gate(&self) -> PathBuf {
        self.folder.path().join("gate")
    }

    /// Starts a process that mints under a lease of that many milliseconds.
    fn minter(&self, lease: &str) -> Program {
        self.minter_with_clock(lease, 0)
    }

    /// Starts one on a host whose clock is that many milliseconds ahead.
    fn minter_with_clock(&self, lease: &str, ahead_ms: i64) -> Program {
        let (url, gate) = (self.server.url(), self.gate().display().to_string());
        let arguments = [("url", &*url), ("gate", &*gate), ("node_lease", lease)];
        Program::start_with_clock(Language::Rust, "minter", self.folder.path(), &arguments, ahead_ms)
    }

    /// The members and their deadlines.
    fn leases(&mut self) -> Vec<(String, u64)> {
        let members: Vec<(String, f64)> = self.plain.query(["ZRANGE", NODES, "0", "-1", "WITHSCORES"]);
        members.into_iter().map(|(member, deadline)| (member, deadline as u64)).collect()
    }

    fn server_ms(&mut self) -> u64 {
        let (seconds, micros): (u64, u64) = self.plain.query(["TIME"]);
        seconds * 1_000 + micros / 1_000
    }

    fn client(&self) -> Client {
        Client::open(&Options::new(&self.server.url()).unwrap()).unwrap()
    }
}

/// When a mint was begun, and its id; nothing where it was refused.
fn minted(line: &str) -> (u64, Option<EventId>) {
    let words: Vec<&str> = line.split(' ').collect();
    let id = (words[0] == "minted").then(|| EventId::parse(words[2]).unwrap());
    (words[1].parse().unwrap(), id)
}

fn has_minted(lines: &[String]) -> bool {
    lines.iter().any(|line| line.starts_with("minted"))
}

#[test]
fn a_process_that_was_stopped_beyond_its_deadline_makes_no_id_with_its_node_when_it_wakes() {
    let mut bench = Bench::start();
    let mut process = bench.minter("1000");
    process.wait_for("the first id", has_minted);
    process.stand_still();
    let (_, deadline) = bench.leases().remove(0);
    wait_until("the deadline", || bench.server_ms() > deadline);
    wakes_with_another_node(bench, process);
}

/// Timers stand still while a host sleeps, and so does the clock that most programs measure times with.
#[test]
fn a_process_whose_host_slept_beyond_its_deadline_makes_no_id_with_its_node_when_it_wakes() {
    let mut bench = Bench::start();
    let mut process = bench.minter("30000");
    process.wait_for("the first id", has_minted);
    process.stand_still();
    let (member, _) = bench.leases().remove(0);
    // As if a minute had passed here as well.
    bench.plain.command(["ZADD", NODES, "1000", &member]);
    process.host_slept(60_000);
    wakes_with_another_node(bench, process);
}

/// Another process has taken the node. The one that stands still goes on, and mints with the next.
fn wakes_with_another_node(bench: Bench, mut process: Program) {
    let heir = bench.client();
    let first_of_heir = heir.mint().unwrap();
    assert_eq!(first_of_heir.snowflake().node(), 0);

    let woken = Clock::system().now();
    process.go_on();
    process.wait_for("an id of another node", |lines| {
        lines.iter().any(|line| minted(line).1.is_some_and(|id| id.snowflake().node() == 1))
    });
    fs::write(bench.gate(), "").unwrap();
    process.wait_for_success();
    let all: Vec<(u64, Option<EventId>)> = process.lines().iter().map(|line| minted(line)).collect();
    for (begun, id) in all {
        let Some(id) = id else { continue };
        if begun >= woken {
            assert_eq!(id.snowflake().node(), 1, "{id} was made with a node that another process has");
        } else if id.snowflake().node() == 0 {
            assert!(id < first_of_heir, "{id} {first_of_heir}");
        }
    }
}

#[test]
fn a_process_that_was_killed_frees_its_node_only_after_its_deadline() {
    let mut bench = Bench::start();
    let mut process = bench.minter("3000");
    process.wait_for("the first id", has_minted);
    process.kill();
    let (member, deadline) = bench.leases().remove(0);
    let before = bench.client();
    let node = before.mint().unwrap().snowflake().node();
    let is_over = bench.server_ms() > deadline;
    assert!(node == 1 || is_over, "{member}");
    wait_until("the deadline", || bench.server_ms() > deadline);
    let first = bench.client().mint().unwrap();
    assert_eq!(first.snowflake().node(), if node == 1 { 0 } else { 1 });
    let last = process.lines().iter().filter_map(|line| minted(line).1).max();
    assert!(last.is_some_and(|last| node != 1 || first > last), "{first} {last:?}");
}

/// The process that holds the node is killed, and one on another host takes it over, whose clock is 40 s behind; and so on
/// with clocks before and behind.
#[test]
fn a_node_that_was_taken_over_on_a_host_with_another_clock_repeats_no_id() {
    for kind in Kind::ALL {
        let mut bench = Bench::of(kind);
        let mut last: Option<EventId> = None;
        for ahead_ms in [0, -40_000, 20_000, -40_000] {
            let begun = Clock::system().now();
            let mut process = bench.minter_with_clock("1000", ahead_ms);
            // Enough that it has renewed, so that what it may mint reaches further than at first.
            process.wait_for("ids after a renewal", |lines| {
                let first = lines.first().map_or(u64::MAX, |line| minted(line).0);
                lines.last().is_some_and(|line| minted(line).0 > first.saturating_add(500))
            });
            process.kill();
            let all: Vec<(u64, Option<EventId>)> = process.lines().iter().map(|line| minted(line)).collect();
            let apart = all[0].0 as i64 - begun as i64 - ahead_ms;
            assert!((0..30_000).contains(&apart), "its clock is {apart} ms from where it should be");
            for id in all.into_iter().filter_map(|(_, id)| id) {
                assert_eq!(id.snowflake().node(), 0, "{id} was made with another node");
                assert!(last < Some(id), "{id} is not above {last:?}, {ahead_ms} ms ahead");
                last = Some(id);
            }
            let (_, deadline) = bench.leases().remove(0);
            wait_until("the deadline", || bench.server_ms() > deadline);
        }
    }
}

#[test]
fn forty_processes_at_once_have_forty_nodes() {
    let mut bench = Bench::start();
    let mut processes: Vec<Program> = (0..40).map(|_| bench.minter("60000")).collect();
    for process in &mut processes {
        process.wait_for("an id", has_minted);
    }
    assert_eq!(bench.leases().len(), 40);
    fs::write(bench.gate(), "").unwrap();
    let (mut nodes, mut ids, mut count) = (BTreeSet::new(), BTreeSet::new(), 0);
    for process in &mut processes {
        process.wait_for_success();
        let all: Vec<EventId> = process.lines().iter().filter_map(|line| minted(line).1).collect();
        let own: BTreeSet<u16> = all.iter().map(|id| id.snowflake().node()).collect();
        assert_eq!(own.len(), 1);
        nodes.extend(own);
        count += all.len();
        ids.extend(all);
    }
    assert_eq!(nodes, (0..40).collect());
    assert_eq!(ids.len(), count, "no id twice");
    assert!(bench.leases().is_empty(), "each gave its node back");
}
