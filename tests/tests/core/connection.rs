//! URLs, users, TLS, the fence, and what a connection says about itself.

use crate::{KEY, each, options};
use echomq::{Client, Code, Options, Reply, VERSION_KEY};
use echomq_tests::{Kind, Plain, Server, Tls, wait_until_async};
use std::net::TcpListener;
use std::time::Duration;

async fn refused(options: &Options) -> Code {
    Client::connect(options).await.unwrap_err().code()
}

async fn works(options: &Options) {
    let client = Client::connect(options).await.unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    let id = stream.append([("k", "v")]).await.unwrap();
    assert_eq!(stream.read_last(1).all().await.unwrap()[0].id(), Some(id));
    let options = options.clone();
    tokio::task::spawn_blocking(move || {
        let client = echomq::blocking::Client::open(&options).unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        let id = stream.append([("k", "v")]).unwrap();
        assert_eq!(stream.read_last(1).all().unwrap()[0].id(), Some(id));
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn every_form_of_a_url_connects() {
    each(|kind| async move {
        let server = Server::builder(kind).unix_socket().start();
        for url in [
            format!("redis://{}", server.address()),
            format!("valkey://localhost:{}/0?protocol=2", server.port()),
            format!("{}/5?client_name=me", server.url().trim_end_matches('/')),
            server.unix_url(),
            format!("{}?db=3", server.unix_url()),
        ] {
            works(&options(&url)).await;
        }
        let mut plain = Plain::connect(&server);
        for database in ["0", "3", "5"] {
            plain.command(["SELECT", database]);
            assert!(plain.xlen(KEY) >= 2, "{database}");
        }
    })
    .await;
}

#[tokio::test]
async fn users_and_passwords() {
    each(|kind| async move {
        let server = Server::builder(kind).password("open sesame").start();
        let at = server.address();
        let mut plain = Plain::connect(&server);
        plain.command(["ACL", "SETUSER", "reader", "on", ">pass", "~*", "+@all", "-xadd"]);
        for protocol in ["auto", "2", "3"] {
            let with = |url: &str| {
                let mut options = options(url);
                options.set("protocol", protocol).unwrap();
                options
            };
            works(&with(&format!("redis://:open%20sesame@{at}"))).await;
            works(&with(&format!("redis://{at}")).credentials(Some("default"), "open sesame")).await;
            assert_eq!(refused(&with(&format!("redis://{at}"))).await, Code::Auth);
            assert_eq!(refused(&with(&format!("redis://:wrong@{at}"))).await, Code::Auth);
            assert_eq!(refused(&with(&format!("redis://nobody:pass@{at}"))).await, Code::Auth);
            let error = Client::connect(&with(&format!("redis://:hunter2@{at}"))).await.unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"));
            let reader = Client::connect(&with(&format!("redis://reader:pass@{at}"))).await.unwrap();
            let error = reader.stream("q", "s").unwrap().append([("k", "v")]).await.unwrap_err();
            assert_eq!(error.code(), Code::Auth);
        }
        let open = Server::start(kind);
        // Under RESP3 a server without a password takes any; under RESP2 it says that there is none.
        let needless = format!("redis://:needless@{}?protocol=2", open.address());
        assert_eq!(refused(&options(&needless)).await, Code::Auth);
    })
    .await;
}

/// What docs/connecting.md says a user needs is enough, and all of it is needed.
#[tokio::test]
async fn the_permissions_of_the_documentation_are_enough() {
    each(|kind| async move {
        let server = Server::start(kind);
        let page = include_str!("../../../docs/connecting.md");
        let section = page.split("## Permissions").nth(1).unwrap().split("##").next().unwrap();
        let words = section.split('`').skip(1).step_by(2);
        let commands: Vec<String> = words
            .filter(|word| word.bytes().all(|b| b.is_ascii_uppercase()))
            .map(|word| format!("+{word}"))
            .collect();
        assert!(commands.len() >= 15, "{commands:?}");
        let mut rule = vec!["ACL", "SETUSER", "bus", "on", ">pass", "~emq:*", "~{emq}:version", "-@all"];
        rule.extend(commands.iter().map(String::as_str));
        let mut plain = Plain::connect(&server);
        plain.command(rule);
        let mut options = options(&format!("redis://bus:pass@{}/3?client_name=me", server.address()));
        options.set("claim_version", "echomq:2.0.0").unwrap();
        works(&options).await;
        let client = Client::connect(&options).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        stream.append_batch_atomic([[("k", "v")]]).await.unwrap();
        stream.append_batch([[("k", "v")]]).await.unwrap();
        stream.trim(echomq::Trim::max_len(1).exact()).await.unwrap();
        let top = stream.read(echomq::Range::all()).all().await.unwrap()[0].id().unwrap();
        let error = stream.append_id(top, [("k", "v")]).await.unwrap_err();
        assert!(error.code() == Code::NonMonotonic && error.top().is_some());
        let other = plain.try_command(["ACL", "DRYRUN", "bus", "GET", "secret"]);
        assert!(!matches!(other, Ok(value) if value == redis::Value::Okay));
    })
    .await;
}

/// The Valkey of the test environment is built without TLS, so these run against Redis.
#[tokio::test]
async fn tls_with_a_private_authority_and_client_certificates() {
    let set = |url: &str, files: &[(&str, &std::path::Path)]| {
        let mut options = options(url);
        for (name, path) in files {
            options.set(name, path.to_str().unwrap()).unwrap();
        }
        options
    };
    let server = Server::builder(Kind::Redis).tls(Tls::Server).start();
    let ca = server.certificates().authority.clone();
    works(&set(&server.tls_url(), &[("tls_ca", &ca)])).await;
    works(&set(&server.tls_url().replace("rediss://", "valkeys://"), &[("tls_ca", &ca)])).await;
    let stranger = Server::builder(Kind::Redis).tls(Tls::Server).start();
    let other = &stranger.certificates().authority;
    assert_eq!(refused(&set(&server.tls_url(), &[("tls_ca", other)])).await, Code::Tls);

    let mutual = Server::builder(Kind::Redis).tls(Tls::Mutual).start();
    let files = mutual.certificates();
    let own = [
        ("tls_ca", &*files.authority),
        ("tls_certificate", &*files.client_certificate),
        ("tls_key", &*files.client_key),
    ];
    works(&set(&mutual.tls_url(), &own)).await;
    let without = set(&mutual.tls_url(), &own[..1]);
    let error = Client::connect(&without).await.unwrap_err();
    assert_eq!(error.code(), Code::Tls, "{error}");
    let blocking = tokio::task::spawn_blocking(move || echomq::blocking::Client::open(&without).unwrap_err());
    assert_eq!(blocking.await.unwrap().code(), Code::Tls);
    assert_eq!(refused(&set(&mutual.tls_url(), &own[..2])).await, Code::InvalidOption);
}

#[tokio::test]
async fn no_server_no_client() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("redis://{}", listener.local_addr().unwrap());
    assert_eq!(
        refused(&options(&silent).connect_timeout(Duration::from_millis(200))).await,
        Code::Disconnected
    );
    let closed = silent.clone();
    drop(listener);
    assert_eq!(refused(&options(&closed)).await, Code::Disconnected);
    assert_eq!(refused(&options("unix:///no/such/socket")).await, Code::Disconnected);
    assert_eq!(refused(&options("redis://no.such.host.invalid")).await, Code::Disconnected);
    let error =
        tokio::task::spawn_blocking(move || echomq::blocking::Client::open(&options(&closed)).unwrap_err());
    assert_eq!(error.await.unwrap().code(), Code::Disconnected);
}

#[tokio::test]
async fn the_version_fence() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let claiming = |version: &str| {
            let mut options = options(&server.url());
            options.set("claim_version", version).unwrap();
            options
        };
        works(&options(&server.url())).await;
        assert_eq!(plain.query::<Option<String>>(["GET", VERSION_KEY]), None);
        works(&claiming("echomq:2.4.0")).await;
        works(&claiming("echomq:3.0.0")).await;
        assert_eq!(plain.query::<String>(["GET", VERSION_KEY]), "echomq:2.4.0");

        // A reconnect meets the fence too, and ends the client instead of trying for ever.
        let client = Client::connect(&options(&server.url())).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        plain.command(["SET", VERSION_KEY, "echomq:4.0.0"]);
        plain.command(["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
        wait_until_async("the fence is met", async || {
            let error = stream.append([("k", "v")]).await.err();
            error.is_some_and(|error| {
                error.code() == Code::VersionFence && error.message().contains("echomq:4.0.0")
            })
        })
        .await;
        assert_eq!(refused(&options(&server.url())).await, Code::VersionFence);
        assert_eq!(refused(&claiming("echomq:2.4.0")).await, Code::VersionFence);
    })
    .await;
}

#[tokio::test]
async fn any_command_of_the_servers_and_a_lane_for_those_that_wait() {
    each(|kind| async move {
        let server = Server::start(kind);
        for protocol in ["2", "3"] {
            let mut options = options(&server.url());
            options.set("protocol", protocol).unwrap();
            options.set("client_name", "reader-1").unwrap();
            let client = Client::connect(&options).await.unwrap();
            let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
            assert_eq!(client.command(["CLIENT", "GETNAME"]).await.unwrap(), text("reader-1"));
            assert_eq!(client.command([&b"SET"[..], b"k", b"\xff\0"]).await.unwrap(), text("OK"));
            let replies =
                client.pipeline([vec!["GET", "k"], vec!["INCR", "k"], vec!["GET", "none"]]).await.unwrap();
            assert_eq!(replies[0].as_ref().unwrap(), &Reply::Bytes(b"\xff\0".to_vec()));
            assert_eq!(replies[1].as_ref().unwrap_err().code(), Code::Server);
            assert_eq!(replies[2].as_ref().unwrap(), &Reply::Nil);
            assert_eq!(client.command(Vec::<&str>::new()).await.unwrap_err().code(), Code::InvalidOption);

            let mut lane = client.lane().await.unwrap();
            let blocked =
                tokio::spawn(
                    async move { lane.command(["BLPOP", "list", "30"], Duration::from_secs(30)).await },
                );
            let waiting = async || {
                let list = client.command(["CLIENT", "LIST"]).await.unwrap();
                matches!(list, Reply::Bytes(list) if String::from_utf8_lossy(&list).contains("cmd=blpop"))
            };
            wait_until_async("the lane is blocked", waiting).await;
            client.command(["RPUSH", "list", "x"]).await.unwrap();
            assert_eq!(blocked.await.unwrap().unwrap(), Reply::List(vec![text("list"), text("x")]));
        }
    })
    .await;
}
