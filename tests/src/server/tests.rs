use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::*;
use crate::Plain;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";

#[test]
fn each_kind_is_what_it_says() {
    for kind in Kind::ALL {
        let server = Server::start(kind);
        let info: String = Plain::connect(&server).query(["INFO", "server"]);
        assert_eq!(info.contains("valkey_version:"), kind == Kind::Valkey, "{info}");
        assert!(info.contains(&format!("tcp_port:{}", server.port())), "{info}");
        assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    }
}

#[test]
fn two_servers_share_nothing() {
    for kind in Kind::ALL {
        let (one, other) = (Server::start(kind), Server::start(kind));
        assert_ne!(one.port(), other.port());
        Plain::connect(&one).command(["XADD", "k", "1-1", "f", "v"]);
        assert_eq!(Plain::connect(&one).xlen("k"), 1);
        assert_eq!(Plain::connect(&other).xlen("k"), 0);
    }
}

#[test]
fn a_killed_server_comes_back_on_its_port_with_what_it_had_on_disk() {
    for kind in Kind::ALL {
        for persistence in [true, false] {
            let mut server = Server::builder(kind).persistence(persistence).start();
            let port = server.port();
            for n in 1..=100 {
                Plain::connect(&server).command(["XADD", "k", &format!("{n}-0"), "f", "v"]);
            }
            server.kill();
            assert_eq!(
                TcpStream::connect(server.address()).unwrap_err().kind(),
                ErrorKind::ConnectionRefused
            );
            server.restart();
            assert_eq!(server.port(), port);
            assert_eq!(Plain::connect(&server).xlen("k"), if persistence { 100 } else { 0 });

            server.stop();
            server.restart();
            assert_eq!(Plain::connect(&server).xlen("k"), if persistence { 100 } else { 0 });
            server.restart_empty();
            assert_eq!(Plain::connect(&server).xlen("k"), 0);
        }
    }
}

#[test]
fn a_paused_server_answers_only_when_it_is_resumed() {
    for kind in Kind::ALL {
        let server = Server::start(kind);
        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        server.pause();
        socket.write_all(PING).unwrap();
        let mut reply = [0; PONG.len()];
        assert_eq!(socket.read(&mut reply).unwrap_err().kind(), ErrorKind::WouldBlock);
        server.resume();
        socket.set_read_timeout(None).unwrap();
        socket.read_exact(&mut reply).unwrap();
        assert_eq!(reply, PONG);
    }
}

#[test]
fn a_server_with_a_password_asks_for_it() {
    for kind in Kind::ALL {
        let server = Server::builder(kind).password("s3cret").start();
        assert_eq!(server.url(), format!("redis://:s3cret@127.0.0.1:{}", server.port()));
        assert_eq!(Plain::connect(&server).reply_bytes(["PING"]), PONG);

        let mut socket = TcpStream::connect(server.address()).unwrap();
        socket.write_all(PING).unwrap();
        let mut reply = [0; 7];
        socket.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"-NOAUTH");
    }
}

#[test]
fn a_unix_socket_answers() {
    for kind in Kind::ALL {
        let server = Server::builder(kind).unix_socket().start();
        let path = server.unix_url();
        let mut socket = UnixStream::connect(path.strip_prefix("unix://").unwrap()).unwrap();
        socket.write_all(PING).unwrap();
        let mut reply = [0; PONG.len()];
        socket.read_exact(&mut reply).unwrap();
        assert_eq!(reply, PONG);
    }
}

#[test]
fn settings_reach_the_server() {
    for kind in Kind::ALL {
        let server = Server::builder(kind).arg("--maxmemory", "7mb").arg("--timeout", "9").start();
        let reply: Vec<String> = Plain::connect(&server).query(["CONFIG", "GET", "timeout"]);
        assert_eq!(reply, ["timeout", "9"]);
        let reply: Vec<String> = Plain::connect(&server).query(["CONFIG", "GET", "maxmemory"]);
        assert_eq!(reply, ["maxmemory", "7340032"]);
    }
}

#[test]
fn raw_replies_and_dumps_are_the_servers_bytes() {
    for kind in Kind::ALL {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        plain.command([&b"XADD"[..], b"k", b"1-2", b"f", b"\x00\xff\r\n"]);
        assert_eq!(
            plain.xrange_bytes("k"),
            b"*1\r\n*2\r\n$3\r\n1-2\r\n*2\r\n$1\r\nf\r\n$4\r\n\x00\xff\r\n\r\n"
        );
        let value = "x".repeat(900 * 1024);
        plain.command(["SET", "long", &value]);
        let reply = plain.reply_bytes(["GET", "long"]);
        assert_eq!(reply, format!("${}\r\n{value}\r\n", value.len()).as_bytes());

        let dump = plain.dump("k").unwrap();
        plain.command([&b"RESTORE"[..], b"copy", b"0", &dump]);
        assert_eq!(plain.xrange_bytes("copy"), plain.xrange_bytes("k"));
        assert_eq!(plain.dump("nothing"), None);
        assert!(plain.try_command(["XLEN", "long"]).unwrap_err().to_string().contains("WRONGTYPE"));
    }
}

/// Whether `redis-cli` gets an answer over TLS; a client of its own, so that nothing of ours judges itself.
fn answers_over_tls(server: &Server, arguments: &[(&str, &Path)]) -> bool {
    let mut command = Command::new("redis-cli");
    command.args(["--tls", "-h", server.host(), "-p", &server.tls_port().to_string()]);
    for (name, value) in arguments {
        command.arg(name).arg(value);
    }
    let output = command.arg("PING").stdin(Stdio::null()).output().expect("redis-cli, of redis-tools");
    output.stdout == b"PONG\n"
}

#[test]
fn tls_needs_the_authority_and_where_asked_a_client_certificate() {
    let stranger_folder = tempfile::tempdir().unwrap();
    let stranger = Certificates::generate(stranger_folder.path()).unwrap();
    for tls in [Tls::Server, Tls::Mutual] {
        let server = Server::builder(Kind::Redis).tls(tls).start();
        let files = server.certificates();
        let trust = ("--cacert", files.authority.as_path());
        let known = [("--cert", files.client_certificate.as_path()), ("--key", files.client_key.as_path())];
        let unknown =
            [("--cert", stranger.client_certificate.as_path()), ("--key", stranger.client_key.as_path())];

        assert_eq!(answers_over_tls(&server, &[trust]), tls == Tls::Server);
        assert!(answers_over_tls(&server, &[trust, known[0], known[1]]));
        assert_eq!(answers_over_tls(&server, &[trust, unknown[0], unknown[1]]), tls == Tls::Server);
        assert!(!answers_over_tls(&server, &[("--cacert", stranger.authority.as_path())]));
        assert_eq!(Plain::connect(&server).reply_bytes(["PING"]), PONG);
    }
}

#[test]
fn a_server_built_without_tls_says_so() {
    match Server::builder(Kind::Valkey).tls(Tls::Server).try_start() {
        Ok(server) => assert_ne!(server.tls_port(), server.port()),
        Err(error) => assert!(error.to_string().contains("is built without TLS"), "{error}"),
    }
}

#[test]
fn a_server_that_cannot_start_says_why() {
    for kind in Kind::ALL {
        let error = Server::builder(kind).arg("--no-such-setting", "1").try_start().unwrap_err();
        assert!(error.to_string().contains("no-such-setting"), "{error}");
    }
}

#[test]
fn a_missing_program_is_one_sentence() {
    let error = Kind::Redis.locate(None, Some("/nowhere".into())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().starts_with("no redis-server found: run scripts/bootstrap"), "{error}");
    for kind in Kind::ALL {
        let error = kind.locate(Some("/nowhere/server".into()), None).unwrap_err();
        assert!(error.to_string().ends_with("names /nowhere/server, which is no file"), "{error}");
    }
}

#[test]
fn lines_of_the_configuration_and_users_reach_the_server() {
    for kind in Kind::ALL {
        let mut server = Server::builder(kind)
            .config("client-output-buffer-limit normal 8mb 4mb 7")
            .maxmemory(7 << 20, "allkeys-lru")
            .user("reader", "on >s3cret ~emq:* +get +hello +ping")
            .start();
        for _ in 0..2 {
            let mut plain = Plain::connect(&server);
            let limits: Vec<String> = plain.query(["CONFIG", "GET", "client-output-buffer-limit"]);
            assert!(limits[1].starts_with("normal 8388608 4194304 7"), "{limits:?}");
            let policy: Vec<String> = plain.query(["CONFIG", "GET", "maxmemory-policy"]);
            assert_eq!(policy[1], "allkeys-lru");
            let memory: Vec<String> = plain.query(["CONFIG", "GET", "maxmemory"]);
            assert_eq!(memory[1], "7340032");

            plain.command(["AUTH", "reader", "s3cret"]);
            plain.command(["GET", "emq:x"]);
            let refused = plain.try_command(["SET", "emq:x", "1"]).unwrap_err();
            assert_eq!(refused.code(), Some("NOPERM"), "{refused}");
            server.restart();
        }
    }
}

#[test]
fn a_server_becomes_a_replica_and_a_primary_again() {
    for kind in Kind::ALL {
        let primary = Server::builder(kind).password("s3cret").start();
        let replica = Server::start(kind);
        Plain::connect(&replica).command(["SET", "own", "1"]);
        Plain::connect(&primary).command(["XADD", "k", "1-1", "f", "v"]);
        replica.replicate(&primary);
        let mut plain = Plain::connect(&replica);
        assert_eq!(plain.xlen("k"), 1);
        assert_eq!(plain.query::<u64>(["EXISTS", "own"]), 0);
        let refused = plain.try_command(["XADD", "k", "*", "f", "v"]).unwrap_err();
        assert_eq!(refused.code(), Some("READONLY"), "{refused}");

        Plain::connect(&primary).command(["XADD", "k", "2-1", "f", "v"]);
        replica.follow(&primary);
        assert_eq!(plain.xlen("k"), 2);

        replica.promote();
        plain.command(["XADD", "k", "3-1", "f", "v"]);
        assert_eq!((plain.xlen("k"), Plain::connect(&primary).xlen("k")), (3, 2));

        // The roles are exchanged.
        primary.replicate(&replica);
        assert_eq!(Plain::connect(&primary).xlen("k"), 3);
    }
}

#[test]
fn a_clock_is_set_while_the_server_runs() {
    for kind in Kind::ALL {
        let mut server = Server::builder(kind).clock().start();
        assert!(server.clock_ahead().contains(&0), "{:?}", server.clock_ahead());
        for ahead in [120_000, -40_000, 250, -5, 0] {
            server.set_clock(ahead);
            assert!(server.clock_ahead().contains(&ahead), "{ahead}: {:?}", server.clock_ahead());
        }
        // Scripts, generated ids, and the time to live of keys go by it.
        let mut plain = Plain::connect(&server);
        plain.command(["SET", "k", "v", "PX", "100000"]);
        server.set_clock(99_000);
        assert_eq!(plain.query::<u64>(["EXISTS", "k"]), 1);
        server.set_clock(200_000);
        assert_eq!(plain.query::<u64>(["EXISTS", "k"]), 0);
        let scripted: (u64, u64) = plain.query(["EVAL", "return redis.call('TIME')", "0"]);
        let here = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        assert!(scripted.0.abs_diff(here + 200) < 60, "{scripted:?} {here}");
        // What waits, waits by the monotonic clock or by the set one, and ends.
        assert_eq!(plain.command(["BLPOP", "nothing", "0.1"]), redis::Value::Nil);

        server.restart();
        assert!(server.clock_ahead().contains(&200_000), "{:?}", server.clock_ahead());
    }
}

#[test]
fn a_node_of_a_cluster_serves_all_slots_and_a_sentinel_knows_its_primary() {
    for kind in Kind::ALL {
        let mut node = Server::builder(kind).cluster().start();
        for _ in 0..2 {
            let mut plain = Plain::connect(&node);
            let info: String = plain.query(["INFO", "cluster"]);
            assert!(info.contains("cluster_enabled:1"), "{info}");
            plain.command(["SET", "emq:{q}:x", "1"]);
            let crossed = plain.try_command(["MGET", "emq:{a}:x", "emq:{b}:x"]).unwrap_err();
            assert_eq!(crossed.code(), Some("CROSSSLOT"), "{crossed}");
            node.restart();
        }

        let primary = Server::builder(kind).password("s3cret").start();
        let mut sentinel = Server::builder(kind).sentinel("main", &primary).start();
        for _ in 0..2 {
            let mut plain = Plain::connect(&sentinel);
            let address: Vec<String> = plain.query(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
            assert_eq!(address, [primary.host(), &primary.port().to_string()]);
            assert!(plain.try_command(["XLEN", "k"]).is_err());
            sentinel.restart();
        }
    }
}
