//! Servers that are there and cannot serve: operations wait for them until their deadline.

use crate::consumer::{consumer_options, pending_by};
use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, Start, blocking};
use echomq_tests::{Plain, Proxy, Server, wait_until_async};
use std::time::Duration;

/// Holds the server with a script that runs until it is killed, and waits until it says so.
fn hold(server: &Server) -> std::thread::JoinHandle<()> {
    let url = server.url();
    let script = std::thread::spawn(move || {
        let mut held = redis::Client::open(url).unwrap().get_connection().unwrap();
        // It ends with an error when it is killed.
        let _ = redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut held);
    });
    let mut plain = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    echomq_tests::wait_until("the server to be busy", || {
        let answer = redis::cmd("PING").query::<String>(&mut plain);
        answer.is_err_and(|error| error.code() == Some("BUSY"))
    });
    script
}

fn let_go(server: &Server) {
    let mut plain = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    echomq_tests::wait_until("the script to be killed", || {
        redis::cmd("SCRIPT").arg("KILL").query::<()>(&mut plain).is_ok()
    });
}

#[tokio::test]
async fn a_busy_server_is_waited_for_and_the_order_is_kept() {
    each(|kind| async move {
        let server = Server::builder(kind).arg("--lua-time-limit", "50").start();
        let bus = Bus::with(server, |options| options.timeout(Duration::from_secs(60))).await;
        let url = bus.server.url();
        let threads =
            move || blocking::Client::open(&options(&url).timeout(Duration::from_secs(60))).unwrap();
        let threads = tokio::task::spawn_blocking(threads).await.unwrap();
        let other = threads.stream("codemojex", "other").unwrap();
        let script = hold(&bus.server);
        let appends: Vec<_> = (0..20).map(|n| bus.stream.append([("n", n.to_string())])).collect();
        let blocking = tokio::task::spawn_blocking(move || other.append([("k", "v")]));
        tokio::time::sleep(Duration::from_millis(300)).await;
        let_go(&bus.server);
        let mut answered = Vec::new();
        for append in appends {
            answered.push(append.await.unwrap().to_string());
        }
        blocking.await.unwrap().unwrap();
        script.join().unwrap();
        let stored: Vec<(String, Vec<String>)> = Plain::connect(&bus.server).query(["XRANGE", KEY, "-", "+"]);
        let numbers: Vec<(String, String)> =
            stored.into_iter().map(|(_, fields)| (fields[1].clone(), fields[3].clone())).collect();
        let expected: Vec<(String, String)> =
            answered.into_iter().enumerate().map(|(n, id)| (id, n.to_string())).collect();
        assert_eq!(numbers, expected);
        assert_eq!((bus.client.status().reconnects, threads.status().reconnects), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_lacks_replicas_is_waited_for_and_then_told_by_its_words() {
    each(|kind| async move {
        let mut bus = Bus::with(Server::start(kind), |options| options.timeout(Duration::from_secs(2))).await;
        bus.stream.append([("k", "first")]).await.unwrap();
        bus.plain.command(["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let error = bus.stream.append([("k", "refused")]).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::Unavailable, Some(KEY)));
        assert!(error.is_retryable());
        assert!(error.cause().unwrap().message().contains("NOREPLICAS"), "{error:?}");
        let error = bus.client.command(["SET", "k", "v"]).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        let url = bus.server.url();
        let blocking = move || {
            let client = blocking::Client::open(&options(&url).timeout(Duration::from_secs(2))).unwrap();
            client.stream("codemojex", "events").unwrap().append([("k", "refused")]).unwrap_err().code()
        };
        assert_eq!(tokio::task::spawn_blocking(blocking).await.unwrap(), Code::Unavailable);
        // What only reads is served meanwhile.
        let waiting = bus.stream.append([("k", "waits")]);
        assert_eq!(bus.stream.read_last(10).all().await.unwrap().len(), 1);
        bus.plain.command(["CONFIG", "SET", "min-replicas-to-write", "0"]);
        waiting.await.unwrap();
        assert_eq!(bus.plain.xlen(KEY), 2);
        assert_eq!(bus.client.status().reconnects, 0);
    })
    .await;
}

#[tokio::test]
async fn a_demoted_primary_is_left_by_every_connection_of_the_client() {
    each(|kind| async move {
        let (old, new) = (Server::start(kind), Server::start(kind));
        let name = Proxy::start(old.address());
        let options = options(&name.url()).timeout(Duration::from_secs(60));
        let client = Client::connect(&options).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let threads = {
            let options = options.clone();
            tokio::task::spawn_blocking(move || blocking::Client::open(&options).unwrap()).await.unwrap()
        };
        stream.append([("n", "before")]).await.unwrap();
        let consumer = stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
        let first = consumer.next().await.unwrap().unwrap();
        first.ack();
        new.replicate(&old);
        new.promote();
        // The name leads to the new primary; the old one is its replica and still there.
        name.redirect(new.address());
        old.replicate(&new);
        let id = stream.append([("n", "after")]).await.unwrap();
        let blocking = threads.stream("codemojex", "other").unwrap();
        tokio::task::spawn_blocking(move || blocking.append([("k", "v")])).await.unwrap().unwrap();
        let next = consumer.next().await.unwrap().unwrap();
        assert_eq!(next.id(), Some(id));
        next.ack();
        let mut plain = Plain::connect(&new);
        let pending = async || pending_by(&mut plain, "g") == 0;
        wait_until_async("the acknowledgement to arrive where the entry was read", pending).await;
        assert!(client.status().connected && client.status().reconnects >= 1);
    })
    .await;
}
