//! Silence, deadlines and interrupts: what ends a call, and what ends a connection.

use crate::consumer::{consumer_options, pending};
use crate::{Bus, KEY, options};
use echomq::{Client, Code, NoticeKind, Signal, Start, blocking};
use echomq_tests::{Direction, Kind, Plain, Proxy, Server, wait_until, wait_until_async};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A server behind a proxy, with a text of 4 MiB under `long`.
fn with_long_text() -> (Server, Proxy) {
    let server = Server::start(Kind::Valkey);
    Plain::connect(&server).command(["SET", "long", &"x".repeat(4 << 20)]);
    let proxy = Proxy::start(server.address());
    (server, proxy)
}

#[tokio::test]
async fn a_long_answer_that_arrives_steadily_is_no_silence_and_what_follows_it_is_answered() {
    let (server, proxy) = with_long_text();
    let options = options(&proxy.url()).timeout(Duration::from_secs(24));
    let client = Client::connect(&options).await.unwrap();
    // It takes two thirds of the time of the calls.
    proxy.bandwidth(Direction::Replies, Some((4 << 20) / 16));
    let long = client.command(["GET", "long"]);
    let publish = client.events("q").unwrap().publish(Signal::new("added", "JOB000xY9Wvvcd").unwrap());
    assert!(long.await.is_ok());
    assert_eq!(publish.await, Ok(0));
    assert_eq!((client.status().reconnects, proxy.connections()), (0, 1));
    drop(server);
}

#[tokio::test]
async fn a_server_that_stands_still_finds_its_calls_and_connections_as_they_were() {
    let bus =
        Bus::with(Server::start(Kind::Valkey), |options| options.timeout(Duration::from_secs(20))).await;
    let events = bus.client.events("q").unwrap();
    assert_eq!(events.publish(Signal::new("added", "JOB000xY9Wvvcd").unwrap()).await, Ok(0));
    bus.server.pause();
    let calls: Vec<_> =
        (0..10).map(|_| events.publish(Signal::new("added", "JOB000xY9Wvvcd").unwrap())).collect();
    // Three quarters of the time that a call has.
    tokio::time::sleep(Duration::from_secs(15)).await;
    bus.server.resume();
    for call in calls {
        assert_eq!(call.await, Ok(0));
    }
    assert_eq!(bus.client.status().reconnects, 0);
}

#[tokio::test]
async fn an_answer_on_a_lane_may_take_as_long_as_it_arrives() {
    let (_server, proxy) = with_long_text();
    let client = Client::connect(&options(&proxy.url())).await.unwrap();
    let mut lane = client.lane().await.unwrap();
    proxy.bandwidth(Direction::Replies, Some((4 << 20) / 8));
    // It was bounded by the wait and five seconds as a whole.
    assert!(lane.command(["GET", "long"], Duration::ZERO).await.is_ok());
    proxy.bandwidth(Direction::Replies, None);
    assert!(lane.command(["PING"], Duration::MAX).await.is_ok());
}

#[test]
fn a_blocking_call_ends_at_its_deadline_while_an_answer_trickles_in_and_the_next_is_answered() {
    let (_server, proxy) = with_long_text();
    let options = options(&proxy.url()).timeout(Duration::from_secs(2));
    let client = blocking::Client::open(&options).unwrap();
    proxy.bandwidth(Direction::Replies, Some((4 << 20) / 20));
    let begin = Instant::now();
    let error = client.command(["GET", "long"]).unwrap_err();
    assert_eq!(error.code(), Code::UnknownOutcome);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    proxy.bandwidth(Direction::Replies, None);
    // The rest of that answer comes first, and is nobody's.
    wait_until("the next call", || client.command(["PING"]).is_ok());
    assert_eq!((client.status().reconnects, proxy.connections()), (0, 1));
}

#[test]
fn a_blocking_call_can_be_interrupted_while_an_answer_trickles_in_and_others_keep_the_connection() {
    let (_server, proxy) = with_long_text();
    let interrupted = Arc::new(AtomicBool::new(false));
    let (flag, main) = (interrupted.clone(), std::thread::current().id());
    let options = options(&proxy.url()).timeout(Duration::from_secs(3_600));
    // Only the thread that leads is interrupted.
    let interrupt = move || flag.load(Ordering::Relaxed) && std::thread::current().id() == main;
    let client = blocking::Client::open_with(&options, Arc::new(interrupt)).unwrap();
    proxy.bandwidth(Direction::Replies, Some((4 << 20) / 600));
    std::thread::scope(|scope| {
        let sent = |name: &str| {
            let (proxy, name) = (&proxy, name.to_owned());
            move || wait_until("a command to be sent", || !proxy.commands_named(&name).is_empty())
        };
        let follower = {
            let (client, sent) = (client.clone(), sent("GET"));
            scope.spawn(move || {
                sent();
                client.command(["ECHO", "after"])
            })
        };
        let interrupter = {
            let (sent, interrupted) = (sent("GET"), interrupted.clone());
            scope.spawn(move || {
                sent();
                interrupted.store(true, Ordering::Relaxed);
            })
        };
        assert_eq!(client.command(["GET", "long"]).unwrap_err().code(), Code::UnknownOutcome);
        proxy.bandwidth(Direction::Replies, None);
        interrupter.join().unwrap();
        assert!(follower.join().unwrap().is_ok());
    });
    assert_eq!((client.status().reconnects, proxy.connections()), (0, 1));
}

#[tokio::test]
async fn a_client_that_does_nothing_hears_that_its_server_is_gone() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let url = bus.server.url();
    let threads = tokio::task::spawn_blocking(move || blocking::Client::open(&options(&url)).unwrap());
    let threads = threads.await.unwrap();
    bus.stream.append([("k", "v")]).await.unwrap();
    bus.server.kill();
    wait_until_async("the client to hear it", async || !bus.client.status().connected).await;
    // Nobody uses the blocking client; whoever waits for its notices hears it all the same.
    let waiting = threads.notices();
    let notices = tokio::task::spawn_blocking(move || {
        [(); 2].map(|()| waiting.wait_next(Duration::from_secs(60)).expect("it is told").unwrap())
    });
    let notices = notices.await.unwrap();
    assert!(!threads.status().connected);
    let own = bus.client.notices();
    for [first, notice] in [notices, [own.next().await.unwrap(), own.next().await.unwrap()]] {
        assert_eq!(first.kind(), NoticeKind::Connected);
        assert_eq!(notice.kind(), NoticeKind::Disconnected);
        assert_eq!(notice.code(), Some(Code::Disconnected));
        assert!(notice.message().contains("the next attempt is made after"), "{notice}");
    }
    bus.server.restart();
    bus.stream.append([("k", "v")]).await.unwrap();
    // One notice an outage, whatever attempts failed.
    assert_eq!(bus.client.notices().next().await.unwrap().kind(), NoticeKind::Connected);
    assert_eq!(bus.plain_again().xlen(KEY), 1);
}

#[tokio::test]
async fn a_consumer_with_enough_to_do_hears_that_its_connection_is_gone() {
    let mut bus = Bus::start(Kind::Valkey).await;
    for n in 0..10 {
        bus.stream.append([("n", n.to_string())]).await.unwrap();
    }
    let consumer = bus.stream.consumer(consumer_options("g", Start::Head).count(1)).await.unwrap();
    let held = consumer.next().await.unwrap().unwrap();
    // There is more to read, so a connection that waits for nothing has all that the consumer wants ahead.
    wait_until_async("the consumer to have enough", async || {
        let info: String = bus.plain.query(["INFO", "clients"]);
        pending(&mut bus, "g") >= 1 && info.contains("blocked_clients:0")
    })
    .await;
    bus.plain.command(["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
    let notices = consumer.notices();
    let told = tokio::time::timeout(Duration::from_secs(30), notices.next()).await.unwrap().unwrap();
    assert_eq!(told.kind(), NoticeKind::Disconnected);
    held.ack();
    let next = consumer.next().await.unwrap().unwrap();
    assert_eq!(next.record().get("n"), Some(&b"1"[..]));
}

impl Bus {
    fn plain_again(&self) -> Plain {
        Plain::connect(&self.server)
    }
}
