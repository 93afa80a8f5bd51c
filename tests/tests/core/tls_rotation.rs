//! What a client proves itself with, and whom it trusts, may change while it lives: files and passwords are read anew.

use crate::setup::{told, with};
use crate::{each, options};
use echomq::{Client, Code, NoticeKind, Options, blocking};
use echomq_tests::{Certificates, Kind, Plain, Server, Tls};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(60);

fn quick(options: Options) -> Options {
    options.timeout(SOON).reconnect(Duration::from_millis(10), Duration::from_millis(100))
}

/// Puts the files of another authority where the client's are.
fn exchange(from: &Certificates, to: &Path) {
    for (file, name) in
        [(&from.authority, "ca.pem"), (&from.client_certificate, "me.pem"), (&from.client_key, "me.key")]
    {
        // As one step, so that nobody reads half a file.
        std::fs::copy(file, to.join("next")).unwrap();
        std::fs::rename(to.join("next"), to.join(name)).unwrap();
    }
}

/// Has a server show, and ask for, the certificates of another authority.
fn present(plain: &mut Plain, files: &Certificates) {
    plain.command([
        "CONFIG",
        "SET",
        "tls-ca-cert-file",
        files.authority.to_str().unwrap(),
        "tls-cert-file",
        files.server_certificate.to_str().unwrap(),
        "tls-key-file",
        files.server_key.to_str().unwrap(),
    ]);
}

fn hang_up(plain: &mut Plain) {
    plain.command(["CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "YES"]);
}

/// Reads, which is asked again where a connection has just broken.
async fn read(client: &Client) -> echomq::Result<()> {
    client.stream("codemojex", "events")?.read_last(1).all().await.map(drop)
}

fn read_blocking(client: &blocking::Client) -> echomq::Result<()> {
    client.stream("codemojex", "events")?.read_last(1).all().map(drop)
}

/// The Valkey of the test environment is built without TLS, so this runs against Redis.
#[tokio::test]
async fn certificates_may_be_exchanged_under_a_client() {
    let server = Server::builder(Kind::Redis).tls(Tls::Mutual).start();
    let mut plain = Plain::connect(&server);
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    std::fs::create_dir(&mine).unwrap();
    exchange(server.certificates(), &mine);
    let path = |name: &str| mine.join(name).to_str().unwrap().to_owned();
    let opts = quick(with(
        options(&server.tls_url()),
        &[("tls_ca", &path("ca.pem")), ("tls_certificate", &path("me.pem")), ("tls_key", &path("me.key"))],
    ));
    let client = Client::connect(&opts).await.unwrap();
    let local = spawn_blocking(move || blocking::Client::open(&opts).unwrap()).await.unwrap();

    // Both sides get the certificates of another authority, twice.
    for time in ["once", "again"] {
        let next = folder.path().join(time);
        std::fs::create_dir(&next).unwrap();
        let next = Certificates::generate(&next).unwrap();
        present(&mut plain, &next);
        exchange(&next, &mine);
        hang_up(&mut plain);
        timeout(SOON, read(&client)).await.unwrap().unwrap();
        let local = local.clone();
        spawn_blocking(move || read_blocking(&local).unwrap()).await.unwrap();
    }

    // A client whose files are behind is told why, and comes back by itself once they are exchanged too.
    let last = folder.path().join("last");
    std::fs::create_dir(&last).unwrap();
    let last = Certificates::generate(&last).unwrap();
    present(&mut plain, &last);
    hang_up(&mut plain);
    let notice = told(&client.notices(), |notice| notice.code() == Some(Code::Tls)).await;
    assert_eq!(notice.kind(), NoticeKind::Disconnected);
    let error = timeout(SOON, read(&client)).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Tls, "{error}");
    assert_eq!(client.status().error.unwrap().code(), Code::Tls);
    let also = local.clone();
    let error = spawn_blocking(move || read_blocking(&also).unwrap_err()).await.unwrap();
    assert_eq!(error.code(), Code::Tls, "{error}");
    std::fs::write(path("ca.pem"), "no certificate").unwrap();
    let is_unreadable = async || loop {
        match read(&client).await {
            Err(error) if error.subject().is_some_and(|file| file.ends_with("ca.pem")) => break error,
            _ => {}
        }
    };
    assert_eq!(timeout(SOON, is_unreadable()).await.unwrap().code(), Code::Tls);
    exchange(&last, &mine);
    told(&client.notices(), |notice| notice.kind() == NoticeKind::Connected).await;
    read(&client).await.unwrap();
    assert_eq!(client.status().error, None);
    spawn_blocking(move || read_blocking(&local).unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_password_is_asked_for_each_time() {
    each(|kind| async move {
        let server = Server::builder(kind).password("password 0").start();
        let mut plain = Plain::connect(&server);
        let (vault, asked) = (Arc::new(Mutex::new("password 0".to_owned())), Arc::new(AtomicUsize::new(0)));
        let (opened, counted) = (vault.clone(), asked.clone());
        let opts = options(&format!("redis://{}", server.address())).password_from(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let password = opened.lock().unwrap().clone();
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                if password.is_empty() { Err("the vault is sealed") } else { Ok(password) }
            }
        });
        let opts = quick(opts);
        let client = Client::connect(&opts).await.unwrap();
        let local = spawn_blocking(move || blocking::Client::open(&opts).unwrap()).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        for protocol_round in 1..4 {
            let next = format!("password {protocol_round}");
            plain.command(["CONFIG", "SET", "requirepass", &next]);
            *vault.lock().unwrap() = next;
            hang_up(&mut plain);
            timeout(SOON, read(&client)).await.unwrap().unwrap();
            let local = local.clone();
            spawn_blocking(move || read_blocking(&local).unwrap()).await.unwrap();
        }
        drop(client.lane().await.unwrap());

        // Where the function fails there is no connection, and the reason is told.
        vault.lock().unwrap().clear();
        hang_up(&mut plain);
        let error = timeout(SOON, read(&client)).await.unwrap().unwrap_err();
        assert_eq!(error.code(), Code::Auth);
        assert!(error.message().contains("the vault is sealed"), "{error}");
        let also = local.clone();
        let error = spawn_blocking(move || read_blocking(&also).unwrap_err()).await.unwrap();
        assert_eq!(error.code(), Code::Auth);
        *vault.lock().unwrap() = "password 3".to_owned();
        told(&client.notices(), |notice| notice.kind() == NoticeKind::Connected).await;
        spawn_blocking(move || read_blocking(&local).unwrap()).await.unwrap();
    })
    .await;
}

/// A function that never answers costs an attempt its time and no more, and what it was is told.
#[tokio::test]
async fn a_password_that_never_comes_ends_with_the_time_to_connect() {
    let server = Server::builder(Kind::Valkey).password("open sesame").start();
    let options = options(&format!("redis://{}", server.address()))
        .connect_timeout(Duration::from_millis(200))
        .password_from(std::future::pending::<Result<String, std::io::Error>>);
    let error = timeout(SOON, Client::connect(&options)).await.unwrap().unwrap_err();
    let blocking = spawn_blocking(move || blocking::Client::open(&options).unwrap_err());
    for error in [error, timeout(SOON, blocking).await.unwrap().unwrap()] {
        assert_eq!(error.code(), Code::Disconnected);
        assert!(error.message().contains("asked for the password"), "{error}");
    }
}
