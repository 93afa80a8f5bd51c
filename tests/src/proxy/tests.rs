use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::*;
use crate::resp::encode;
use crate::wait::wait_until;
use crate::{Kind, Plain, Server};

/// A server of each kind with a calm proxy in front of it.
fn proxied() -> impl Iterator<Item = (Server, Proxy)> {
    Kind::ALL.into_iter().map(|kind| {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        (server, proxy)
    })
}

fn connect(proxy: &Proxy) -> TcpStream {
    let before = proxy.connections();
    let socket = TcpStream::connect(proxy.address()).unwrap();
    wait_until("the proxy to accept", || proxy.connections() > before);
    socket
}

fn append(socket: &mut TcpStream, id: &str) -> Vec<u8> {
    let command = encode(["XADD", "k", id, "f", "v"]);
    socket.write_all(&command).unwrap();
    command
}

/// What is read until the connection ends.
fn rest(socket: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes).map(|_| bytes)
}

fn expect(socket: &mut TcpStream, reply: &[u8]) {
    let mut bytes = vec![0; reply.len()];
    socket.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, reply);
}

/// Nothing comes for a while, on a connection that stays open.
fn expect_silence(socket: &mut TcpStream) {
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    socket.set_read_timeout(None).unwrap();
}

fn xlen(server: &Server) -> u64 {
    Plain::connect(server).xlen("k")
}

#[test]
fn a_calm_proxy_forwards_and_records_each_command() {
    for (server, proxy) in proxied() {
        let mut one = connect(&proxy);
        let mut other = connect(&proxy);
        let first = append(&mut one, "1-1");
        expect(&mut one, b"$3\r\n1-1\r\n");
        let second = append(&mut other, "1-2");
        expect(&mut other, b"$3\r\n1-2\r\n");
        one.write_all(&encode(["PING"])).unwrap();
        expect(&mut one, b"+PONG\r\n");

        assert_eq!(proxy.captured(), [[first.clone(), encode(["PING"])].concat(), second.clone()]);
        let appends: Vec<_> = proxy.commands_named("xadd").into_iter().map(|command| command.bytes).collect();
        assert_eq!(appends, [first, second]);
        assert_eq!(xlen(&server), 2);

        proxy.forget();
        assert_eq!(proxy.captured(), [vec![], vec![]]);
        drop((one, other));
        wait_until("the connections to end", || proxy.open_connections() == 0);
        assert_eq!((proxy.connections(), proxy.cuts()), (2, 0));
    }
}

#[test]
fn long_commands_and_replies_pass_whole() {
    for (_server, proxy) in proxied() {
        let mut socket = connect(&proxy);
        let value = "x".repeat(3 << 20);
        socket.write_all(&encode(["SET", "k", &value])).unwrap();
        expect(&mut socket, b"+OK\r\n");
        socket.write_all(&encode(["GET", "k"])).unwrap();
        expect(&mut socket, format!("${}\r\n{value}\r\n", value.len()).as_bytes());
    }
}

#[test]
fn a_delay_holds_back_its_direction() {
    for (_server, proxy) in proxied() {
        let mut socket = connect(&proxy);
        proxy.delay(Direction::Requests, Duration::from_millis(30));
        proxy.delay(Direction::Replies, Duration::from_millis(20));
        let begin = Instant::now();
        append(&mut socket, "1-1");
        expect(&mut socket, b"$3\r\n1-1\r\n");
        assert!(begin.elapsed() >= Duration::from_millis(50));
    }
}

#[test]
fn a_cut_in_the_replies_comes_after_the_server_did_its_work() {
    for (server, proxy) in proxied() {
        for (bytes, ending) in [(0, Ending::Close), (4, Ending::Close), (0, Ending::Reset)] {
            let mut socket = connect(&proxy);
            proxy.cut_after(Direction::Replies, bytes, ending);
            append(&mut socket, "*");
            match ending {
                Ending::Close => assert_eq!(rest(&mut socket).unwrap().len(), bytes),
                Ending::Reset => {
                    assert_eq!(rest(&mut socket).unwrap_err().kind(), ErrorKind::ConnectionReset)
                }
            }
        }
        assert_eq!(proxy.cuts(), 3);
        assert_eq!(xlen(&server), 3);
    }
}

#[test]
fn a_cut_in_the_requests_comes_before_the_server_can_work() {
    for (server, proxy) in proxied() {
        for ending in [Ending::Close, Ending::Reset] {
            let mut socket = connect(&proxy);
            let whole = encode(["XADD", "k", "1-1", "f", "v"]);
            proxy.cut_after(Direction::Requests, whole.len() - 1, ending);
            append(&mut socket, "1-1");
            match ending {
                Ending::Close => assert_eq!(rest(&mut socket).unwrap(), b""),
                Ending::Reset => {
                    assert_eq!(rest(&mut socket).unwrap_err().kind(), ErrorKind::ConnectionReset)
                }
            }
        }
        assert_eq!(proxy.cuts(), 2);
        assert_eq!(xlen(&server), 0);

        // The next connection is served: a cut happens once.
        let mut socket = connect(&proxy);
        append(&mut socket, "1-1");
        expect(&mut socket, b"$3\r\n1-1\r\n");
    }
}

#[test]
fn a_dropped_reply_ends_the_connection_after_the_server_did_its_work() {
    for (server, proxy) in proxied() {
        proxy.drop_replies(0.5, 11);
        let mut answered = 0;
        for n in 1..=40 {
            let mut socket = connect(&proxy);
            append(&mut socket, &format!("{n}-1"));
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            answered += usize::from(!rest(&mut socket).unwrap().is_empty());
        }
        assert_eq!(answered + proxy.cuts(), 40);
        assert!(answered > 0 && proxy.cuts() > 0, "{answered} answered");
        assert_eq!(xlen(&server), 40);

        proxy.drop_replies(0.0, 0);
        let mut socket = connect(&proxy);
        append(&mut socket, "99-1");
        expect(&mut socket, b"$4\r\n99-1\r\n");
    }
}

#[test]
fn a_black_hole_keeps_sockets_open_and_forwards_nothing() {
    for direction in [Direction::Requests, Direction::Replies] {
        for (server, proxy) in proxied() {
            let mut old = connect(&proxy);
            proxy.black_hole(direction);
            let mut new = connect(&proxy);
            append(&mut old, "1-1");
            expect_silence(&mut old);
            new.write_all(&encode(["PING"])).unwrap();
            expect_silence(&mut new);
            assert_eq!(xlen(&server), u64::from(direction == Direction::Replies));

            proxy.heal();
            expect(&mut old, b"$3\r\n1-1\r\n");
            expect(&mut new, b"+PONG\r\n");
        }
    }
}

#[test]
fn stranded_connections_stay_silent_while_new_ones_are_served() {
    for (_server, proxy) in proxied() {
        let mut old = connect(&proxy);
        proxy.black_hole_existing();
        old.write_all(&encode(["PING"])).unwrap();
        let mut new = connect(&proxy);
        new.write_all(&encode(["PING"])).unwrap();
        expect(&mut new, b"+PONG\r\n");
        expect_silence(&mut old);
        proxy.heal();
        expect(&mut old, b"+PONG\r\n");
    }
}

#[test]
fn refused_connections_are_refused_and_open_ones_go_on() {
    for (_server, proxy) in proxied() {
        let mut old = connect(&proxy);
        proxy.refuse_connections();
        assert_eq!(TcpStream::connect(proxy.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        old.write_all(&encode(["PING"])).unwrap();
        expect(&mut old, b"+PONG\r\n");

        proxy.accept_connections();
        let mut new = connect(&proxy);
        new.write_all(&encode(["PING"])).unwrap();
        expect(&mut new, b"+PONG\r\n");
    }
}

#[test]
fn closing_all_ends_what_is_open_and_serves_what_comes() {
    for ending in [Ending::Close, Ending::Reset] {
        for (_server, proxy) in proxied() {
            let mut old = [connect(&proxy), connect(&proxy)];
            proxy.close_all(ending);
            for socket in &mut old {
                match ending {
                    Ending::Close => assert_eq!(rest(socket).unwrap(), b""),
                    Ending::Reset => assert_eq!(rest(socket).unwrap_err().kind(), ErrorKind::ConnectionReset),
                }
            }
            let mut new = connect(&proxy);
            new.write_all(&encode(["PING"])).unwrap();
            expect(&mut new, b"+PONG\r\n");
        }
    }
}

#[test]
fn a_server_that_is_gone_resets_the_client() {
    for (mut server, proxy) in proxied() {
        server.kill();
        let mut socket = connect(&proxy);
        assert_eq!(rest(&mut socket).unwrap_err().kind(), ErrorKind::ConnectionReset);
        wait_until("the connection to end", || proxy.open_connections() == 0);
    }
}

#[tokio::test]
async fn a_proxy_is_used_and_dropped_inside_a_runtime() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::start(Kind::Valkey);
    let proxy = Proxy::start(server.address());
    let mut socket = tokio::net::TcpStream::connect(proxy.address()).await.unwrap();
    socket.write_all(&encode(["PING"])).await.unwrap();
    let mut reply = [0; 7];
    socket.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    proxy.refuse_connections();
    proxy.heal();
    drop(proxy);
}

#[test]
fn a_rate_holds_for_its_direction_and_fills_the_senders_socket() {
    for (_server, proxy) in proxied() {
        let mut socket = connect(&proxy);
        let value = "x".repeat(200_000);
        proxy.bandwidth(Direction::Requests, Some(1_000_000));
        let begin = Instant::now();
        socket.write_all(&encode(["SET", "k", &value])).unwrap();
        expect(&mut socket, b"+OK\r\n");
        assert!(begin.elapsed() >= Duration::from_millis(190), "{:?}", begin.elapsed());

        proxy.bandwidth(Direction::Requests, None);
        proxy.bandwidth(Direction::Replies, Some(400_000));
        let begin = Instant::now();
        socket.write_all(&encode(["GET", "k"])).unwrap();
        let mut half = vec![0; 100_000];
        socket.read_exact(&mut half).unwrap();
        let elapsed = begin.elapsed();
        assert!(elapsed >= Duration::from_millis(240), "{elapsed:?}");
        // Lifted, the rest comes at once.
        proxy.heal();
        let rest = format!("$200000\r\n{value}\r\n").len() - half.len();
        socket.read_exact(&mut vec![0; rest]).unwrap();
        socket.write_all(&encode(["PING"])).unwrap();
        expect(&mut socket, b"+PONG\r\n");

        // A rate that nothing can pass at: the sender's socket fills, and the proxy holds little.
        proxy.bandwidth(Direction::Requests, Some(1));
        socket.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let sent = std::iter::repeat_with(|| socket.write(&[b'x'; 1 << 16])).take(1000).find(Result::is_err);
        assert_eq!(sent.unwrap().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn a_named_command_closes_its_connection_so_many_times_before_or_after_it() {
    for (moment, carried_out) in [(Moment::Before, 0), (Moment::After, 2)] {
        for ending in [Ending::Close, Ending::Reset] {
            for (server, proxy) in proxied() {
                // A reset may overtake what was forwarded: there the server's work says nothing.
                let certain = moment == Moment::Before || ending == Ending::Close;
                proxy.close_on("xadd", moment, ending, 2);
                for _ in 0..2 {
                    let mut socket = connect(&proxy);
                    socket.write_all(&encode(["PING"])).unwrap();
                    expect(&mut socket, b"+PONG\r\n");
                    let commands =
                        [encode(["XADD", "k", "*", "f", "v"]), encode(["XADD", "k", "*", "f", "v"])];
                    socket.write_all(&commands.concat()).unwrap();
                    match ending {
                        Ending::Close => assert_eq!(rest(&mut socket).unwrap(), b""),
                        Ending::Reset => assert!(rest(&mut socket).is_err()),
                    }
                }
                assert_eq!((proxy.closed_on_command(), proxy.cuts()), (2, 2));
                wait_until("the connections to end", || proxy.open_connections() == 0);
                if certain {
                    assert_eq!(xlen(&server), carried_out);
                }

                let mut socket = connect(&proxy);
                append(&mut socket, "9999999999999-1");
                expect(&mut socket, b"$15\r\n9999999999999-1\r\n");
                assert_eq!(proxy.closed_on_command(), 2);
            }
        }
    }
}

#[test]
fn a_command_that_always_closes_is_counted_and_others_pass_until_it_is_healed() {
    for (server, proxy) in proxied() {
        proxy.close_on("EVALSHA", Moment::Before, Ending::Close, usize::MAX);
        for _ in 0..20 {
            let mut socket = connect(&proxy);
            append(&mut socket, "*");
            let mut first = [0; 1];
            socket.read_exact(&mut first).unwrap();
            socket.write_all(&encode(["EVALSHA", "0".repeat(40).as_str(), "0"])).unwrap();
            rest(&mut socket).unwrap();
        }
        assert_eq!((proxy.closed_on_command(), proxy.connections()), (20, 20));
        assert_eq!(xlen(&server), 20);
        proxy.heal();
        let mut socket = connect(&proxy);
        socket.write_all(&encode(["EVALSHA", "0".repeat(40).as_str(), "0"])).unwrap();
        expect(&mut socket, b"-NOSCRIPT");
    }
}

#[test]
fn a_client_is_greeted_and_hung_up_on_until_it_is_healed() {
    for (_server, proxy) in proxied() {
        let mut old = connect(&proxy);
        proxy.greet_and_hang_up(true);
        for _ in 0..3 {
            let mut socket = connect(&proxy);
            socket.write_all(&encode(["PING"])).unwrap();
            expect(&mut socket, b"+PONG\r\n");
            let rest_of_it = [encode(["GET", "{emq}:version"]), encode(["PING"])].concat();
            socket.write_all(&rest_of_it).unwrap();
            assert_eq!(rest(&mut socket).unwrap(), b"$-1\r\n+PONG\r\n");
        }
        assert_eq!((proxy.connections(), proxy.cuts()), (4, 3));
        proxy.heal();
        for socket in [&mut old, &mut connect(&proxy)] {
            socket.write_all(&encode(["GET", "{emq}:version"])).unwrap();
            expect(socket, b"$-1\r\n");
            socket.write_all(&encode(["PING"])).unwrap();
            expect(socket, b"+PONG\r\n");
        }
    }
}
