//! What the two doors promise: order among callers, bounds, deadlines, closing, forking.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, EventId, Range, Record, blocking};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, wait_until_async};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_tasks_on_one_stream_are_one_writer() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let tasks = (0..1_000).map(|_| {
            let stream = bus.stream.clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..5 {
                    ids.push(stream.append([("k", "v")]).await.unwrap());
                }
                ids
            })
        });
        let mut all: Vec<EventId> = Vec::new();
        for ids in join_all(tasks).await {
            let ids = ids.unwrap();
            assert!(ids.is_sorted_by(|a, b| a < b));
            all.extend(ids);
        }
        all.sort();
        let found: Vec<EventId> =
            bus.stream.read(Range::all()).all().await.unwrap().iter().filter_map(Record::id).collect();
        assert_eq!(found, all);
        assert_eq!(bus.plain.xlen(KEY), 5_000);
    })
    .await;
}

#[test]
fn sixteen_threads_on_one_stream_are_one_writer() {
    for kind in Kind::ALL {
        let server = Server::start(kind);
        let client = blocking::Client::open(&options(&server.url())).unwrap();
        let mut all: Vec<EventId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| {
                    let stream = client.stream("codemojex", "events").unwrap();
                    scope.spawn(move || {
                        let ids: Vec<EventId> =
                            (0..300).map(|_| stream.append([("k", "v")]).unwrap()).collect();
                        assert!(ids.is_sorted_by(|a, b| a < b));
                        ids
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort();
        let records = client.stream("codemojex", "events").unwrap().read(Range::all()).all().unwrap();
        assert_eq!(records.iter().filter_map(Record::id).collect::<Vec<_>>(), all);
        assert_eq!(Plain::connect(&server).xlen(KEY), 4_800);
    }
}

#[tokio::test]
async fn calls_go_out_in_the_order_in_which_they_were_made() {
    let bus = Bus::start(Kind::Valkey).await;
    let calls: Vec<_> = (0..100).map(|n| bus.stream.append([("n", n.to_string())])).collect();
    for call in calls.into_iter().rev() {
        call.await.unwrap();
    }
    let records = bus.stream.read(Range::all()).all().await.unwrap();
    let numbers: Vec<String> =
        records.iter().map(|record| String::from_utf8(record.get("n").unwrap().to_vec()).unwrap()).collect();
    assert_eq!(numbers, (0..100).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_call_whose_answer_is_dropped_is_made_all_the_same() {
    let mut bus = Bus::start(Kind::Valkey).await;
    for _ in 0..10 {
        drop(bus.stream.append([("k", "v")]));
    }
    bus.stream.append([("k", "last")]).await.unwrap();
    assert_eq!(bus.plain.xlen(KEY), 11);
}

#[tokio::test]
async fn too_many_calls_are_refused_and_none_is_lost() {
    let mut bus = Bus::with(Server::start(Kind::Valkey), |options| options.max_in_flight(10)).await;
    bus.server.pause();
    let calls: Vec<_> = (0..15).map(|_| bus.stream.append([("k", "v")])).collect();
    bus.server.resume();
    let (taken, refused): (Vec<_>, Vec<_>) = join_all(calls).await.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (10, 5));
    assert!(refused.into_iter().all(|refused| refused.unwrap_err().code() == Code::Overloaded));
    assert_eq!(bus.plain.xlen(KEY), 10);
    bus.stream.append([("k", "v")]).await.unwrap();
}

#[tokio::test]
async fn a_deadline_holds_while_the_server_is_silent() {
    each(|kind| async move {
        let mut bus = Bus::with(Server::start(kind), |options| options.timeout(Duration::from_secs(2))).await;
        bus.stream.append([("k", "v")]).await.unwrap();
        bus.server.pause();
        let append = bus.stream.append([("k", "v")]);
        let batch = bus.stream.append_batch([[("k", "v")], [("k", "v")]]);
        let atomic = bus.stream.append_batch_atomic([[("k", "v")]]);
        let read = bus.stream.read_last(1).all();
        let trim = bus.stream.trim(echomq::Trim::max_len(1_000));
        let command = bus.client.command(["PING"]);
        let error = append.await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::UnknownOutcome, Some(KEY)));
        let unknown = EventId::parse(error.id().unwrap()).unwrap();
        for result in batch.await.unwrap() {
            assert_eq!(result.unwrap_err().code(), Code::UnknownOutcome);
        }
        assert_eq!(atomic.await.unwrap_err().code(), Code::UnknownOutcome);
        let read = read.await.unwrap_err().code();
        assert!(matches!(read, Code::Timeout | Code::Disconnected), "{read}");
        assert_eq!(trim.await.unwrap_err().code(), Code::UnknownOutcome);
        assert_eq!(command.await.unwrap_err().code(), Code::UnknownOutcome);
        bus.server.resume();

        // The caller can ask again with the id, and the record is there once.
        wait_until_async("the server answers again", async || bus.client.command(["PING"]).await.is_ok())
            .await;
        let again = bus.stream.append_id(unknown, [("k", "v")]).await;
        assert!(again.is_ok() || again.unwrap_err().code() == Code::NonMonotonic);
        let copies: Vec<(String, Vec<String>)> = bus.plain.query(["XRANGE", KEY, "-", "+"]);
        let copies = copies.iter().filter(|(_, fields)| fields[1] == unknown.as_str()).count();
        assert_eq!(copies, 1);
    })
    .await;
}

#[tokio::test]
async fn a_blocking_call_can_be_interrupted() {
    let server = Server::start(Kind::Valkey);
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    // Nothing but the interrupt ends a call within the hour.
    let options = options(&server.url()).timeout(Duration::from_secs(3_600));
    let client = tokio::task::spawn_blocking(move || {
        blocking::Client::open_with(&options, Arc::new(move || flag.load(Ordering::Relaxed))).unwrap()
    })
    .await
    .unwrap();
    server.pause();
    let stream = client.stream("codemojex", "events").unwrap();
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let stream = stream.clone();
            tokio::task::spawn_blocking(move || stream.append([("k", "v")]).unwrap_err().code())
        })
        .collect();
    interrupted.store(true, Ordering::Relaxed);
    for call in calls {
        let code = call.await.unwrap();
        assert!(matches!(code, Code::UnknownOutcome | Code::Timeout), "{code}");
    }
    server.resume();
    interrupted.store(false, Ordering::Relaxed);
    let id = tokio::task::spawn_blocking(move || stream.append([("k", "after")])).await.unwrap().unwrap();
    let last: Vec<(String, Vec<String>)> =
        Plain::connect(&server).query(["XREVRANGE", KEY, "+", "-", "COUNT", "1"]);
    assert_eq!(last[0].1[1], id.as_str());
}

#[tokio::test]
async fn closing_lets_calls_finish_and_reports_what_it_gave_up() {
    let mut bus = Bus::start(Kind::Valkey).await;
    let calls: Vec<_> = (0..100).map(|_| bus.stream.append([("k", "v")])).collect();
    assert_eq!(bus.client.close(Duration::from_secs(10)).await, 0);
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(bus.plain.xlen(KEY), 100);
    assert_eq!(bus.stream.append([("k", "v")]).await.unwrap_err().code(), Code::Closed);
    assert_eq!(bus.client.close(Duration::from_secs(10)).await, 0);

    let client = Client::connect(&options(&bus.server.url())).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    bus.server.pause();
    let calls: Vec<_> = (0..7).map(|_| stream.append([("k", "v")])).collect();
    tokio::task::yield_now().await;
    assert_eq!(client.close(Duration::from_millis(100)).await, 7);
    for call in calls {
        let code = call.await.unwrap_err().code();
        assert!(matches!(code, Code::UnknownOutcome | Code::Closed), "{code}");
    }
    bus.server.resume();

    let url = bus.server.url();
    tokio::task::spawn_blocking(move || {
        let client = blocking::Client::open(&options(&url)).unwrap();
        assert_eq!(client.close(Duration::from_secs(1)), 0);
        assert_eq!(client.stream("q", "s").unwrap().append([("k", "v")]).unwrap_err().code(), Code::Closed);
        assert_eq!(client.close(Duration::from_secs(1)), 0);
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_connection_ends_with_the_last_handle() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&options(&proxy.url())).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    drop(client);
    stream.append([("k", "v")]).await.unwrap();
    assert_eq!(proxy.open_connections(), 1);
    drop(stream);
    wait_until_async("the connection is closed", async || proxy.open_connections() == 0).await;
}

#[test]
fn a_client_whose_runtime_has_ended_is_closed() {
    let server = Server::start(Kind::Valkey);
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = runtime();
    let client = first.block_on(Client::connect(&options(&server.url()))).unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    first.block_on(stream.append([("k", "v")])).unwrap();
    server.pause();
    let under_way = stream.append([("k", "v")]);
    drop(first);
    let second = runtime();
    assert!(matches!(second.block_on(under_way).unwrap_err().code(), Code::Closed | Code::UnknownOutcome));
    assert_eq!(second.block_on(stream.append([("k", "v")])).unwrap_err().code(), Code::Closed);
    server.resume();
}

#[tokio::test]
async fn calls_at_once_do_not_wait_for_each_others_answers() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&options(&proxy.url()).timeout(Duration::from_secs(60))).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    // The client has its node.
    client.mint().await.unwrap();
    proxy.black_hole(Direction::Replies);
    let calls: Vec<_> = (0..500).map(|_| stream.append([("k", "v")])).collect();
    wait_until_async("all are sent, though none was answered", async || {
        proxy.commands_named("XADD").len() == 500
    })
    .await;
    proxy.heal();
    proxy.close_all(Ending::Reset);
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(Plain::connect(&server).xlen(KEY), 500);
}

/// Each way in which a call ends: answered, late, its connection lost, its client closed.
#[tokio::test]
async fn whoever_is_told_of_an_answer_may_use_the_client_at_once() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&options(&proxy.url()).timeout(Duration::from_secs(2))).await.unwrap();
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let call = || {
        let (again, sender) = (client.clone(), sender.clone());
        client.command(["PING"]).on_complete(move |answer| {
            again.command(["PING"]).on_complete(|_| ());
            sender.send(answer.err().map(|error| error.code())).unwrap();
        });
    };
    call();
    assert_eq!(told.recv().await.unwrap(), None);
    proxy.black_hole(Direction::Replies);
    call();
    assert_eq!(told.recv().await.unwrap(), Some(Code::UnknownOutcome));
    proxy.heal();
    wait_until_async("the connection", async || client.command(["PING"]).await.is_ok()).await;
    proxy.cut_after(Direction::Replies, 0, Ending::Reset);
    call();
    assert_eq!(told.recv().await.unwrap(), Some(Code::UnknownOutcome));
    proxy.black_hole(Direction::Replies);
    call();
    client.close(Duration::ZERO).await;
    assert!(told.recv().await.unwrap().is_some());
}
