//! Eight writers of one stream, through connections that are killed and a server that is started again and again.

use crate::bus::{Bus, STREAM, key};
use crate::{each, seed, times};
use echomq::{EntryId, EventId};
use echomq_tests::{Kind, Language, Program, Server, wait_until};
use std::collections::HashMap;
use std::fs::File;
use std::time::Instant;

const WRITERS: usize = 8;

/// How many milliseconds the writers' clocks are ahead of the server's.
const CLOCKS: [i64; WRITERS] = [0, 0, 3, -3, 400, -400, 2_000, -2_000];

/// How many appends each has under way at a time, and how many it makes in one step after them.
const AT_ONCE: usize = 4;
const BATCH: usize = 2;

/// What happens to the server while it is written to.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It closes a writer's connection.
    Kill,
    /// It is killed, and started again with what it had on disk.
    Restart,
}

#[test]
fn each_sequenced_append_is_there_once_after_killed_connections_and_restarts() {
    each(write_through_faults);
}

fn write_through_faults(kind: Kind) {
    let (appends, kills, restarts) = (times(4_000, 40_000), times(10, 100), times(2, 10));
    let seed = seed();
    println!("{}: kills and restarts with ECHOMQ_FAULTS_SEED={seed}", kind.name());
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bus = Bus::of(Server::builder(kind).persistence(true).start());
    // A candidate below all that a stream holds could have been trimmed away, for all that the server knows.
    let first = EventId::try_from(EntryId::new(1_735_689_600_000, 0)).unwrap();
    bus.stream(STREAM).append_id(first, [("writer", "first")]).unwrap();
    let mut writers: Vec<Program> =
        (0..WRITERS).map(|number| start(&bus, number, appends / WRITERS)).collect();
    for writer in &mut writers {
        writer.wait_for("its start", |lines| lines.contains(&"ready".to_owned()));
    }

    let mut faults = [vec![Fault::Kill; kills], vec![Fault::Restart; restarts]].concat();
    random.shuffle(&mut faults);
    let begun = Instant::now();
    File::create(gate(&bus)).unwrap();
    // Nor does a writer know whether the stream was made anew until the first answer.
    wait_until("the first answers to all", || {
        let entries = entries(&mut bus);
        let later = entries
            .iter()
            .filter(|(_, fields)| fields[2..] == ["writer", &fields[3], "n", &AT_ONCE.to_string()]);
        later.count() == WRITERS
    });
    for (number, fault) in faults.iter().enumerate() {
        // So all of them happen while something is written.
        let least = appends * (number + 1) / (faults.len() + 2);
        wait_until("more records", || {
            // One that has ended before its time has met an error, which is shown.
            writers
                .iter_mut()
                .filter_map(|writer| writer.has_ended().then_some(writer))
                .for_each(Program::wait_for_success);
            bus.plain.xlen(&key(STREAM)) >= least as u64
        });
        match fault {
            Fault::Kill => kill_a_connection(&mut bus, &mut random),
            Fault::Restart => {
                bus.server.restart();
                bus.reconnect();
            }
        }
    }
    // One that met any error has ended without success: none was refused, and none is in doubt.
    writers.iter_mut().for_each(Program::wait_for_success);
    let took = begun.elapsed();

    let answered: Vec<Vec<EventId>> = writers.iter_mut().map(appended).collect();
    assert_eq!(answered.iter().map(Vec::len).sum::<usize>(), appends);
    let (mut stored, mut sequenced) = (HashMap::new(), 0);
    for (entry_id, fields) in entries(&mut bus).into_iter().skip(1) {
        let [_, id, _, writer, _, n] = &fields[..] else { panic!("another record: {fields:?}") };
        let id: EventId = id.parse().unwrap();
        assert_eq!(EntryId::from(id).to_string(), entry_id);
        sequenced += usize::from(id.snowflake().node() == 1_023);
        let which: (usize, usize) = (writer.parse().unwrap(), n.parse().unwrap());
        if let Some(first) = stored.insert(which, id) {
            panic!("record {n} of writer {writer} is there twice, as {first} and as {id}");
        }
    }
    for (writer, ids) in answered.into_iter().enumerate() {
        for (n, id) in ids.into_iter().enumerate() {
            assert_eq!(stored.remove(&(writer, n)), Some(id), "record {n} of writer {writer}");
        }
    }
    assert!(stored.is_empty(), "nobody appended {stored:?}");
    assert!(0 < sequenced && sequenced < appends, "some ids are candidates, some are the sequencer's");
    println!(
        "{}: {appends} appends of {WRITERS} writers in {:.1} s, {kills} killed connections, {restarts} restarts: \
         each there once, {sequenced} under an id of the sequencer's, none refused, none in doubt",
        kind.name(),
        took.as_secs_f64()
    );
}

/// Starts a writer with a node that it leases, and with a clock of its own.
fn start(bus: &Bus, number: usize, count: usize) -> Program {
    let arguments = [
        ("url", bus.server.url()),
        ("client_name", format!("writer-{number}")),
        ("timeout", "60000".to_owned()),
        ("stream", STREAM.to_owned()),
        ("name", number.to_string()),
        ("how", "sequenced".to_owned()),
        ("at_once", AT_ONCE.to_string()),
        ("batch", BATCH.to_string()),
        ("gate", gate(bus)),
        ("count", count.to_string()),
    ];
    let arguments: Vec<_> = arguments.iter().map(|(name, value)| (*name, &value[..])).collect();
    Program::start_with_clock(Language::Rust, "writer", bus.folder.path(), &arguments, CLOCKS[number])
}

/// All that the stream holds.
fn entries(bus: &mut Bus) -> Vec<(String, Vec<String>)> {
    bus.plain.query(["XRANGE", &key(STREAM), "-", "+"])
}

fn gate(bus: &Bus) -> String {
    bus.folder.path().join("gate").display().to_string()
}

/// Has the server close a connection of one of the writers.
fn kill_a_connection(bus: &mut Bus, random: &mut fastrand::Rng) {
    wait_until("a connection to kill", || {
        let list: String = bus.plain.query(["CLIENT", "LIST"]);
        let writers = list.lines().filter(|line| line.contains(" name=writer-"));
        let ids: Vec<&str> = writers.filter_map(|line| line.split([' ', '=']).nth(1)).collect();
        let Some(id) = random.choice(&ids) else { return false };
        let killed: usize = bus.plain.query(["CLIENT", "KILL", "ID", id]);
        killed == 1
    });
}

fn appended(writer: &mut Program) -> Vec<EventId> {
    let ids = writer.lines().iter().filter_map(|line| line.strip_prefix("appended "));
    ids.map(|id| id.parse().unwrap()).collect()
}
