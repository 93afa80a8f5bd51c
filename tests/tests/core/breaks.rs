//! Connections that break again and again: neither storms nor innocents that fail.

use crate::consumer::consumer_options;
use crate::{Bus, KEY, each, options};
use echomq::{Client, Code, Error, Start, Tailed, blocking};
use echomq_tests::{Direction, Ending, Kind, Moment, Plain, Proxy, Server, wait_until_async};
use std::time::{Duration, Instant};

/// How many connections a client may open while one call of its breaks each that it is sent on, those of the search for
/// it included.
const FEW: usize = 12;

/// A call that breaks the connection each time.
#[derive(Clone, Copy, Debug)]
enum Guilty {
    /// What must not be sent again.
    Raw,
    Read,
    Append,
}

impl Guilty {
    /// The command that it is sent as, how often that is sent until it fails, and with what.
    fn expected(self) -> (&'static str, usize, Code) {
        match self {
            Self::Raw => ("TOUCH", 1, Code::UnknownOutcome),
            Self::Read => ("XREVRANGE", 3, Code::Disconnected),
            Self::Append => ("XADD", 3, Code::UnknownOutcome),
        }
    }

    async fn call(self, client: &Client) -> Result<(), Error> {
        let stream = client.stream("codemojex", "events").unwrap();
        match self {
            Self::Raw => client.command(["TOUCH", "k"]).await.map(drop),
            Self::Read => stream.read_last(1).all().await.map(drop),
            Self::Append => stream.append([("n", "guilty")]).await.map(drop),
        }
    }

    fn call_blocking(self, client: &blocking::Client) -> Result<(), Error> {
        let stream = client.stream("codemojex", "events").unwrap();
        match self {
            Self::Raw => client.command(["TOUCH", "k"]).map(drop),
            Self::Read => stream.read_last(1).all().map(drop),
            Self::Append => stream.append([("n", "guilty")]).map(drop),
        }
    }
}

/// How often a server has carried out a command.
fn calls(plain: &mut Plain, command: &str) -> usize {
    let info: String = plain.query(["INFO", "commandstats"]);
    let prefix = format!("cmdstat_{}:calls=", command.to_lowercase());
    let line = info.lines().find_map(|line| line.strip_prefix(&prefix)?.split(',').next());
    line.map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn a_command_on_which_the_server_closes_is_sent_three_times_and_fails() {
    each(|kind| async move {
        for guilty in [Guilty::Raw, Guilty::Read, Guilty::Append] {
            let server = Server::start(kind);
            let mut plain = Plain::connect(&server);
            let proxy = Proxy::start(server.address());
            let patient = options(&proxy.url()).timeout(Duration::from_secs(60));
            let client = Client::connect(&patient).await.unwrap();
            client.stream("codemojex", "events").unwrap().append([("n", "first")]).await.unwrap();
            let (command, times, code) = guilty.expected();
            let before = calls(&mut plain, command);

            proxy.close_on(command, Moment::Before, Ending::Close, usize::MAX);
            proxy.forget();
            let error = guilty.call(&client).await.unwrap_err();
            assert_eq!((error.code(), proxy.closed_on_command()), (code, times), "{guilty:?} {error}");
            assert_eq!(proxy.commands_named(command).len(), times, "{guilty:?}");
            client.command(["PING"]).await.unwrap();

            proxy.forget();
            let threads = move || {
                let client = blocking::Client::open(&patient).unwrap();
                (guilty.call_blocking(&client).unwrap_err(), client.command(["PING"]).is_ok())
            };
            let (error, goes_on) = tokio::task::spawn_blocking(threads).await.unwrap();
            assert_eq!((error.code(), goes_on), (code, true), "{guilty:?} {error}");
            assert_eq!(proxy.commands_named(command).len(), times, "{guilty:?} of a thread");
            assert_eq!(calls(&mut plain, command), before, "{guilty:?}: none came as far as the server");

            // Where it does, and only the answers are lost.
            proxy.close_on(command, Moment::After, Ending::Close, usize::MAX);
            let answer = guilty.call(&client).await;
            let carried_out = calls(&mut plain, command) - before;
            match guilty {
                Guilty::Append => assert_eq!((answer, carried_out), (Ok(()), 1), "it is found"),
                _ => assert_eq!((answer.unwrap_err().code(), carried_out), (code, times), "{guilty:?}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_command_on_which_the_server_closes_fails_soon_and_alone() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let client = Client::connect(&options(&proxy.url()).timeout(Duration::from_secs(60))).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        proxy.close_on("TOUCH", Moment::Before, Ending::Close, usize::MAX);
        // A raw command is sent once, whatever is on its way beside it.
        let before = stream.append([("n", "before")]);
        let guilty = client.command(["TOUCH", "k"]);
        let after: Vec<_> = (0..20).map(|n| stream.append([("n", n.to_string())])).collect();
        assert!(before.await.is_ok());
        assert_eq!(guilty.await.unwrap_err().code(), Code::UnknownOutcome);
        for call in after {
            call.await.unwrap();
        }
        assert_eq!(proxy.commands_named("TOUCH").len(), 1);
        assert_eq!(Plain::connect(&server).xlen(KEY), 21);
        assert!(proxy.connections() <= FEW, "{} connections", proxy.connections());
    })
    .await;
}

#[tokio::test]
async fn a_read_on_which_the_server_closes_each_time_fails_with_the_reason_and_the_others_go_on() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let client = Client::connect(&options(&proxy.url()).timeout(Duration::from_secs(600))).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        stream.append([("n", "first")]).await.unwrap();
        proxy.close_on("XREVRANGE", Moment::Before, Ending::Close, usize::MAX);
        let reading = stream.read_last(1).all();
        let appends: Vec<_> = (0..20).map(|n| stream.append([("n", n.to_string())])).collect();
        let error = reading.await.unwrap_err();
        assert_eq!(error.code(), Code::Disconnected);
        let sent = proxy.commands_named("XREVRANGE").len();
        assert!((3..=FEW).contains(&sent), "sent {sent} times, the last of them with nothing beside it");
        assert!(error.message().contains("broke each of the "), "{error}");
        assert!(error.cause().is_some());
        for append in appends {
            append.await.unwrap();
        }
        assert_eq!(Plain::connect(&server).xlen(KEY), 21);
        assert!(proxy.connections() <= FEW, "{} connections", proxy.connections());
    })
    .await;
}

/// Readers that follow have no call that could fail: they go on trying, and give the server rest.
#[tokio::test]
async fn readers_on_whose_reads_the_server_closes_wait_longer_each_time_and_go_on() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let client = Client::connect(&options(&proxy.url())).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let tail = stream.tail(Start::Head).await.unwrap();
        let consumer = stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
        stream.append([("n", "first")]).await.unwrap();
        tail.next().await.unwrap().unwrap();
        consumer.next().await.unwrap().unwrap().ack();
        proxy.close_on("XREADGROUP|XREAD|XRANGE", Moment::Before, Ending::Close, usize::MAX);
        proxy.close_all(Ending::Close);
        let before = proxy.connections();
        wait_until_async("both to be refused", async || proxy.closed_on_command() >= 6).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let connections = proxy.connections() - before;
        assert!(connections <= 2 * FEW, "{connections} connections");
        proxy.heal();
        let id = stream.append([("n", "second")]).await.unwrap();
        assert_eq!(consumer.next().await.unwrap().unwrap().id(), Some(id));
        match tail.next().await.unwrap().unwrap() {
            Tailed::Record(record) => assert_eq!(record.id(), Some(id)),
            other => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn a_record_that_the_server_does_not_take_fails_alone() {
    each(|kind| async move {
        let server = Server::builder(kind).arg("--client-query-buffer-limit", "1mb").start();
        let bus =
            Bus::with(server, |options| options.timeout(Duration::from_secs(60)).max_record_bytes(10 << 20))
                .await;
        let other = bus.client.stream("codemojex", "other").unwrap();
        let before: Vec<_> = (0..5).map(|n| other.append([("n", n.to_string())])).collect();
        let large = bus.stream.append([("large", "x".repeat(3 << 20))]);
        let after: Vec<_> = (0..5).map(|n| other.append([("n", n.to_string())])).collect();
        let error = large.await.unwrap_err();
        assert_eq!(error.code(), Code::UnknownOutcome);
        assert!(error.message().contains("broke each of the "), "{error}");
        for call in before.into_iter().chain(after) {
            call.await.unwrap();
        }
        let mut plain = Plain::connect(&bus.server);
        assert_eq!((plain.xlen(KEY), plain.xlen("emq:{codemojex}:stream:other")), (0, 10));
        assert!(bus.client.status().reconnects < FEW as u64, "{:?}", bus.client.status());

        let options = options(&bus.server.url()).timeout(Duration::from_secs(60)).max_record_bytes(10 << 20);
        let blocking = move || {
            let client = blocking::Client::open(&options).unwrap();
            let stream = client.stream("codemojex", "events").unwrap();
            let error = stream.append([("large", "x".repeat(3 << 20))]).unwrap_err();
            stream.append([("n", "after")]).unwrap();
            (error.code(), client.status().reconnects)
        };
        let (code, reconnects) = tokio::task::spawn_blocking(blocking).await.unwrap();
        assert_eq!(code, Code::UnknownOutcome);
        assert!(reconnects < FEW as u64, "{reconnects}");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_greets_and_hangs_up_is_given_rest() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let patient = options(&proxy.url()).reconnect(Duration::from_millis(50), Duration::from_secs(2));
    let client = Client::connect(&patient).await.unwrap();
    let mut events = client.events("q").unwrap().listen().await.unwrap();
    client.command(["PING"]).await.unwrap();
    proxy.greet_and_hang_up(true);
    let (begin, before) = (Instant::now(), proxy.connections());
    proxy.close_all(Ending::Close);
    tokio::time::sleep(Duration::from_secs(4)).await;
    // Two connections, whose waits double from 50 ms to 2 s: 25 to 50 ms and so on up, at most nine attempts in 4 s each.
    let attempts = (proxy.connections() - before) as u128;
    let most = 2 * (9 + begin.elapsed().as_millis() / 1_000);
    assert!(attempts <= most, "{attempts} connections");
    proxy.greet_and_hang_up(false);
    wait_until_async("the client is back", async || client.command(["PING"]).await.is_ok()).await;
    let _ = &mut events;
}

#[tokio::test]
async fn an_answer_that_came_counts_whatever_happens_to_the_connection_behind_it() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&options(&proxy.url()).timeout(Duration::from_secs(60))).await.unwrap();
    // The first two are answered with 4 bytes each, and the third one's answer never comes.
    proxy.cut_after(Direction::Replies, 8, Ending::Close);
    let calls = [["PUBLISH", "c", "m"], ["PUBLISH", "c", "m"], ["INCRBY", "k", "1"]];
    let [first, second, third] = calls.map(|command| client.command(command));
    assert_eq!(first.await, Ok(echomq::Reply::Int(0)));
    assert_eq!(second.await, Ok(echomq::Reply::Int(0)));
    assert_eq!(third.await.unwrap_err().code(), Code::UnknownOutcome);

    // Connected again, so that the handshake's answers are not counted.
    client.command(["PING"]).await.unwrap();
    proxy.cut_after(Direction::Replies, 8, Ending::Close);
    let shared = client.pipeline(calls).await.unwrap();
    let threads = options(&proxy.url()).timeout(Duration::from_secs(60));
    let pipelines = move || {
        let threads = blocking::Client::open(&threads).unwrap();
        proxy.cut_after(Direction::Replies, 8, Ending::Close);
        (threads.pipeline(calls).unwrap(), proxy)
    };
    let (blocking, _proxy) = tokio::task::spawn_blocking(pipelines).await.unwrap();
    for results in [blocking, shared] {
        let codes: Vec<_> =
            results.iter().map(|result| result.as_ref().err().map(|error| error.code())).collect();
        assert_eq!(codes, [None, None, Some(Code::UnknownOutcome)]);
    }
}

#[tokio::test]
async fn a_callback_that_panics_ends_nothing_but_itself() {
    let bus = Bus::start(Kind::Valkey).await;
    bus.client.command(["PING"]).on_complete(|_| panic!("as a test wants it"));
    assert!(bus.client.command(["PING"]).await.is_ok());
    bus.stream.append([("k", "v")]).await.unwrap();
    assert_eq!(bus.client.status().reconnects, 0);
}

#[tokio::test]
async fn what_would_change_the_connection_of_all_is_refused_before_it_is_sent() {
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let client = Client::connect(&options(&proxy.url())).await.unwrap();
    for command in [
        &["SUBSCRIBE", "c"][..],
        &["MONITOR"],
        &["SELECT", "1"],
        &["MULTI"],
        &["CLIENT", "REPLY", "OFF"],
        &["HELLO", "2"],
        &["RESET"],
        &["AUTH", "x"],
        &["QUIT"],
        &["BLPOP", "k", "0"],
        &["XREAD", "BLOCK", "0", "STREAMS", "k", "$"],
    ] {
        let error = client.command(command).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some(command[0])));
        let error = client.pipeline([&["PING"][..], command]).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidOption, "{command:?}");
        assert!(proxy.commands_named(command[0]).iter().all(|sent| sent.is("HELLO") || sent.is("CLIENT")));
    }
    // Each answer reaches its caller.
    let echoes: Vec<_> = (0..50).map(|n| client.command(["ECHO", &n.to_string()])).collect();
    for (n, echo) in echoes.into_iter().enumerate() {
        assert_eq!(echo.await.unwrap(), echomq::Reply::Bytes(n.to_string().into_bytes()));
    }
    let mut lane = client.lane().await.unwrap();
    let refused = lane.command(["SUBSCRIBE", "c"], Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidOption);
    assert!(lane.command(["SELECT", "1"], Duration::ZERO).await.is_ok());
}

#[tokio::test]
async fn what_waits_for_its_answers_is_bounded_in_bytes() {
    let mut bus = Bus::with(Server::start(Kind::Valkey), |options| {
        options.max_in_flight_bytes(1 << 20).timeout(Duration::from_secs(60))
    })
    .await;
    bus.server.pause();
    let calls: Vec<_> = (0..30).map(|_| bus.stream.append([("k", "x".repeat(100_000))])).collect();
    bus.server.resume();
    let (mut taken, mut refused) = (0, 0);
    for call in calls {
        match call.await {
            Ok(_) => taken += 1,
            Err(error) => {
                assert_eq!(error.code(), Code::Overloaded);
                refused += 1;
            }
        }
    }
    // 100 001 bytes each.
    assert_eq!((taken, refused), (10, 20));
    assert_eq!(bus.plain.xlen(KEY), 10);
    bus.stream.append([("k", "x".repeat(100_000))]).await.unwrap();
}
