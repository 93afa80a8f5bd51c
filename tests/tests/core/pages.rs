//! Pages are bounded in bytes: large records are read through servers and networks that carry little at once.

use crate::{Bus, each, options};
use echomq::{Client, ConsumerOptions, EventId, Reader, Record, Start, Stream, Tailed, blocking};
use echomq_tests::{Direction, Kind, Plain, Proxy};
use std::time::Duration;
use tokio::time::timeout;

/// Long enough for every page of these tests, and for a machine that is busy with something else.
const LONG: Duration = Duration::from_secs(120);

/// A bus whose stream has so many records of a size, their ids, and its server cuts whoever is sent more than `limit` at
/// once.
async fn limited(kind: Kind, records: usize, bytes: usize, limit: &str) -> (Bus, Vec<EventId>) {
    let mut bus = Bus::start(kind).await;
    let mut ids = Vec::new();
    for first in (0..records).step_by(10) {
        let last = records.min(first + 10);
        let batch = (first..last).map(|n| [("n", n.to_string()), ("body", "x".repeat(bytes))]);
        ids.extend(bus.stream.append_batch_atomic(batch).await.unwrap());
    }
    let limit = format!("normal {limit} {limit} 0");
    bus.plain.command(["CONFIG", "SET", "client-output-buffer-limit", &limit]);
    (bus, ids)
}

/// How many connections the server has taken since it was started.
fn connections(plain: &mut Plain) -> u64 {
    let info: String = plain.query(["INFO", "stats"]);
    let number = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).unwrap();
    number.trim().parse().unwrap()
}

fn ids(records: &[Record]) -> Vec<EventId> {
    records.iter().map(|record| record.id().unwrap()).collect()
}

async fn tail(stream: &Stream, count: usize) -> Vec<EventId> {
    let tail = stream.tail(Start::Head).await.unwrap();
    let mut found = Vec::new();
    while found.len() < count {
        match timeout(LONG, tail.next()).await.unwrap().unwrap().unwrap() {
            Tailed::Record(record) => found.push(record.id().unwrap()),
            other => panic!("{other:?}"),
        }
    }
    found
}

async fn consume(stream: &Stream, count: usize) -> Vec<EventId> {
    let consumer = stream.consumer(ConsumerOptions::new("g", Start::Head).unwrap()).await.unwrap();
    let mut found = Vec::new();
    while found.len() < count {
        let delivery = timeout(LONG, consumer.next()).await.unwrap().unwrap().unwrap();
        found.push(delivery.id().unwrap());
        delivery.ack();
    }
    // There is nothing behind them: none came twice.
    assert_eq!(consumer.stop(LONG).await, 0);
    found
}

/// Every way to read, each of which connects at most so often.
async fn read_in_every_way(kind: Kind, records: usize, bytes: usize, limit: &str, at_most: u64) {
    let (mut bus, expected) = limited(kind, records, bytes, limit).await;
    let mut before = connections(&mut bus.plain);
    let mut check = |way: &str, found: Vec<EventId>| {
        let (connected, now) = (before, connections(&mut bus.plain));
        before = now;
        assert_eq!(found, expected, "{way}");
        assert!(now - connected <= at_most, "{way} connected {} times", now - connected);
    };
    let all = |reader: Reader| async { ids(&timeout(LONG, reader.all()).await.unwrap().unwrap()) };
    check("a reader", all(bus.stream.read(echomq::Range::all())).await);
    let mut newest_first = all(bus.stream.read_last(records as u64)).await;
    newest_first.reverse();
    check("a reader of the last", newest_first);
    let url = bus.server.url();
    let on_a_thread = tokio::task::spawn_blocking(move || {
        let client = blocking::Client::open(&options(&url)).unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        ids(&stream.read(echomq::Range::all()).all().unwrap())
    });
    check("a reader on a thread", on_a_thread.await.unwrap());
    check("a tail", tail(&bus.stream, records).await);
    check("a consumer", consume(&bus.stream, records).await);
}

#[tokio::test]
async fn records_far_below_the_bound_are_read_behind_a_limit_of_the_server() {
    each(|kind| async move {
        read_in_every_way(kind, 300, 64 * 1024, "8mb", 10).await;
        read_in_every_way(kind, 200, 128 * 1024, "8mb", 10).await;
    })
    .await;
}

/// Here even the first pages are too large.
#[tokio::test]
async fn a_page_that_is_cut_is_asked_for_again_smaller() {
    each(|kind| async move {
        read_in_every_way(kind, 40, 1_000_000, "3mb", 30).await;
    })
    .await;
}

#[tokio::test]
async fn what_a_dead_consumer_had_comes_in_pages_that_pass() {
    let (mut bus, expected) = limited(Kind::Valkey, 40, 256 * 1024, "6mb").await;
    bus.plain.command(["XGROUP", "CREATE", crate::KEY, "g", "0"]);
    for _ in 0..10 {
        bus.plain.command(["XREADGROUP", "GROUP", "g", "dead", "COUNT", "4", "STREAMS", crate::KEY, ">"]);
    }
    let before = connections(&mut bus.plain);
    let options = ConsumerOptions::new("g", Start::Head)
        .unwrap()
        .min_idle(Duration::from_millis(200))
        .beat(Duration::from_millis(50));
    let consumer = bus.stream.consumer(options).await.unwrap();
    let mut found = std::collections::BTreeSet::new();
    while found.len() < expected.len() {
        let delivery = timeout(LONG, consumer.next()).await.unwrap().unwrap().unwrap();
        found.insert(delivery.id().unwrap());
        delivery.ack();
    }
    assert!(found.into_iter().eq(expected));
    assert!(connections(&mut bus.plain) - before <= 20);
}

/// A page of all of them takes 12 seconds here, which is longer than an answer is waited for.
#[tokio::test]
async fn large_records_come_over_a_slow_network_each_once() {
    let (bus, expected) = limited(Kind::Valkey, 24, 512 * 1024, "0").await;
    let proxy = Proxy::start(bus.server.address());
    let client = Client::connect(&options(&proxy.url())).await.unwrap();
    proxy.bandwidth(Direction::Replies, Some(1_000_000));
    let stream = client.stream("codemojex", "events").unwrap();
    let tailed = tail(&stream, expected.len());
    let consumed = async {
        let consumer = stream.consumer(ConsumerOptions::new("g", Start::Head).unwrap()).await.unwrap();
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let delivery = timeout(LONG, consumer.next()).await.unwrap().unwrap().unwrap();
            assert_eq!(delivery.attempts(), 1, "a page was asked for again");
            found.push(delivery.id().unwrap());
            delivery.ack();
        }
        found
    };
    let (tailed, consumed) = tokio::join!(tailed, consumed);
    assert_eq!(tailed, expected);
    assert_eq!(consumed, expected);
}
