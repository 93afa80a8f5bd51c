//! Plain appends whose answers were lost: what is answered is no more than is known.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, EntryId, EventId, Fields, Options, Result, Stream, blocking};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, wait_until_async};
use redis::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// One way to append two records, or one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    One,
    Batch,
    Atomic,
}

const CALLS: [Call; 3] = [Call::One, Call::Batch, Call::Atomic];

impl Call {
    /// One result a record; an error of an atomic batch stands for all.
    async fn append(self, stream: &Stream) -> Vec<Result<EventId>> {
        match self {
            Self::One => vec![stream.append([("k", "1")]).await],
            Self::Batch => stream.append_batch([[("k", "1")], [("k", "2")]]).await.unwrap(),
            Self::Atomic => match stream.append_batch_atomic([[("k", "1")], [("k", "2")]]).await {
                Ok(ids) => ids.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            },
        }
    }
}

async fn through(proxy: &Proxy) -> Stream {
    connected(options(&proxy.url())).await
}

async fn connected(options: Options) -> Stream {
    let options = options.timeout(Duration::from_secs(60));
    let options = options.reconnect(Duration::from_millis(1), Duration::from_millis(20));
    let stream = Client::connect(&options).await.unwrap().stream("codemojex", "events").unwrap();
    // The script of atomic batches is known, so that each call is one exchange.
    stream.append_batch_atomic([[("k", "first")]]).await.unwrap();
    stream
}

/// Appends, has `meanwhile` happen while the answer is on its way, and loses the answer.
async fn losing(call: Call, server: &Server, meanwhile: &[&[&str]]) -> (Vec<Result<EventId>>, u64) {
    let proxy = Proxy::start(server.address());
    let stream = through(&proxy).await;
    losing_of(&proxy, stream, call, server, meanwhile).await
}

async fn losing_of(
    proxy: &Proxy,
    stream: Stream,
    call: Call,
    server: &Server,
    meanwhile: &[&[&str]],
) -> (Vec<Result<EventId>>, u64) {
    let mut plain = Plain::connect(server);
    let (before, connections) = (plain.xlen(KEY), proxy.connections());
    proxy.black_hole(Direction::Replies);
    let append = tokio::spawn(async move { call.append(&stream).await });
    let records = if call == Call::One { 1 } else { 2 };
    wait_until_async("it is there", async || Plain::connect(server).xlen(KEY) == before + records).await;
    for command in meanwhile {
        plain.command(*command);
    }
    proxy.close_all(Ending::Reset);
    wait_until_async("it connects again", async || proxy.connections() > connections).await;
    proxy.heal();
    (append.await.unwrap(), plain.xlen(KEY))
}

#[tokio::test]
async fn a_record_that_was_removed_before_its_writer_could_ask_is_in_doubt_and_not_written_again() {
    each(|kind| async move {
        for call in CALLS {
            // Handled and deleted, one by one or by a trim, with and without a record of another writer above.
            for meanwhile in [
                vec![&["XTRIM", KEY, "MAXLEN", "0"][..]],
                vec![&["XADD", KEY, "9999999999999-0", "k", "other"][..], &["XTRIM", KEY, "MAXLEN", "1"][..]],
            ] {
                let server = Server::start(kind);
                let (results, left) = losing(call, &server, &meanwhile).await;
                for result in results {
                    let error = result.unwrap_err();
                    assert_eq!(
                        (error.code(), error.subject()),
                        (Code::UnknownOutcome, Some(KEY)),
                        "{call:?} {error}"
                    );
                    assert!(error.id().is_some() && error.cause().is_some());
                }
                assert_eq!(left, meanwhile.len() as u64 - 1, "{call:?}: nothing was written again");
            }
        }
    })
    .await;
}

/// The key was deleted and made again, and looks as if nothing had ever been removed: it has fewer entries than the client knew
/// of, or the client never knew.
#[tokio::test]
async fn a_stream_that_was_made_anew_leaves_its_writer_in_doubt() {
    each(|kind| async move {
        for (call, knows) in CALLS.into_iter().flat_map(|call| [false, true].map(|knows| (call, knows))) {
            let server = Server::start(kind);
            let proxy = Proxy::start(server.address());
            for n in 0..5 {
                Plain::connect(&server).command(["XADD", KEY, &format!("1704067200000-{n}"), "k", "older"]);
            }
            let stream = through(&proxy).await;
            if knows {
                let old = EventId::try_from(EntryId::new(1_704_067_200_000, 5)).unwrap();
                let refused = stream.append_id(old, Fields::new()).await.unwrap_err();
                assert_eq!(refused.code(), Code::NonMonotonic);
            }
            let meanwhile: [&[&str]; 3] = [
                &["DEL", KEY],
                &["XADD", KEY, "1704067200000-0", "k", "other"],
                &["XADD", KEY, "9999999999999-0", "k", "other"],
            ];
            let (results, left) = losing_of(&proxy, stream, call, &server, &meanwhile).await;
            for result in results {
                assert_eq!(result.unwrap_err().code(), Code::UnknownOutcome, "{call:?} {knows}");
            }
            assert_eq!(left, 2, "{call:?}: nothing was written again");
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_left_of_an_atomic_batch_tells_of_all() {
    each(|kind| async move {
        for meanwhile in
            [&["XTRIM", KEY, "MAXLEN", "1"][..], &["XADD", KEY, "9999999999999-0", "k", "other"][..]]
        {
            let server = Server::start(kind);
            let (results, _) = losing(Call::Atomic, &server, &[meanwhile]).await;
            let ids: Vec<String> = results.into_iter().map(|id| id.unwrap().to_string()).collect();
            assert_eq!(ids.len(), 2);
            let stored: Vec<(String, Vec<String>)> = Plain::connect(&server).query(["XRANGE", KEY, "-", "+"]);
            assert!(stored.iter().any(|(_, fields)| fields[1] == ids[1]));
        }
    })
    .await;
}

/// The last id that the stream has given out is the record's, and nobody else has the node: it was written, whatever has become
/// of it since.
#[tokio::test]
async fn a_record_of_a_leased_node_that_was_removed_from_the_top_was_written() {
    each(|kind| async move {
        for call in CALLS {
            for (meanwhile, above) in [
                (vec![&["XTRIM", KEY, "MAXLEN", "0"][..]], false),
                (
                    vec![
                        &["XADD", KEY, "9999999999999-0", "k", "other"][..],
                        &["XTRIM", KEY, "MAXLEN", "1"][..],
                    ],
                    true,
                ),
            ] {
                let server = Server::start(kind);
                let proxy = Proxy::start(server.address());
                let stream = connected(Options::new(&proxy.url()).unwrap()).await;
                let (results, left) = losing_of(&proxy, stream, call, &server, &meanwhile).await;
                assert_eq!(left, u64::from(above), "{call:?}: nothing was written again");
                let info: BTreeMap<String, Value> = Plain::connect(&server).query(["XINFO", "STREAM", KEY]);
                let top: String = redis::from_redis_value(info["last-generated-id"].clone()).unwrap();
                let records = results.len();
                for (number, result) in results.into_iter().enumerate() {
                    match result {
                        Ok(id) => {
                            assert!(!above, "{call:?}: nobody can tell");
                            let is_last = EntryId::from(id).to_string() == top;
                            assert_eq!(is_last, number + 1 == records, "{call:?}: {id} {top}");
                        }
                        Err(error) => {
                            assert_eq!(error.code(), Code::UnknownOutcome, "{call:?}: {error}");
                            // The first of two that stand each for itself is not at the top.
                            assert!(above || call == Call::Batch && number == 0, "{call:?}: {error}");
                        }
                    }
                }
            }
        }
    })
    .await;
}

/// Another record under the same id was written by another process with the same node id.
#[tokio::test]
async fn another_record_under_the_id_is_a_conflict_of_nodes() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let proxy = Proxy::start(bus.server.address());
        let stream = through(&proxy).await;
        for (fields, ours) in [([("k", "1")], true), ([("k", "2")], false), ([("l", "1")], false)] {
            let id = bus.client.mint().await.unwrap();
            let entry_id = EntryId::from(id).to_string();
            bus.plain.command(["XADD", KEY, &entry_id, "id", id.as_str(), "k", "1"]);
            let before = bus.plain.dump(KEY);
            // Not a byte of it arrives; what is found is what the other wrote.
            proxy.cut_after(Direction::Requests, 1, Ending::Reset);
            match stream.append_id(id, fields).await {
                Ok(receipt) => assert_eq!((receipt, ours), (id, true), "equal fields cannot be told apart"),
                Err(error) => {
                    assert_eq!((error.code(), ours), (Code::NodeConflict, false), "{error}");
                    assert_eq!((error.id(), error.subject()), (Some(id.as_str()), Some(KEY)));
                }
            }
            assert_eq!(bus.plain.dump(KEY), before);
        }
    })
    .await;
}

/// What was never written is refused where that is certain: entries below it are there, none was removed, and the stream has
/// no fewer than the client knew of.
#[tokio::test]
async fn a_record_that_certainly_was_not_written_is_refused() {
    each(|kind| async move {
        // What was removed is below, so it was not the record; and something below is left, so a trim has not reached it.
        for (call, removal) in CALLS.into_iter().flat_map(|call| [0, 1, 2].map(|removal| (call, removal))) {
            let mut bus = Bus::start(kind).await;
            let proxy = Proxy::start(bus.server.address());
            for n in 0..3 {
                bus.plain.command(["XADD", KEY, &format!("1704067200000-{n}"), "k", "older"]);
            }
            let stream = through(&proxy).await;
            let old = EventId::try_from(EntryId::new(1_735_689_600_000, 5)).unwrap();
            // The refusal has told the client how the stream stands.
            assert_eq!(stream.append_id(old, Fields::new()).await.unwrap_err().code(), Code::NonMonotonic);
            bus.plain.command(["XADD", KEY, "9999999999999-0", "k", "other"]);
            match removal {
                0 => {}
                1 => drop(bus.plain.command(["XDEL", KEY, "1704067200000-1"])),
                _ => drop(bus.plain.command(["XTRIM", KEY, "MINID", "=", "1704067200000-2"])),
            }
            let before = bus.plain.dump(KEY);
            proxy.cut_after(Direction::Requests, 1, Ending::Reset);
            for result in call.append(&stream).await {
                let error = result.unwrap_err();
                assert_eq!(
                    (error.code(), error.top()),
                    (Code::NonMonotonic, Some("9999999999999-0")),
                    "{call:?} {removal}"
                );
            }
            assert_eq!(bus.plain.dump(KEY), before);
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_never_sent_is_not_in_doubt() {
    let mut bus =
        Bus::with(Server::start(Kind::Valkey), |options| options.timeout(Duration::from_secs(2))).await;
    let id = bus.client.mint().await.unwrap();
    bus.server.kill();
    wait_until_async("the client has noticed", async || !bus.client.status().connected).await;
    let (one, batch, atomic, sequenced) = tokio::join!(
        bus.stream.append_id(id, [("k", "v")]),
        bus.stream.append_batch([[("k", "1")], [("k", "2")]]),
        bus.stream.append_batch_atomic([[("k", "v")]]),
        bus.stream.append_batch_sequenced([[("k", "v")]]),
    );
    let mut errors = vec![one.unwrap_err(), atomic.unwrap_err(), sequenced.unwrap_err()];
    errors.extend(batch.unwrap().into_iter().map(|result| result.unwrap_err()));
    for error in errors {
        assert_eq!(error.code(), Code::Disconnected, "{error}");
    }
}

/// Whatever there was no connection for: no server ever, one that is gone, a name that refuses, and a client that is closed.
#[tokio::test]
async fn an_id_of_the_callers_own_that_was_never_sent_is_not_in_doubt() {
    let mut server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let id = EventId::try_from(EntryId::new(1_735_689_600_000, 5)).unwrap();
    let hasty = |url: &str| options(url).timeout(Duration::from_secs(1));
    let mut lazy = hasty(&proxy.url());
    lazy.set("connect", "lazy").unwrap();

    let before = Client::connect(&hasty(&proxy.url())).await.unwrap();
    let threads = {
        let options = hasty(&proxy.url());
        tokio::task::spawn_blocking(move || blocking::Client::open(&options).unwrap()).await.unwrap()
    };
    let closed = Client::connect(&hasty(&proxy.url())).await.unwrap();
    closed.close(Duration::from_secs(5)).await;
    proxy.refuse_connections();
    proxy.close_all(Ending::Reset);
    let never = Client::connect(&lazy).await.unwrap();
    wait_until_async("the client has noticed", async || !before.status().connected).await;
    proxy.forget();

    let append = |client: &Client| client.stream("codemojex", "events").unwrap().append_id(id, [("k", "v")]);
    for (client, code) in
        [(&before, Code::Disconnected), (&never, Code::Disconnected), (&closed, Code::Closed)]
    {
        let error = append(client).await.unwrap_err();
        assert_eq!((error.code(), error.is_retryable()), (code, code == Code::Disconnected), "{error}");
    }
    let blocking = move || {
        let stream = threads.stream("codemojex", "events").unwrap();
        [0, 1].map(|_| stream.append_id(id, [("k", "v")]).unwrap_err().code())
    };
    assert_eq!(tokio::task::spawn_blocking(blocking).await.unwrap(), [Code::Disconnected; 2]);
    assert!(proxy.commands_named("XADD").is_empty(), "nothing was sent");
    assert_eq!(Plain::connect(&server).xlen(KEY), 0);

    // The same where the server itself is gone, and the proxy hangs up on whoever comes.
    proxy.accept_connections();
    server.kill();
    assert_eq!(append(&before).await.unwrap_err().code(), Code::Disconnected);
    assert!(proxy.commands_named("XADD").is_empty(), "nothing was sent");
}

/// The record is there, which is all that its writer asks; that the answer cannot be kept changes nothing.
#[tokio::test]
async fn a_sequenced_record_that_is_found_at_a_full_server_is_acknowledged() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let stream = connected(Options::new(&proxy.url()).unwrap()).await;
        stream.append_sequenced([("k", "before")]).await.unwrap();
        let mut plain = Plain::connect(&server);
        let (before, connections) = (plain.xlen(KEY), proxy.connections());
        proxy.black_hole(Direction::Replies);
        let append = tokio::spawn(async move { stream.append_sequenced([("k", "1")]).await });
        wait_until_async("it is there", async || Plain::connect(&server).xlen(KEY) == before + 1).await;
        plain.command(["CONFIG", "SET", "maxmemory", "1"]);
        proxy.close_all(Ending::Reset);
        wait_until_async("it connects again", async || proxy.connections() > connections).await;
        proxy.heal();
        let id = append.await.unwrap().unwrap();
        let entry_id = EntryId::from(id).to_string();
        let found: Vec<(String, Vec<String>)> = plain.query(["XRANGE", KEY, &entry_id, &entry_id]);
        assert_eq!(found, [(entry_id, ["id", id.as_str(), "k", "1"].map(str::to_owned).to_vec())]);
        assert_eq!(plain.xlen(KEY), before + 1);
    })
    .await;
}

/// While the answer is on its way, another process's records take the place of those that were written.
async fn replaced(
    kind: Kind,
    call: impl AsyncFnOnce(Stream) -> Vec<Result<EventId>>,
    records: u64,
) -> (Vec<Result<EventId>>, Server) {
    let server = Server::start(kind);
    let proxy = Proxy::start(server.address());
    let stream = connected(Options::new(&proxy.url()).unwrap()).await;
    stream.append_sequenced([("k", "second")]).await.unwrap();
    let (before, connections) = (Plain::connect(&server).xlen(KEY), proxy.connections());
    proxy.black_hole(Direction::Replies);
    let (results, ()) = tokio::join!(call(stream), async {
        let mut plain = Plain::connect(&server);
        wait_until_async("it is there", async || Plain::connect(&server).xlen(KEY) == before + records).await;
        let entries: Vec<(String, Vec<String>)> = plain.query(["XRANGE", KEY, "-", "+"]);
        plain.command(["DEL", KEY]);
        for (entry_id, fields) in &entries {
            plain.command(["XADD", KEY, entry_id, "id", &fields[1], "k", "another's"]);
        }
        proxy.close_all(Ending::Reset);
        wait_until_async("it connects again", async || proxy.connections() > connections).await;
        proxy.heal();
    });
    (results, server)
}

#[tokio::test]
async fn another_processs_records_under_the_ids_are_never_taken_for_ones_own() {
    each(|kind| async move {
        for call in CALLS {
            let records = if call == Call::One { 1 } else { 2 };
            let (results, server) =
                replaced(kind, async move |stream| call.append(&stream).await, records).await;
            for result in results {
                assert_eq!(result.unwrap_err().code(), Code::NodeConflict, "{call:?}");
            }
            let mut plain = Plain::connect(&server);
            assert_eq!(plain.xlen(KEY), 2 + records, "{call:?}: nothing was written beside them");
        }
        // The sequencer gives another id where the candidate's place is taken.
        let sequenced = async |stream: Stream| vec![stream.append_sequenced([("k", "1")]).await];
        let (results, server) = replaced(kind, sequenced, 1).await;
        let mut plain = Plain::connect(&server);
        let id = *results[0].as_ref().unwrap();
        let entry_id = EntryId::from(id).to_string();
        let found: Vec<(String, Vec<String>)> = plain.query(["XRANGE", KEY, &entry_id, &entry_id]);
        assert_eq!(found, [(entry_id, ["id", id.as_str(), "k", "1"].map(str::to_owned).to_vec())]);
        assert_eq!(plain.xlen(KEY), 4);
    })
    .await;
}
