//! Tails: what is appended is seen, in order, and what was trimmed away is not passed over in silence.

use crate::{Bus, KEY, each};
use echomq::{EntryId, EventId, Record, Start, Tail, Tailed, Timestamp};
use echomq_tests::{Ending, Kind, Plain, Proxy, Server};

async fn record(tail: &Tail) -> Record {
    match tail.next().await.unwrap().unwrap() {
        Tailed::Record(record) => record,
        other => panic!("{other:?}"),
    }
}

async fn gap(tail: &Tail) -> (EntryId, EntryId) {
    match tail.next().await.unwrap().unwrap() {
        Tailed::Gap(gap) => (gap.from(), gap.to()),
        other => panic!("{other:?}"),
    }
}

async fn appended(bus: &Bus, count: usize) -> Vec<EventId> {
    bus.stream.append_batch_atomic((0..count).map(|n| [("n", n.to_string())])).await.unwrap()
}

#[tokio::test]
async fn every_start_sees_what_follows_it() {
    each(|kind| async move {
        let bus = Bus::start(kind).await;
        let before = appended(&bus, 3).await;
        let instant = Timestamp::from_millis(before[0].unix_ms() as i64);
        let starts =
            [(Start::New, 3), (Start::Head, 0), (Start::After(before[1]), 2), (Start::At(instant), 0)];
        let mut tails = Vec::new();
        for (start, first) in starts {
            tails.push((bus.stream.tail(start).await.unwrap(), first));
        }
        let all = [before, appended(&bus, 2).await].concat();
        for (tail, first) in tails {
            for id in &all[first..] {
                assert_eq!(record(&tail).await.id(), Some(*id));
            }
            tail.close();
            assert_eq!(tail.next().await.unwrap(), None);
        }
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_stream_is_pinned_once() {
    let bus = Bus::start(Kind::Valkey).await;
    for _ in 0..100 {
        let tail = bus.stream.tail(Start::New).await.unwrap();
        let id = appended(&bus, 1).await[0];
        assert_eq!(record(&tail).await.id(), Some(id));
    }
}

#[tokio::test]
async fn a_place_behind_the_trimmed_edge_is_a_gap_first() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids = appended(&bus, 10).await;
        bus.plain.command(["XTRIM", KEY, "MAXLEN", "=", "4"]);
        let tail = bus.stream.tail(Start::After(ids[1])).await.unwrap();
        assert_eq!(gap(&tail).await, (ids[1].into(), ids[6].into()));
        for id in &ids[6..] {
            assert_eq!(record(&tail).await.id(), Some(*id));
        }
        // Its place is still there, so nothing behind it is missing; nor is anything of a stream read from its head.
        for start in [Start::After(ids[6]), Start::Head] {
            let tail = bus.stream.tail(start).await.unwrap();
            assert!(matches!(tail.next().await.unwrap().unwrap(), Tailed::Record(_)), "{start:?}");
        }
        // An instant behind the edge.
        let tail = bus.stream.tail(Start::At(Timestamp::from_millis(1_704_067_200_000))).await.unwrap();
        assert_eq!(gap(&tail).await.1, ids[6].into());
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_was_emptied_or_expired_is_a_gap() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids = appended(&bus, 5).await;
        bus.plain.command(["XTRIM", KEY, "MAXLEN", "=", "0"]);
        let emptied = bus.stream.tail(Start::After(ids[1])).await.unwrap();
        assert_eq!(gap(&emptied).await, (ids[1].into(), ids[4].into()));
        // A tail that had seen everything misses nothing.
        let whole = bus.stream.tail(Start::After(ids[4])).await.unwrap();
        let next = appended(&bus, 1).await[0];
        assert_eq!(record(&emptied).await.id(), Some(next));
        assert_eq!(record(&whole).await.id(), Some(next));
        bus.plain.command(["DEL", KEY]);
        let expired = bus.stream.tail(Start::After(ids[1])).await.unwrap();
        let later = appended(&bus, 1).await[0];
        assert_eq!(gap(&expired).await, (ids[1].into(), later.into()));
        assert_eq!(record(&expired).await.id(), Some(later));
        assert_eq!(gap(&whole).await, (next.into(), later.into()));
    })
    .await;
}

#[tokio::test]
async fn a_live_tail_that_keeps_up_sees_no_gap_however_much_is_trimmed() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let tail = bus.stream.tail(Start::New).await.unwrap();
        for _ in 0..100 {
            let id = appended(&bus, 1).await[0];
            assert_eq!(record(&tail).await.id(), Some(id));
            bus.plain.command(["XTRIM", KEY, "MAXLEN", "=", "1"]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_tail_goes_on_after_lost_connections_and_restarts() {
    each(|kind| async move {
        let server = Server::builder(kind).persistence(true).start();
        let proxy = Proxy::start(server.address());
        let mut bus = Bus::with(server, |options| options).await;
        let through = echomq::Client::connect(&crate::options(&proxy.url())).await.unwrap();
        let tail = through.stream("codemojex", "events").unwrap().tail(Start::Head).await.unwrap();
        let mut expected = Vec::new();
        for round in 0..6 {
            expected.extend(appended(&bus, 5).await);
            match round % 3 {
                0 => proxy.close_all(Ending::Reset),
                1 => drop(bus.plain.command(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])),
                _ => {
                    bus.server.restart();
                    bus.plain = Plain::connect(&bus.server);
                }
            };
        }
        expected.extend(appended(&bus, 5).await);
        for id in expected {
            assert_eq!(record(&tail).await.id(), Some(id));
        }
    })
    .await;
}
