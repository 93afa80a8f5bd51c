//! A network that fails on request: a TCP proxy whose disturbances are set while it runs.
//!
//! It runs on a thread of its own, so its methods are called from blocking and from asynchronous tests alike. What it
//! forwards it does not understand; TLS goes through as well.

mod commands;
mod pump;

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::Runtime;
use tokio::sync::mpsc as channel;

use crate::give_up;
use crate::resp::{self, Command};
use crate::server::{HOST, free_port};
use commands::Closer;
use pump::Shared;

/// Which way bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// How both sides of a connection come to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In an orderly way (FIN): what was forwarded before arrives.
    Close,
    /// At once (RST): what was forwarded before may be lost too.
    Reset,
}

/// When a connection is closed on which a certain command comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the command: the server never sees it whole.
    Before,
    /// After the command was forwarded: the server carries it out, and its reply never arrives.
    After,
}

/// A proxy on a free port in front of one server. It ends, with all its connections, when this is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    doors: channel::UnboundedSender<Door>,
    // Dropped without waiting, since a runtime must not be waited for inside another.
    runtime: Option<Runtime>,
}

/// Whether new connections find someone listening; answered once it is so.
enum Door {
    Open(mpsc::Sender<io::Result<()>>),
    Shut(mpsc::Sender<io::Result<()>>),
}

impl Proxy {
    /// Starts a proxy in front of `upstream`, forwarding everything. Panics when it cannot.
    ///
    /// ```no_run
    /// use echomq_tests::{Kind, Proxy, Server};
    /// let server = Server::start(Kind::Valkey);
    /// let proxy = Proxy::start(server.address());
    /// proxy.drop_replies(0.2, 7);
    /// ```
    #[track_caller]
    pub fn start(upstream: SocketAddr) -> Self {
        match Self::try_start(upstream) {
            Ok(proxy) => proxy,
            Err(error) => give_up(format_args!("a proxy did not start: {error}")),
        }
    }

    /// Starts a proxy in front of `upstream`, or says why it cannot.
    pub fn try_start(upstream: SocketAddr) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let shared = Arc::new(Shared::new(upstream));
        let (address, listener) = {
            let _inside = runtime.enter();
            bind_free_port()?
        };
        let (doors, requests) = channel::unbounded_channel();
        runtime.spawn(accept(listener, address, requests, shared.clone()));
        Ok(Self { address, shared, doors, runtime: Some(runtime) })
    }

    /// The host it listens on: `127.0.0.1`.
    pub fn host(&self) -> &'static str {
        HOST
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Host and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `redis://…` of the proxy, without a password.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Sends connections that are accepted from now on to another server, as a name does that moves. Those that are open go
    /// on with the server that they have.
    pub fn redirect(&self, upstream: SocketAddr) {
        *self.shared.upstream() = upstream;
    }

    /// Holds every byte of a direction back for `time`. Zero, the value at first, forwards at once.
    pub fn delay(&self, direction: Direction, time: Duration) {
        self.shared.set(|settings| settings.delay[direction as usize] = time);
    }

    /// Forwards no more than so many bytes a second of a direction, on each connection; `None`, the value at first,
    /// forwards them as they come. A sender that is faster finds its socket full.
    ///
    /// A rate of 0 is taken as 1.
    pub fn bandwidth(&self, direction: Direction, bytes_per_second: Option<u64>) {
        self.shared.set(|settings| settings.bandwidth[direction as usize] = bytes_per_second);
    }

    /// Closes each connection on which a client sends the command named `command` (its first word, in any case; one of
    /// several where there are bars between their names): what
    /// came before the command is forwarded, and nothing behind it. Happens so many `times` (`usize::MAX`: always),
    /// counted over all connections; [`Proxy::closed_on_command`] says how often. Takes the place of an earlier one.
    ///
    /// It reads what clients send, so it does nothing on a connection with TLS.
    pub fn close_on(&self, command: &str, moment: Moment, ending: Ending, times: usize) {
        self.shared.closed_on_command.store(0, Ordering::SeqCst);
        self.shared.faults().closer = Some(Closer::new(command, moment, ending, times));
    }

    /// How many connections were closed by [`Proxy::close_on`] since it was last called.
    pub fn closed_on_command(&self) -> usize {
        self.shared.closed_on_command.load(Ordering::SeqCst)
    }

    /// With `true`, connections accepted from now on are closed as soon as their handshake is over: when everything
    /// that the client has sent is answered, its reading of `{emq}:version` among it. With `false`, the value at first,
    /// they are served.
    ///
    /// It reads what both sides send, so it does nothing on a connection with TLS.
    pub fn greet_and_hang_up(&self, on: bool) {
        self.shared.set(|settings| settings.hangs_up = on);
    }

    /// Forwards the next `bytes` bytes of a direction, counted over all connections from now on, and then ends the
    /// connection that carried the last of them. Happens once; the same direction can be armed again afterwards.
    ///
    /// With 0 bytes, the next chunk of that direction is swallowed whole.
    pub fn cut_after(&self, direction: Direction, bytes: usize, ending: Ending) {
        self.shared.faults().cut[direction as usize] = Some((bytes, ending));
    }

    /// Swallows each chunk of replies with this probability and closes the connection that carried it, so that the
    /// server has done what it was asked and the client never hears of it. The seed fixes the sequence of decisions;
    /// a probability of 0 ends it.
    pub fn drop_replies(&self, probability: f64, seed: u64) {
        let mut faults = self.shared.faults();
        faults.drop_probability = probability;
        faults.random = fastrand::Rng::with_seed(seed);
    }

    /// Forwards nothing in a direction, on no connection, and keeps all sockets open. New connections are accepted
    /// and treated alike. What comes in meanwhile is forwarded after [`Proxy::heal`].
    pub fn black_hole(&self, direction: Direction) {
        self.shared.set(|settings| settings.hole[direction as usize] = true);
    }

    /// Forwards nothing any more on the connections that are open now, both ways, and keeps their sockets open. New
    /// connections are served. [`Proxy::heal`] ends it.
    pub fn black_hole_existing(&self) {
        let open_now = self.connections();
        self.shared.set(|settings| settings.stranded_below = open_now);
    }

    /// Stops listening, so that new connections are refused. Those that are open go on.
    #[track_caller]
    pub fn refuse_connections(&self) {
        self.door(Door::Shut);
    }

    /// Listens again after [`Proxy::refuse_connections`].
    #[track_caller]
    pub fn accept_connections(&self) {
        self.door(Door::Open);
    }

    /// Ends every connection that is open now. New ones are served.
    pub fn close_all(&self, ending: Ending) {
        let open_now = self.connections();
        self.shared.set(|settings| {
            settings.closed_below = open_now;
            settings.closed_how = ending;
        });
    }

    /// Takes back every disturbance: delays, rates, cuts and closes not made yet, dropped replies, hanging up, black
    /// holes, refusal.
    #[track_caller]
    pub fn heal(&self) {
        self.shared.heal();
        self.accept_connections();
    }

    /// How many connections were accepted since the start.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// How many connections were ended by a cut, a dropped reply, a certain command, or after their greeting.
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// All bytes that clients have sent since the start or the last [`Proxy::forget`], one entry a connection, in the
    /// order in which they were accepted. Recorded as they come in, forwarded or not.
    pub fn captured(&self) -> Vec<Vec<u8>> {
        self.shared.captured().clone()
    }

    /// The commands that clients have sent, one list a connection. Panics where the bytes are no commands.
    #[track_caller]
    pub fn commands(&self) -> Vec<Vec<Command>> {
        let parse = |bytes: &Vec<u8>| resp::parse_commands(bytes);
        match self.captured().iter().map(parse).collect() {
            Ok(commands) => commands,
            Err(error) => give_up(format_args!("what clients sent is not made of commands: {error}")),
        }
    }

    /// The commands named `name` that clients have sent, connection by connection.
    ///
    /// The order holds within a connection; between two it says nothing.
    #[track_caller]
    pub fn commands_named(&self, name: &str) -> Vec<Command> {
        self.commands().into_iter().flatten().filter(|command| command.is(name)).collect()
    }

    /// Forgets what was captured. To be called between two commands, not while one is under way.
    pub fn forget(&self) {
        self.shared.captured().iter_mut().for_each(Vec::clear);
    }

    #[track_caller]
    fn door(&self, door: impl FnOnce(mpsc::Sender<io::Result<()>>) -> Door) {
        let (answer, answered) = mpsc::channel();
        let sent = self.doors.send(door(answer));
        match answered.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => give_up(format_args!("a proxy cannot listen again: {error}")),
            Err(_) => give_up(format_args!("a proxy no longer accepts connections: {sent:?}")),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(
    listener: TcpListener,
    address: SocketAddr,
    mut doors: channel::UnboundedReceiver<Door>,
    shared: Arc<Shared>,
) {
    let mut listener = Some(listener);
    loop {
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            door = doors.recv() => match door {
                None => return,
                Some(Door::Shut(answer)) => {
                    // Dropping alone is not enough while a process is being started, which holds copies of all sockets.
                    if let Some(listener) = listener.take() {
                        let _ = SockRef::from(&listener).shutdown(Shutdown::Both);
                    }
                    let _ = answer.send(Ok(()));
                }
                Some(Door::Open(answer)) => {
                    let outcome = if listener.is_none() {
                        bind(address).map(|bound| listener = Some(bound))
                    } else {
                        Ok(())
                    };
                    let _ = answer.send(outcome);
                }
            },
            client = accepted => {
                // A client that is gone before it was accepted is no connection.
                if let Ok((client, _)) = client {
                    let number = shared.admit();
                    tokio::spawn(pump::serve(number, client, shared.clone()));
                }
            }
        }
    }
}

fn bind_free_port() -> io::Result<(SocketAddr, TcpListener)> {
    for _ in 0..100 {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        match bind(address) {
            Ok(listener) => return Ok((address, listener)),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port found for a proxy"))
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(1024)
}

#[cfg(test)]
mod tests;
