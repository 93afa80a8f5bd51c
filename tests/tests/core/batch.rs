//! Batches: one result a record, or all or none.

use crate::{Bus, KEY, each};
use echomq::{Code, EntryId, EventId, Fields};
use echomq_tests::{Direction, Ending, Kind, Proxy, Server, wait_until_async};
use futures_util::future::join_all;
use std::collections::BTreeSet;

#[tokio::test]
async fn each_record_has_its_own_result() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let results = bus
            .stream
            .append_batch([vec![("k", "1")], vec![("id", "x")], vec![], vec![("k", "3"), ("k", "4")]])
            .await
            .unwrap();
        assert_eq!(results[1].as_ref().unwrap_err().code(), Code::ReservedField);
        let ids: Vec<EventId> = results.into_iter().filter_map(Result::ok).collect();
        let entries: Vec<(String, Vec<String>)> = bus.plain.query(["XRANGE", KEY, "-", "+"]);
        assert_eq!(entries.len(), 3);
        for (id, (entry_id, fields)) in ids.iter().zip(&entries) {
            assert_eq!(EntryId::from(*id).to_string(), *entry_id);
            assert_eq!(fields[1], id.as_str());
        }
        assert_eq!(entries[2].1[2..], ["k", "3", "k", "4"]);
        assert!(bus.stream.append_batch(Vec::<Fields>::new()).await.unwrap().is_empty());
        let refused = bus.stream.append_batch([[("id", "x")]]).await.unwrap();
        assert_eq!(refused[0].as_ref().unwrap_err().code(), Code::ReservedField);
    })
    .await;
}

#[tokio::test]
async fn a_batch_that_the_server_refuses_says_so_for_each_record() {
    let mut bus = Bus::start(Kind::Valkey).await;
    bus.plain.command(["XADD", KEY, "9999999999999-0", "k", "v"]);
    let results = bus.stream.append_batch([[("k", "1")], [("k", "2")]]).await.unwrap();
    for result in results {
        let error = result.unwrap_err();
        assert_eq!((error.code(), error.top()), (Code::NonMonotonic, Some("9999999999999-0")));
    }
    bus.plain.command(["DEL", KEY]);
    bus.plain.command(["SET", KEY, "no stream"]);
    let results = bus.stream.append_batch([[("k", "1")], [("k", "2")]]).await.unwrap();
    assert!(results.iter().all(|result| result.as_ref().unwrap_err().code() == Code::WrongType));
}

#[tokio::test]
async fn an_atomic_batch_is_written_whole_or_not_at_all() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids = bus.stream.append_batch_atomic([vec![("k", "1"), ("k", "2")], vec![]]).await.unwrap();
        let entries: Vec<(String, Vec<String>)> = bus.plain.query(["XRANGE", KEY, "-", "+"]);
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].1, ["id", ids[0].as_str(), "k", "1", "k", "2"]);
        assert_eq!(
            entries[1],
            (EntryId::from(ids[1]).to_string(), vec!["id".into(), ids[1].as_str().into()])
        );
        assert!(bus.stream.append_batch_atomic(Vec::<Fields>::new()).await.unwrap().is_empty());

        let error = bus.stream.append_batch_atomic([[("k", "1")], [("id", "2")]]).await.unwrap_err();
        assert_eq!(error.code(), Code::ReservedField);
        let wide: Fields = (0..3_500).map(|field| (field.to_string(), "")).collect();
        let error = bus.stream.append_batch_atomic([Fields::from([("k", "1")]), wide]).await.unwrap_err();
        assert_eq!(error.code(), Code::TooLarge);
        assert_eq!(bus.plain.xlen(KEY), 2);

        bus.plain.command(["XADD", KEY, "9999999999999-7", "k", "v"]);
        let error = bus.stream.append_batch_atomic([[("k", "1")], [("k", "2")]]).await.unwrap_err();
        assert_eq!((error.code(), error.top()), (Code::NonMonotonic, Some("9999999999999-7")));
        assert_eq!(bus.plain.xlen(KEY), 3);
    })
    .await;
}

#[tokio::test]
async fn an_atomic_batch_has_no_bound_on_its_records() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let widest: Fields = (0..3_499).map(|field| (field.to_string(), "")).collect();
        let records =
            std::iter::once(widest).chain((0..60_000).map(|n| Fields::from([("n", n.to_string())])));
        let ids = bus.stream.append_batch_atomic(records).await.unwrap();
        assert_eq!(ids.len(), 60_001);
        assert_eq!(bus.plain.xlen(KEY), 60_001);
        let last: Vec<(String, Vec<String>)> = bus.plain.query(["XREVRANGE", KEY, "+", "-", "COUNT", "1"]);
        assert_eq!(last[0].1, ["id", ids[60_000].as_str(), "n", "59999"]);
    })
    .await;
}

#[tokio::test]
async fn a_hundred_callers_that_meet_an_emptied_script_cache() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        for _ in 0..3 {
            bus.plain.command(["SCRIPT", "FLUSH"]);
            let atomic = (0..100)
                .map(|n| bus.stream.append_batch_atomic([[("n", n.to_string())], [("n", "x".into())]]));
            // Plain appends between them must not overtake those that are asked again.
            let calls = atomic.map(|call| (call, bus.stream.append([("n", "plain")])));
            let (atomic, plain): (Vec<_>, Vec<_>) = calls.unzip();
            for ids in join_all(atomic).await {
                assert_eq!(ids.unwrap().len(), 2);
            }
            for id in join_all(plain).await {
                id.unwrap();
            }
        }
        assert_eq!(bus.plain.xlen(KEY), 900);
    })
    .await;
}

#[tokio::test]
async fn an_atomic_batch_whose_reply_is_lost_is_written_once() {
    each(|kind| async move {
        for applied in [true, false] {
            let mut bus = Bus::start(kind).await;
            let proxy = Proxy::start(bus.server.address());
            let client = echomq::Client::connect(&crate::options(&proxy.url())).await.unwrap();
            let stream = client.stream("codemojex", "events").unwrap();
            stream.append([("k", "first")]).await.unwrap();
            let direction = if applied { Direction::Replies } else { Direction::Requests };
            proxy.cut_after(direction, 1, Ending::Reset);
            let ids = stream.append_batch_atomic([[("k", "1")], [("k", "2")]]).await.unwrap();
            let entries: Vec<(String, Vec<String>)> = bus.plain.query(["XRANGE", KEY, "-", "+"]);
            let found: Vec<&str> = entries[1..].iter().map(|(_, fields)| &*fields[1]).collect();
            assert_eq!(found, [ids[0].as_str(), ids[1].as_str()]);
            assert_eq!(proxy.cuts(), 1);
            wait_until_async("the client is connected", async || client.status().connected).await;
        }
    })
    .await;
}

#[tokio::test]
async fn batches_keep_their_order_among_each_other() {
    let bus = Bus::with(Server::start(Kind::Valkey), |options| options).await;
    let batches = (0..20)
        .map(|batch| bus.stream.append_batch((0..100).map(move |n| [("n", (batch * 100 + n).to_string())])));
    let ids: Vec<EventId> = join_all(batches)
        .await
        .into_iter()
        .flat_map(|results| results.unwrap().into_iter().map(|result| result.unwrap()))
        .collect();
    assert!(ids.is_sorted_by(|a, b| a < b));
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 2_000);
    let records = bus.stream.read(echomq::Range::all()).all().await.unwrap();
    let numbers: Vec<usize> = records
        .iter()
        .map(|record| str::from_utf8(record.get("n").unwrap()).unwrap().parse().unwrap())
        .collect();
    assert_eq!(numbers, (0..2_000).collect::<Vec<_>>());
}
