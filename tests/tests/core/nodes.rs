//! Node leases: who mints with which node, and until when, on real servers.

use crate::{KEY, each};
use echomq::{Client, Code, Notice, NoticeKind, OnNodeConflict, Options, Start, Stream, blocking};
use echomq_tests::{Ending, Kind, Plain, Proxy, Server, wait_until, wait_until_async};
use std::collections::BTreeMap;
use std::future::ready;
use std::time::{Duration, Instant};

const NODES: &str = "{emq}:nodes";
const FLOORS: &str = "{emq}:nodes:floor";

/// Another owner's token.
const OTHER: &str = "01JGFJJZ00AAAAAAAAAAAAAAAA";

fn unnumbered(server: &Server) -> Options {
    Options::new(&server.url()).unwrap()
}

async fn connect(options: &Options) -> (Client, Stream) {
    let client = Client::connect(options).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    (client, stream)
}

/// Nodes, owners and deadlines as they stand in the set.
fn leases(plain: &mut Plain) -> Vec<(u16, String, u64)> {
    let members: Vec<(String, f64)> = plain.query(["ZRANGE", NODES, "0", "-1", "WITHSCORES"]);
    let mut leases: Vec<(u16, String, u64)> = members
        .into_iter()
        .map(|(member, deadline)| {
            let (node, owner) = member.split_once(':').unwrap();
            (node.parse().unwrap(), owner.to_owned(), deadline as u64)
        })
        .collect();
    leases.sort();
    leases
}

fn nodes(plain: &mut Plain) -> Vec<u16> {
    leases(plain).into_iter().map(|(node, ..)| node).collect()
}

fn server_ms(plain: &mut Plain) -> u64 {
    let (seconds, micros): (u64, u64) = plain.query(["TIME"]);
    seconds * 1_000 + micros / 1_000
}

/// Has another owner hold the node for that many milliseconds.
fn occupy(plain: &mut Plain, node: u16, ms: u64) {
    let deadline = (server_ms(plain) + ms).to_string();
    let _: i64 = plain.query(["ZADD", NODES, &deadline, &format!("{node}:{OTHER}")]);
    let owner = format!("{NODES}:{OTHER}");
    let _: i64 =
        plain.query(["HSET", &owner, "host", "elsewhere", "process", "4711", "client_name", "theirs"]);
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_until_async(what, || ready(condition())).await;
}

async fn notice(client: &Client, kind: NoticeKind) -> Notice {
    loop {
        let notice = client.notices().next().await.unwrap();
        if notice.kind() == kind {
            return notice;
        }
    }
}

#[tokio::test]
async fn the_first_mint_leases_the_lowest_free_node_and_closing_gives_it_back() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let (client, stream) = connect(&unnumbered(&server).client_name_for_test()).await;
        assert!(stream.read_last(1).all().await.unwrap().is_empty());
        let _tail = stream.tail(Start::New).await.unwrap();
        assert!(nodes(&mut plain).is_empty() && client.nodes().await.unwrap().is_empty());

        let before = server_ms(&mut plain);
        let id = stream.append([("k", "v")]).await.unwrap();
        assert_eq!(id.snowflake().node(), 0);
        let (node, owner, deadline) = leases(&mut plain).remove(0);
        let after = server_ms(&mut plain);
        assert_eq!((node, owner.len()), (0, 26));
        assert!((before + 30_000..=after + 30_000).contains(&deadline), "{before} {deadline} {after}");
        let key = format!("{NODES}:{owner}");
        let who: BTreeMap<String, String> = plain.query(["HGETALL", &key]);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!((&*who["host"], &*who["process"]), (host.trim(), &*std::process::id().to_string()));
        assert_eq!(who["client_name"], "shop");
        let left: i64 = plain.query(["PTTL", &key]);
        assert!(0 < left && left <= 30_000, "{left}");
        let floor: u64 = plain.query(["HGET", FLOORS, "0"]);
        assert!(floor >= id.unix_ms() + 29_000, "{floor} {}", id.unix_ms());
        let listed = client.nodes().await.unwrap().remove(0);
        assert_eq!((listed.node, &*listed.owner, &*listed.client_name), (0, &*owner, "shop"));
        assert_eq!((&*listed.host, listed.process), (host.trim(), std::process::id().to_string()));
        assert!(listed.left <= Duration::from_secs(30) && listed.left > Duration::ZERO);

        let (second, second_stream) = connect(&unnumbered(&server)).await;
        assert_eq!(second.mint().await.unwrap().snowflake().node(), 1);
        second_stream.append([("k", "v")]).await.unwrap();
        assert_eq!(nodes(&mut plain), [0, 1]);

        assert_eq!(client.close(Duration::from_secs(10)).await, 0);
        assert_eq!(nodes(&mut plain), [1]);
        // What was minted is known exactly then, so the next holder need not begin ahead.
        let floor: u64 = plain.query(["HGET", FLOORS, "0"]);
        assert!(id.unix_ms() <= floor && floor <= server_ms(&mut plain) + 1, "{floor}");
        drop((second, second_stream));
        until("the lease of a dropped client to be given back", || nodes(&mut plain).is_empty()).await;
    })
    .await;
}

trait Named {
    fn client_name_for_test(self) -> Self;
}

impl Named for Options {
    fn client_name_for_test(mut self) -> Self {
        self.set("client_name", "shop").unwrap();
        self
    }
}

#[test]
fn a_blocking_client_leases_renews_and_gives_back() {
    for kind in Kind::ALL {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let options = unnumbered(&server).node_lease(Duration::from_secs(1));
        let client = blocking::Client::open(&options).unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        assert!(nodes(&mut plain).is_empty());
        assert_eq!(stream.append([("k", "v")]).unwrap().snowflake().node(), 0);
        for _ in 0..3 {
            let held = leases(&mut plain);
            wait_until("a renewal while nothing is called", || {
                let now = leases(&mut plain);
                now.len() == 1 && now[0].2 > held[0].2
            });
        }
        assert_eq!(client.nodes().unwrap().len(), 1);
        assert_eq!(client.close(Duration::from_secs(10)), 0);
        assert!(nodes(&mut plain).is_empty());

        let dropped = blocking::Client::open(&options).unwrap();
        let ids: Vec<u16> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| dropped.mint().unwrap().snowflake().node())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(ids, [0; 8], "threads share the client's");
        drop((dropped, client, stream));
        wait_until("the lease of a dropped client to be given back", || nodes(&mut plain).is_empty());
    }
}

#[tokio::test]
async fn everything_that_appends_leases_a_node_and_keeps_its_order() {
    let server = Server::start(Kind::Valkey);
    let (_client, first) = connect(&unnumbered(&server)).await;
    let record = || [("k", "v")];
    // All of them before there is a lease, in one go: their order is that of the calls.
    let one = first.append(record());
    let batch = first.append_batch([record(), record()]);
    let last = first.append(record());
    let mut ids = vec![one.await.unwrap()];
    ids.extend(batch.await.unwrap().into_iter().map(Result::unwrap));
    ids.push(last.await.unwrap());
    // The first call of a script carries it, so ids of what is behind may be made before.
    ids.extend(first.append_batch_atomic([record(), record()]).await.unwrap());
    ids.push(first.append_sequenced(record()).await.unwrap());
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let mut plain = Plain::connect(&server);
    assert_eq!((plain.xlen(KEY), nodes(&mut plain)), (7, vec![0]));
}

/// A thread that does not wait for one id before it asks for the next gets them in the order of its calls, also while the
/// lease arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_increase_in_the_order_of_the_calls_while_the_lease_is_taken() {
    each(|kind| async move {
        let server = Server::start(kind);
        for given in [None, Some(7)] {
            for round in 0..10 {
                let options = match given {
                    Some(node) => unnumbered(&server).node_id(node),
                    None => unnumbered(&server),
                };
                let (client, _) = connect(&options).await;
                let begin = Instant::now();
                let mut asked = Vec::new();
                // The lease takes a millisecond or two.
                while begin.elapsed() < Duration::from_millis(10) {
                    asked.push(client.mint());
                }
                let mut last = None;
                for answer in asked {
                    let id = answer.await.unwrap();
                    assert!(last < Some(id), "{given:?}, round {round}: {id} after {last:?}");
                    last = Some(id);
                }
                assert_eq!(client.close(Duration::from_secs(10)).await, 0);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_holder_begins_above_whatever_was_minted_with_its_node() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        // The last holder's clock was 40 s ahead of this one's; that of node 1 so far that nobody could mint for hours.
        let floor = server_ms(&mut plain) + 40_000;
        let far = floor + 7_200_000;
        let _: i64 = plain.query(["HSET", FLOORS, "0", &floor.to_string(), "1", &far.to_string()]);
        let (_first, stream) = connect(&unnumbered(&server)).await;
        let id = stream.append([("k", "v")]).await.unwrap();
        assert_eq!((id.snowflake().node(), id.unix_ms(), id.snowflake().sequence()), (0, floor + 1, 0));
        let raised: u64 = plain.query(["HGET", FLOORS, "0"]);
        assert!(raised > floor, "a floor is only raised while the node is held");
        let (second, _) = connect(&unnumbered(&server)).await;
        let id = second.mint().await.unwrap();
        assert_eq!(id.snowflake().node(), 2);
        assert!(id.unix_ms() < floor);
    })
    .await;
}

#[tokio::test]
async fn where_all_nodes_are_taken_the_error_says_who_holds_them() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        for node in 0..1_023 {
            occupy(&mut plain, node, 600_000);
        }
        let (client, stream) = connect(&unnumbered(&server)).await;
        let error = stream.append([("k", "v")]).await.unwrap_err();
        assert_eq!(error.code(), Code::NodeLeaseLost);
        for word in ["1023", "node 0 by process 4711 on host elsewhere, client theirs", "nodes()"] {
            assert!(error.message().contains(word), "{error}");
        }
        assert_eq!(client.mint().await.unwrap_err().code(), Code::NodeLeaseLost);
        let results = stream.append_batch([[("k", "v")]]).await.unwrap();
        assert_eq!(results[0].as_ref().unwrap_err().code(), Code::NodeLeaseLost);
        assert_eq!(client.nodes().await.unwrap().len(), 1_023);
        assert_eq!(plain.xlen(KEY), 0);
        // Each later append tries again.
        let _: i64 = plain.query(["ZREM", NODES, &format!("500:{OTHER}")]);
        assert_eq!(stream.append([("k", "v")]).await.unwrap().snowflake().node(), 500);
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_gone_is_told_and_taken_anew() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let (client, stream) = connect(&unnumbered(&server).node_lease(Duration::from_secs(1))).await;
        let before = stream.append([("k", "v")]).await.unwrap();
        let owner = leases(&mut plain).remove(0).1;
        // Whoever renews what is gone makes nothing; the script is the one that the client has loaded.
        let _: i64 = plain.query(["DEL", NODES]);
        occupy(&mut plain, 0, 600_000);
        let lost = notice(&client, NoticeKind::NodeLeaseLost).await;
        assert_eq!(lost.code(), Some(Code::NodeLeaseLost));
        until("another lease", || leases(&mut plain).len() == 2).await;
        let found = leases(&mut plain);
        assert_eq!((found[0].1.as_str(), found[1].0, &found[1].1), (OTHER, 1, &owner));
        let after = stream.append([("k", "v")]).await.unwrap();
        assert_eq!((before.snowflake().node(), after.snowflake().node()), (0, 1));
        assert!(after > before);
    })
    .await;
}

#[tokio::test]
async fn the_loss_of_the_server_beyond_the_deadline_stops_the_mint_until_it_is_back() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let options =
            unnumbered(&server).node_lease(Duration::from_secs(1)).timeout(Duration::from_millis(300));
        let (client, stream) = connect(&options).await;
        stream.append([("k", "v")]).await.unwrap();
        server.pause();
        assert_eq!(notice(&client, NoticeKind::NodeLeaseLost).await.code(), Some(Code::NodeLeaseLost));
        let error = client.mint().await.unwrap_err();
        assert_eq!(error.code(), Code::NodeLeaseLost, "{error}");
        assert!(error.is_retryable() && error.cause().is_some(), "{error}");
        assert!(stream.append([("k", "v")]).await.unwrap_err().is_retryable());
        server.resume();
        // By itself: nobody connects or leases by hand.
        let mut minted = None;
        while minted.is_none() {
            minted = client.mint().await.ok();
        }
        until("the lease again", || nodes(&mut plain) == [0]).await;
    })
    .await;
}

#[tokio::test]
async fn after_a_reconnect_the_lease_is_renewed_before_anything_is_minted() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let (_client, stream) = connect(&Options::new(&proxy.url()).unwrap()).await;
        stream.append([("k", "v")]).await.unwrap();
        proxy.forget();
        proxy.close_all(Ending::Reset);
        stream.append([("k", "v")]).await.unwrap();
        let sent = proxy.commands();
        // What had left on the old connection was minted under the lease as it was then.
        let sent: Vec<&echomq_tests::Command> =
            sent.iter().flatten().skip_while(|command| !command.is("HELLO")).collect();
        let place = |name: &str| sent.iter().position(|command| command.is(name));
        let renewal = place("EVALSHA").into_iter().chain(place("EVAL")).min();
        assert!(renewal.unwrap() < place("XADD").unwrap(), "{sent:?}");
    })
    .await;
}

#[tokio::test]
async fn a_node_that_was_given_is_registered_and_a_conflict_is_told() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let (alone, stream) = connect(&unnumbered(&server).node_id(701)).await;
        stream.append([("k", "v")]).await.unwrap();
        assert_eq!(nodes(&mut plain), [701]);
        // Clients of one process with one node mint out of one state: they are one holder.
        let (beside, _) =
            connect(&unnumbered(&server).node_id(701).on_node_conflict(OnNodeConflict::Refuse)).await;
        let ids = [alone.mint().await.unwrap(), beside.mint().await.unwrap(), alone.mint().await.unwrap()];
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        assert_eq!(nodes(&mut plain), [701]);
        beside.close(Duration::from_secs(10)).await;
        assert_eq!(nodes(&mut plain), [701], "the other client still has it");
        alone.close(Duration::from_secs(10)).await;
        assert!(nodes(&mut plain).is_empty());

        occupy(&mut plain, 702, 600_000);
        let (warned, stream) = connect(&unnumbered(&server).node_id(702)).await;
        assert_eq!(stream.append([("k", "v")]).await.unwrap().snowflake().node(), 702);
        let told = notice(&warned, NoticeKind::NodeConflict).await;
        assert_eq!(told.code(), Some(Code::NodeConflict));
        assert!(told.message().contains("process 4711 on host elsewhere"), "{told}");
        let both = warned.nodes().await.unwrap();
        assert_eq!(both.iter().map(|lease| lease.node).collect::<Vec<_>>(), [702, 702]);
        assert!(both.iter().any(|lease| lease.host == "elsewhere" && lease.process == "4711"));
        warned.close(Duration::from_secs(10)).await;
        assert_eq!(leases(&mut plain)[0].1, OTHER, "the other's lease is left alone");

        let (refused, stream) =
            connect(&unnumbered(&server).node_id(702).on_node_conflict(OnNodeConflict::Refuse)).await;
        for error in [
            stream.append([("k", "v")]).await.unwrap_err(),
            refused.mint().await.unwrap_err(),
            stream.append_sequenced([("k", "v")]).await.unwrap_err(),
        ] {
            assert_eq!((error.code(), error.subject()), (Code::NodeConflict, Some("node_id")));
            assert!(error.message().contains("elsewhere"), "{error}");
        }
        assert_eq!(nodes(&mut plain), [702], "it has not registered beside the other");
        let _: i64 = plain.query(["DEL", NODES]);
        assert_eq!(stream.append([("k", "v")]).await.unwrap().snowflake().node(), 702);
    })
    .await;
}

#[tokio::test]
async fn who_waits_for_a_given_node_gets_it_when_it_is_free_or_fails_at_the_deadline() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        occupy(&mut plain, 703, 600_000);
        let options = unnumbered(&server).node_id(703).on_node_conflict(OnNodeConflict::Wait);
        let (_hasty, stream) = connect(&options.clone().timeout(Duration::from_millis(300))).await;
        let error = stream.append([("k", "v")]).await.unwrap_err();
        assert_eq!(error.code(), Code::NodeConflict, "{error}");
        let (_patient, stream) = connect(&options.clone().timeout(Duration::from_secs(60))).await;
        let waiting = stream.append([("k", "v")]);
        // What makes no ids goes on meanwhile.
        assert!(stream.read_last(1).all().await.unwrap().is_empty());
        let _: i64 = plain.query(["ZREM", NODES, &format!("703:{OTHER}")]);
        assert_eq!(waiting.await.unwrap().snowflake().node(), 703);
    })
    .await;
}

#[tokio::test]
async fn without_the_right_to_write_a_reader_reads_and_a_given_node_mints() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let _: String = plain.query([
            "ACL",
            "SETUSER",
            "limited",
            "on",
            ">secret",
            "~emq:*",
            "%R~{emq}:*",
            "&*",
            "+@all",
        ]);
        let limited = || unnumbered(&server).credentials(Some("limited"), "secret");
        let (reader, stream) = connect(&limited()).await;
        let mut tail = stream.tail(Start::Head).await.unwrap();
        assert!(reader.nodes().await.unwrap().is_empty());
        let error = stream.append([("k", "v")]).await.unwrap_err();
        assert_eq!(error.code(), Code::Auth);
        assert!(error.message().contains("node_id"), "{error}");

        let (given, writing) = connect(&limited().node_id(704)).await;
        let id = writing.append([("k", "v")]).await.unwrap();
        assert_eq!(id.snowflake().node(), 704);
        let told = notice(&given, NoticeKind::NodeConflict).await;
        assert!(told.message().contains("704"), "{told}");
        let _ = &mut tail;
        assert_eq!(stream.read_last(1).all().await.unwrap()[0].id(), Some(id));
        assert!(nodes(&mut plain).is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_full_server_gives_leases_and_renews_them() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let _: String = plain.query(["CONFIG", "SET", "maxmemory", "1"]);
        let (client, stream) = connect(&unnumbered(&server).node_lease(Duration::from_secs(1))).await;
        assert_eq!(client.mint().await.unwrap().snowflake().node(), 0);
        assert_eq!(stream.append([("k", "v")]).await.unwrap_err().code(), Code::OutOfMemory);
        let held = leases(&mut plain);
        until("a renewal", || leases(&mut plain)[0].2 > held[0].2).await;
        client.close(Duration::from_secs(10)).await;
        assert!(nodes(&mut plain).is_empty());
    })
    .await;
}

/// The clocks were wrong: every node was minted with far ahead, and nobody holds any.
#[tokio::test]
async fn where_every_floor_is_far_ahead_a_call_ends_with_the_reason_and_others_go_on() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let far = (server_ms(&mut plain) + 3_600_000).to_string();
        for node in 0..1023 {
            let _: i64 = plain.query(["HSET", FLOORS, &node.to_string(), &far]);
        }
        let (client, stream) = connect(&unnumbered(&server)).await;
        for _ in 0..3 {
            let (append, ping) = tokio::join!(stream.append([("k", "v")]), client.command(["ECHO", "mine"]));
            let error = append.unwrap_err();
            assert_eq!(error.code(), Code::NodeLeaseLost, "{error}");
            assert!(error.message().contains("max_clock_ahead"), "{error}");
            assert_eq!(ping.unwrap(), echomq::Reply::Bytes(b"mine".to_vec()));
        }
    })
    .await;
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_nothing_is_written() {
    each(|kind| async move {
        for key in [NODES, FLOORS] {
            let server = Server::start(kind);
            let mut plain = Plain::connect(&server);
            let _: String = plain.query(["SET", key, "x"]);
            let (_client, stream) = connect(&unnumbered(&server)).await;
            assert_eq!(stream.append([("k", "v")]).await.unwrap_err().code(), Code::WrongType);
            let keys: Vec<String> = plain.query(["KEYS", "*"]);
            assert_eq!(keys, [key]);
        }
    })
    .await;
}

#[tokio::test]
async fn leases_that_have_run_out_are_not_listed_and_their_nodes_are_free() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let _: i64 = plain.query(["ZADD", NODES, "1000", &format!("0:{OTHER}")]);
        occupy(&mut plain, 1, 600_000);
        let (client, _) = connect(&unnumbered(&server)).await;
        let listed: Vec<u16> = client.nodes().await.unwrap().iter().map(|lease| lease.node).collect();
        assert_eq!(listed, [1]);
        assert_eq!(client.mint().await.unwrap().snowflake().node(), 0);
        assert_eq!(client.mint().await.unwrap().snowflake().node(), 0);
        assert_eq!(nodes(&mut plain), [0, 1]);
    })
    .await;
}

/// A lease costs no append anything: nothing is sent beside the records but what renews it, which is not due here.
#[tokio::test]
async fn no_append_pays_for_the_lease() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let (client, stream) = connect(&unnumbered(&server).node_lease(Duration::from_secs(3_600))).await;
        client.mint().await.unwrap();
        let _: String = plain.query(["CONFIG", "RESETSTAT"]);
        for n in 0..500 {
            stream.append([("n", n.to_string())]).await.unwrap();
        }
        stream.append_batch((0..500).map(|n| [("n", n.to_string())])).await.unwrap();
        let info: String = plain.query(["INFO", "commandstats"]);
        let calls: BTreeMap<&str, &str> = info
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="))
            .filter_map(|(name, rest)| Some((name, rest.split(',').next()?)))
            .filter(|(name, _)| !name.starts_with("config") && *name != "info")
            .collect();
        assert_eq!(calls, BTreeMap::from([("xadd", "1000")]));
    })
    .await;
}
