//! A wait that is cancelled has taken nothing: whatever it waited for is given to the next one, once and in order.

use crate::{Bus, KEY};
use echomq::{ConsumerOptions, EventId, Heard, Signal, Start, SubscriberOptions, Tailed};
use echomq_tests::{Kind, Proxy};
use futures_util::{FutureExt, Stream};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;

/// How many records each reader is given, and how many of its waits are cancelled at least.
const RECORDS: usize = 6_000;
const CANCELLED: usize = 20_000;

/// Long enough for a machine that is busy with something else.
const LONG: Duration = Duration::from_secs(120);

/// How a wait ends before it has an answer.
fn ways(random: &mut fastrand::Rng) -> Way {
    match random.u8(..4) {
        0 => Way::After(Duration::from_micros(random.u64(..2_000))),
        1 => Way::After(Duration::ZERO),
        2 => Way::PolledOnce,
        _ => Way::WokenAndDropped,
    }
}

enum Way {
    After(Duration),
    PolledOnce,
    /// Polled, then dropped when it could have gone on.
    WokenAndDropped,
}

/// Waits and gives up; what came in spite of that.
async fn cancelled<T>(wait: impl Future<Output = T>, way: Way) -> Option<T> {
    let mut wait = pin!(wait);
    match way {
        Way::After(time) => timeout(time, wait).await.ok(),
        Way::PolledOnce => wait.as_mut().now_or_never(),
        Way::WokenAndDropped => {
            if let Some(found) = wait.as_mut().now_or_never() {
                return Some(found);
            }
            // Others run meanwhile, and put what is waited for there.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            None
        }
    }
}

/// What comes next of a stream, which does not wait for more.
async fn of_stream<T>(stream: &mut (impl Stream<Item = echomq::Result<T>> + Unpin)) -> Vec<T> {
    futures_util::StreamExt::next(stream).await.into_iter().map(echomq::Result::unwrap).collect()
}

/// Takes what comes, through waits that are cancelled, until all of it is there.
async fn through_cancellations<T, F: Future<Output = Vec<T>>>(seed: u64, wait: impl Fn(u8) -> F) -> Vec<T> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut found, mut gave_up) = (Vec::new(), 0);
    let everything = async {
        while found.len() < RECORDS || gave_up < CANCELLED {
            match cancelled(wait(random.u8(..)), ways(&mut random)).await {
                Some(taken) => found.extend(taken),
                None => gave_up += 1,
            }
        }
    };
    timeout(LONG, everything).await.unwrap();
    found
}

#[tokio::test]
async fn a_reader_whose_waits_are_cancelled_gets_everything_once_and_in_order() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let tail = bus.stream.tail(Start::New).await.unwrap();
    let options =
        ConsumerOptions::new("g", Start::New).unwrap().max_attempts(1).batch(7, Duration::from_millis(1));
    let consumer = bus.stream.consumer(options).await.unwrap();
    let events = bus.client.events("codemojex").unwrap();
    let listener = events.listen().await.unwrap();
    let subscriber = listener.subscribe(SubscriberOptions::new().buffer(2 * RECORDS)).unwrap();

    let writer = {
        let stream = bus.stream.clone();
        tokio::spawn(async move {
            let mut written = Vec::new();
            let mut random = fastrand::Rng::with_seed(7);
            while written.len() < RECORDS {
                let count = random.usize(1..5).min(RECORDS - written.len());
                for n in 0..count {
                    let id = stream.append([("n", n.to_string())]).await.unwrap();
                    events.publish(Signal::new("added", id.as_str()).unwrap()).await.unwrap();
                    written.push(id);
                }
                tokio::time::sleep(Duration::from_micros(random.u64(..1_000))).await;
            }
            written
        })
    };
    let tailing = through_cancellations(1, |which| {
        let mut stream = tail.clone();
        let tail = tail.clone();
        async move {
            let taken = match which % 3 {
                0 => tail.next().await.unwrap().into_iter().collect(),
                1 => tail.take(5).await.unwrap(),
                _ => of_stream(&mut stream).await,
            };
            let id = |tailed| match tailed {
                Tailed::Record(record) => record.id().unwrap(),
                other => panic!("{other:?}"),
            };
            taken.into_iter().map(id).collect::<Vec<EventId>>()
        }
    });
    let consuming = through_cancellations(2, |which| {
        let mut stream = consumer.clone();
        let consumer = consumer.clone();
        async move {
            let taken = match which % 4 {
                0 => consumer.next().await.unwrap().into_iter().collect(),
                1 => consumer.take(5).await.unwrap(),
                2 => consumer.next_batch().await.unwrap(),
                _ => of_stream(&mut stream).await,
            };
            let settle = |delivery: echomq::Delivery| {
                let id = delivery.id().unwrap();
                assert_eq!(delivery.attempts(), 1);
                delivery.ack();
                id
            };
            taken.into_iter().map(settle).collect()
        }
    });
    let hearing = through_cancellations(3, |which| {
        let mut stream = subscriber.clone();
        let subscriber = subscriber.clone();
        async move {
            let taken = match which % 3 {
                0 => subscriber.next().await.unwrap().into_iter().collect(),
                1 => subscriber.take(5).await.unwrap(),
                _ => of_stream(&mut stream).await,
            };
            let id = |heard| match heard {
                Heard::Event(event) => EventId::parse(event.job().unwrap()).unwrap(),
                other => panic!("{other:?}"),
            };
            taken.into_iter().map(id).collect::<Vec<EventId>>()
        }
    });
    let (written, tailed, consumed, heard) = tokio::join!(writer, tailing, consuming, hearing);
    let written = written.unwrap();
    assert_eq!(tailed, written);
    assert_eq!(consumed, written);
    assert_eq!(heard, written);
    assert_eq!(consumer.stop(LONG).await, 0);
    let pending: Vec<(String, String, u64, u64)> = bus.plain.query(["XPENDING", KEY, "g", "-", "+", "10"]);
    assert!(pending.is_empty(), "{pending:?}");
}

#[tokio::test]
async fn a_page_whose_wait_is_cancelled_is_not_passed_over() {
    let bus = Bus::start(Kind::Valkey).await;
    let written = bus.stream.append_batch_atomic((0..2_000).map(|n| [("n", n.to_string())])).await.unwrap();
    // Replies take a moment, so that every wait begins before its answer is there.
    let proxy = Proxy::start(bus.server.address());
    let client = echomq::Client::connect(&crate::options(&proxy.url())).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    let mut reader = stream.read(echomq::Range::all()).page_size(3);
    let mut random = fastrand::Rng::with_seed(9);
    let (mut found, mut gave_up) = (Vec::new(), 0);
    loop {
        let way = ways(&mut random);
        if random.bool() {
            match cancelled(reader.next_page(), way).await {
                Some(Ok(Some(page))) => found.extend(page),
                Some(end) => {
                    assert_eq!(end.unwrap(), None);
                    break;
                }
                None => gave_up += 1,
            }
        } else {
            match cancelled(futures_util::StreamExt::next(&mut reader), way).await {
                Some(Some(record)) => found.push(record.unwrap()),
                Some(None) => break,
                None => gave_up += 1,
            }
        }
    }
    let found: Vec<EventId> = found.iter().map(|record| record.id().unwrap()).collect();
    assert_eq!(found, written);
    assert!(gave_up > 100, "{gave_up}");
}
