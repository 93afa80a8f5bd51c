//! Several writers on one stream.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Clock, Code, EntryId, EventId, Fields, Stream};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server};
use futures_util::future::join_all;
use std::time::Duration;

const SEQ: &str = "emq:{codemojex}:seq";
const T: u64 = 1_735_689_600_000;

/// The sequencer's first tail in a millisecond: node 1023.
const FIRST: u64 = 1023 << 12;

type Entries = Vec<(String, Vec<String>)>;

/// A bus whose writer's clock stands at `T`, years behind the server's.
async fn standing(kind: Kind) -> Bus {
    Bus::with(Server::start(kind), |options| options.clock(Clock::standing(T))).await
}

fn position(id: EventId) -> (u64, u64) {
    let entry_id = EntryId::from(id);
    (entry_id.ms(), entry_id.seq())
}

/// What the keys hold: of the stream, and of the sequencer.
fn keys(plain: &mut Plain) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    (plain.dump(KEY), plain.dump(SEQ))
}

fn entries(plain: &mut Plain) -> Entries {
    plain.query(["XRANGE", KEY, "-", "+"])
}

#[tokio::test]
async fn a_candidate_above_the_top_is_kept() {
    each(|kind| async move {
        let mut bus = standing(kind).await;
        let first = bus.stream.append_sequenced([("k", "1"), ("k", "2"), ("", "")]).await.unwrap();
        let second = bus.stream.append_sequenced(Fields::new()).await.unwrap();
        assert_eq!((first.unix_ms(), second.unix_ms()), (T, T));
        assert_ne!(first.snowflake().node(), 1023);
        let batch = bus.stream.append_batch_sequenced([vec![("k", "3")], vec![]]).await.unwrap();
        assert!([first, second, batch[0], batch[1]].is_sorted_by(|a, b| a.snowflake() < b.snowflake()));
        let entries = entries(&mut bus.plain);
        let expected = ["id", first.as_str(), "k", "1", "k", "2", "", ""].map(String::from).to_vec();
        assert_eq!(entries[0], (EntryId::from(first).to_string(), expected));
        assert_eq!(entries[1].1, ["id", second.as_str()]);
        assert_eq!(entries[2].1, ["id", batch[0].as_str(), "k", "3"]);
        assert_eq!(entries[3].1, ["id", batch[1].as_str()]);
        assert_eq!(bus.plain.dump(SEQ), None, "nothing came from the sequencer");
    })
    .await;
}

#[tokio::test]
async fn a_candidate_that_is_not_above_the_top_gives_way_to_the_sequencer() {
    each(|kind| async move {
        let mut bus = standing(kind).await;
        bus.plain.command(["XADD", KEY, &format!("{}-5", T + 10), "k", "v"]);
        let one = bus.stream.append_sequenced([("k", "1")]).await.unwrap();
        assert_eq!(position(one), (T + 10, FIRST));
        let batch = bus.stream.append_batch_sequenced([[("k", "2")], [("k", "3")]]).await.unwrap();
        let positions: Vec<_> = batch.iter().copied().map(position).collect();
        assert_eq!(positions, [(T + 10, FIRST + 1), (T + 10, FIRST + 2)]);
        // Another stream of the queue: its ids differ from all others of the queue.
        bus.plain.command(["XADD", "emq:{codemojex}:stream:other", &format!("{}-5", T + 3), "k", "v"]);
        let other = bus.client.stream("codemojex", "other").unwrap();
        assert_eq!(position(other.append_sequenced([("k", "v")]).await.unwrap()), (T + 10, FIRST + 3));
        let kept: (u64, u64) = bus.plain.query(["HMGET", SEQ, "ms", "seq"]);
        assert_eq!(kept, (T + 10, 3));
        let ids: Vec<String> =
            entries(&mut bus.plain)[1..].iter().map(|(_, fields)| fields[1].clone()).collect();
        assert_eq!(ids, [one, batch[0], batch[1]].map(String::from));
    })
    .await;
}

#[tokio::test]
async fn a_spent_millisecond_and_tops_that_the_sequencer_did_not_write() {
    each(|kind| async move {
        let mut bus = standing(kind).await;
        let (ms, next) = ((T + 10).to_string(), (T + 11, FIRST));
        for (top, sequencer, expected) in [
            // 4 096 are spent.
            ("5", Some("4095"), next),
            // The sequencer was lost, the stream was not.
            (&*(FIRST + 7).to_string(), None, next),
            // Foreign tails, the second beyond what a double can tell.
            ("4194303", None, next),
            ("18446744073709551615", Some("3"), next),
            ("5", Some("4094"), (T + 10, FIRST + 4_095)),
        ] {
            bus.plain.command(["DEL", KEY, SEQ]);
            bus.plain.command(["XADD", KEY, &format!("{ms}-{top}"), "k", "v"]);
            // The top counts, though its entry is gone.
            bus.plain.command(["XTRIM", KEY, "MAXLEN", "0"]);
            if let Some(seq) = sequencer {
                bus.plain.command(["HSET", SEQ, "ms", &ms, "seq", seq]);
            }
            assert_eq!(position(bus.stream.append_sequenced([("k", "v")]).await.unwrap()), expected, "{top}");
        }
        // More than a millisecond has, in one batch.
        bus.plain.command(["DEL", KEY, SEQ]);
        bus.plain.command(["XADD", KEY, &format!("{ms}-5"), "k", "v"]);
        let ids = bus.stream.append_batch_sequenced((0..10_000).map(|_| Fields::new())).await.unwrap();
        assert_eq!(position(ids[4_095]), (T + 10, FIRST + 4_095));
        assert_eq!(position(ids[4_096]), (T + 11, FIRST));
        assert_eq!(position(ids[9_999]), (T + 12, FIRST + 1_807));
        let kept: (u64, u64) = bus.plain.query(["HMGET", SEQ, "ms", "seq"]);
        assert_eq!(kept, (T + 12, 1_807));
    })
    .await;
}

#[tokio::test]
async fn clocks_that_run_ahead() {
    each(|kind| async move {
        let mut bus = standing(kind).await;
        let (seconds, _): (u64, u64) = bus.plain.query(["TIME"]);
        let (near, far) = ((seconds + 30) * 1_000, (seconds + 3_600) * 1_000);
        let refused = async |stream: &Stream, code: Code, instant: &str| {
            let batch = stream.append_batch_sequenced([[("k", "1")], [("k", "2")]]).await.unwrap_err();
            let one = stream.append_sequenced([("k", "v")]).await.unwrap_err();
            for error in [one, batch] {
                assert_eq!((error.code(), error.subject()), (code, Some(KEY)), "{error}");
                assert!(error.message().contains(instant), "{error}");
                assert!(error.message().contains(&seconds.to_string()[..7]), "{error}");
            }
        };
        // The stream.
        for top in [format!("{far}-0"), "18446744073709551615-18446744073709551615".to_owned()] {
            bus.plain.command(["DEL", KEY]);
            bus.plain.command(["XADD", KEY, &top, "k", "v"]);
            let before = keys(&mut bus.plain);
            refused(&bus.stream, Code::StreamAhead, top.split('-').next().unwrap()).await;
            assert_eq!(keys(&mut bus.plain), before);
        }
        // The sequencer, whose server's clock stepped back.
        for top in [T + 10, near] {
            bus.plain.command(["DEL", KEY]);
            bus.plain.command(["HSET", SEQ, "ms", &far.to_string(), "seq", "7"]);
            bus.plain.command(["XADD", KEY, &format!("{top}-0"), "k", "v"]);
            let before = keys(&mut bus.plain);
            refused(&bus.stream, Code::StreamAhead, &far.to_string()).await;
            assert_eq!(keys(&mut bus.plain), before);
        }
        // Half a minute is no matter.
        bus.plain.command(["DEL", SEQ]);
        assert_eq!(position(bus.stream.append_sequenced([("k", "v")]).await.unwrap()), (near, FIRST));

        // The host, whether it looked itself or not.
        bus.plain.command(["DEL", KEY, SEQ]);
        for bound in [Some(Duration::from_secs(60)), None] {
            let options = options(&bus.server.url()).clock(Clock::standing(far)).max_clock_ahead(bound);
            let client = Client::connect(&options).await.unwrap();
            let stream = client.stream("codemojex", "events").unwrap();
            refused(&stream, Code::ClockAhead, &far.to_string()).await;
            assert_eq!(keys(&mut bus.plain), (None, None));
        }
    })
    .await;
}

#[tokio::test]
async fn the_server_says_no() {
    each(|kind| async move {
        let mut bus = standing(kind).await;
        let refused = async |stream: &Stream, code: Code| {
            for error in [
                stream.append_sequenced([("k", "v")]).await.unwrap_err(),
                stream.append_batch_sequenced([[("k", "1")], [("k", "2")]]).await.unwrap_err(),
            ] {
                assert_eq!((error.code(), error.subject()), (code, Some(KEY)), "{error}");
            }
        };
        bus.plain.command(["SET", KEY, "no stream"]);
        refused(&bus.stream, Code::WrongType).await;
        bus.plain.command(["DEL", KEY]);
        bus.plain.command(["SET", SEQ, "no hash"]);
        bus.plain.command(["XADD", KEY, &format!("{}-5", T + 10), "k", "v"]);
        refused(&bus.stream, Code::WrongType).await;
        assert_eq!(bus.plain.xlen(KEY), 1);
        bus.plain.command(["DEL", SEQ]);
        bus.plain.command(["CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1"]);
        refused(&bus.stream, Code::OutOfMemory).await;
        bus.plain.command(["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!((bus.plain.xlen(KEY), bus.plain.dump(SEQ)), (1, None));
    })
    .await;
}

#[tokio::test]
async fn what_is_refused_before_the_wire() {
    let mut bus = Bus::with(Server::start(Kind::Valkey), |options| options.max_record_bytes(100_000)).await;
    let wide: Fields = (0..3_500).map(|field| (field.to_string(), "")).collect();
    let large = Fields::from([("k", "x".repeat(100_000))]);
    for (fields, code) in
        [(Fields::from([("id", "x")]), Code::ReservedField), (wide, Code::TooLarge), (large, Code::TooLarge)]
    {
        let error = bus.stream.append_sequenced(fields.clone()).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (code, Some(KEY)));
        let error = bus.stream.append_batch_sequenced([Fields::new(), fields]).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (code, Some(KEY)));
    }
    assert!(bus.stream.append_batch_sequenced(Vec::<Fields>::new()).await.unwrap().is_empty());
    assert_eq!(keys(&mut bus.plain), (None, None));
    let widest: Fields = (0..3_499).map(|field| (field.to_string(), "")).collect();
    bus.stream.append_sequenced(widest).await.unwrap();
}

#[tokio::test]
async fn one_round_trip_for_one_record_and_for_a_batch() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let client = Client::connect(&options(&proxy.url()).clock(Clock::standing(T))).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        // The first call carries the script.
        stream.append_sequenced([("k", "v")]).await.unwrap();
        Plain::connect(&server).command(["XADD", KEY, &format!("{}-0", T + 9), "k", "v"]);
        proxy.forget();
        stream.append_sequenced([("k", "v")]).await.unwrap();
        stream.append_batch_sequenced((0..1_000).map(|n| [("n", n.to_string())])).await.unwrap();
        let names: Vec<_> = proxy.commands().concat().iter().map(|command| command.is("EVALSHA")).collect();
        assert_eq!(names, [true, true]);
    })
    .await;
}

#[tokio::test]
async fn a_hundred_callers_that_meet_an_emptied_script_cache() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let mut ids = Vec::new();
        for _ in 0..3 {
            bus.plain.command(["SCRIPT", "FLUSH"]);
            let calls = (0..100).map(|n| bus.stream.append_sequenced([("n", n.to_string())]));
            ids.extend(join_all(calls).await.into_iter().map(|id| id.unwrap().to_string()));
        }
        // All of them were asked again, in their order.
        let stored: Vec<String> =
            entries(&mut bus.plain).into_iter().map(|(_, fields)| fields[1].clone()).collect();
        assert_eq!(stored, ids);
    })
    .await;
}

async fn through(server: &Server) -> (Proxy, Stream) {
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&options(&proxy.url()).clock(Clock::standing(T))).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    stream.append_sequenced([("k", "first")]).await.unwrap();
    (proxy, stream)
}

#[tokio::test]
async fn a_lost_reply_whose_candidate_was_kept_is_found() {
    each(|kind| async move {
        let mut bus = standing(kind).await;
        let (proxy, stream) = through(&bus.server).await;
        proxy.cut_after(Direction::Replies, 1, Ending::Reset);
        let one = stream.append_sequenced([("k", "1")]).await.unwrap();
        proxy.cut_after(Direction::Replies, 1, Ending::Reset);
        let batch = stream.append_batch_sequenced([[("k", "2")], [("k", "3")]]).await.unwrap();
        let stored: Vec<String> =
            entries(&mut bus.plain)[1..].iter().map(|(_, fields)| fields[1].clone()).collect();
        assert_eq!(stored, [one, batch[0], batch[1]].map(String::from));
        assert_eq!(proxy.cuts(), 2);
    })
    .await;
}

/// The answer is lost after the script ran, or the call before it: either way each record is there once, under the id that the
/// caller hears, and the sequencer's where its candidate is below the top.
#[tokio::test]
async fn a_lost_reply_whose_candidate_was_not_kept_is_asked_for_again() {
    each(|kind| async move {
        for direction in [Direction::Replies, Direction::Requests] {
            let mut bus = standing(kind).await;
            let (proxy, stream) = through(&bus.server).await;
            bus.plain.command(["XADD", KEY, &format!("{}-5", T + 10), "k", "top"]);
            proxy.cut_after(direction, 1, Ending::Reset);
            let one = stream.append_sequenced([("k", "1")]).await.unwrap();
            proxy.cut_after(direction, 1, Ending::Reset);
            let batch = stream.append_batch_sequenced([[("k", "2")], [("k", "3")]]).await.unwrap();
            let ids = [one, batch[0], batch[1]];
            assert!(ids.iter().all(|id| id.snowflake().node() == 1_023), "{ids:?}");
            let entries = entries(&mut bus.plain);
            let stored: Vec<String> = entries[2..].iter().map(|(_, fields)| fields[1].clone()).collect();
            assert_eq!(stored, ids.map(String::from));
            assert_eq!(proxy.cuts(), 2);
        }
    })
    .await;
}

/// The record of a candidate that was used is handled and removed before its writer could ask again.
#[tokio::test]
async fn a_record_that_was_removed_before_its_answer_came_is_in_doubt() {
    each(|kind| async move {
        let mut bus = standing(kind).await;
        let (proxy, stream) = through(&bus.server).await;
        proxy.black_hole(Direction::Replies);
        let append = tokio::spawn({
            let stream = stream.clone();
            async move { stream.append_sequenced([("k", "1")]).await }
        });
        echomq_tests::wait_until_async("it is there", async || Plain::connect(&bus.server).xlen(KEY) == 2)
            .await;
        let id = entries(&mut bus.plain)[1].0.clone();
        bus.plain.command(["XDEL", KEY, &id]);
        proxy.heal();
        proxy.close_all(Ending::Reset);
        let error = append.await.unwrap().unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::UnknownOutcome, Some(KEY)), "{error}");
        assert_eq!(error.id().map(|id| EventId::parse(id).unwrap().unix_ms()), Some(T));
        assert_eq!(bus.plain.xlen(KEY), 1, "it was not written again");
    })
    .await;
}

#[tokio::test]
async fn what_was_never_sent_is_not_in_doubt() {
    let mut bus =
        Bus::with(Server::start(Kind::Valkey), |options| options.timeout(Duration::from_secs(2))).await;
    bus.server.kill();
    echomq_tests::wait_until_async("the client has noticed", async || !bus.client.status().connected).await;
    let error = bus.stream.append_sequenced([("k", "v")]).await.unwrap_err();
    assert_eq!((error.code(), error.id()), (Code::Disconnected, None));
}

/// Twelve writers, clocks up to five seconds apart, three of them far away: no error, nothing lost, nobody's order changed.
#[tokio::test]
async fn twelve_writers_on_one_stream() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let proxy = Proxy::start(server.address());
        let (seconds, _): (u64, u64) = plain.query(["TIME"]);
        let far = |writer: u64| writer % 4 == 3;
        let mut writers = Vec::new();
        for writer in 0..12 {
            let url = if far(writer) { proxy.url() } else { server.url() };
            let mut options = options(&url).timeout(Duration::from_secs(60));
            // Three have the right time; the others' clocks stand between 2.5 s behind and 2.5 s ahead.
            if writer > 2 {
                options = options.clock(Clock::standing(seconds * 1_000 - 2_500 + (writer - 3) * 625));
            }
            let client = Client::connect(&options).await.unwrap();
            writers.push((writer, client.stream("codemojex", "events").unwrap()));
        }
        proxy.delay(Direction::Replies, Duration::from_millis(40));
        let tasks: Vec<_> = writers
            .into_iter()
            .map(|(writer, stream)| {
                tokio::spawn(async move {
                    let mut next = 0;
                    let mut record = || {
                        next += 1;
                        [("writer", writer.to_string()), ("n", (next - 1).to_string())]
                    };
                    let mut ids = Vec::new();
                    for _ in 0..if far(writer) { 20 } else { 50 } {
                        ids.push(stream.append_sequenced(record()).await.unwrap());
                        let at_once: Vec<_> = (0..20).map(|_| stream.append_sequenced(record())).collect();
                        ids.extend(join_all(at_once).await.into_iter().map(Result::unwrap));
                        ids.extend(stream.append_batch_sequenced([record(), record()]).await.unwrap());
                    }
                    ids
                })
            })
            .collect();
        let mut answered = Vec::new();
        for task in tasks {
            answered.push(task.await.unwrap());
        }
        let entries = entries(&mut plain);
        assert_eq!(entries.len(), 9 * 50 * 23 + 3 * 20 * 23);
        let mut found: Vec<Vec<EventId>> = vec![Vec::new(); 12];
        let (mut before, mut sequenced) = (None, 0);
        for (entry_id, fields) in &entries {
            let id = EventId::parse(&fields[1]).unwrap();
            assert_eq!(EntryId::from(id).to_string(), *entry_id);
            assert!(before < Some(id));
            before = Some(id);
            sequenced += usize::from(id.snowflake().node() == 1023);
            let (writer, n): (usize, usize) = (fields[3].parse().unwrap(), fields[5].parse().unwrap());
            assert_eq!(found[writer].len(), n, "writer {writer}'s own order");
            found[writer].push(id);
        }
        assert_eq!(found, answered);
        assert!(
            0 < sequenced && sequenced < entries.len(),
            "some ids are candidates, some are the sequencer's"
        );
        assert!(before.unwrap().unix_ms() < (seconds + 60) * 1_000);
    })
    .await;
}
