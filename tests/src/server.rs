//! Real servers: started on a free port, stopped, killed, paused, restarted, demoted and promoted at will.

mod builder;
mod kind;
mod role;

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::give_up;
use crate::plain;
use crate::wait::{DEADLINE, STEP};

pub use builder::{Builder, Tls};
pub use kind::Kind;

/// Where every server listens.
pub const HOST: &str = "127.0.0.1";

/// A server of the test's own. It is killed, and its data removed, when this is dropped.
///
/// So it must not stand in a `static`, which is never dropped.
#[derive(Debug)]
pub struct Server {
    builder: Builder,
    program: PathBuf,
    folder: TempDir,
    certificates: Option<Certificates>,
    port: u16,
    tls_port: u16,
    bus_port: u16,
    child: Option<Child>,
}

impl Server {
    /// Starts a server with no password, no TLS and no persistence. Panics with one sentence when it cannot.
    ///
    /// ```no_run
    /// use echomq_tests::{Kind, Plain, Server};
    /// let server = Server::start(Kind::Valkey);
    /// assert_eq!(Plain::connect(&server).xlen("no such key"), 0);
    /// ```
    #[track_caller]
    pub fn start(kind: Kind) -> Self {
        Self::builder(kind).start()
    }

    /// What a server is to be started with.
    pub fn builder(kind: Kind) -> Builder {
        Builder::new(kind)
    }

    /// Which program this is.
    pub fn kind(&self) -> Kind {
        self.builder.kind
    }

    /// The host it listens on: `127.0.0.1`.
    pub fn host(&self) -> &'static str {
        HOST
    }

    /// The plain port. It stays the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and plain port.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The password it asks for.
    pub fn password(&self) -> Option<&str> {
        self.builder.password.as_deref()
    }

    /// `redis://…` of the plain port, with the password where there is one.
    pub fn url(&self) -> String {
        format!("redis://{}{HOST}:{}", self.credentials(), self.port)
    }

    /// `rediss://…` of the TLS port, with the password where there is one. Panics on a server started without TLS.
    #[track_caller]
    pub fn tls_url(&self) -> String {
        format!("rediss://{}{HOST}:{}", self.credentials(), self.tls_port())
    }

    /// The TLS port. Panics on a server started without TLS.
    #[track_caller]
    pub fn tls_port(&self) -> u16 {
        self.certificates();
        self.tls_port
    }

    /// The files of the authority, of the server and of a client. Panics on a server started without TLS.
    #[track_caller]
    pub fn certificates(&self) -> &Certificates {
        match &self.certificates {
            Some(certificates) => certificates,
            None => give_up("this server was started without TLS"),
        }
    }

    /// The path of the Unix socket. Panics on a server started without one.
    #[track_caller]
    pub fn unix_socket(&self) -> PathBuf {
        match self.builder.unix_socket {
            true => self.folder.path().join("socket"),
            false => give_up("this server was started without a Unix socket"),
        }
    }

    /// `unix://…` of the Unix socket, without the password. Panics on a server started without one.
    #[track_caller]
    pub fn unix_url(&self) -> String {
        format!("unix://{}", self.unix_socket().display())
    }

    /// Ends the server in an orderly way and waits until it has ended.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // A stopped process acts on the request to end only once it runs again.
            signal(&child, Signal::TERM);
            signal(&child, Signal::CONT);
            let deadline = Instant::now() + DEADLINE;
            while matches!(child.try_wait(), Ok(None)) {
                if Instant::now() > deadline {
                    end(child);
                    return;
                }
                std::thread::sleep(STEP);
            }
        }
    }

    /// Ends the server at once (`SIGKILL`), as a crash would, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(child) = self.child.take() {
            end(child);
        }
    }

    /// Kills the server if it runs, and starts it again on the same port with what it had on disk: everything where
    /// [`Builder::persistence`] is on, nothing where it is off. Waits until it answers.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        self.relaunch();
    }

    /// Kills the server if it runs, and starts it again on the same port with no data. Waits until it answers.
    #[track_caller]
    pub fn restart_empty(&mut self) {
        self.kill();
        let data = self.folder.path().join("data");
        if let Err(error) = fs::remove_dir_all(&data).and_then(|()| fs::create_dir(&data)) {
            give_up(format_args!("the data of a server could not be removed: {error}"));
        }
        self.relaunch();
    }

    /// Holds the process (`SIGSTOP`) and waits until it stands still: connections stay open, nothing is answered.
    pub fn pause(&self) {
        if let Some(child) = &self.child {
            signal(child, Signal::STOP);
            // Fails only for a process that has ended by itself.
            let _ = waitid(WaitId::Pid(Pid::from_child(child)), WaitIdOptions::STOPPED);
        }
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        if let Some(child) = &self.child {
            signal(child, Signal::CONT);
        }
    }

    fn credentials(&self) -> String {
        self.password().map_or(String::new(), |password| format!(":{password}@"))
    }

    #[track_caller]
    fn relaunch(&mut self) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.launch() {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                    std::thread::sleep(STEP);
                }
                Err(error) => give_up(error),
            }
        }
    }

    /// Starts the process on the ports already chosen and waits until it answers.
    fn launch(&mut self) -> io::Result<()> {
        let log_path = self.folder.path().join("log");
        let log = File::create(&log_path)?;
        let mut child =
            builder::command(self).stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).spawn()?;
        let deadline = Instant::now() + DEADLINE;
        loop {
            // Another process may answer on a port that this one failed to get: only its own answer counts.
            if plain::process_id(self.address(), self.password()).is_ok_and(|id| id == child.id()) {
                self.child = Some(child);
                return self.take_slots(deadline);
            }
            let ended = child.try_wait()?.is_some();
            if ended || Instant::now() > deadline {
                end(child);
                return Err(self.failure(&fs::read_to_string(&log_path).unwrap_or_default()));
            }
            std::thread::sleep(STEP);
        }
    }

    fn failure(&self, log: &str) -> io::Error {
        let name = self.kind().name();
        if log.contains("Address already in use") {
            return io::Error::new(io::ErrorKind::AddrInUse, format!("port {} is taken", self.port));
        }
        if log.contains("Failed finding TLS support") {
            let program = self.program.display();
            return io::Error::other(format!("the {name} at {program} is built without TLS"));
        }
        io::Error::other(format!("{name} did not start; the end of its log: {}", tail(log)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn signal(child: &Child, signal: Signal) {
    // A process that has ended by itself no longer takes signals, which is as good.
    let _ = kill_process(Pid::from_child(child), signal);
}

fn end(mut child: Child) {
    // Both fail only for a process that is already gone.
    let _ = child.kill();
    let _ = child.wait();
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

/// A port that nobody listens on, from below the range that the kernel gives to outgoing connections.
///
/// So while a server is down no other connection can be given its port, and a client that keeps trying to reach it
/// cannot end up connected to itself.
pub(crate) fn free_port() -> io::Result<u16> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let outgoing = range.split_whitespace().next().and_then(|low| low.parse().ok()).unwrap_or(32768);
    for _ in 0..1000 {
        // Where that leaves too little room, the kernel picks.
        let port = if outgoing > 12000 { fastrand::u16(10000..outgoing) } else { 0 };
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok(listener.local_addr()?.port()),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port found"))
}

#[cfg(test)]
mod tests;
