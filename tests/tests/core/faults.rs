//! Broken connections: every record once or reported.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, EventId, Range, Record, Signal, Stream, blocking};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, wait_until_async};
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::time::Duration;

async fn through(proxy: &Proxy) -> (Client, Stream) {
    let options = options(&proxy.url()).timeout(Duration::from_secs(60));
    let client = Client::connect(&options.reconnect(Duration::from_millis(1), Duration::from_millis(20)))
        .await
        .unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    (client, stream)
}

fn stored(server: &Server) -> Vec<String> {
    let entries: Vec<(String, Vec<String>)> = Plain::connect(server).query(["XRANGE", KEY, "-", "+"]);
    entries.into_iter().map(|(_, fields)| fields[1].clone()).collect()
}

#[tokio::test]
async fn five_thousand_appends_through_a_proxy_that_drops_a_fifth_of_the_replies() {
    each(|kind| async move {
        for in_flight in [1, 64] {
            let server = Server::start(kind);
            let proxy = Proxy::start(server.address());
            let (client, stream) = through(&proxy).await;
            proxy.drop_replies(0.2, 7);
            let total = if in_flight == 1 { 500 } else { 5_000 };
            let callers = (0..in_flight).map(|_| async {
                let mut ids = Vec::new();
                for n in 0..(total / in_flight) + 1 {
                    ids.push(stream.append([("n", n.to_string())]).await.unwrap());
                }
                ids
            });
            let ids: Vec<EventId> = join_all(callers).await.into_iter().flatten().collect();
            proxy.heal();
            let unique: BTreeSet<String> = ids.iter().map(EventId::to_string).collect();
            assert_eq!(unique.len(), ids.len());
            assert_eq!(stored(&server), unique.into_iter().collect::<Vec<_>>());
            assert!(proxy.cuts() > 0 && client.status().reconnects > 0);
        }
    })
    .await;
}

#[tokio::test]
async fn batches_through_a_proxy_that_drops_replies() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let (_client, stream) = through(&proxy).await;
        proxy.drop_replies(0.2, 11);
        let mut ids = Vec::new();
        for batch in 0..50 {
            let plain = stream.append_batch((0..100).map(|n| [("n", (batch * 100 + n).to_string())]));
            let atomic = stream.append_batch_atomic((0..10).map(|n| [("n", n.to_string())]));
            ids.extend(plain.await.unwrap().into_iter().map(|result| result.unwrap().to_string()));
            ids.extend(atomic.await.unwrap().iter().map(EventId::to_string));
        }
        proxy.heal();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(stored(&server), ids);
    })
    .await;
}

#[test]
fn threads_through_a_proxy_that_drops_replies() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let options = options(&proxy.url()).timeout(Duration::from_secs(60));
    let options = options.reconnect(Duration::from_millis(1), Duration::from_millis(20));
    let client = blocking::Client::open(&options).unwrap();
    proxy.drop_replies(0.2, 13);
    let ids: BTreeSet<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let stream = client.stream("codemojex", "events").unwrap();
                scope.spawn(move || {
                    (0..100).map(|_| stream.append([("k", "v")]).unwrap().to_string()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    proxy.heal();
    assert_eq!(ids.len(), 800);
    assert_eq!(stored(&server), ids.into_iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_cut_before_or_after_the_server_applied_it() {
    each(|kind| async move {
        for (direction, ending) in [
            (Direction::Requests, Ending::Reset),
            (Direction::Requests, Ending::Close),
            (Direction::Replies, Ending::Reset),
            (Direction::Replies, Ending::Close),
        ] {
            let server = Server::start(kind);
            let proxy = Proxy::start(server.address());
            let (client, stream) = through(&proxy).await;
            let first = stream.append([("k", "1")]).await.unwrap();
            proxy.cut_after(direction, 3, ending);
            let second = stream.append([("k", "2")]).await.unwrap();
            assert_eq!(stored(&server), [first.as_str(), second.as_str()]);
            assert_eq!((proxy.cuts(), client.status().reconnects), (1, 1));
        }
    })
    .await;
}

#[tokio::test]
async fn a_batch_cut_in_the_middle_ends_with_every_record_once() {
    each(|kind| async move {
        // A reply is some 30 bytes, so this cuts after about 60 of 100; and a request in its middle.
        for (direction, bytes) in [(Direction::Replies, 1_800), (Direction::Requests, 6_000)] {
            let server = Server::start(kind);
            let proxy = Proxy::start(server.address());
            let (_client, stream) = through(&proxy).await;
            stream.append([("k", "first")]).await.unwrap();
            proxy.cut_after(direction, bytes, Ending::Reset);
            let results = stream.append_batch((0..100).map(|n| [("n", n.to_string())])).await.unwrap();
            let ids: Vec<String> = results.into_iter().map(|result| result.unwrap().to_string()).collect();
            assert_eq!(stored(&server)[1..], ids);
            assert_eq!(proxy.cuts(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_that_the_server_closed_costs_nothing() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        for reconnects in 1..=3 {
            bus.plain.command(["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
            bus.stream.append([("k", "v")]).await.unwrap();
            let expected = async || bus.client.status().reconnects == reconnects;
            wait_until_async("the client has connected again", expected).await;
        }
        assert_eq!(bus.plain.xlen(KEY), 3);

        let url = bus.server.url();
        let blocking = tokio::task::spawn_blocking(move || blocking::Client::open(&options(&url)).unwrap());
        let blocking = blocking.await.unwrap();
        bus.plain.command(["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
        let stream = blocking.stream("codemojex", "events").unwrap();
        tokio::task::spawn_blocking(move || stream.append([("k", "v")])).await.unwrap().unwrap();
        assert_eq!(bus.plain.xlen(KEY), 4);

        bus.plain.command(["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
        let signal = Signal::new("added", "JOB000xY9Wvvcd").unwrap();
        let publish = move || blocking.events("codemojex").unwrap().publish(signal);
        assert_eq!(tokio::task::spawn_blocking(publish).await.unwrap(), Ok(0));
    })
    .await;
}

#[tokio::test]
async fn an_outage_settles_every_call() {
    each(|kind| async move {
        let server = Server::builder(kind).persistence(true).start();
        let mut bus = Bus::with(server, |options| options.timeout(Duration::from_secs(30))).await;
        bus.stream.append([("k", "before")]).await.unwrap();
        let in_flight: Vec<_> = (0..100).map(|_| bus.stream.append([("k", "in flight")])).collect();
        bus.server.kill();
        wait_until_async("the client has noticed", async || !bus.client.status().connected).await;
        let queued: Vec<_> = (0..100).map(|_| bus.stream.append([("k", "queued")])).collect();
        bus.server.restart();
        let mut answered = Vec::new();
        for result in join_all(in_flight.into_iter().chain(queued)).await {
            answered.push(result.unwrap().to_string());
        }
        assert_eq!(stored(&bus.server)[1..], answered);
        assert_eq!(bus.client.status().reconnects, 1);
    })
    .await;
}

#[tokio::test]
async fn an_outage_longer_than_the_deadline_is_reported() {
    each(|kind| async move {
        let mut bus = Bus::with(Server::start(kind), |options| options.timeout(Duration::from_secs(2))).await;
        bus.server.kill();
        wait_until_async("the client has noticed", async || !bus.client.status().connected).await;
        let error = bus.stream.append([("k", "v")]).await.unwrap_err();
        assert_eq!(error.code(), Code::Disconnected);
        assert_eq!(error.id(), None, "it was never sent");
        bus.server.restart();
        wait_until_async("the client is back", async || bus.stream.append([("k", "v")]).await.is_ok()).await;

        let url = bus.server.url();
        let connect = move || blocking::Client::open(&options(&url).timeout(Duration::from_secs(2))).unwrap();
        let client = tokio::task::spawn_blocking(connect).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        bus.server.kill();
        let append = {
            let stream = stream.clone();
            move || stream.append([("k", "v")]).unwrap_err()
        };
        let error = tokio::task::spawn_blocking(append).await.unwrap();
        assert_eq!(error.code(), Code::Disconnected);
        assert_eq!(error.id(), None, "it was never sent, since the server had hung up");
        bus.server.restart();
        wait_until_async("the blocking client is back", async || {
            let stream = stream.clone();
            tokio::task::spawn_blocking(move || stream.append([("k", "v")])).await.unwrap().is_ok()
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_half_open_connection_is_replaced_within_the_deadline() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let options = options(&proxy.url()).timeout(Duration::from_secs(4));
        let client = Client::connect(&options).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let first = stream.append([("k", "1")]).await.unwrap();
        proxy.black_hole_existing();
        let second = stream.append([("k", "2")]).await.unwrap();
        assert_eq!(client.status().reconnects, 1);
        let threads = {
            let (options, proxy_url) = (options.clone(), proxy.url());
            let _ = proxy_url;
            tokio::task::spawn_blocking(move || blocking::Client::open(&options).unwrap()).await.unwrap()
        };
        proxy.black_hole_existing();
        let blocking = threads.stream("codemojex", "events").unwrap();
        let third =
            tokio::task::spawn_blocking(move || blocking.append([("k", "3")])).await.unwrap().unwrap();
        assert_eq!(stored(&server), [first.as_str(), second.as_str(), third.as_str()]);
    })
    .await;
}

#[tokio::test]
async fn a_stream_emptied_or_deleted_under_a_writer() {
    let mut bus = Bus::start(Kind::Valkey).await;
    bus.stream.append([("k", "1")]).await.unwrap();
    bus.plain.command(["FLUSHALL"]);
    let id = bus.stream.append([("k", "2")]).await.unwrap();
    let records = bus.stream.read(Range::all()).all().await.unwrap();
    assert_eq!(records.iter().filter_map(Record::id).collect::<Vec<_>>(), [id]);
}
