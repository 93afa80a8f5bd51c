//! One record at a time.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Clock, Code, EntryId, EventId, Fields, Mint, Options};
use echomq_tests::{Kind, Plain, Proxy, Server};
use serde_json::Value;
use std::time::Duration;

const T: u64 = 1_735_689_600_000;

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[tokio::test]
async fn every_record_of_the_vectors_is_sent_byte_for_byte() {
    let vectors: Value = serde_json::from_str(include_str!("../../../conformance/vectors.json")).unwrap();
    each(|kind| {
        let vectors = vectors.clone();
        async move {
            let server = Server::start(kind);
            for protocol in ["2", "3"] {
                let proxy = Proxy::start(server.address());
                let mut options = Options::new(&proxy.url()).unwrap();
                options.set("protocol", protocol).unwrap();
                let client = Client::connect(&options).await.unwrap();
                let stream = client.stream("codemojex", "events").unwrap();
                for record in vectors["records"].as_array().unwrap() {
                    let fields: Fields = record["fields_hex"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|pair| (bytes(&pair[0]), bytes(&pair[1])))
                        .collect();
                    let id = EventId::parse(record["evt"].as_str().unwrap()).unwrap();
                    assert_eq!(stream.append_id(id, fields).await.unwrap(), id);
                }
                let sent: Vec<Vec<u8>> =
                    proxy.commands_named("XADD").iter().map(|command| command.bytes.clone()).collect();
                let expected: Vec<Vec<u8>> = vectors["records"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|record| bytes(&record["command_hex"]))
                    .collect();
                assert_eq!(sent, expected);
                Plain::connect(&server).command(["FLUSHALL"]);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_standing_clock_pins_the_id() {
    each(|kind| async move {
        // Clients of one process whose clocks stand at one instant share a node's state, so each server gets a node of its
        // own. What was minted with it by a clock that runs moves nothing on.
        let (node, tail) = if kind == Kind::Valkey { (1003, 4_108_288) } else { (1004, 4_112_384) };
        Mint::new(node).unwrap().mint(&Clock::system()).unwrap();
        let mut bus =
            Bus::with(Server::start(kind), |options| options.node_id(node).clock(Clock::standing(T))).await;
        let first = bus.stream.append([("k", "1"), ("k", "2"), ("", "")]).await.unwrap();
        let second = bus.stream.append(Fields::new()).await.unwrap();
        assert_eq!(EntryId::from(first).to_string(), format!("{T}-{tail}"));
        assert_eq!(EntryId::from(second).to_string(), format!("{T}-{}", tail + 1));
        let entries: Vec<(String, Vec<String>)> = bus.plain.query(["XRANGE", KEY, "-", "+"]);
        let expected = ["id", first.as_str(), "k", "1", "k", "2", "", ""];
        assert_eq!(entries[0], (format!("{T}-{tail}"), expected.iter().map(|s| s.to_string()).collect()));
        assert_eq!(entries[1].1, ["id", second.as_str()]);
    })
    .await;
}

#[tokio::test]
async fn what_is_refused_before_the_wire_leaves_no_trace() {
    let mut bus = Bus::with(Server::start(Kind::Valkey), |options| options.max_record_bytes(10)).await;
    for (fields, code) in [
        (Fields::from([("id", "x")]), Code::ReservedField),
        (Fields::from([("k", "0123456789")]), Code::TooLarge),
    ] {
        let error = bus.stream.append(fields.clone()).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (code, Some(KEY)));
        let id = bus.client.mint().await.unwrap();
        assert_eq!(bus.stream.append_id(id, fields).await.unwrap_err().code(), code);
    }
    assert!(bus.stream.append([("k", "012345678")]).await.is_ok());
    assert_eq!(bus.plain.xlen(KEY), 1);
    for (queue, name) in [("", "s"), ("emq", "s"), ("a:b", "s"), ("q", "a{b"), ("q", "é")] {
        assert_eq!(bus.client.stream(queue, name).unwrap_err().code(), Code::InvalidName, "{queue} {name}");
    }
}

#[tokio::test]
async fn reading_and_repeating_need_no_node() {
    let server = Server::start(Kind::Valkey);
    let client = Client::connect(&Options::new(&server.url()).unwrap()).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    let id = EventId::parse("EVT09nSpDrNzou").unwrap();
    assert_eq!(stream.append_id(id, [("k", "v")]).await.unwrap(), id);
    assert_eq!(stream.read_last(1).all().await.unwrap()[0].id(), Some(id));
    assert!(client.nodes().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_id_that_is_not_above_the_top_is_refused_with_the_top() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let top = EventId::parse("EVT0NgWEfAER90").unwrap();
        bus.stream.append_id(top, [("k", "1")]).await.unwrap();
        for id in ["EVT0NgWEfAER90", "EVT09nSpDrNzou"] {
            let id = EventId::parse(id).unwrap();
            let error = bus.stream.append_id(id, [("k", "2")]).await.unwrap_err();
            assert_eq!(error.code(), Code::NonMonotonic);
            assert_eq!(error.top(), Some("1780512970164-28714"));
            assert_eq!(error.id(), Some(id.as_str()));
            assert!(error.message().contains("1780512970164 ms"), "{error}");
        }
        // The top is known even when its entry is gone.
        bus.plain.command(["XTRIM", KEY, "MAXLEN", "0"]);
        let error = bus.stream.append_id(top, [("k", "2")]).await.unwrap_err();
        assert_eq!((error.code(), error.top()), (Code::NonMonotonic, Some("1780512970164-28714")));
        assert_eq!(bus.plain.xlen(KEY), 0);
        bus.plain.command(["XADD", KEY, "18446744073709551615-18446744073709551615", "k", "v"]);
        let error = bus.stream.append_id(top, [("k", "2")]).await.unwrap_err();
        assert_eq!(error.code(), Code::NonMonotonic);
    })
    .await;
}

#[tokio::test]
async fn the_server_says_no() {
    each(|kind| async move {
        let server =
            Server::builder(kind).arg("--maxmemory", "4mb").arg("--maxmemory-policy", "noeviction").start();
        let mut bus = Bus::with(server, |options| options).await;
        bus.plain.command(["SET", KEY, "no stream"]);
        let error = bus.stream.append([("k", "v")]).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::WrongType, Some(KEY)));
        let error = bus.stream.append_batch_atomic([[("k", "v")]]).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::WrongType, Some(KEY)));
        assert_eq!(bus.stream.read_last(1).all().await.unwrap_err().code(), Code::WrongType);
        bus.plain.command(["DEL", KEY]);
        bus.plain.command(["CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1"]);
        assert_eq!(bus.stream.append([("k", "v")]).await.unwrap_err().code(), Code::OutOfMemory);
        let error = bus.stream.append_batch_atomic([[("k", "v")]]).await.unwrap_err();
        assert_eq!(error.code(), Code::OutOfMemory, "{error}");
        bus.plain.command(["CONFIG", "SET", "maxmemory", "0"]);
        bus.plain.command(["ACL", "SETUSER", "default", "-xadd"]);
        assert_eq!(bus.stream.append([("k", "v")]).await.unwrap_err().code(), Code::Auth);
        assert_eq!(bus.plain.xlen(KEY), 0);
    })
    .await;
}

#[tokio::test]
async fn a_clock_ahead_of_the_servers_makes_no_ids() {
    let server = Server::start(Kind::Valkey);
    let mut plain = Plain::connect(&server);
    let (seconds, _): (u64, u64) = plain.query(["TIME"]);
    let ahead = Clock::standing((seconds + 3_600) * 1_000);
    let strict = Client::connect(&options(&server.url()).clock(ahead)).await.unwrap();
    let stream = strict.stream("codemojex", "events").unwrap();
    let error = stream.append([("k", "v")]).await.unwrap_err();
    assert_eq!(error.code(), Code::ClockAhead);
    assert!(error.message().contains(&((seconds + 3_600) * 1_000).to_string()), "{error}");
    let results = stream.append_batch([[("k", "v")], [("k", "v")]]).await.unwrap();
    assert!(
        results.iter().all(|result| result.as_ref().is_err_and(|error| error.code() == Code::ClockAhead))
    );
    assert_eq!(stream.append_batch_atomic([[("k", "v")]]).await.unwrap_err().code(), Code::ClockAhead);
    assert_eq!(strict.mint().await.unwrap_err().code(), Code::ClockAhead);
    assert_eq!(plain.xlen(KEY), 0);
    for bound in [None, Some(Duration::from_secs(7_200))] {
        let options = options(&server.url()).clock(ahead).max_clock_ahead(bound);
        let client = Client::connect(&options).await.unwrap();
        let stream = client.stream("q", &format!("s{}", bound.is_some())).unwrap();
        assert_eq!(stream.append([("k", "v")]).await.unwrap().unix_ms(), (seconds + 3_600) * 1_000);
    }
}
