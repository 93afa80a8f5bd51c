//! Plain appends whose answers were lost: what is answered is no more than is known.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, EntryId, EventId, Fields, Result, Stream};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, wait_until_async};
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
    let options = options(&proxy.url()).timeout(Duration::from_secs(60));
    let options = options.reconnect(Duration::from_millis(1), Duration::from_millis(20));
    let stream = Client::connect(&options).await.unwrap().stream("codemojex", "events").unwrap();
    // The script of atomic batches is known, so that each call is one exchange.
    stream.append_batch_atomic([[("k", "first")]]).await.unwrap();
    stream
}

/// Appends, has `meanwhile` happen while the answer is on its way, and loses the answer.
async fn losing(call: Call, server: &Server, meanwhile: &[&[&str]]) -> (Vec<Result<EventId>>, u64) {
    let (proxy, mut plain) = (Proxy::start(server.address()), Plain::connect(server));
    let stream = through(&proxy).await;
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
        for call in CALLS {
            let mut bus = Bus::start(kind).await;
            let proxy = Proxy::start(bus.server.address());
            let stream = through(&proxy).await;
            let old = EventId::try_from(EntryId::new(1_735_689_600_000, 5)).unwrap();
            // The refusal has told the client how the stream stands.
            assert_eq!(stream.append_id(old, Fields::new()).await.unwrap_err().code(), Code::NonMonotonic);
            bus.plain.command(["XADD", KEY, "9999999999999-0", "k", "other"]);
            let before = bus.plain.dump(KEY);
            proxy.cut_after(Direction::Requests, 1, Ending::Reset);
            for result in call.append(&stream).await {
                let error = result.unwrap_err();
                assert_eq!(
                    (error.code(), error.top()),
                    (Code::NonMonotonic, Some("9999999999999-0")),
                    "{call:?}"
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
