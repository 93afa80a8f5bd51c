//! Servers that are there and cannot serve: operations wait for them until their deadline.

use crate::consumer::{consumer_options, pending_by};
use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, Error, EventId, Fields, Range, Signal, Start, Stream, Trim, blocking};
use echomq_tests::{Direction, Ending, Plain, Proxy, Server, wait_until_async};
use futures_util::future::join_all;
use std::path::Path;
use std::time::{Duration, Instant};

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

const JOB: &str = "JOB000xY9Wvvcd";

/// Makes what [`administer`] changes: records, a group with an idle consumer, a job's row and a dead letter, whose id it gives.
async fn prepared(bus: &mut Bus) -> EventId {
    for n in ["first", "second"] {
        bus.stream.append([("n", n)]).await.unwrap();
    }
    let options = consumer_options("g", Start::Head).max_attempts(1);
    let consumer = bus.stream.consumer(options).await.unwrap();
    consumer.next().await.unwrap().unwrap().fail("no");
    consumer.next().await.unwrap().unwrap().ack();
    let mut dead = Vec::new();
    wait_until_async("the dead letter", async || {
        dead = bus.stream.dead_letters(Range::all()).all().await.unwrap();
        !dead.is_empty() && pending_by(&mut bus.plain, "g") == 0
    })
    .await;
    consumer.stop(Duration::from_secs(5)).await;
    for name in ["idle", "other"] {
        bus.plain.command(["XGROUP", "CREATECONSUMER", KEY, "g", name]);
    }
    bus.plain.command(["HSET", &format!("emq:{{codemojex}}:job:{JOB}"), "state", "active"]);
    dead[0].id().unwrap()
}

/// Changes something in every way that is no append, all at the same time or one after the other.
async fn administer(bus: &Bus, dead: EventId, at_once: bool) -> Vec<(&'static str, Result<(), Error>)> {
    let (stream, events) = (&bus.stream, bus.client.events("codemojex").unwrap());
    let moved = ["first", "second", "third"].map(|name| ["LPUSH", name, "v"]);
    macro_rules! calls {
        ($($name:literal: $call:expr,)*) => {{
            let mut calls = Vec::new();
            $(
                let call = Box::pin(async { ($name, $call.await.map(drop)) });
                calls.push(call as std::pin::Pin<Box<dyn Future<Output = _> + Send + '_>>);
            )*
            calls
        }};
    }
    let calls = calls! {
        "a trim": stream.trim(Trim::max_len(1).exact()),
        "a progress": events.update_progress(JOB, "50"),
        "a mark": events.cancel(JOB, "late", None),
        "a new group": stream.create_group("new", Start::Head),
        "a move": stream.seek("g", Start::Head),
        "a move to the end": stream.seek("g", Start::New),
        "a removal of a consumer": stream.remove_consumer("g", "idle"),
        "a sweep": stream.sweep_consumers("g", Duration::ZERO),
        "a removal of a group": stream.remove_group("g"),
        "what is put back": stream.put_back(dead),
        "a command": bus.client.command(["SET", "k", "v"]),
        "commands": async { bus.client.pipeline(moved).await.and_then(|answers| answers.into_iter().collect::<Result<Vec<_>, _>>()) },
    };
    if at_once {
        return join_all(calls).await;
    }
    let mut results = Vec::new();
    for call in calls {
        results.push(call.await);
    }
    results
}

/// The same on the caller's thread, as far as it is not the same call by another name.
fn administer_blocking(url: &str, dead: EventId) -> Vec<(&'static str, Option<Error>)> {
    let client = blocking::Client::open(&options(url).timeout(Duration::from_millis(300))).unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    let events = client.events("codemojex").unwrap();
    vec![
        ("a trim", stream.trim(Trim::max_len(1)).err()),
        ("a progress", events.update_progress(JOB, "50").err()),
        ("a mark", events.cancel(JOB, "late", None).err()),
        ("a new group", stream.create_group("new", Start::Head).err()),
        ("a move", stream.seek("g", Start::Head).err()),
        ("a removal of a consumer", stream.remove_consumer("g", "idle").err()),
        ("a sweep", stream.sweep_consumers("g", Duration::ZERO).err()),
        ("a removal of a group", stream.remove_group("g").err()),
        ("what is put back", stream.put_back(dead).err()),
        ("a command", client.command(["SET", "k", "v"]).err()),
    ]
}

/// What was refused until the deadline was certainly not carried out, and is told by the server's words.
fn assert_refused(results: impl IntoIterator<Item = (&'static str, Option<Error>)>, word: &str) {
    let refused = |error: &Error| {
        error.code() == Code::Unavailable
            && error.is_retryable()
            && error.cause().is_some_and(|cause| cause.message().contains(word))
    };
    let wrong: Vec<_> = results
        .into_iter()
        .filter(|(_, error)| !error.as_ref().is_some_and(refused))
        .map(|(name, error)| format!("{name}: {error:?}"))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[tokio::test]
async fn what_a_server_refuses_for_want_of_replicas_is_not_in_doubt() {
    each(|kind| async move {
        let mut bus = Bus::with(Server::start(kind), |options| options.timeout(Duration::from_secs(1))).await;
        let dead = prepared(&mut bus).await;
        bus.plain.command(["CONFIG", "SET", "min-replicas-to-write", "1"]);
        let results = administer(&bus, dead, true).await;
        assert_refused(results.into_iter().map(|(name, result)| (name, result.err())), "NOREPLICAS");
        let url = bus.server.url();
        let blocking = tokio::task::spawn_blocking(move || administer_blocking(&url, dead));
        assert_refused(blocking.await.unwrap(), "NOREPLICAS");
        // Nothing of it was carried out, and then all of it is.
        bus.plain.command(["CONFIG", "SET", "min-replicas-to-write", "0"]);
        assert_eq!((bus.plain.xlen(KEY), bus.plain.query::<u64>(["EXISTS", "k", "first"])), (2, 0));
        let groups = bus.stream.groups().await.unwrap();
        assert_eq!(groups.iter().map(|group| group.name()).collect::<Vec<_>>(), ["g"]);
        for (name, result) in administer(&bus, dead, false).await {
            assert_eq!(result, Ok(()), "{name}");
        }
        assert_eq!(bus.client.status().reconnects, 0);
    })
    .await;
}

#[tokio::test]
async fn what_a_busy_server_refuses_is_not_in_doubt() {
    each(|kind| async move {
        let server = Server::builder(kind).arg("--lua-time-limit", "50").start();
        let mut bus = Bus::with(server, |options| options.timeout(Duration::from_secs(1))).await;
        let dead = prepared(&mut bus).await;
        let events = bus.client.events("codemojex").unwrap();
        let event = || events.publish(Signal::new("completed", JOB).unwrap());
        event().await.unwrap();
        let script = hold(&bus.server);
        let (results, event) = tokio::join!(administer(&bus, dead, true), event());
        assert_refused(results.into_iter().map(|(name, result)| (name, result.err())), "BUSY");
        assert_refused([("an event", event.err())], "BUSY");
        let_go(&bus.server);
        script.join().unwrap();
        for (name, result) in administer(&bus, dead, false).await {
            assert_eq!(result, Ok(()), "{name}");
        }
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

/// A failover that is not over yet: the address still leads to the replica, which serves readers well.
#[tokio::test]
async fn while_the_address_leads_to_a_replica_readers_bring_no_storm_of_connections() {
    each(|kind| async move {
        let (primary, server) = (Server::start(kind), Server::start(kind));
        // Answers take a while, so that several pipelines are on their way.
        let proxy = Proxy::start(server.address());
        proxy.delay(Direction::Replies, Duration::from_millis(5));
        let client = Client::connect(&options(&proxy.url())).await.unwrap();
        let blocking = {
            let options = options(&proxy.url());
            tokio::task::spawn_blocking(move || blocking::Client::open(&options).unwrap()).await.unwrap()
        };
        client.stream("codemojex", "events").unwrap().append([("n", "before")]).await.unwrap();
        server.replicate(&primary);
        let until = Instant::now() + Duration::from_secs(2);
        let stream = client.stream("codemojex", "events").unwrap();
        // Whatever is on its way, there is always a newer read behind it.
        let reader = tokio::spawn(async move {
            let mut reads = Vec::new();
            while Instant::now() < until {
                let stream = stream.clone();
                reads.push(tokio::spawn(async move { stream.read_last(1).all().await.map(drop) }));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            for read in reads {
                let _ = read.await.unwrap();
            }
        });
        let threads = (0..4).map(|thread| {
            let stream = blocking.stream("codemojex", "events").unwrap();
            tokio::task::spawn_blocking(move || {
                while Instant::now() < until {
                    let _ = if thread == 0 {
                        stream.append([("n", "lost")]).map(drop)
                    } else {
                        stream.read_last(1).try_for_each(|record| record.map(drop))
                    };
                }
            })
        });
        let threads: Vec<_> = threads.collect();
        let stream = client.stream("codemojex", "events").unwrap();
        while Instant::now() < until {
            let _ = stream.append([("n", "lost")]).await;
        }
        for reader in threads.into_iter().chain([reader]) {
            reader.await.unwrap();
        }
        let (reconnects, blocked) = (client.status().reconnects, blocking.status().reconnects);
        assert!((1..25).contains(&reconnects) && (1..25).contains(&blocked), "{reconnects} {blocked}");
    })
    .await;
}

/// Appends in each way, first under an id that is lower than those made now.
async fn append_in_each_way(stream: &Stream, id: EventId) -> Vec<Result<EventId, Error>> {
    let record = |n: &str| Fields::from([("n", n)]);
    let (with_id, one, batch, atomic, sequenced) = tokio::join!(
        stream.append_id(id, record("with an id")),
        stream.append(record("one")),
        stream.append_batch([record("first"), record("second")]),
        stream.append_batch_atomic([record("atomic")]),
        stream.append_sequenced(record("sequenced")),
    );
    let mut results = vec![with_id, one, atomic.map(|ids| ids[0]), sequenced];
    results.extend(batch.unwrap());
    results
}

/// How often the server has answered with this code word.
fn answered(plain: &mut Plain, word: &str) -> u64 {
    let info: String = plain.query(["INFO", "errorstats"]);
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{word}:count=")));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Has the next saves fail or succeed, and waits until one has.
async fn save(plain: &mut Plain, succeeds: bool) {
    let folder: (String, String) = plain.query(["CONFIG", "GET", "dir"]);
    // No file takes the place of a folder.
    let place = Path::new(&folder.1).join("dump.rdb");
    if succeeds { std::fs::remove_dir(place) } else { std::fs::create_dir(place) }.unwrap();
    plain.command(["CONFIG", "SET", "save", "3600 1"]);
    plain.command(["BGSAVE"]);
    let status = if succeeds { "rdb_last_bgsave_status:ok" } else { "rdb_last_bgsave_status:err" };
    wait_until_async("a save", async || {
        plain.query::<String>(["INFO", "persistence"]).lines().any(|line| line == status)
    })
    .await;
}

#[tokio::test]
async fn a_server_that_cannot_save_is_waited_for_and_then_told_by_its_words() {
    each(|kind| async move {
        let mut bus = Bus::with(Server::start(kind), |options| options.timeout(Duration::from_secs(1))).await;
        let patient = options(&bus.server.url()).timeout(Duration::from_secs(60));
        let patient = Client::connect(&patient).await.unwrap().stream("codemojex", "other").unwrap();
        for stream in [&bus.stream, &patient] {
            stream.append([("n", "before")]).await.unwrap();
        }
        save(&mut bus.plain, false).await;

        let id = bus.client.mint().await.unwrap();
        for result in append_in_each_way(&bus.stream, id).await {
            let error = result.unwrap_err();
            assert_eq!((error.code(), error.subject()), (Code::Unavailable, Some(KEY)), "{error}");
            assert!(error.is_retryable());
            assert!(error.cause().unwrap().message().contains("MISCONF"), "{error:?}");
        }
        let url = bus.server.url();
        let blocking = move || {
            let client = blocking::Client::open(&options(&url).timeout(Duration::from_secs(1))).unwrap();
            client.stream("codemojex", "events").unwrap().append([("k", "refused")]).unwrap_err().code()
        };
        assert_eq!(tokio::task::spawn_blocking(blocking).await.unwrap(), Code::Unavailable);
        assert_eq!(bus.plain.xlen(KEY), 1);

        let refused = answered(&mut bus.plain, "MISCONF");
        let appends: Vec<_> = (0..20).map(|n| patient.append([("n", n.to_string())])).collect();
        let waiting = async || answered(&mut bus.plain, "MISCONF") >= refused + 20;
        wait_until_async("each to be refused", waiting).await;
        save(&mut bus.plain, true).await;
        let mut ids = Vec::new();
        for append in appends {
            ids.push(append.await.unwrap().to_string());
        }
        for result in append_in_each_way(&bus.stream, bus.client.mint().await.unwrap()).await {
            result.unwrap();
        }
        let stored: Vec<(String, Vec<String>)> =
            bus.plain.query(["XRANGE", "emq:{codemojex}:stream:other", "-", "+"]);
        let stored: Vec<(String, String)> =
            stored.into_iter().map(|(_, fields)| (fields[1].clone(), fields[3].clone())).collect();
        let expected: Vec<(String, String)> =
            ids.into_iter().enumerate().map(|(n, id)| (id, n.to_string())).collect();
        assert_eq!(stored[1..], expected, "each once and in order");
        assert_eq!(bus.client.status().reconnects, 0);
    })
    .await;
}

/// Starts the server again, which loads what it has as slowly as can be, until it is told to go on.
async fn restart_slowly(mut server: Server) -> (tokio::task::JoinHandle<Server>, redis::Client) {
    let plain = redis::Client::open(server.url()).unwrap();
    let restart = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    wait_until_async("the server to load", async || is_loading(&plain)).await;
    (restart, plain)
}

fn is_loading(plain: &redis::Client) -> bool {
    let asked =
        plain.get_connection().and_then(|mut plain| redis::cmd("GET").arg("k").query::<String>(&mut plain));
    asked.is_err_and(|error| {
        error.code() == Some("LOADING")
            || error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::BusyLoading)
    })
}

#[tokio::test]
async fn a_server_that_loads_is_waited_for_and_then_told_by_its_words() {
    each(|kind| async move {
        let server = Server::builder(kind).persistence(true);
        // It looks after its clients after each kilobyte, which is a key.
        let server =
            server.arg("--key-load-delay", "5000").arg("--loading-process-events-interval-bytes", "1024");
        let bus = Bus::with(server.start(), |options| options.timeout(Duration::from_secs(1))).await;
        let Bus { server, mut plain, client, stream } = bus;
        let proxy = Proxy::start(server.address());
        let through = |seconds| {
            let options = options(&proxy.url()).timeout(Duration::from_secs(seconds));
            async move { Client::connect(&options).await.unwrap().stream("codemojex", "events").unwrap() }
        };
        let (hasty, patient) = (through(2).await, through(60).await);
        let threads = {
            let options = options(&server.url()).timeout(Duration::from_secs(3));
            tokio::task::spawn_blocking(move || blocking::Client::open(&options).unwrap()).await.unwrap()
        };
        for writer in [&stream, &hasty, &patient] {
            writer.append_sequenced([("n", "before")]).await.unwrap();
        }
        let many = "for n = 1, 5000 do redis.call('SET', n, string.rep('x', 1024)) end";
        plain.command(["EVAL", many, "0"]);
        plain.command(["BGREWRITEAOF"]);
        wait_until_async("the file to be written", async || {
            let info: String = plain.query(["INFO", "persistence"]);
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        })
        .await;

        // Two whose answers are lost before the server is killed.
        proxy.black_hole(Direction::Replies);
        let hasty = tokio::spawn(async move { hasty.append_sequenced([("n", "hasty")]).await });
        let patient = tokio::spawn(async move { patient.append_sequenced([("n", "patient")]).await });
        wait_until_async("both to be there", async || plain.xlen(KEY) == 5).await;
        let id = client.mint().await.unwrap();
        let (restart, raw) = restart_slowly(server).await;
        let connections = proxy.connections();
        proxy.close_all(Ending::Reset);
        wait_until_async("both to connect again", async || proxy.connections() >= connections + 2).await;
        proxy.heal();

        let told = || client.status().error.is_some_and(|error| error.code() == Code::Unavailable);
        wait_until_async("the client to hear of it", async || told()).await;
        for result in append_in_each_way(&stream, id).await {
            let error = result.unwrap_err();
            assert_eq!(error.code(), Code::Unavailable, "{error}");
            assert!(error.is_retryable() && error.message().contains("LOADING"), "{error}");
        }
        let blocking =
            move || threads.stream("codemojex", "events").unwrap().append([("k", "refused")]).unwrap_err();
        let error = tokio::task::spawn_blocking(blocking).await.unwrap();
        assert_eq!(error.code(), Code::Unavailable, "{error:?}");
        assert_eq!(hasty.await.unwrap().unwrap_err().code(), Code::UnknownOutcome);
        assert!(is_loading(&raw), "all that was while it loaded");

        // It goes on at full speed.
        let mut admin = raw.get_connection().unwrap();
        redis::cmd("CONFIG").arg(&["SET", "key-load-delay", "0"]).query::<()>(&mut admin).unwrap();
        let server = restart.await.unwrap();
        let id = patient.await.unwrap().unwrap();
        let mut plain = Plain::connect(&server);
        wait_until_async("the client to be back", async || client.status().connected).await;
        let stored: Vec<(String, Vec<String>)> = plain.query(["XRANGE", KEY, "-", "+"]);
        let mut names: Vec<&str> = stored.iter().map(|(_, fields)| &fields[3][..]).collect();
        names.sort_unstable();
        assert_eq!(names, ["before", "before", "before", "hasty", "patient"]);
        assert!(stored.iter().any(|(_, fields)| fields[1] == id.as_str() && fields[3] == "patient"));
        stream.append([("n", "after")]).await.unwrap();
    })
    .await;
}
