//! The administration of consumer groups.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, EntryId, EventId, Result, Start, Timestamp};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, wait_until_async};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NEVER: Duration = Duration::from_secs(3_600);

#[track_caller]
fn code<T>(result: Result<T>) -> Code {
    match result {
        Ok(_) => panic!("an error belongs here"),
        Err(error) => error.code(),
    }
}

/// A member of `XINFO GROUPS` of a group.
fn member(plain: &mut Plain, group: &str, name: &str) -> redis::Value {
    let groups: Vec<std::collections::HashMap<String, redis::Value>> = plain.query(["XINFO", "GROUPS", KEY]);
    let is_it = |info: &std::collections::HashMap<String, redis::Value>| matches!(&info["name"], redis::Value::BulkString(found) if found == group.as_bytes());
    groups.into_iter().find(is_it).unwrap()[name].clone()
}

fn last_delivered(plain: &mut Plain, group: &str) -> String {
    redis::from_redis_value(member(plain, group, "last-delivered-id")).unwrap()
}

/// The consumers of a group by name with how long they are idle, in milliseconds.
fn idle(plain: &mut Plain, group: &str) -> Vec<(String, u64)> {
    let consumers: Vec<std::collections::HashMap<String, redis::Value>> =
        plain.query(["XINFO", "CONSUMERS", KEY, group]);
    let number = |value: &redis::Value| redis::from_redis_value(value.clone()).unwrap();
    let name = |value: &redis::Value| redis::from_redis_value(value.clone()).unwrap();
    consumers.iter().map(|info| (name(&info["name"]), number(&info["idle"]))).collect()
}

/// Reads up to `count` new entries as a consumer, and gives their ids.
pub(crate) fn read(plain: &mut Plain, group: &str, consumer: &str, count: u64) -> Vec<String> {
    let count = count.to_string();
    let command = ["XREADGROUP", "GROUP", group, consumer, "COUNT", &count, "STREAMS", KEY, ">"];
    type Streams = Vec<(String, Vec<(String, Option<Vec<String>>)>)>;
    let streams: Option<Streams> = plain.query(command);
    streams.unwrap_or_default().into_iter().flat_map(|(_, entries)| entries).map(|(id, _)| id).collect()
}

/// Appends records under the entry ids `1-0`, `2-0` and so on, up to `last`.
pub(crate) fn add(plain: &mut Plain, first: u64, last: u64) {
    for ms in first..=last {
        plain.command(["XADD", KEY, &format!("{ms}-0"), "k", "v"]);
    }
}

#[tokio::test]
async fn a_group_begins_where_it_is_told() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        assert!(bus.stream.create_group("first", Start::Head).await.unwrap());
        assert_eq!((bus.plain.xlen(KEY), last_delivered(&mut bus.plain, "first").as_str()), (0, "0-0"));
        let id = EventId::parse("EVT0NgWEfAER90").unwrap();
        bus.stream.append_id(id, [("n", "1")]).await.unwrap();
        let next = EventId::try_from(EntryId::new(1_780_512_970_165, 0)).unwrap();
        bus.stream.append_id(next, [("n", "2")]).await.unwrap();
        for (group, start, position, delivered) in [
            ("head", Start::Head, "0-0", Some("1780512970164-28714")),
            ("new", Start::New, "1780512970165-0", None),
            ("after", Start::After(id), "1780512970164-28714", Some("1780512970165-0")),
            (
                "at",
                Start::At(Timestamp::from_millis(1_780_512_970_165)),
                "1780512970164-18446744073709551615",
                Some("1780512970165-0"),
            ),
            (
                "at.the.ms",
                Start::At(Timestamp::from_millis(1_780_512_970_164)),
                "1780512970163-18446744073709551615",
                Some("1780512970164-28714"),
            ),
            ("1970", Start::At(Timestamp::from_millis(0)), "0-0", Some("1780512970164-28714")),
            (
                "1970.1",
                Start::At(Timestamp::from_millis(1)),
                "0-18446744073709551615",
                Some("1780512970164-28714"),
            ),
        ] {
            assert!(bus.stream.create_group(group, start).await.unwrap(), "{group}");
            assert_eq!(last_delivered(&mut bus.plain, group), position, "{group}");
            assert!(!bus.stream.create_group(group, Start::Head).await.unwrap());
            assert_eq!(last_delivered(&mut bus.plain, group), position, "{group} stays where it is");
            assert_eq!(read(&mut bus.plain, group, "c", 1).first().map(String::as_str), delivered, "{group}");
        }
        assert!(bus.stream.remove_group("head").await.unwrap());
        assert!(!bus.stream.remove_group("head").await.unwrap());
        assert_eq!(bus.stream.groups().await.unwrap().len(), 7);
    })
    .await;
}

#[tokio::test]
async fn every_call_names_what_is_missing_or_wrong() {
    each(|kind| async move {
        let Bus { server: _server, mut plain, client: _client, stream } = Bus::start(kind).await;
        for (next, missing) in [(1, "the stream"), (2, "the group")] {
            assert_eq!(code(stream.group("g").await), Code::NoGroup, "{missing}");
            assert_eq!(code(stream.seek("g", Start::Head).await), Code::NoGroup, "{missing}");
            assert_eq!(code(stream.seek("g", Start::New).await), Code::NoGroup, "{missing}");
            assert_eq!(code(stream.remove_consumer("g", "c").await), Code::NoGroup, "{missing}");
            assert_eq!(code(stream.sweep_consumers("g", NEVER).await), Code::NoGroup, "{missing}");
            assert!(!stream.remove_group("g").await.unwrap(), "{missing}");
            assert!(stream.groups().await.unwrap().is_empty(), "{missing}");
            add(&mut plain, next, next);
        }
        stream.create_group("g", Start::New).await.unwrap();
        assert_eq!(code(stream.remove_consumer("g", "c").await), Code::Gone);

        for name in ["", "a b", "a:b", "Streams", &"x".repeat(129)] {
            assert_eq!(code(stream.create_group(name, Start::New).await), Code::InvalidName);
            assert_eq!(code(stream.group(name).await), Code::InvalidName);
            assert_eq!(code(stream.seek(name, Start::New).await), Code::InvalidName);
            assert_eq!(code(stream.remove_consumer(name, "c").await), Code::InvalidName);
            assert_eq!(code(stream.remove_consumer("g", name).await), Code::InvalidName);
            assert_eq!(code(stream.sweep_consumers(name, NEVER).await), Code::InvalidName);
            assert_eq!(code(stream.remove_group(name).await), Code::InvalidName);
        }

        plain.command(["DEL", KEY]);
        plain.command(["SET", KEY, "no stream"]);
        assert_eq!(code(stream.create_group("g", Start::New).await), Code::WrongType);
        assert_eq!(code(stream.groups().await), Code::WrongType);
        assert_eq!(code(stream.group("g").await), Code::WrongType);
        assert_eq!(code(stream.seek("g", Start::New).await), Code::WrongType);
        assert_eq!(code(stream.seek("g", Start::Head).await), Code::WrongType);
        assert_eq!(code(stream.remove_consumer("g", "c").await), Code::WrongType);
        assert_eq!(code(stream.sweep_consumers("g", NEVER).await), Code::WrongType);
        let error = stream.remove_group("g").await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::WrongType, Some(KEY)));
    })
    .await;
}

#[tokio::test]
async fn a_group_shows_what_it_and_its_consumers_hold() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        add(&mut bus.plain, 1, 6);
        for group in ["a", "b"] {
            bus.stream.create_group(group, Start::Head).await.unwrap();
        }
        assert_eq!(read(&mut bus.plain, "a", "one", 2), ["1-0", "2-0"]);
        assert_eq!(read(&mut bus.plain, "a", "two", 2), ["3-0", "4-0"]);
        bus.plain.command(["XACK", KEY, "a", "1-0"]);
        let mut resp2 = options(&bus.server.url());
        resp2.set("protocol", "2").unwrap();
        let resp2 = Client::connect(&resp2).await.unwrap().stream("codemojex", "events").unwrap();
        for stream in [&bus.stream, &resp2] {
            let before = idle(&mut bus.plain, "a");
            let group = stream.group("a").await.unwrap();
            let after = idle(&mut bus.plain, "a");
            assert_eq!((group.name(), group.pending(), group.lag()), ("a", 3, Some(2)));
            assert_eq!(group.last_delivered(), EntryId::new(4, 0));
            let held: Vec<_> = group.consumers().iter().map(|it| (it.name(), it.pending())).collect();
            assert_eq!(held, [("one", 1), ("two", 2)]);
            for ((consumer, before), after) in group.consumers().iter().zip(before).zip(after) {
                let idle = consumer.idle().as_millis() as u64;
                assert!(before.1 <= idle && idle <= after.1, "{} {idle} {}", before.1, after.1);
            }
            let groups = stream.groups().await.unwrap();
            assert_eq!(groups.iter().map(|group| group.name()).collect::<Vec<_>>(), ["a", "b"]);
            assert_eq!((groups[0].pending(), groups[0].lag()), (3, Some(2)));
            assert_eq!((groups[1].pending(), groups[1].lag(), groups[1].consumers().len()), (0, Some(6), 0));
        }
    })
    .await;
}

#[tokio::test]
async fn a_group_is_moved_and_keeps_what_is_pending() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let ids: Vec<EventId> =
            (1..=4).map(|n| EventId::try_from(EntryId::new(1_780_512_970_000 + n, 7)).unwrap()).collect();
        for id in &ids {
            bus.stream.append_id(*id, [("k", "v")]).await.unwrap();
        }
        let entry = |n: usize| EntryId::from(ids[n]).to_string();
        bus.stream.create_group("g", Start::Head).await.unwrap();
        assert_eq!(read(&mut bus.plain, "g", "c", 2), [entry(0), entry(1)]);
        for (start, next) in [
            (Start::Head, 0),
            (Start::After(ids[2]), 3),
            (Start::At(Timestamp::from_millis(1_780_512_970_002)), 1),
        ] {
            bus.stream.seek("g", start).await.unwrap();
            assert_eq!(read(&mut bus.plain, "g", "c", 1), [entry(next)], "{start:?}");
        }
        assert_eq!(bus.stream.group("g").await.unwrap().pending(), 3);
        bus.stream.seek("g", Start::New).await.unwrap();
        assert_eq!(bus.stream.group("g").await.unwrap().lag(), Some(0));
        let id = bus.stream.append([("k", "new")]).await.unwrap();
        assert_eq!(read(&mut bus.plain, "g", "c", 9), [EntryId::from(id).to_string()]);
    })
    .await;
}

#[tokio::test]
async fn a_consumer_goes_only_when_nothing_is_pending_for_it() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.stream.create_group("g", Start::Head).await.unwrap();
        add(&mut bus.plain, 1, 3);
        let ids = read(&mut bus.plain, "g", "dead", 3);
        let error = bus.stream.remove_consumer("g", "dead").await.unwrap_err();
        assert_eq!(error.code(), Code::State);
        assert!(error.message().contains("`dead` of the group `g`: 3;"), "{error}");
        assert!(bus.stream.sweep_consumers("g", Duration::ZERO).await.unwrap().is_empty());
        // They are handled elsewhere.
        for id in &ids {
            bus.plain.command(["XCLAIM", KEY, "g", "other", "0", id]);
            assert_eq!(bus.plain.query::<u64>(["XACK", KEY, "g", id]), 1);
        }
        bus.stream.remove_consumer("g", "dead").await.unwrap();
        assert_eq!(code(bus.stream.remove_consumer("g", "dead").await), Code::Gone);
        assert_eq!(idle(&mut bus.plain, "g").len(), 1);
        // The server forgets its scripts.
        bus.plain.command(["SCRIPT", "FLUSH"]);
        bus.stream.remove_consumer("g", "other").await.unwrap();
        bus.plain.command(["XGROUP", "CREATECONSUMER", KEY, "g", "third"]);
        bus.plain.command(["SCRIPT", "FLUSH"]);
        let idle = async || idle(&mut Plain::connect(&bus.server), "g")[0].1 > 0;
        wait_until_async("a consumer to be idle", idle).await;
        assert_eq!(bus.stream.sweep_consumers("g", Duration::ZERO).await.unwrap(), ["third"]);
    })
    .await;
}

/// K11: whatever reads under the name of a consumer that is being removed keeps what it was given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_removals_against_a_reader_of_the_same_name_lose_nothing() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.stream.create_group("g", Start::Head).await.unwrap();
        add(&mut bus.plain, 1, 3);
        read(&mut bus.plain, "g", "dead", 3);
        let done = AtomicBool::new(false);
        let (removed, delivered) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut plain, mut last, mut delivered) = (Plain::connect(&bus.server), 3, 0);
                while !done.load(Ordering::Relaxed) {
                    last += 1;
                    add(&mut plain, last, last);
                    for id in read(&mut plain, "g", "c", 1) {
                        // An entry that the removal had taken out of the group would not be there to acknowledge.
                        assert_eq!(plain.query::<u64>(["XACK", KEY, "g", &id]), 1, "{id}");
                        delivered += 1;
                    }
                }
                assert_eq!(delivered, last - 3);
                delivered
            });
            let removed = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    let mut removed = 0;
                    for _ in 0..1_000 {
                        match bus.stream.remove_consumer("g", "c").await {
                            Ok(()) => removed += 1,
                            Err(error) => {
                                assert!(matches!(error.code(), Code::Gone | Code::State), "{error}")
                            }
                        }
                        let refused = bus.stream.remove_consumer("g", "dead").await;
                        assert_eq!(code(refused), Code::State);
                    }
                    removed
                })
            });
            done.store(true, Ordering::Relaxed);
            (removed, reader.join().unwrap())
        });
        assert!(removed > 0 && delivered > 0, "{removed} {delivered}");
        let group = bus.stream.group("g").await.unwrap();
        assert_eq!(group.pending(), 3);
        let claimed: Vec<redis::Value> =
            bus.plain.query(["XAUTOCLAIM", KEY, "g", "heir", "0", "0", "JUSTID"]);
        assert_eq!(
            redis::from_redis_value::<Vec<String>>(claimed[1].clone()).unwrap(),
            ["1-0", "2-0", "3-0"]
        );
        bus.stream.remove_consumer("g", "dead").await.unwrap();
    })
    .await;
}

/// K12: of many short-lived consumers only those stay that hold something or ask.
#[tokio::test]
async fn a_sweep_leaves_only_live_consumers() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.stream.create_group("g", Start::Head).await.unwrap();
        let limit = Duration::from_secs(1);
        add(&mut bus.plain, 1, 50);
        for n in 0..50 {
            let id = read(&mut bus.plain, "g", &format!("worked-{n}"), 1);
            bus.plain.command(["XACK", KEY, "g", &id[0]]);
        }
        for n in 0..50 {
            // Redis 7.0 makes no consumer for a read that finds nothing.
            assert!(read(&mut bus.plain, "g", &format!("vain-{n}"), 1).is_empty());
            bus.plain.command(["XGROUP", "CREATECONSUMER", KEY, "g", &format!("vain-{n}")]);
        }
        add(&mut bus.plain, 51, 51);
        read(&mut bus.plain, "g", "holds", 1);
        let mut waiting = Plain::connect(&bus.server);
        let all_are_idle = async || idle(&mut waiting, "g").iter().all(|(_, idle)| *idle > 1_000);
        wait_until_async("all consumers to be idle", all_are_idle).await;
        add(&mut bus.plain, 52, 52);
        let mut live = Plain::connect(&bus.server);
        // The read leaves before the sweep, on the same connection.
        let command = ["XREADGROUP", "GROUP", "g", "works", "NOACK", "COUNT", "1", "STREAMS", KEY, ">"];
        let works = bus.client.command(command);
        let quiet =
            bus.client.command(["XREADGROUP", "GROUP", "g", "quiet", "COUNT", "1", "STREAMS", KEY, ">"]);
        let swept = bus.stream.sweep_consumers("g", limit);
        works.await.unwrap();
        quiet.await.unwrap();
        let swept: BTreeSet<String> = swept.await.unwrap().into_iter().collect();
        let expected = (0..50).flat_map(|n| [format!("worked-{n}"), format!("vain-{n}")]).collect();
        assert_eq!(swept, expected);
        let left: BTreeSet<String> = idle(&mut bus.plain, "g").into_iter().map(|(name, _)| name).collect();
        let mut expected = BTreeSet::from(["holds".to_owned(), "works".to_owned()]);
        if kind == Kind::Valkey {
            expected.insert("quiet".to_owned());
        }
        assert_eq!(left, expected);
        // Whether the server knows it or not, it is given what comes next.
        add(&mut bus.plain, 53, 53);
        assert_eq!(read(&mut live, "g", "quiet", 1), ["53-0"]);
        assert_eq!(bus.stream.group("g").await.unwrap().pending(), 2);
    })
    .await;
}

/// A consumer that waits while it is removed is given what comes next, and holds it.
#[tokio::test]
async fn a_waiting_consumer_survives_its_removal() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        bus.stream.create_group("g", Start::Head).await.unwrap();
        bus.plain.command(["XGROUP", "CREATECONSUMER", KEY, "g", "c"]);
        let reader = std::thread::spawn({
            let mut plain = Plain::connect(&bus.server);
            move || {
                let block = ["XREADGROUP", "GROUP", "g", "c", "BLOCK", "30000", "STREAMS", KEY, ">"];
                plain.command(block)
            }
        });
        let mut waiting = Plain::connect(&bus.server);
        let blocked = async || waiting.query::<String>(["INFO", "clients"]).contains("blocked_clients:1");
        wait_until_async("the reader to wait", blocked).await;
        bus.stream.remove_consumer("g", "c").await.unwrap();
        add(&mut bus.plain, 1, 1);
        reader.join().unwrap();
        let group = bus.stream.group("g").await.unwrap();
        assert_eq!((group.consumers()[0].name(), group.consumers()[0].pending()), ("c", 1));
    })
    .await;
}

#[tokio::test]
async fn what_a_lost_answer_leaves_open_is_said() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut plain = Plain::connect(&server);
        let options = options(&proxy.url()).timeout(Duration::from_secs(60));
        let options = options.reconnect(Duration::from_millis(1), Duration::from_millis(20));
        let client = Client::connect(&options).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let lose = || proxy.cut_after(Direction::Replies, 1, Ending::Reset);
        let refuse = || proxy.cut_after(Direction::Requests, 1, Ending::Reset);

        lose();
        assert_eq!(code(stream.create_group("g", Start::Head).await), Code::UnknownOutcome);
        assert!(stream.group("g").await.is_ok());
        refuse();
        assert!(stream.create_group("h", Start::Head).await.unwrap());

        add(&mut plain, 1, 3);
        for start in [Start::New, Start::Head] {
            lose();
            stream.seek("g", start).await.unwrap();
        }
        assert_eq!(last_delivered(&mut plain, "g"), "0-0");
        lose();
        assert_eq!(stream.group("g").await.unwrap().lag(), Some(3));

        for consumer in ["one", "two", "three"] {
            plain.command(["XGROUP", "CREATECONSUMER", KEY, "g", consumer]);
        }
        // The server knows the script from here on.
        assert_eq!(code(stream.remove_consumer("g", "none").await), Code::Gone);
        lose();
        assert_eq!(code(stream.remove_consumer("g", "one").await), Code::UnknownOutcome);
        refuse();
        stream.remove_consumer("g", "two").await.unwrap();
        assert_eq!(idle(&mut plain, "g").len(), 1);
        wait_until_async("the last to be idle", async || idle(&mut plain, "g")[0].1 > 0).await;
        lose();
        assert_eq!(code(stream.sweep_consumers("g", Duration::ZERO).await), Code::UnknownOutcome);
        // Seen by the client, which has connected again by then.
        assert!(stream.group("g").await.unwrap().consumers().is_empty());

        lose();
        assert_eq!(code(stream.remove_group("g").await), Code::UnknownOutcome);
        assert_eq!(code(stream.group("g").await), Code::NoGroup);
        refuse();
        assert!(stream.remove_group("h").await.unwrap());
    })
    .await;
}

#[test]
fn groups_of_the_blocking_client() {
    let server = Server::start(Kind::Valkey);
    let client = echomq::blocking::Client::open(&options(&server.url())).unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    assert!(stream.create_group("g", Start::New).unwrap());
    stream.append([("k", "v")]).unwrap();
    assert_eq!(stream.group("g").unwrap().lag(), Some(1));
    stream.seek("g", Start::New).unwrap();
    assert_eq!(stream.groups().unwrap()[0].lag(), Some(0));
    assert_eq!(code(stream.remove_consumer("g", "c")), Code::Gone);
    assert!(stream.sweep_consumers("g", NEVER).unwrap().is_empty());
    assert!(stream.remove_group("g").unwrap());
}
