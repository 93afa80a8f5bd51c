//! The addresses of a name, tried side by side: a dead one costs a moment and not the whole time for an attempt.
//!
//! The next is tried as soon as those before have failed, or have said nothing for [`STAGGER`]; the first that answers is
//! used. IPv6 and IPv4 take turns, in the order in which the system prefers them (RFC 8305).

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How long an address has before the next is tried beside it.
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to whichever answers first. The caller bounds the time.
pub(crate) async fn connect(addresses: Vec<SocketAddr>) -> io::Result<tokio::net::TcpStream> {
    let mut next = in_turns(addresses).into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failure = no_address();
    loop {
        match next.next() {
            Some(address) => attempts.push(tokio::net::TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(failure),
            None => {}
        }
        tokio::select! {
            biased;
            Some(attempt) = attempts.next() => match attempt {
                Ok(socket) => return Ok(socket),
                Err(error) => failure = error,
            },
            () = sleep(STAGGER), if next.len() > 0 => {}
        }
    }
}

/// Connects, on the caller's thread and on one more for each address beside others, to whichever answers first by the
/// deadline.
pub(crate) fn connect_blocking(addresses: Vec<SocketAddr>, deadline: Instant) -> io::Result<TcpStream> {
    if let [address] = addresses[..] {
        return connect_by(&address, deadline);
    }
    let mut next = in_turns(addresses).into_iter();
    let (sender, receiver) = mpsc::channel();
    let mut failure = no_address();
    let mut running = 0_usize;
    loop {
        match next.next() {
            Some(address) => {
                let sender = sender.clone();
                let attempt = move || {
                    // Nobody receives any longer once another one has answered.
                    let _ = sender.send(connect_by(&address, deadline));
                };
                match thread::Builder::new().name("echomq-connect".to_owned()).spawn(attempt) {
                    Ok(_) => running += 1,
                    // Where the system gives no thread, one after another is better than not at all.
                    Err(_) => match connect_by(&address, deadline) {
                        Ok(socket) => return Ok(socket),
                        Err(error) => failure = error,
                    },
                }
            }
            None if running == 0 => return Err(failure),
            None => {}
        }
        if running == 0 {
            continue;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let wait = if next.len() > 0 { STAGGER.min(left) } else { left };
        match receiver.recv_timeout(wait) {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => {
                failure = error;
                running -= 1;
            }
            Err(RecvTimeoutError::Timeout) if wait < left => {}
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

fn connect_by(address: &SocketAddr, deadline: Instant) -> io::Result<TcpStream> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => TcpStream::connect_timeout(address, left),
    }
}

/// The addresses of both families in turns, beginning with that of the first.
fn in_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let total = addresses.len();
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (ours, theirs): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let (mut ours, mut theirs) = (ours.into_iter(), theirs.into_iter());
    let mut in_turns = Vec::with_capacity(total);
    while in_turns.len() < total {
        in_turns.extend(ours.next());
        in_turns.extend(theirs.next());
    }
    in_turns
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the host has no address")
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};
    use std::net::{Ipv4Addr, TcpListener};
    use tokio::time::timeout;

    /// An address that takes a connection and never answers: the queue of its listener is full.
    struct Dead {
        address: SocketAddr,
        _listener: Socket,
        _queue: Vec<Socket>,
    }

    impl Dead {
        fn new() -> Self {
            let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
            listener.listen(0).unwrap();
            let address = listener.local_addr().unwrap().as_socket().unwrap();
            let mut queue = Vec::new();
            // Whoever connects once the queue is full hears nothing at all.
            while queue.len() < 64 {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
                if socket.connect_timeout(&address.into(), Duration::from_millis(300)).is_err() {
                    return Self { address, _listener: listener, _queue: queue };
                }
                queue.push(socket);
            }
            panic!("the queue of a listener is never full here");
        }
    }

    fn refusing() -> SocketAddr {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
    }

    /// Long enough for anything but a dead address.
    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_dead_address_does_not_hold_up_the_others() {
        let (dead, other, alive) = (Dead::new(), Dead::new(), TcpListener::bind("127.0.0.1:0").unwrap());
        let living = alive.local_addr().unwrap();
        for addresses in [
            vec![living],
            vec![living, dead.address],
            vec![dead.address, living],
            vec![refusing(), dead.address, other.address, refusing(), living],
        ] {
            let socket = timeout(LONG, connect(addresses.clone())).await;
            assert_eq!(socket.unwrap().unwrap().peer_addr().unwrap(), living, "{addresses:?}");
            let socket =
                tokio::task::spawn_blocking(move || connect_blocking(addresses, Instant::now() + LONG));
            assert_eq!(socket.await.unwrap().unwrap().peer_addr().unwrap(), living);
        }
    }

    #[tokio::test]
    async fn where_no_address_answers_the_last_failure_is_told() {
        for addresses in [vec![], vec![refusing()], vec![refusing(), refusing()]] {
            let kind =
                if addresses.is_empty() { io::ErrorKind::NotFound } else { io::ErrorKind::ConnectionRefused };
            assert_eq!(connect(addresses.clone()).await.unwrap_err().kind(), kind);
            let blocking = connect_blocking(addresses, Instant::now() + LONG);
            assert_eq!(blocking.unwrap_err().kind(), kind);
        }
        let (dead, other) = (Dead::new(), Dead::new());
        let soon = Instant::now() + Duration::from_millis(400);
        let blocking = connect_blocking(vec![dead.address, other.address], soon);
        assert_eq!(blocking.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn families_take_turns() {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        assert_eq!(
            in_turns(parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"])),
            parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"])
        );
        assert_eq!(
            in_turns(parse(&["1.1.1.1:1", "2.2.2.2:1", "[::1]:1"])),
            parse(&["1.1.1.1:1", "[::1]:1", "2.2.2.2:1"])
        );
        assert_eq!(in_turns(Vec::new()), Vec::new());
    }
}
