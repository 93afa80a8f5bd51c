//! Consumers on servers and networks that fail, and beside others.

use crate::consumer::{consumer_options, pending};
use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, Consumer, EntryId, EventId, Message, NoticeKind, Start};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, wait_until_async};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const SECOND: Duration = Duration::from_secs(1);
const MS: fn(u64) -> Duration = Duration::from_millis;

/// Everything that handlers were given, by id, with how often.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<EventId, usize>>>);

impl Seen {
    /// Handles everything that a consumer is given.
    fn handle(&self, consumer: &Consumer) -> JoinHandle<echomq::Result<()>> {
        let (seen, consumer) = (self.clone(), consumer.clone());
        tokio::spawn(async move {
            let handler = |message: Message| {
                *seen.0.lock().unwrap().entry(message.id().unwrap()).or_default() += 1;
                async { Ok::<(), String>(()) }
            };
            consumer.run(handler).await
        })
    }

    async fn all(&self, ids: &[EventId]) {
        let all = async || ids.iter().all(|id| self.0.lock().unwrap().contains_key(id));
        wait_until_async("every record to be handled", all).await;
    }
}

async fn appended(bus: &Bus, count: usize) -> Vec<EventId> {
    bus.stream.append_batch_atomic((0..count).map(|n| [("n", n.to_string())])).await.unwrap()
}

/// Waits for a notice of a kind and passes over others.
async fn notice(consumer: &Consumer, kind: NoticeKind) -> echomq::Notice {
    loop {
        let notice = consumer.notices().next().await.unwrap();
        if notice.kind() == kind {
            return notice;
        }
    }
}

/// Waits until the idle time of a pending entry has fallen so many times.
async fn wait_for_signs_of_life(server: &Server, entry_id: EntryId, times: usize) {
    let (mut plain, entry_id) = (Plain::connect(server), entry_id.to_string());
    let (mut last, mut falls) = (0, 0);
    wait_until_async("signs of life", async || {
        let pending: Vec<(String, String, u64, u64)> =
            plain.query(["XPENDING", KEY, "g", &entry_id, &entry_id, "1"]);
        let idle = pending[0].2;
        falls += usize::from(idle < last);
        last = idle;
        falls >= times
    })
    .await;
}

#[tokio::test]
async fn a_group_that_vanishes_is_made_again_and_nothing_behind_it_is_missed() {
    each(|kind| async move {
        for loss in [&["DEL", KEY][..], &["XGROUP", "DESTROY", KEY, "g"], &["FLUSHALL"]] {
            let mut bus = Bus::start(kind).await;
            appended(&bus, 3).await;
            // Blocked when it happens, and starting at the end: what was there before is not for this group.
            let options = consumer_options("g", Start::New).beat(SECOND);
            let consumer = bus.stream.consumer(options).await.unwrap();
            let first = appended(&bus, 1).await;
            assert_eq!(consumer.next().await.unwrap().unwrap().id(), Some(first[0]));
            bus.plain.command(loss);
            let later = appended(&bus, 3).await;
            for id in later {
                let delivery = consumer.next().await.unwrap().unwrap();
                assert_eq!(delivery.id(), Some(id), "{loss:?}");
                delivery.ack();
            }
            notice(&consumer, NoticeKind::GroupRecreated).await;
            consumer.flush().await.unwrap();
            assert_eq!(pending(&mut bus, "g"), 0);
            assert_eq!(consumer.stop(SECOND).await, 0);
            while let Some(notice) = consumer.notices().next().await {
                assert_ne!(notice.kind(), NoticeKind::GroupRecreated, "once for each loss");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn trimmed_pending_entries_are_lost_with_a_notice_and_not_handed_out() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids = appended(&bus, 3).await;
        bus.plain.command(["XGROUP", "CREATE", KEY, "g", "0"]);
        bus.plain.command(["XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", KEY, ">"]);
        bus.plain.command(["XTRIM", KEY, "MAXLEN", "=", "1"]);
        let own =
            bus.stream.consumer(consumer_options("g", Start::New).consumer("c").unwrap()).await.unwrap();
        let delivery = own.next().await.unwrap().unwrap();
        assert_eq!(delivery.id(), Some(ids[2]));
        delivery.ack();
        for id in &ids[..2] {
            assert_eq!(notice(&own, NoticeKind::Lost).await.id(), Some(*id));
        }
        own.flush().await.unwrap();
        assert_eq!(pending(&mut bus, "g"), 0);

        // The same for entries of a dead peer.
        let ids = appended(&bus, 3).await;
        bus.plain.command(["XREADGROUP", "GROUP", "g", "dead", "COUNT", "3", "STREAMS", KEY, ">"]);
        assert_eq!(own.stop(SECOND).await, 0);
        bus.plain.command(["XTRIM", KEY, "MAXLEN", "=", "1"]);
        let options = consumer_options("g", Start::New).min_idle(MS(1)).beat(MS(10));
        let peer = bus.stream.consumer(options).await.unwrap();
        let taken = peer.next().await.unwrap().unwrap();
        for id in &ids[..2] {
            assert_eq!(notice(&peer, NoticeKind::Lost).await.id(), Some(*id));
        }
        assert!(taken.id() == Some(ids[2]));
    })
    .await;
}

#[tokio::test]
async fn a_handler_longer_than_min_idle_keeps_its_entry() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let options = || consumer_options("g", Start::Head).min_idle(MS(2_000)).beat(MS(10)).count(50);
        let (slow, quick) =
            (bus.stream.consumer(options()).await.unwrap(), bus.stream.consumer(options()).await.unwrap());
        appended(&bus, 50).await;
        let runs = AtomicUsize::new(0);
        let handler = async |consumer: &Consumer| {
            consumer
                .run(|message: Message| {
                    let (runs, server) = (&runs, &bus.server);
                    async move {
                        assert_eq!(message.attempts(), 1);
                        if message.record().get("n") == Some(b"0") {
                            // One comes at each third of min_idle: longer than that, for this one and those behind it.
                            wait_for_signs_of_life(server, message.entry_id(), 4).await;
                        }
                        runs.fetch_add(1, Ordering::Relaxed);
                        Ok::<(), String>(())
                    }
                })
                .await
        };
        let done = wait_until_async("all of them", async || runs.load(Ordering::Relaxed) >= 50);
        let rest = async {
            done.await;
            for consumer in [&slow, &quick] {
                assert_eq!(consumer.stop(Duration::from_secs(5)).await, 0);
            }
        };
        let (first, second, ()) = tokio::join!(handler(&slow), handler(&quick), rest);
        first.and(second).unwrap();
        assert_eq!(runs.load(Ordering::Relaxed), 50);
        assert_eq!(pending(&mut bus, "g"), 0);
    })
    .await;
}

#[tokio::test]
async fn a_stop_gives_back_what_was_not_begun_and_others_take_it_at_once() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        // As many as the first read brings.
        let ids = appended(&bus, 8).await;
        // An hour until anything is reclaimed that nobody gave back.
        let options = || consumer_options("g", Start::Head).min_idle(Duration::from_secs(3_600)).beat(MS(10));
        let stopping = bus.stream.consumer(options()).await.unwrap();
        let first = stopping.next().await.unwrap().unwrap();
        let second = stopping.next().await.unwrap().unwrap();
        let stopped = tokio::spawn({
            let stopping = stopping.clone();
            async move { stopping.stop(MS(300)).await }
        });
        first.ack();
        // The second is not settled by the deadline: it stays pending.
        assert_eq!(stopped.await.unwrap(), 1);
        assert!(stopping.next().await.unwrap().is_none());
        assert_eq!(pending(&mut bus, "g"), 7);
        let seen = Seen::default();
        let peer = bus.stream.consumer(options()).await.unwrap();
        let running = seen.handle(&peer);
        seen.all(&ids[2..]).await;
        assert!(!seen.0.lock().unwrap().contains_key(&ids[1]));
        // A verdict after the end still counts.
        second.ack();
        wait_until_async("the late acknowledgement", async || pending(&mut bus, "g") == 0).await;
        assert_eq!(peer.stop(SECOND).await, 0);
        running.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn lost_connections_and_restarts_lose_nothing() {
    each(|kind| async move {
        let server = Server::builder(kind).persistence(true).start();
        let proxy = Proxy::start(server.address());
        let mut bus = Bus::with(server, |options| options).await;
        let through = Client::connect(&options(&proxy.url())).await.unwrap();
        let stream = through.stream("codemojex", "events").unwrap();
        let consumer = stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
        let seen = Seen::default();
        let running = seen.handle(&consumer);
        let mut ids = Vec::new();
        for round in 0..9 {
            ids.extend(appended(&bus, 20).await);
            match round % 3 {
                0 => proxy.close_all(Ending::Reset),
                1 => drop(bus.plain.command(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])),
                _ => {
                    bus.server.restart();
                    bus.plain = Plain::connect(&bus.server);
                }
            }
            ids.extend(appended(&bus, 20).await);
        }
        seen.all(&ids).await;
        wait_until_async("every acknowledgement", async || pending(&mut bus, "g") == 0).await;
        assert_eq!(consumer.stop(SECOND).await, 0);
        running.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_server_that_comes_back_empty_is_consumed_from_its_beginning() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let consumer = bus.stream.consumer(consumer_options("g", Start::New)).await.unwrap();
        let seen = Seen::default();
        let running = seen.handle(&consumer);
        for _ in 0..3 {
            let ids = appended(&bus, 20).await;
            seen.all(&ids).await;
            bus.server.restart_empty();
            let ids = appended(&bus, 20).await;
            seen.all(&ids).await;
        }
        assert_eq!(consumer.stop(SECOND).await, 0);
        running.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_page_whose_answer_was_lost_is_found_again() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let proxy = Proxy::start(bus.server.address());
        let through = Client::connect(&options(&proxy.url())).await.unwrap();
        let stream = through.stream("codemojex", "events").unwrap();
        // Nothing comes back by itself within an hour.
        let options = consumer_options("g", Start::Head).min_idle(Duration::from_secs(3_600));
        let consumer = stream.consumer(options).await.unwrap();
        let seen = Seen::default();
        let running = seen.handle(&consumer);
        for _ in 0..5 {
            // The answer to the blocked read is swallowed: its entries are pending and nobody has seen them.
            proxy.cut_after(Direction::Replies, 0, Ending::Reset);
            let ids = appended(&bus, 10).await;
            seen.all(&ids).await;
        }
        wait_until_async("every acknowledgement", async || pending(&mut bus, "g") == 0).await;
        assert_eq!(consumer.stop(SECOND).await, 0);
        running.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_half_open_lane_is_noticed_and_replaced() {
    let bus = Bus::start(Kind::Valkey).await;
    let proxy = Proxy::start(bus.server.address());
    let through = Client::connect(&options(&proxy.url()).timeout(SECOND)).await.unwrap();
    let stream = through.stream("codemojex", "events").unwrap();
    let consumer = stream.consumer(consumer_options("g", Start::Head).beat(MS(100))).await.unwrap();
    let seen = Seen::default();
    let running = seen.handle(&consumer);
    seen.all(&appended(&bus, 3).await).await;
    proxy.black_hole_existing();
    let ids = appended(&bus, 3).await;
    seen.all(&ids).await;
    notice(&consumer, NoticeKind::Disconnected).await;
    notice(&consumer, NoticeKind::Reconnected).await;
    assert_eq!(consumer.stop(SECOND).await, 0);
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn what_cannot_be_overcome_ends_the_consumer_with_its_reason() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let consumer = bus.stream.consumer(consumer_options("g", Start::New).beat(MS(20))).await.unwrap();
        bus.plain.command(["SET", KEY, "no stream"]);
        assert_eq!(consumer.next().await.unwrap_err().code(), Code::WrongType);
        assert!(consumer.next().await.unwrap().is_none());
        let error = bus.stream.consumer(consumer_options("g", Start::New)).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::WrongType, Some(KEY)));
    })
    .await;
}

#[tokio::test]
async fn closing_the_client_stops_its_consumers() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let ids = appended(&bus, 10).await;
    let client = Client::connect(&options(&bus.server.url())).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    let consumer = stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
    let delivery = consumer.next().await.unwrap().unwrap();
    assert_eq!(delivery.id(), Some(ids[0]));
    let closing = tokio::spawn(async move { client.close(Duration::from_secs(20)).await });
    wait_until_async("the consumer's end", async || consumer.next().await.unwrap().is_none()).await;
    delivery.ack();
    assert_eq!(closing.await.unwrap(), 0);
    assert_eq!(pending(&mut bus, "g"), 9);
}

#[tokio::test]
async fn a_stop_with_the_server_gone_ends_in_time_and_says_what_is_left() {
    let mut bus = Bus::start(Kind::Valkey).await;
    appended(&bus, 3).await;
    let consumer = bus.stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
    let deliveries = [consumer.next().await.unwrap().unwrap(), consumer.next().await.unwrap().unwrap()];
    bus.server.kill();
    let [first, _second] = deliveries;
    first.ack();
    assert_eq!(consumer.stop(MS(100)).await, 2);
    assert_eq!(consumer.stop(MS(100)).await, 2);
}

/// How often each entry was delivered, as the server says.
fn deliveries(bus: &mut Bus) -> Vec<u64> {
    let pending: Vec<(String, String, u64, u64)> = bus.plain.query(["XPENDING", KEY, "g", "-", "+", "100"]);
    pending.into_iter().map(|(_, _, _, times)| times).collect()
}

/// Where deliveries are counted, reading what a dead process left behind counts one entry at a time: the one in hand.
#[tokio::test]
async fn only_the_entry_in_hand_is_counted_when_a_process_dies() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids = appended(&bus, 5).await;
        bus.plain.command(["XGROUP", "CREATE", KEY, "g", "0"]);
        bus.plain.command(["XREADGROUP", "GROUP", "g", "c", "COUNT", "4", "STREAMS", KEY, ">"]);
        let options = || {
            consumer_options("g", Start::New)
                .consumer("c")
                .unwrap()
                .max_attempts(3)
                .min_idle(Duration::from_secs(3_600))
        };
        // Three processes die with the second entry in hand; what they had handled before was acknowledged.
        for times in 2..=4 {
            let dying = bus.stream.consumer(options()).await.unwrap();
            let mut delivery = dying.next().await.unwrap().unwrap();
            if delivery.id() == Some(ids[0]) {
                delivery.ack();
                delivery = dying.next().await.unwrap().unwrap();
            }
            if times < 4 {
                assert_eq!((delivery.id(), delivery.attempts()), (Some(ids[1]), times));
                assert_eq!(deliveries(&mut bus), [times, 1, 1], "those behind it are not touched");
                std::mem::forget(delivery);
            } else {
                // Its deliveries were used up by handlers that never gave a verdict.
                assert_eq!(notice(&dying, NoticeKind::DeadLetter).await.id(), Some(ids[1]));
                let mut seen = vec![(delivery.id(), delivery.attempts())];
                delivery.ack();
                for _ in 0..2 {
                    let delivery = dying.next().await.unwrap().unwrap();
                    seen.push((delivery.id(), delivery.attempts()));
                    delivery.ack();
                }
                assert_eq!(seen, [(Some(ids[2]), 2), (Some(ids[3]), 2), (Some(ids[4]), 1)]);
            }
            dying.stop(Duration::ZERO).await;
        }
        assert_eq!(pending(&mut bus, "g"), 0);
        let dead: Vec<(String, Vec<String>)> = bus.plain.query(["XRANGE", &format!("{KEY}:dead"), "-", "+"]);
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].1[2..8], ["origin", ids[1].as_str(), "group", "g", "attempts", "3"]);
    })
    .await;
}

#[tokio::test]
async fn a_trouble_that_came_again_is_told_of_though_nothing_follows() {
    let mut bus = Bus::start(Kind::Valkey).await;
    appended(&bus, 1).await;
    let consumer = bus.stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
    let delivery = consumer.next().await.unwrap().unwrap();
    bus.plain.command(["ACL", "SETUSER", "default", "-xack"]);
    delivery.ack();
    let first = notice(&consumer, NoticeKind::Trouble).await;
    assert_eq!((first.code(), first.times()), (Some(Code::Auth), 1));
    let mut plain = Plain::connect(&bus.server);
    wait_until_async("it to be refused again", async || {
        plain.query::<String>(["INFO", "errorstats"]).lines().any(|line| {
            let count = line.strip_prefix("errorstat_NOPERM:count=");
            count.is_some_and(|count| count.parse::<u64>().unwrap() >= 3)
        })
    })
    .await;
    bus.plain.command(["ACL", "SETUSER", "default", "+xack"]);
    wait_until_async("the acknowledgement", async || pending(&mut bus, "g") == 0).await;
    let began = std::time::Instant::now();
    let next = tokio::time::timeout(3 * SECOND, notice(&consumer, NoticeKind::Trouble)).await.unwrap();
    assert!(began.elapsed() < 3 * SECOND, "a wait that ends by its time looks once more");
    assert_eq!(next.code(), Some(Code::Auth));
}

/// Whoever pulls and settles nothing is given the next one all the same.
#[tokio::test]
async fn entries_that_are_kept_in_hand_do_not_hold_the_next_one_back() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let ids = appended(&bus, 4).await;
    bus.plain.command(["XGROUP", "CREATE", KEY, "g", "0"]);
    bus.plain.command(["XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", KEY, ">"]);
    let options = consumer_options("g", Start::New).consumer("c").unwrap().max_attempts(3);
    let consumer = bus.stream.consumer(options).await.unwrap();
    let mut kept = Vec::new();
    for id in ids {
        kept.push(consumer.next().await.unwrap().unwrap());
        assert_eq!(kept.last().unwrap().id(), Some(id));
    }
}

#[tokio::test]
async fn a_flush_does_not_tell_of_an_outage_that_is_over() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let mut bus = Bus::with(server, |options| options).await;
    appended(&bus, 1).await;
    let through = Client::connect(&options(&proxy.url()).timeout(MS(200))).await.unwrap();
    let stream = through.stream("codemojex", "events").unwrap();
    let consumer = stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
    let delivery = consumer.next().await.unwrap().unwrap();
    proxy.black_hole(Direction::Requests);
    delivery.ack();
    notice(&consumer, NoticeKind::Trouble).await;
    assert!(consumer.flush().await.is_err(), "it is not there yet");
    proxy.heal();
    wait_until_async("the acknowledgement", async || pending(&mut bus, "g") == 0).await;
    wait_until_async("its answer", async || consumer.flush().await.is_ok()).await;
    assert_eq!(consumer.stop(SECOND).await, 0);
}

#[tokio::test]
async fn two_consumers_of_one_name_lose_nothing() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let mut ids = appended(&bus, 20).await;
        bus.plain.command(["XGROUP", "CREATE", KEY, "g", "0"]);
        bus.plain.command(["XREADGROUP", "GROUP", "g", "c", "COUNT", "20", "STREAMS", KEY, ">"]);
        let seen = Seen::default();
        let mut running = Vec::new();
        for _ in 0..2 {
            let options = consumer_options("g", Start::New).consumer("c").unwrap().count(5);
            let consumer = bus.stream.consumer(options).await.unwrap();
            running.push((seen.handle(&consumer), consumer));
        }
        ids.extend(appended(&bus, 200).await);
        seen.all(&ids).await;
        // New entries are given to one of the two; only the pending ones of their name may be read by both.
        assert!(ids[20..].iter().all(|id| seen.0.lock().unwrap()[id] == 1));
        for (running, consumer) in running {
            assert_eq!(consumer.stop(SECOND).await, 0);
            running.await.unwrap().unwrap();
        }
        assert_eq!(pending(&mut bus, "g"), 0);
    })
    .await;
}

#[tokio::test]
async fn one_idle_entry_and_eight_reclaimers() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.plain.command(["XGROUP", "CREATE", KEY, "g", "0", "MKSTREAM"]);
        let seen = Seen::default();
        let mut running = Vec::new();
        for _ in 0..8 {
            let options = consumer_options("g", Start::New).min_idle(MS(10_000)).beat(MS(5)).count(1);
            let consumer = bus.stream.consumer(options).await.unwrap();
            running.push((seen.handle(&consumer), consumer));
        }
        for _ in 0..25 {
            // Given to a peer that is dead, and idle already: one transaction, so that no reader comes between.
            let id = bus.client.mint().await.unwrap();
            let entry_id = echomq::EntryId::from(id).to_string();
            bus.plain.command(["MULTI"]);
            bus.plain.command(["XADD", KEY, &entry_id, "id", id.as_str()]);
            bus.plain.command(["XREADGROUP", "GROUP", "g", "dead", "COUNT", "1", "STREAMS", KEY, ">"]);
            bus.plain.command(["XCLAIM", KEY, "g", "dead", "0", &entry_id, "IDLE", "60000", "JUSTID"]);
            bus.plain.command(["EXEC"]);
            seen.all(&[id]).await;
        }
        for (running, consumer) in running {
            assert_eq!(consumer.stop(SECOND).await, 0);
            running.await.unwrap().unwrap();
        }
        assert!(seen.0.lock().unwrap().values().all(|times| *times == 1), "{:?}", seen.0.lock().unwrap());
        let keys: Vec<String> = bus.plain.query(["KEYS", "emq:*"]);
        assert_eq!(keys, [KEY], "no lock, and nothing else, is left");
    })
    .await;
}
