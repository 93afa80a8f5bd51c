//! How connections come about: which servers are taken, what is told, and that a refusal has one code everywhere.

use crate::consumer::consumer_options;
use crate::{KEY, each, options};
use echomq::{Client, Code, Notice, NoticeKind, Notices, Options, Range, Start, blocking};
use echomq_tests::server::Builder;
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server, wait_until, wait_until_async};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// A deadline of calls that nothing here waits for.
const NEVER: Duration = Duration::from_secs(600);

/// How long what does not wait for that deadline may take.
const SOON: Duration = Duration::from_secs(60);

/// The next notice of a kind; others are passed over.
pub(crate) async fn told(notices: &Notices, wanted: impl Fn(&Notice) -> bool) -> Notice {
    let found = async {
        loop {
            let notice = notices.next().await.unwrap();
            if wanted(&notice) {
                return notice;
            }
        }
    };
    timeout(SOON, found).await.unwrap()
}

pub(crate) fn with(options: Options, set: &[(&str, &str)]) -> Options {
    let mut options = options;
    set.iter().for_each(|(name, value)| options.set(name, value).unwrap());
    options
}

/// The error of one attempt to connect, which both kinds of client agree on.
async fn refused(options: &Options) -> echomq::Error {
    let once = with(options.clone(), &[("connect", "once")]);
    let error = Client::connect(&once).await.unwrap_err();
    let blocking = spawn_blocking(move || blocking::Client::open(&once).unwrap_err()).await.unwrap();
    assert_eq!(error.code(), blocking.code());
    error
}

#[tokio::test]
async fn a_clock_that_was_corrected_refuses_nothing_any_longer() {
    each(|kind| async move {
        let server = Server::builder(kind).clock().start();
        let mut plain = Plain::connect(&server);
        let client = Client::connect(&options(&server.url())).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let notices = client.notices();
        let opts = options(&server.url());
        let (other, local) = spawn_blocking(move || {
            let client = blocking::Client::open(&opts).unwrap();
            (client.stream("codemojex", "local").unwrap(), client)
        })
        .await
        .unwrap();

        for first in ["append", "batch", "atomic", "sequenced", "mint", "blocking", "blocking mint"] {
            // The server's clock falls behind: nothing knows of it until the server is asked.
            server.set_clock(-120_000);
            plain.command(["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
            wait_until_async("appends to be refused", async || {
                stream.append([("k", "v")]).await.err().is_some_and(|error| error.code() == Code::ClockAhead)
            })
            .await;
            let refusing = other.clone();
            let refused = move || refusing.append([("k", "v")]).err().map(|error| error.code());
            spawn_blocking(move || {
                wait_until("appends to be refused", || refused() == Some(Code::ClockAhead))
            })
            .await
            .unwrap();
            let (stored, reconnects) = (plain.xlen(KEY), client.status().reconnects);

            // It is set right: the very next append is taken, on the same connection.
            server.set_clock(0);
            let taken: Vec<echomq::EventId> = match first {
                // Those beside it too, in their order.
                "append" => {
                    let all = join_all((0..20).map(|n| stream.append([("n", n.to_string())]))).await;
                    all.into_iter().map(Result::unwrap).collect()
                }
                "batch" => {
                    let all = stream.append_batch([[("k", "v")], [("k", "w")]]).await.unwrap();
                    all.into_iter().map(Result::unwrap).collect()
                }
                "atomic" => stream.append_batch_atomic([[("k", "v")], [("k", "w")]]).await.unwrap(),
                "sequenced" => vec![stream.append_sequenced([("k", "v")]).await.unwrap()],
                "mint" => {
                    client.mint().await.unwrap();
                    Vec::new()
                }
                "blocking" => {
                    let other = other.clone();
                    spawn_blocking(move || other.append([("k", "v")]).unwrap()).await.unwrap();
                    Vec::new()
                }
                _ => {
                    let local = local.clone();
                    spawn_blocking(move || local.mint().unwrap()).await.unwrap();
                    Vec::new()
                }
            };
            assert!(taken.is_sorted_by(|a, b| a < b));
            assert_eq!(plain.xlen(KEY), stored + taken.len() as u64, "{first}");
            assert_eq!(client.status().reconnects, reconnects, "{first}");
        }
        let notice = told(&notices, |notice| notice.kind() == NoticeKind::ClockAhead).await;
        assert_eq!(notice.code(), Some(Code::ClockAhead));
    })
    .await;
}

#[tokio::test]
async fn a_refused_password_has_one_code_everywhere_and_soon() {
    each(|kind| async move {
        let server = Server::builder(kind).password("first").start();
        let mut plain = Plain::connect(&server);
        let opts = options(&server.url())
            .timeout(NEVER)
            .reconnect(Duration::from_millis(10), Duration::from_millis(200));
        let client = Client::connect(&opts).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let listener = client.events("codemojex").unwrap().listen().await.unwrap();
        let consumer = stream.consumer(consumer_options("g", Start::Head)).await.unwrap();
        let opened = opts.clone();
        let local = spawn_blocking(move || blocking::Client::open(&opened).unwrap()).await.unwrap();

        plain.command(["CONFIG", "SET", "requirepass", "second"]);
        plain.command(["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
        plain.command(["CLIENT", "KILL", "TYPE", "PUBSUB", "SKIPME", "YES"]);
        let is_auth = |notice: &Notice| notice.code() == Some(Code::Auth);
        let notice = told(&client.notices(), is_auth).await;
        assert_eq!(notice.kind(), NoticeKind::Disconnected);
        assert_eq!(told(&listener.notices(), is_auth).await.kind(), NoticeKind::Disconnected);
        told(&consumer.notices(), is_auth).await;
        let error = timeout(SOON, stream.append([("k", "v")])).await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::Auth, "{error}");
        assert_eq!(error.cause().map(echomq::Error::code), Some(Code::Auth));
        assert!(!error.is_retryable());
        assert!(!client.status().connected);
        let events = local.stream("codemojex", "events").unwrap();
        let (events, error) = timeout(
            SOON,
            spawn_blocking(move || {
                let error = events.append([("k", "v")]).unwrap_err();
                (events, error)
            }),
        )
        .await
        .unwrap()
        .unwrap();
        assert_eq!(error.code(), Code::Auth, "{error}");

        // The client goes on trying all the while.
        plain.command(["CONFIG", "SET", "requirepass", "first"]);
        told(&client.notices(), |notice| notice.kind() == NoticeKind::Connected).await;
        stream.append([("k", "v")]).await.unwrap();
        assert!(client.status().connected);
        spawn_blocking(move || events.append([("k", "v")]).unwrap()).await.unwrap();
        assert_eq!(stream.read(Range::all()).all().await.unwrap().len(), 2);
    })
    .await;
}

/// What was sent before the connection broke waits on, since it can still find out what became of it.
#[tokio::test]
async fn an_append_without_its_answer_outlives_a_refusal() {
    each(|kind| async move {
        let server = Server::builder(kind).password("first").start();
        let proxy = Proxy::start(server.address());
        let mut plain = Plain::connect(&server);
        let opts = options(&format!("redis://:first@{}", proxy.address())).timeout(NEVER);
        let client = Client::connect(&opts).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        stream.append([("k", "v")]).await.unwrap();
        proxy.black_hole(Direction::Replies);
        let append = tokio::spawn(stream.append([("k", "v")]));
        wait_until_async("the append to arrive", async || plain.xlen(KEY) == 2).await;
        plain.command(["CONFIG", "SET", "requirepass", "second"]);
        proxy.close_all(Ending::Reset);
        proxy.heal();
        let error = timeout(SOON, stream.read_last(1).all()).await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::Auth);
        assert!(!append.is_finished());
        plain.command(["CONFIG", "SET", "requirepass", "first"]);
        let id = timeout(SOON, append).await.unwrap().unwrap().unwrap();
        assert_eq!(stream.read_last(1).all().await.unwrap()[0].id(), Some(id));
        assert_eq!(plain.xlen(KEY), 2);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_knows_no_hello_is_spoken_to_as_of_old() {
    each(|kind| async move {
        let hides = |builder: Builder| {
            builder.config("rename-command HELLO \"\"").config("rename-command CONFIG \"\"")
        };
        let open = hides(Server::builder(kind)).maxmemory(100 << 20, "allkeys-lru").start();
        let closed = hides(Server::builder(kind)).password("open sesame").start();
        let cluster = hides(Server::builder(kind)).cluster().start();
        for server in [&open, &closed] {
            let opts = options(&server.url());
            let client = Client::connect(&opts).await.unwrap();
            let stream = client.stream("codemojex", "events").unwrap();
            stream.append([("k", "v")]).await.unwrap();
            spawn_blocking(move || {
                let client = blocking::Client::open(&opts).unwrap();
                client.stream("codemojex", "local").unwrap().append([("k", "v")]).unwrap();
            })
            .await
            .unwrap();
            // Where the server does not tell its configuration, `INFO` does.
            let first = told(&client.notices(), |_| true).await;
            assert_eq!(first.kind() == NoticeKind::EvictionPolicy, server.port() == open.port(), "{first}");
        }
        let wrong = options(&format!("redis://:wrong@{}", closed.address()));
        assert_eq!(refused(&wrong).await.code(), Code::Auth);
        assert_eq!(refused(&options(&cluster.url())).await.code(), Code::UnsupportedServer);
        let resp3 = with(options(&open.url()), &[("protocol", "3")]);
        assert_eq!(refused(&resp3).await.code(), Code::Server);
    })
    .await;
}

#[tokio::test]
async fn a_server_with_too_many_clients_is_waited_for() {
    each(|kind| async move {
        let server = Server::builder(kind).config("maxclients 8").start();
        let mut crowd = Vec::new();
        let plain = redis::Client::open(server.url()).unwrap();
        while let Ok(connection) = plain.get_connection() {
            crowd.push(connection);
        }
        for protocol in ["2", "3"] {
            let once = with(options(&server.url()), &[("protocol", protocol), ("connect", "once")]);
            // The answer is lost where the server hangs up on what it has not read yet.
            wait_until_async("the answer to arrive", async || {
                let error = Client::connect(&once).await.unwrap_err();
                assert!(error.is_retryable(), "{error}");
                error.code() == Code::Unavailable
            })
            .await;
            let once = once.clone();
            let error = spawn_blocking(move || blocking::Client::open(&once).unwrap_err()).await.unwrap();
            assert!(error.is_retryable(), "{error}");
        }
        let connecting = options(&server.url()).connect_timeout(NEVER);
        let connecting = tokio::spawn(async move { Client::connect(&connecting).await });
        crowd.clear();
        let client = timeout(SOON, connecting).await.unwrap().unwrap().unwrap();
        client.command(["PING"]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn clusters_and_sentinels_are_refused_by_name() {
    each(|kind| async move {
        let primary = Server::start(kind);
        let cluster = Server::builder(kind).cluster().start();
        let sentinel = Server::builder(kind).sentinel("main", &primary).start();
        for (server, name) in [(&cluster, "cluster"), (&sentinel, "sentinel")] {
            for protocol in ["auto", "2", "3"] {
                let options =
                    with(options(&format!("redis://{}", server.address())), &[("protocol", protocol)]);
                let error = refused(&options).await;
                assert_eq!(error.code(), Code::UnsupportedServer, "{protocol}: {error}");
                assert!(error.message().contains(name), "{error}");
                // Waiting does not help, so it is not waited.
                let error = timeout(SOON, Client::connect(&options.connect_timeout(NEVER))).await.unwrap();
                assert_eq!(error.unwrap_err().code(), Code::UnsupportedServer);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_evicting_server_is_warned_of_once() {
    each(|kind| async move {
        for policy in ["allkeys-lru", "volatile-ttl", "noeviction"] {
            let server = Server::builder(kind)
                .maxmemory(100 << 20, policy)
                .user("info", "on >pass ~* &* +@all -config")
                .user("blind", "on >pass ~* &* +@all -config -info")
                .start();
            let proxy = Proxy::start(server.address());
            for (user, protocol) in [("", "2"), ("", "3"), ("info:pass@", "3"), ("blind:pass@", "3")] {
                let url = format!("redis://{user}{}", proxy.address());
                let opts = with(options(&url), &[("protocol", protocol)]);
                let warns = policy != "noeviction" && !user.starts_with("blind");
                let judge = |notice: &Notice| {
                    assert_eq!(
                        notice.kind() == NoticeKind::EvictionPolicy,
                        warns,
                        "{policy} {user} {notice}"
                    );
                    assert!(!warns || notice.message().contains(policy), "{notice}");
                };
                proxy.forget();
                let client = Client::connect(&opts).await.unwrap();
                judge(&told(&client.notices(), |_| true).await);
                let lane = client.lane().await.unwrap();
                drop((lane, client.command(["PING"]).await.unwrap()));
                assert_eq!(proxy.commands_named("CONFIG").len(), 1, "only one connection asks");
                let local = spawn_blocking(move || blocking::Client::open(&opts).unwrap()).await.unwrap();
                judge(&told(&local.notices(), |_| true).await);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_waits_for_its_server_or_not_as_it_is_told() {
    each(|kind| async move {
        let mut server = Server::start(kind);
        server.stop();
        assert_eq!(refused(&options(&server.url())).await.code(), Code::Disconnected);
        let quick = || {
            let quick = options(&server.url()).timeout(NEVER).connect_timeout(NEVER);
            quick.reconnect(Duration::from_millis(5), Duration::from_millis(50))
        };
        let (waits, lazy) = (quick(), with(quick(), &[("connect", "lazy")]));
        let (waits_local, lazy_local) = (quick(), with(quick(), &[("connect", "lazy")]));
        let waiting = tokio::spawn(async move { Client::connect(&waits).await.unwrap() });
        let waiting_local = spawn_blocking(move || blocking::Client::open(&waits_local).unwrap());

        // A lazy client is there at once, says how it stands, and its calls wait.
        let lazy = timeout(SOON, Client::connect(&lazy)).await.unwrap().unwrap();
        let notices = lazy.notices();
        let notice = told(&notices, |_| true).await;
        assert_eq!((notice.kind(), notice.code()), (NoticeKind::Disconnected, Some(Code::Disconnected)));
        assert!(!lazy.status().connected);
        let stream = lazy.stream("codemojex", "events").unwrap();
        let appending = tokio::spawn(async move { stream.append([("k", "v")]).await });
        let opened = spawn_blocking(move || blocking::Client::open(&lazy_local).unwrap());
        let lazy_local = timeout(SOON, opened).await.unwrap().unwrap();
        assert!(!lazy_local.status().connected);
        let stream = lazy_local.stream("codemojex", "local").unwrap();
        let appending_local = spawn_blocking(move || stream.append([("k", "v")]));
        let seen = told(&lazy_local.notices(), |_| true).await;
        assert_eq!(seen.kind(), NoticeKind::Disconnected);
        for call in [&appending, &appending_local] {
            assert!(!call.is_finished());
        }

        server.restart();
        timeout(SOON, appending).await.unwrap().unwrap().unwrap();
        timeout(SOON, appending_local).await.unwrap().unwrap().unwrap();
        assert_eq!(told(&notices, |_| true).await.kind(), NoticeKind::Connected);
        assert!(lazy.status().connected && lazy.status().reconnects == 0);
        told(&lazy_local.notices(), |notice| notice.kind() == NoticeKind::Connected).await;
        assert!(lazy_local.status().connected && lazy_local.status().reconnects == 0);
        timeout(SOON, waiting).await.unwrap().unwrap().command(["PING"]).await.unwrap();
        timeout(SOON, waiting_local).await.unwrap().unwrap();

        // The end of a client ends its notices.
        lazy.close(SOON).await;
        let ended = async { while notices.next().await.is_some() {} };
        timeout(SOON, ended).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_lazy_client_of_a_server_that_refuses_it_says_so() {
    each(|kind| async move {
        let server = Server::builder(kind).password("open sesame").start();
        let set = [("connect", "lazy"), ("password", "wrong")];
        let wrong = with(options(&format!("redis://{}", server.address())), &set).timeout(NEVER);
        let client = Client::connect(&wrong).await.unwrap();
        let error = timeout(SOON, client.command(["PING"])).await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::Auth);
        let local = spawn_blocking(move || {
            let client = blocking::Client::open(&wrong).unwrap();
            client.command(["PING"]).unwrap_err().code()
        });
        assert_eq!(timeout(SOON, local).await.unwrap().unwrap(), Code::Auth);
    })
    .await;
}

/// A listener, a lane and a consumer of a server that has become another one meet the same refusal.
#[tokio::test]
async fn a_server_that_became_a_sentinel_is_told_of_by_name() {
    let kind = Kind::Redis;
    let primary = Server::start(kind);
    let sentinel = Server::builder(kind).sentinel("main", &primary).start();
    let proxy = Proxy::start(sentinel.address());
    let lazy = with(options(&proxy.url()), &[("connect", "lazy")]).timeout(NEVER);
    let client = Client::connect(&lazy).await.unwrap();
    let notice = told(&client.notices(), |_| true).await;
    assert_eq!(notice.code(), Some(Code::UnsupportedServer));
    let error = timeout(SOON, client.command(["PING"])).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::UnsupportedServer);
    assert_eq!(client.lane().await.err().map(|error| error.code()), Some(Code::UnsupportedServer));
}

/// What led to an error is said by it, of every call that gives up what it had sent.
#[tokio::test]
async fn an_unknown_outcome_has_its_cause() {
    each(|kind| async move {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let opts = options(&proxy.url()).timeout(Duration::from_millis(1_500));
        let client = Client::connect(&opts).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let events = client.events("codemojex").unwrap();
        stream.append([("k", "v")]).await.unwrap();
        proxy.black_hole(Direction::Replies);
        let (append, batch, atomic, sequenced, command, trim, publish) = tokio::join!(
            stream.append([("k", "v")]),
            stream.append_batch([[("k", "v")]]),
            stream.append_batch_atomic([[("k", "v")]]),
            stream.append_sequenced([("k", "v")]),
            client.command(["INCR", "counter"]),
            stream.trim(echomq::Trim::max_len(10)),
            events.publish(crate::events::signal("completed")),
        );
        let errors = [
            append.unwrap_err(),
            batch.unwrap().remove(0).unwrap_err(),
            atomic.unwrap_err(),
            sequenced.unwrap_err(),
            command.unwrap_err(),
            trim.unwrap_err(),
            publish.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code(), Code::UnknownOutcome, "{error}");
            let cause = error.cause().unwrap_or_else(|| panic!("{error} has no cause")).code();
            assert!(matches!(cause, Code::Disconnected | Code::Timeout), "{error} because of {cause}");
        }
    })
    .await;
}
