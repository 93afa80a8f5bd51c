//! Consumers: the rules of the reader law, one by one.

use crate::{Bus, KEY, each};
use echomq::{ConsumerOptions, Delivery, EntryId, EventId, Message, NoticeKind, OnForeign, Start, blocking};
use echomq_tests::{Kind, Plain, Server, wait_until_async};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn consumer_options(group: &str, start: Start) -> ConsumerOptions {
    ConsumerOptions::new(group, start).unwrap()
}

/// How many entries of a group are pending, as the server says.
pub(crate) fn pending(bus: &mut Bus, group: &str) -> u64 {
    pending_by(&mut bus.plain, group)
}

pub(crate) fn pending_by(plain: &mut Plain, group: &str) -> u64 {
    let summary: Vec<redis::Value> = plain.query(["XPENDING", KEY, group]);
    redis::from_redis_value(summary[0].clone()).unwrap()
}

#[tokio::test]
async fn every_record_once_in_order_and_acknowledged() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids: Vec<EventId> =
            bus.stream.append_batch_atomic((0..250).map(|n| [("n", n.to_string())])).await.unwrap();
        let consumer = bus.stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
        for id in &ids {
            let delivery = consumer.next().await.unwrap().unwrap();
            assert_eq!((delivery.id(), delivery.attempts(), delivery.group()), (Some(*id), 1, "g"));
            delivery.ack();
        }
        consumer.flush().await.unwrap();
        assert_eq!(pending(&mut bus, "g"), 0);
        let later = bus.stream.append([("n", "later")]).await.unwrap();
        assert_eq!(consumer.next().await.unwrap().unwrap().id(), Some(later));
        assert_eq!(consumer.stop(SECOND).await, 0);
        assert!(consumer.next().await.unwrap().is_none());
        assert_eq!(pending(&mut bus, "g"), 1);
    })
    .await;
}

#[tokio::test]
async fn what_is_appended_after_the_start_is_seen() {
    each(|kind| async move {
        let bus = Bus::start(kind).await;
        bus.stream.append([("n", "before")]).await.unwrap();
        for round in 0..200 {
            let consumer =
                bus.stream.consumer(consumer_options(&format!("g{round}"), Start::New)).await.unwrap();
            let id = bus.stream.append([("n", "after")]).await.unwrap();
            assert_eq!(consumer.next().await.unwrap().unwrap().id(), Some(id));
        }
    })
    .await;
}

#[tokio::test]
async fn own_pending_entries_come_first_and_do_not_hold_up_the_rest() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids: Vec<EventId> =
            bus.stream.append_batch_atomic((0..30).map(|n| [("n", n.to_string())])).await.unwrap();
        bus.plain.command(["XGROUP", "CREATE", KEY, "g", "0"]);
        bus.plain.command(["XREADGROUP", "GROUP", "g", "c", "COUNT", "25", "STREAMS", KEY, ">"]);
        let options = consumer_options("g", Start::New).consumer("c").unwrap().count(10);
        let consumer = bus.stream.consumer(options).await.unwrap();
        let mut seen = Vec::new();
        for _ in 0..30 {
            let delivery = consumer.next().await.unwrap().unwrap();
            seen.push((delivery.id().unwrap(), delivery.attempts()));
            if seen.len() == 1 { delivery.fail("not now") } else { delivery.ack() }
        }
        let expected: Vec<(EventId, u64)> =
            ids.iter().enumerate().map(|(n, id)| (*id, if n < 25 { 2 } else { 1 })).collect();
        assert_eq!(seen, expected);
        consumer.flush().await.unwrap();
        assert_eq!(pending(&mut bus, "g"), 1);
    })
    .await;
}

#[tokio::test]
async fn entries_of_a_dead_peer_are_reclaimed_and_failed_ones_come_back() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids: Vec<EventId> =
            bus.stream.append_batch_atomic((0..25).map(|n| [("n", n.to_string())])).await.unwrap();
        bus.plain.command(["XGROUP", "CREATE", KEY, "g", "0"]);
        bus.plain.command(["XREADGROUP", "GROUP", "g", "dead", "COUNT", "25", "STREAMS", KEY, ">"]);
        let options = consumer_options("g", Start::New)
            .count(10)
            .beat(Duration::from_millis(20))
            .min_idle(Duration::from_millis(100));
        let consumer = bus.stream.consumer(options).await.unwrap();
        let seen: Mutex<Vec<(EventId, u64)>> = Mutex::default();
        let run = consumer.run(|message: Message| {
            let seen = &seen;
            async move {
                let id = message.id().unwrap();
                seen.lock().unwrap().push((id, message.attempts()));
                if message.attempts() < 4 && message.record().get("n") == Some(b"3") {
                    Err("again")
                } else {
                    Ok(())
                }
            }
        });
        let all = wait_until_async("every entry", async || seen.lock().unwrap().len() == 27);
        tokio::select! { ended = run => panic!("{ended:?}"), () = all => {} }
        let seen = seen.into_inner().unwrap();
        let first: Vec<(EventId, u64)> = ids.iter().map(|id| (*id, 2)).collect();
        assert!(first.iter().all(|entry| seen.contains(entry)), "{seen:?}");
        assert!(seen.contains(&(ids[3], 3)) && seen.contains(&(ids[3], 4)), "{seen:?}");
        assert_eq!(consumer.stop(SECOND).await, 0);
        assert_eq!(pending(&mut bus, "g"), 0);
    })
    .await;
}

/// A failed entry leaves the hand before the server may hand it out again: a scan that found it in hand would drop it.
#[tokio::test(flavor = "multi_thread")]
async fn failed_entries_come_back_once_each_while_others_are_called_back() {
    const ENTRIES: usize = 4_000;
    let mut bus = Bus::start(Kind::Valkey).await;
    for _ in 0..ENTRIES / 1_000 {
        bus.stream.append_batch_atomic((0..1_000).map(|_| [("k", "v")])).await.unwrap();
    }
    // An hour for those that are not called back.
    let options = consumer_options("g", Start::Head)
        .retry(Duration::ZERO, Duration::ZERO)
        .min_idle(Duration::from_secs(3_600))
        .count(256);
    let consumer = bus.stream.consumer(options).await.unwrap();
    let handled = Arc::new(AtomicUsize::new(0));
    // Far more threads than cores, so that they are interrupted anywhere.
    let threads: Vec<_> = (0..64)
        .map(|_| {
            let (consumer, handled) = (consumer.clone(), handled.clone());
            std::thread::spawn(move || {
                let mut attempts = BTreeMap::<u64, usize>::new();
                while let Some(taken) = consumer.wait_next(1, Duration::MAX).unwrap() {
                    let Some(delivery) = taken.into_iter().next() else { break };
                    *attempts.entry(delivery.attempts()).or_default() += 1;
                    if delivery.attempts() == 1 {
                        delivery.fail("again");
                    } else {
                        delivery.ack();
                        handled.fetch_add(1, Ordering::Relaxed);
                    }
                }
                attempts
            })
        })
        .collect();
    wait_until_async("every entry", async || handled.load(Ordering::Relaxed) == ENTRIES).await;
    assert_eq!(consumer.stop(SECOND).await, 0);
    let mut attempts = BTreeMap::<u64, usize>::new();
    for (attempt, times) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        *attempts.entry(attempt).or_default() += times;
    }
    assert_eq!(attempts, BTreeMap::from([(1, ENTRIES), (2, ENTRIES)]));
    assert_eq!(pending(&mut bus, "g"), 0);
}

#[tokio::test]
async fn several_workers_keep_the_order_of_a_value() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let record = |n: usize| [("player", format!("p{}", n % 5)), ("n", n.to_string())];
        bus.stream.append_batch_atomic((0..200).map(record)).await.unwrap();
        let options = consumer_options("g", Start::Head).concurrency(4).order_by("player").count(20);
        let consumer = bus.stream.consumer(options).await.unwrap();
        let (seen, most) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
        let at_once = AtomicUsize::new(0);
        let run = consumer.run(|message: Message| {
            let (seen, most, at_once) = (&seen, &most, &at_once);
            async move {
                most.fetch_max(at_once.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let text = |name| String::from_utf8(message.record().get(name).unwrap().to_vec()).unwrap();
                let player = text("player");
                tokio::time::sleep(Duration::from_millis(if player == "p0" { 5 } else { 1 })).await;
                seen.lock().unwrap().push((player, text("n").parse::<usize>().unwrap()));
                at_once.fetch_sub(1, Ordering::Relaxed);
                Ok::<(), String>(())
            }
        });
        let all = wait_until_async("every entry", async || seen.lock().unwrap().len() == 200);
        tokio::select! { ended = run => panic!("{ended:?}"), () = all => {} }
        for player in 0..5 {
            let player = format!("p{player}");
            let order: Vec<usize> =
                seen.lock().unwrap().iter().filter(|(name, _)| *name == player).map(|(_, n)| *n).collect();
            assert!(order.is_sorted(), "{player}: {order:?}");
            assert_eq!(order.len(), 40);
        }
        assert_eq!(most.into_inner(), 4);
        consumer.stop(SECOND).await;
        assert_eq!(pending(&mut bus, "g"), 0);
    })
    .await;
}

#[tokio::test]
async fn new_entries_cost_no_count_and_acknowledgements_travel_together() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.stream.append_batch_atomic((0..40).map(|n| [("n", n.to_string())])).await.unwrap();
        let consumer = bus.stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
        let mut deliveries = Vec::new();
        while deliveries.len() < 40 {
            deliveries.push(consumer.next().await.unwrap().unwrap());
        }
        Delivery::ack_all(deliveries);
        consumer.flush().await.unwrap();
        let calls: String = bus.plain.query(["INFO", "commandstats"]);
        assert!(!calls.contains("cmdstat_xpending"), "{calls}");
        assert!(calls.contains("cmdstat_xack:calls=1,"), "{calls}");
    })
    .await;
}

#[tokio::test]
async fn one_of_several_workers_takes_nothing_that_another_could_begin() {
    let bus = Bus::start(Kind::Valkey).await;
    bus.stream.append_batch_atomic((0..20).map(|n| [("n", n.to_string())])).await.unwrap();
    for (workers, expected) in [(1, 5), (2, 1)] {
        let options = consumer_options(&format!("g{workers}"), Start::Head).count(10).concurrency(workers);
        let worker = bus.stream.consumer(options).await.unwrap().worker(0).unwrap();
        assert_eq!(worker.take(50).await.unwrap().len(), expected);
    }
}

#[tokio::test]
async fn a_handler_that_fails_or_panics_does_not_end_the_consumer() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids = bus.stream.append_batch_atomic((1..=5).map(|n| [("n", n.to_string())])).await.unwrap();
        let options = consumer_options("g", Start::Head)
            .retry(Duration::from_millis(20), Duration::from_millis(20))
            .beat(Duration::from_secs(60));
        let consumer = bus.stream.consumer(options).await.unwrap();
        let seen: Mutex<Vec<(EventId, u64)>> = Mutex::default();
        let begun = Instant::now();
        let run = consumer.run(|message: Message| {
            let seen = &seen;
            async move {
                seen.lock().unwrap().push((message.id().unwrap(), message.attempts()));
                match (message.record().get("n"), message.attempts()) {
                    (Some(b"2"), 1) => Err("not yet"),
                    (Some(b"4"), 1 | 2) => panic!("by intent"),
                    _ => Ok(()),
                }
            }
        });
        let all = wait_until_async("every entry", async || seen.lock().unwrap().len() == 8);
        tokio::select! { ended = run => panic!("{ended:?}"), () = all => {} }
        let seen = seen.into_inner().unwrap();
        let first: Vec<(EventId, u64)> = ids.iter().map(|id| (*id, 1)).collect();
        assert_eq!(seen[..5], first);
        // They came back by their own delay: the beat is a minute, min_idle half of one, and a sign of life, with which the
        // engine would find them too, a third of that.
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
        let mut again = seen[5..].to_vec();
        again.sort();
        assert_eq!(again, [(ids[1], 2), (ids[3], 2), (ids[3], 3)]);
        assert_eq!(consumer.stop(SECOND).await, 0);
        assert_eq!(pending(&mut bus, "g"), 0);
        let mut reasons = Vec::new();
        while let Some(notice) = consumer.notices().next().await {
            assert_eq!(notice.kind(), NoticeKind::Failed);
            reasons.push((notice.id().unwrap(), notice.attempts().unwrap(), notice.message().to_owned()));
        }
        reasons.sort();
        let panicked = "the handler panicked: by intent".to_owned();
        assert_eq!(
            reasons,
            [(ids[1], 1, "not yet".to_owned()), (ids[3], 1, panicked.clone()), (ids[3], 2, panicked)]
        );
    })
    .await;
}

#[tokio::test]
async fn batches_wait_for_more_and_are_acknowledged_as_a_whole() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let options = consumer_options("g", Start::Head).count(50).batch(20, Duration::from_secs(600));
        let consumer = bus.stream.consumer(options).await.unwrap();
        let sizes: Mutex<Vec<usize>> = Mutex::default();
        let run = consumer.run_batches(|messages: Vec<Message>| {
            sizes.lock().unwrap().push(messages.len());
            async { Ok::<(), String>(()) }
        });
        let appends = async {
            for _ in 0..8 {
                bus.stream.append_batch_atomic((0..5).map(|n| [("n", n.to_string())])).await.unwrap();
            }
            wait_until_async("both batches", async || sizes.lock().unwrap().len() == 2).await;
        };
        tokio::select! { ended = run => panic!("{ended:?}"), () = appends => {} }
        assert_eq!(*sizes.lock().unwrap(), [20, 20]);
        assert_eq!(consumer.stop(SECOND).await, 0);
        assert_eq!(pending(&mut bus, "g"), 0);
    })
    .await;
}

/// Who takes elsewhere than where it waits gets the same batches.
#[tokio::test]
async fn a_batch_that_is_taken_without_waiting_has_waited_as_well() {
    each(|kind| async move {
        let bus = Bus::start(kind).await;
        let append = |numbers: std::ops::Range<usize>| numbers.map(|n| [("n", n.to_string())]);
        let options = |wait| ConsumerOptions::new("g", Start::Head).unwrap().batch(5, wait);
        bus.stream.append_batch_atomic(append(0..3)).await.unwrap();
        let consumer = bus.stream.consumer(options(Duration::from_secs(600))).await.unwrap();
        consumer.ready().await;
        assert!(consumer.ready_batch().unwrap().is_none(), "two more are waited for");
        bus.stream.append_batch_atomic(append(3..5)).await.unwrap();
        consumer.batch_ready().await;
        let batch = consumer.ready_batch().unwrap().unwrap();
        assert_eq!(batch.len(), 5);
        batch.into_iter().for_each(Delivery::ack);
        assert!(consumer.ready_batch().unwrap().is_none());
        consumer.stop(Duration::from_secs(600)).await;

        let consumer = bus.stream.consumer(options(Duration::from_millis(20))).await.unwrap();
        bus.stream.append_batch_atomic(append(5..8)).await.unwrap();
        consumer.batch_ready().await;
        assert_eq!(consumer.ready_batch().unwrap().unwrap().len(), 3);
        consumer.stop(Duration::ZERO).await;
        assert!(consumer.ready_batch().unwrap().unwrap().is_empty(), "it has ended");
    })
    .await;
}

#[tokio::test]
async fn foreign_entries_are_delivered_skipped_or_failed() {
    each(|kind| async move {
        for on_foreign in [OnForeign::Deliver, OnForeign::Skip, OnForeign::Fail] {
            let mut bus = Bus::start(kind).await;
            bus.plain.command(["XADD", KEY, "5-1", "k", "v"]);
            let id = bus.stream.append([("n", "1")]).await.unwrap();
            let options = consumer_options("g", Start::Head).on_foreign(on_foreign);
            let consumer = bus.stream.consumer(options).await.unwrap();
            if on_foreign == OnForeign::Deliver {
                let foreign = consumer.next().await.unwrap().unwrap();
                assert_eq!((foreign.id(), foreign.entry_id()), (None, EntryId::new(5, 1)));
                assert_eq!(foreign.record().get("k"), Some(&b"v"[..]));
                foreign.ack();
            } else {
                let notice = consumer.notices().next().await.unwrap();
                assert_eq!(
                    (notice.kind(), notice.entry_id()),
                    (NoticeKind::Foreign, Some(EntryId::new(5, 1)))
                );
            }
            let delivery = consumer.next().await.unwrap().unwrap();
            assert_eq!(delivery.id(), Some(id));
            delivery.ack();
            assert_eq!(consumer.stop(SECOND).await, 0);
            assert_eq!(pending(&mut bus, "g"), u64::from(on_foreign == OnForeign::Fail));
        }
    })
    .await;
}

#[tokio::test]
async fn a_paused_consumer_hands_nothing_out() {
    let bus = Bus::start(Kind::Valkey).await;
    let consumer = bus.stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
    consumer.pause();
    bus.stream.append([("n", "1")]).await.unwrap();
    assert_eq!(consumer.wait_next(1, Duration::from_millis(20)).unwrap().map(|taken| taken.len()), None);
    consumer.resume();
    assert!(consumer.next().await.unwrap().is_some());
}

#[tokio::test]
async fn an_acknowledgement_is_for_the_group_that_was_read() {
    let mut bus = Bus::start(Kind::Valkey).await;
    bus.stream.append([("n", "1")]).await.unwrap();
    let (one, other) = (
        bus.stream.consumer(consumer_options("one", Start::Head)).await.unwrap(),
        bus.stream.consumer(consumer_options("other", Start::Head)).await.unwrap(),
    );
    let (first, second) = (one.next().await.unwrap().unwrap(), other.next().await.unwrap().unwrap());
    first.ack();
    one.flush().await.unwrap();
    assert_eq!((pending(&mut bus, "one"), pending(&mut bus, "other")), (0, 1));
    second.ack();
    other.flush().await.unwrap();
    assert_eq!(pending(&mut bus, "other"), 0);
}

#[test]
fn a_consumer_of_a_blocking_client() {
    let server = Server::start(Kind::Valkey);
    let client = blocking::Client::open(&crate::options(&server.url())).unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    let consumer = stream.consumer(consumer_options("g", Start::New)).unwrap();
    let id = stream.append([("n", "1")]).unwrap();
    let mut taken = consumer.wait_next(10, Duration::from_secs(60)).unwrap().unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].id(), Some(id));
    taken.pop().unwrap().ack();
    assert!(consumer.wait_flush(Duration::from_secs(60)).unwrap().is_ok());
    let mut plain = Plain::connect(&server);
    assert_eq!(pending_by(&mut plain, "g"), 0);
    assert_eq!(client.close(Duration::from_secs(20)), 0);
    assert_eq!(consumer.wait_stopped(Duration::from_secs(60)), Some(0));
    assert!(consumer.wait_next(1, Duration::from_secs(60)).unwrap().unwrap().is_empty());
}
