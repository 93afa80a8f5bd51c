//! Listeners over connections and servers that fail: they listen again by themselves and say what may be missing.

use crate::listener::{CHANNEL, event, listen, publish, subscribe};
use crate::{Bus, each, options};
use echomq::{Client, Code, Heard, Listener, NoticeKind, Subscriber};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, wait_until_async};
use std::time::Duration;

/// The next is a gap after a lost connection.
async fn gap(subscriber: &Subscriber) {
    match subscriber.next().await.unwrap().unwrap() {
        Heard::Gap(gap) => assert!(gap.reconnected() && gap.missed() == 0, "{gap:?}"),
        other => panic!("{other:?}"),
    }
}

/// The notices that are there.
fn told(listener: &Listener) -> Vec<NoticeKind> {
    let notices = listener.notices();
    std::iter::from_fn(|| notices.wait_next(Duration::ZERO).flatten()).map(|notice| notice.kind()).collect()
}

#[tokio::test]
async fn every_channel_is_listened_to_again_after_twenty_outages() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut plain = Plain::connect(&server);
        let quick = options(&proxy.url()).reconnect(Duration::from_millis(5), Duration::from_millis(20));
        let client = Client::connect(&quick).await.unwrap();
        let queues = ["a", "b", "c", "d"];
        let mut listeners = Vec::new();
        for queue in queues {
            let listener = client.events(queue).unwrap().listen().await.unwrap();
            listeners.push((subscribe(&listener), listener));
        }
        for cycle in 1..=20 {
            // The listening connection and the shared one fail several times each before they are let through.
            proxy.drop_replies(1.0, cycle);
            proxy.close_all(Ending::Reset);
            let attempts = proxy.connections();
            wait_until_async("attempts have failed", async || proxy.connections() >= attempts + 8).await;
            for (_, listener) in &listeners {
                assert!(!listener.status().connected);
                assert_eq!(listener.status().error.unwrap().code(), Code::Disconnected);
                assert_eq!(told(listener), [NoticeKind::Disconnected], "once, whatever the attempts");
            }
            proxy.drop_replies(0.0, 0);
            for (subscriber, listener) in &listeners {
                gap(subscriber).await;
                assert_eq!(told(listener), [NoticeKind::Reconnected]);
                let status = listener.status();
                assert!(status.connected && status.error.is_none());
                assert_eq!(status.resubscriptions, cycle);
            }
            for (queue, (subscriber, _)) in queues.iter().zip(&listeners) {
                let payload = format!("{queue} {cycle}");
                plain.command(["PUBLISH", &format!("emq:{{{queue}}}:events"), &payload]);
                assert_eq!(event(subscriber).await.payload(), payload.as_bytes());
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_published_during_an_outage_is_a_gap() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut plain = Plain::connect(&server);
        let client = Client::connect(&options(&proxy.url())).await.unwrap();
        let listener = listen(&client).await;
        let subscriber = subscribe(&listener);
        publish(&mut plain, "before");
        assert_eq!(event(&subscriber).await.payload(), b"before");
        proxy.refuse_connections();
        proxy.close_all(Ending::Close);
        wait_until_async("the listener has noticed", async || !listener.status().connected).await;
        (0..5).for_each(|number| publish(&mut plain, number.to_string()));
        let late = subscribe(&listener);
        proxy.accept_connections();
        for subscriber in [&subscriber, &late] {
            gap(subscriber).await;
        }
        publish(&mut plain, "after");
        for subscriber in [&subscriber, &late] {
            assert_eq!(event(subscriber).await.payload(), b"after");
        }
    })
    .await;
}

#[tokio::test]
async fn a_half_open_connection_is_noticed_by_its_silence() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut plain = Plain::connect(&server);
        for protocol in ["2", "3"] {
            let mut options = options(&proxy.url());
            options.set("heartbeat", "50").unwrap();
            options.set("protocol", protocol).unwrap();
            let client = Client::connect(&options).await.unwrap();
            let listener = listen(&client).await;
            let subscriber = subscribe(&listener);
            proxy.black_hole_existing();
            gap(&subscriber).await;
            publish(&mut plain, "after");
            assert_eq!(event(&subscriber).await.payload(), b"after");
        }
        proxy.heal();
    })
    .await;
}

#[tokio::test]
async fn a_quiet_connection_stays() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let mut options = options(&proxy.url());
    options.set("heartbeat", "200").unwrap();
    let client = Client::connect(&options).await.unwrap();
    let listener = listen(&client).await;
    wait_until_async("it was asked often", async || proxy.commands_named("PING").len() > 10).await;
    assert_eq!(listener.status().resubscriptions, 0);
}

#[tokio::test]
async fn a_restarted_server_is_listened_to_again_whatever_it_forgot() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let listener = listen(&bus.client).await;
        let subscriber = subscribe(&listener);
        for number in 0..5 {
            bus.server.restart();
            bus.plain = Plain::connect(&bus.server);
            gap(&subscriber).await;
            publish(&mut bus.plain, number.to_string());
            assert_eq!(event(&subscriber).await.payload(), number.to_string().as_bytes());
        }
    })
    .await;
}

#[tokio::test]
async fn no_listener_comes_back_after_a_permission_was_withdrawn_and_it_says_so() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.plain.command(["ACL", "SETUSER", "u", "on", ">p", "~*", "+@all", "&emq:*"]);
        let url = format!("redis://u:p@{}", bus.server.address());
        let client = Client::connect(&options(&url)).await.unwrap();
        let (listener, other) =
            (listen(&client).await, client.events("other").unwrap().listen().await.unwrap());
        let (subscriber, elsewhere) = (subscribe(&listener), subscribe(&other));
        // The server ends the connections of a user whose channels are withdrawn.
        bus.plain.command(["ACL", "SETUSER", "u", "resetchannels", "&emq:{other}:events"]);
        assert_eq!(subscriber.next().await.unwrap_err().code(), Code::Auth);
        assert_eq!(subscriber.next().await, Ok(None));
        gap(&elsewhere).await;
        bus.plain.command(["PUBLISH", "emq:{other}:events", "still"]);
        assert_eq!(event(&elsewhere).await.payload(), b"still");
        assert_eq!(client.events("codemojex").unwrap().listen().await.unwrap_err().code(), Code::Auth);
    })
    .await;
}

#[tokio::test]
async fn listening_waits_for_the_server_no_longer_than_the_timeout() {
    let mut server = Server::start(Kind::Valkey);
    let mut options = options(&server.url());
    options.set("timeout", "300").unwrap();
    let client = Client::connect(&options).await.unwrap();
    server.kill();
    let error = client.events("codemojex").unwrap().listen().await.unwrap_err();
    assert_eq!((error.code(), error.subject().is_some()), (Code::Disconnected, true));
    server.restart();
    let mut plain = Plain::connect(&server);
    let client = Client::connect(&options).await.unwrap();
    let subscriber = subscribe(&listen(&client).await);
    publish(&mut plain, "one");
    assert_eq!(event(&subscriber).await.payload(), b"one");
}

#[tokio::test]
async fn another_version_of_the_wire_ends_a_listener() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let subscriber = subscribe(&listen(&bus.client).await);
    bus.plain.command(["SET", echomq::VERSION_KEY, "echomq:9.0.0"]);
    bus.plain.command(["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(subscriber.next().await.unwrap_err().code(), Code::VersionFence);
}

#[tokio::test]
async fn slow_bytes_in_parts_are_events_all_the_same() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let mut plain = Plain::connect(&server);
    let client = Client::connect(&options(&proxy.url())).await.unwrap();
    let subscriber = subscribe(&listen(&client).await);
    for size in [1, 1_000, 100_000] {
        let payload = vec![b'x'; size];
        publish(&mut plain, &payload);
        assert_eq!(event(&subscriber).await.payload(), payload);
    }
    // A message that is cut in its middle is not heard, and is a gap.
    proxy.cut_after(Direction::Replies, 500, Ending::Close);
    plain.command([b"PUBLISH", CHANNEL.as_bytes(), &[b'y'; 1_000]]);
    gap(&subscriber).await;
}
