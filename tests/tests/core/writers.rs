//! A stream handle that says how many writers its stream has.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Clock, Code, Fields, Options, Signal, Writers};
use echomq_tests::{Kind, Server};

const T: u64 = 1_735_689_600_000;

/// A bus whose writer's clock stands at `T`, with a record of another writer's above it.
async fn overtaken(kind: Kind) -> Bus {
    let mut bus = Bus::with(Server::start(kind), |options| options.clock(Clock::standing(T))).await;
    bus.plain.command(["XADD", KEY, &format!("{}-5", T + 10), "k", "top"]);
    bus
}

fn signal() -> Signal {
    Signal::new("added", "JOB000xY9Wvvcd").unwrap()
}

/// The ids behind the first entry, as the stream holds them.
fn stored(bus: &mut Bus) -> Vec<String> {
    let entries: Vec<(String, Vec<String>)> = bus.plain.query(["XRANGE", KEY, "-", "+"]);
    entries.into_iter().skip(1).map(|(_, fields)| fields[1].clone()).collect()
}

#[tokio::test]
async fn every_append_of_a_handle_for_many_writers_is_sequenced() {
    each(|kind| async move {
        let mut bus = overtaken(kind).await;
        let many = bus.stream.clone().writers(Writers::Many);
        let mut ids = vec![many.append([("n", "1")]).await.unwrap()];
        ids.push(many.append_and_publish([("n", "2")], signal()).await.unwrap().id);
        ids.extend(many.append_batch_atomic([[("n", "3")], [("n", "4")]]).await.unwrap());
        let batch = many.append_batch([[("n", "5")], [("n", "6")]]).await.unwrap();
        ids.extend(batch.into_iter().map(Result::unwrap));
        assert!(ids.iter().all(|id| id.snowflake().node() == 1023), "{ids:?}");
        assert_eq!(stored(&mut bus), ids.iter().map(ToString::to_string).collect::<Vec<_>>());

        // The handle it was made from has one writer still, and says what to do.
        for error in [
            bus.stream.append([("k", "v")]).await.unwrap_err(),
            bus.stream.append_and_publish([("k", "v")], signal()).await.unwrap_err(),
            bus.stream.append_batch_atomic([[("k", "v")]]).await.unwrap_err(),
            bus.stream.append_batch([[("k", "v")]]).await.unwrap().remove(0).unwrap_err(),
        ] {
            assert_eq!(error.code(), Code::NonMonotonic);
            assert!(error.message().contains("opens it with `writers` `many`"), "{error}");
        }
        assert_eq!(stored(&mut bus).len(), ids.len());
    })
    .await;
}

#[tokio::test]
async fn a_batch_of_many_writers_answers_for_each_record() {
    let mut bus = overtaken(Kind::Valkey).await;
    let many = bus.stream.clone().writers(Writers::Many);
    let reserved = || Fields::from([("id", "x")]);
    let results = many.append_batch([reserved(), [("n", "1")].into(), reserved(), [("n", "2")].into()]).await;
    let results = results.unwrap();
    let codes: Vec<Option<Code>> =
        results.iter().map(|result| result.as_ref().err().map(|error| error.code())).collect();
    assert_eq!(codes, [Some(Code::ReservedField), None, Some(Code::ReservedField), None]);
    let ids: Vec<String> = results.into_iter().flatten().map(|id| id.to_string()).collect();
    assert_eq!(stored(&mut bus), ids);

    // Nothing to send.
    assert_eq!(many.append_batch(Vec::<Fields>::new()).await.unwrap(), []);
    assert_eq!(many.append_batch([reserved()]).await.unwrap().len(), 1);

    // What happens to all that were sent happens to each.
    bus.plain.command(["DEL", KEY]);
    bus.plain.command(["SET", KEY, "no stream"]);
    let results = many.append_batch([[("n", "1")].into(), reserved(), Fields::new()]).await.unwrap();
    let codes: Vec<Code> = results.into_iter().map(|result| result.unwrap_err().code()).collect();
    assert_eq!(codes, [Code::WrongType, Code::ReservedField, Code::WrongType]);
}

/// Four clients whose clocks stand at four instants, each with its own calls at once: no error, each record once.
#[tokio::test]
async fn clients_with_different_clocks_share_a_stream() {
    each(|kind| async move {
        let mut bus = overtaken(kind).await;
        let mut tasks = Vec::new();
        for writer in 0..4 {
            let options: Options = options(&bus.server.url()).clock(Clock::standing(T + writer * 1_000));
            let client = Client::connect(&options).await.unwrap();
            let stream = client.stream("codemojex", "events").unwrap().writers(Writers::Many);
            tasks.push(tokio::spawn(async move {
                let mut ids = Vec::new();
                for n in 0..100 {
                    ids.push(stream.append([("n", n.to_string())]).await.unwrap().to_string());
                }
                ids
            }));
        }
        let mut ids = Vec::new();
        for task in tasks {
            ids.extend(task.await.unwrap());
        }
        ids.sort();
        assert_eq!(stored(&mut bus), ids);
    })
    .await;
}
