//! Twelve writers of four languages, on one stream and on streams of their own.

use crate::bus::{Bus, STREAM, key, next_node};
use crate::{each, times};
use echomq::EventId;
use echomq_tests::{Direction, Kind, Language, Program, Proxy};
use std::collections::HashMap;
use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How far the clock that is most behind and the one that is most ahead stand from the server's, in milliseconds.
const APART: u64 = 2_500;

const DELAY: Duration = Duration::from_millis(40);

/// What twelve writers are to do.
struct Plan {
    /// Whether all share one stream; otherwise each has its own.
    shared: bool,
    /// How many records a far writer appends at once, after each single one.
    far_batch: usize,
    /// How many each is to append, or for how many milliseconds.
    until: (&'static str, usize),
}

/// A writer and what it has appended.
struct Writer {
    name: String,
    program: Program,
    ids: Vec<EventId>,
    /// Where it is far from the server, what lies between.
    _proxy: Option<Proxy>,
}

/// Has twelve programs write at the same time: three of each language, of which one has a clock that goes and two have
/// clocks that stand still. Three of the twelve are far from the server.
fn write(bus: &Bus, plan: &Plan) -> Vec<Writer> {
    let gate = bus.folder.path().join(format!("gate-{}", next_node()));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let mut standing = (0..8).map(|number| now - APART + number * 2 * APART / 7);
    let mut writers = Vec::new();
    for (number, language) in Language::ALL.iter().cycle().take(12).enumerate() {
        let name = format!("{}-{number}", language.name());
        let stream = if plan.shared { STREAM.to_owned() } else { name.clone() };
        let proxy = (number < 3).then(|| Proxy::start(bus.server.address()));
        if let Some(proxy) = &proxy {
            proxy.delay(Direction::Replies, DELAY);
        }
        let url = proxy.as_ref().map_or(bus.server.url(), Proxy::url);
        let clock = if number % 3 == 0 { None } else { standing.next() };
        let arguments = [
            ("url", url),
            ("node_id", next_node().to_string()),
            ("timeout", "30000".to_owned()),
            ("stream", stream),
            ("name", name.clone()),
            ("how", if plan.shared { "sequenced" } else { "plain" }.to_owned()),
            ("batch", if proxy.is_some() { plan.far_batch } else { 0 }.to_string()),
            ("gate", gate.display().to_string()),
            (plan.until.0, plan.until.1.to_string()),
        ];
        let clock = clock.map(|clock| ("clock", clock.to_string()));
        let arguments: Vec<_> =
            arguments.iter().chain(&clock).map(|(name, value)| (*name, &value[..])).collect();
        let program = Program::start(*language, "writer", bus.folder.path(), &arguments);
        writers.push(Writer { name, program, ids: Vec::new(), _proxy: proxy });
    }
    for writer in &mut writers {
        writer.program.wait_for("its start", |lines| lines.contains(&"ready".to_owned()));
    }
    File::create(gate).unwrap();
    for writer in &mut writers {
        writer.program.wait_for_success();
        let appended = writer.program.lines().iter().filter_map(|line| line.strip_prefix("appended "));
        writer.ids = appended.map(|id| id.parse().unwrap()).collect();
    }
    writers
}

#[test]
fn twelve_writers_share_a_stream_without_an_error() {
    each(share_a_stream);
}

fn share_a_stream(kind: Kind) {
    let mut bus = Bus::start(kind);
    let each = times(6_000, 120_000) / 12;
    let writers = write(&bus, &Plan { shared: true, far_batch: 49, until: ("count", each) });

    let entries: Vec<(String, Vec<String>)> = bus.plain.query(["XRANGE", &key(STREAM), "-", "+"]);
    assert_eq!(entries.len(), 12 * each);
    let mut last = None;
    let mut of_writer: HashMap<&str, Vec<EventId>> = HashMap::new();
    for (entry_id, fields) in &entries {
        let [_, id, _, writer, _, n] = &fields[..] else { panic!("another record: {fields:?}") };
        let id: EventId = id.parse().unwrap();
        assert!(Some(id) > last, "{id} does not rise");
        last = Some(id);
        assert_eq!(&echomq::EntryId::from(id).to_string(), entry_id);
        let own = of_writer.entry(writer).or_default();
        assert_eq!(n, &own.len().to_string(), "the order of {writer}");
        own.push(id);
    }
    for writer in &writers {
        assert_eq!(of_writer[&writer.name[..]], writer.ids, "what {} was answered", writer.name);
    }
    println!("{}: {} appends of twelve writers, {} records", kind.name(), 12 * each, entries.len());
}

#[test]
fn writers_that_share_a_stream_are_hardly_slower() {
    each(|kind| {
        let bus = Bus::start(kind);
        let (rounds, until) = (times(1, 5), ("time", times(1_000, 4_000)));
        let [mut shared, mut own] = [0, 0];
        for _ in 0..rounds {
            shared += appended(&write(&bus, &Plan { shared: true, far_batch: 0, until }));
            own += appended(&write(&bus, &Plan { shared: false, far_batch: 0, until }));
        }
        // Nothing is said about times here: the figure is for whoever reads it.
        let ratio = shared as f64 / own as f64;
        let name = kind.name();
        println!(
            "{name}: one append in flight each: {shared} on one stream, {own} on streams of their own: {ratio:.2}"
        );
    });
}

fn appended(writers: &[Writer]) -> usize {
    writers.iter().map(|writer| writer.ids.len()).sum()
}
