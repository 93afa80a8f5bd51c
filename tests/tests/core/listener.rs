//! Listeners and those who hear off them, against what a plain client publishes.

use crate::{Bus, each, options};
use echomq::{Client, Code, Event, Heard, Listener, Options, Subscriber, SubscriberOptions};
use echomq_tests::{Kind, Plain, Server, wait_until_async};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CHANNEL: &str = "emq:{codemojex}:events";

pub(crate) fn subscribe(listener: &Listener) -> Subscriber {
    listener.subscribe(SubscriberOptions::new()).unwrap()
}

pub(crate) async fn event(subscriber: &Subscriber) -> Event {
    match subscriber.next().await.unwrap().unwrap() {
        Heard::Event(event) => event,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn listen(client: &Client) -> Listener {
    client.events("codemojex").unwrap().listen().await.unwrap()
}

pub(crate) fn publish(plain: &mut Plain, payload: impl AsRef<[u8]>) {
    plain.command([b"PUBLISH", CHANNEL.as_bytes(), payload.as_ref()]);
}

/// How many connections are subscribed to the channel, as the server counts them.
fn listening(plain: &mut Plain) -> u64 {
    plain.query::<(String, u64)>(["PUBSUB", "NUMSUB", CHANNEL]).1
}

async fn with_protocols<F: Future<Output = ()>>(test: impl Fn(Server, Options) -> F) {
    for kind in Kind::ALL {
        for protocol in ["2", "3"] {
            let server = Server::start(kind);
            let mut options = options(&server.url());
            options.set("protocol", protocol).unwrap();
            test(server, options).await;
        }
    }
}

#[tokio::test]
async fn everything_published_is_heard_as_it_is() {
    with_protocols(|server, options| async move {
        let mut plain = Plain::connect(&server);
        let client = Client::connect(&options).await.unwrap();
        let subscriber = subscribe(&listen(&client).await);
        let payloads: [&[u8]; 8] = [
            br#"{"event":"completed","job":"JOB000xY9Wvvcd"}"#,
            br#"{ "job": "JOB000xY9Wvvcd", "progress": 50, "event": "progress" }"#,
            b"",
            b"hello",
            b"\x00\xff\r\n",
            b"[\"event\"]",
            br#"{"job":"JOB000xY9Wvvcd"}"#,
            &[b'x'; 300_000],
        ];
        payloads.iter().for_each(|payload| publish(&mut plain, payload));
        for (payload, name) in
            payloads.iter().zip(["completed", "progress"].into_iter().chain(["unknown"; 6]))
        {
            let event = event(&subscriber).await;
            assert_eq!((event.payload(), event.name()), (*payload, name));
        }
    })
    .await;
}

#[tokio::test]
async fn a_subscription_is_there_when_listen_answers() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        for number in 0..50 {
            let listener = listen(&bus.client).await;
            let subscriber = subscribe(&listener);
            publish(&mut bus.plain, number.to_string());
            assert_eq!(event(&subscriber).await.payload(), number.to_string().as_bytes());
        }
    })
    .await;
}

#[tokio::test]
async fn one_connection_and_one_subscription_for_all() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let before: usize = bus.plain.query::<String>(["CLIENT", "LIST"]).lines().count();
        let listeners = [listen(&bus.client).await, listen(&bus.client).await];
        let other = bus.client.events("other").unwrap().listen().await.unwrap();
        let subscribers: Vec<Subscriber> = (0..100).map(|number| subscribe(&listeners[number % 2])).collect();
        assert_eq!(bus.plain.query::<String>(["CLIENT", "LIST"]).lines().count(), before + 1);
        assert_eq!(listening(&mut bus.plain), 1);
        publish(&mut bus.plain, "one");
        for subscriber in &subscribers {
            assert_eq!(event(subscriber).await.payload(), b"one");
        }
        // A queue hears only what is its own.
        let elsewhere = subscribe(&other);
        bus.plain.command(["PUBLISH", "emq:{other}:events", "two"]);
        assert_eq!(event(&elsewhere).await.payload(), b"two");
        assert_eq!(subscribers[0].wait_take(1, Duration::ZERO), Ok(None));

        drop((subscribers, listeners));
        let plain = &mut bus.plain;
        wait_until_async("the subscription has ended", async || listening(plain) == 0).await;
        drop((elsewhere, other));
        wait_until_async("the connection is closed", async || {
            plain.query::<String>(["CLIENT", "LIST"]).lines().count() == before
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_left_and_listened_to_again_at_once_is_heard() {
    for kind in Kind::ALL {
        for others_listen in [true, false] {
            let mut bus = Bus::start(kind).await;
            // With the last listener the connection goes, and comes back with the next.
            let _other = match others_listen {
                true => Some(bus.client.events("other").unwrap().listen().await.unwrap()),
                false => None,
            };
            for number in 0..300 {
                drop(listen(&bus.client).await);
                let subscriber = subscribe(&listen(&bus.client).await);
                publish(&mut bus.plain, number.to_string());
                assert_eq!(event(&subscriber).await.payload(), number.to_string().as_bytes());
            }
        }
    }
}

#[tokio::test]
async fn a_thousand_subscribers_hear_everything_in_order() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let listener = listen(&bus.client).await;
    let subscribers: Vec<Subscriber> = (0..1_000).map(|_| subscribe(&listener)).collect();
    (0..200).for_each(|number| publish(&mut bus.plain, number.to_string()));
    for subscriber in &subscribers {
        for number in 0..200 {
            assert_eq!(event(subscriber).await.payload(), number.to_string().as_bytes());
        }
    }
}

#[tokio::test]
async fn a_slow_one_among_ten_misses_what_does_not_fit_and_the_others_nothing() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let listener = listen(&bus.client).await;
        let slow = listener.subscribe(SubscriberOptions::new().buffer(10)).unwrap();
        let fast: Vec<Subscriber> = (0..9).map(|_| subscribe(&listener)).collect();
        (0..500).for_each(|number| publish(&mut bus.plain, number.to_string()));
        for subscriber in &fast {
            for number in 0..500 {
                assert_eq!(event(subscriber).await.payload(), number.to_string().as_bytes());
            }
        }
        for number in 0..10 {
            assert_eq!(event(&slow).await.payload(), number.to_string().as_bytes());
        }
        match slow.next().await.unwrap().unwrap() {
            Heard::Gap(gap) => assert_eq!((gap.missed(), gap.reconnected()), (490, false)),
            other => panic!("{other:?}"),
        }
        publish(&mut bus.plain, "after");
        assert_eq!(event(&slow).await.payload(), b"after");
    })
    .await;
}

#[tokio::test]
async fn closing_gives_what_is_there_and_then_the_end() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let listener = listen(&bus.client).await;
    let subscribers = [subscribe(&listener), subscribe(&listener), subscribe(&listener)];
    publish(&mut bus.plain, "one");
    for subscriber in &subscribers {
        subscriber.ready().await;
    }
    subscribers[0].close();
    assert_eq!(event(&subscribers[0]).await.payload(), b"one");
    assert_eq!(subscribers[0].next().await, Ok(None));
    publish(&mut bus.plain, "two");
    assert_eq!(event(&subscribers[1]).await.payload(), b"one");
    assert_eq!(event(&subscribers[1]).await.payload(), b"two");
    let ended = tokio::spawn({
        let listener = listener.clone();
        async move { listener.ended().await }
    });
    listener.close();
    assert_eq!(ended.await.unwrap(), None);
    assert_eq!(subscribers[1].next().await, Ok(None));
    assert_eq!(event(&subscribers[2]).await.payload(), b"one");
    // Through a listener that was closed nothing is heard any longer.
    assert_eq!(subscribe(&listener).next().await, Ok(None));
    assert!(!listener.status().connected);
}

#[tokio::test]
async fn a_client_that_is_closed_says_so() {
    let bus = Bus::start(Kind::Valkey).await;
    let listener = listen(&bus.client).await;
    let (subscriber, token) = (
        subscribe(&listener),
        bus.client.events("codemojex").unwrap().watch("JOB000xY9Wvvcd").await.unwrap(),
    );
    let waiting = tokio::spawn(async move { (subscriber.next().await, subscriber.next().await) });
    let waiting_for_token = tokio::spawn({
        let token = token.clone();
        async move { token.cancelled().await }
    });
    assert_eq!(bus.client.close(Duration::from_secs(60)).await, 0);
    let (first, second) = waiting.await.unwrap();
    assert_eq!((first.unwrap_err().code(), second), (Code::Closed, Ok(None)));
    assert_eq!((token.check(), token.watch_error().unwrap().code()), (Ok(()), Code::Closed));
    assert_eq!(waiting_for_token.await.unwrap().unwrap_err().code(), Code::Closed);
    assert_eq!(listener.ended().await.unwrap().code(), Code::Closed);
    let again = bus.client.events("codemojex").unwrap().listen().await;
    assert_eq!(again.unwrap_err().code(), Code::Closed);
}

#[tokio::test]
async fn a_reduction_folds_what_is_heard_and_outlives_its_failures() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let listener = listen(&bus.client).await;
    let folded = listener
        .reduce(SubscriberOptions::new(), Vec::new(), |state: &Vec<String>, heard| match heard {
            Heard::Event(event) if event.payload() == b"fail" => Err("it failed"),
            Heard::Event(event) if event.payload() == b"panic" => panic!("it panicked"),
            Heard::Event(event) => {
                Ok([state.as_slice(), &[String::from_utf8_lossy(event.payload()).into_owned()]].concat())
            }
            Heard::Gap(_) => Err("a gap"),
        })
        .unwrap();
    for payload in ["one", "fail", "panic", "two"] {
        publish(&mut bus.plain, payload);
    }
    wait_until_async("the last event is folded", async || folded.state().len() == 2).await;
    assert_eq!(*folded.state(), ["one", "two"]);
    assert_eq!(folded.failures(), 2);
    assert_eq!(folded.last_failure().as_deref(), Some("the handler panicked: it panicked"));
    let state = folded.state();
    folded.close();
    assert!(Arc::ptr_eq(&state, &folded.state()));
    assert_eq!(folded.error(), None);
}

#[tokio::test]
async fn a_blocking_client_listens_too() {
    each(|kind| async move {
        let server = Server::start(kind);
        tokio::task::spawn_blocking(move || {
            let mut plain = Plain::connect(&server);
            let client = echomq::blocking::Client::open(&options(&server.url())).unwrap();
            let listener = client.events("codemojex").unwrap().listen().unwrap();
            let subscriber = subscribe(&listener);
            publish(&mut plain, "one");
            let heard = subscriber.wait_take(9, Duration::from_secs(60)).unwrap().unwrap();
            assert!(matches!(&heard[..], [Heard::Event(event)] if event.payload() == b"one"));
            assert_eq!(client.close(Duration::from_secs(60)), 0);
            assert_eq!(subscriber.wait_take(1, Duration::from_secs(60)).unwrap_err().code(), Code::Closed);
        })
        .await
        .unwrap();
    })
    .await;
}
