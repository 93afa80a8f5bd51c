//! What a user can say about a client.

use super::demotion::Demotions;
use super::endpoint::{Endpoint, Location};
use super::handshake::is_version;
use super::password::Password;
use super::settings::{Connect, Protocol, Settings};
use super::tls::{Tls, TlsFiles};
use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::id::mint::Mint;
use crate::notice::{Board, Notice, NoticeKind};
use crate::operation::lease::{Lease, OnNodeConflict, Terms, Told};
use crate::operation::minter::Minter;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How a client connects and what its bounds are.
///
/// Each option has a method; [`Options::set`] takes any of them by name and text, which is what the language bindings
/// do and what the query of a URL may do.
///
/// | name | what | default |
/// |---|---|---|
/// | `username`, `password` | who asks; also in the URL | nobody |
/// | `database` | a number; also in the URL | 0 |
/// | `client_name` | shown by `CLIENT LIST` | none |
/// | `node_id` | 0 to 1022, this process's own, in place of a leased one | `ECHOMQ_NODE_ID`, else a leased one |
/// | `node_lease` | milliseconds that a node stays this client's after its process was killed, at least 1 000 | 30 000 |
/// | `on_node_conflict` | where another process has the `node_id` given: `warn`, `wait` for it, or `refuse` | `warn` |
/// | `timeout` | milliseconds until a call fails | 5 000 |
/// | `connect` | the first connection: `wait` for a server that is not there yet, for `connect_timeout` at most; `lazy`: wait for nothing, calls wait until their deadlines; `once`: one attempt | `wait` |
/// | `connect_timeout` | milliseconds for one attempt to connect | 5 000 |
/// | `reconnect_min`, `reconnect_max` | milliseconds between attempts, doubling, the upper half by chance | 50, 2 000 |
/// | `heartbeat` | milliseconds that the connection of listeners may be silent before it is asked for a sign of life, and then until it is given up | 1 000 |
/// | `max_record_bytes` | bytes of names and values in one record | 1 048 576 |
/// | `max_in_flight` | commands that wait for their answers before calls are refused | 65 536 |
/// | `max_in_flight_bytes` | bytes of records and commands that wait for their answers before calls are refused | 67 108 864 |
/// | `max_clock_ahead` | milliseconds that this host's clock may be ahead of the server's, or `none` | 60 000 |
/// | `protocol` | `auto`: RESP3, or RESP2 where the server knows no other; `2`; `3` | `auto` |
/// | `claim_version` | `echomq:<major>.<minor>.<patch>` to mark an unmarked deployment with | none |
/// | `tls_ca` | PEM file of the authorities to trust | the system's |
/// | `tls_certificate`, `tls_key` | PEM files of the client's own certificate | none |
/// | `clock` | Unix milliseconds at which the client's clock stands still, for tests | the system's clock |
///
/// ```
/// let mut options = echomq::Options::new("valkeys://events.example.com:6380/2")?.node_id(7);
/// options.set("timeout", "2000")?;
/// assert_eq!(options.set("timeuot", "2000").unwrap_err().code(), echomq::Code::InvalidOption);
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone)]
pub struct Options {
    endpoint: Endpoint,
    username: Option<String>,
    password: Option<Password>,
    database: u32,
    client_name: Option<String>,
    node_id: Option<u16>,
    node_lease: Duration,
    on_node_conflict: OnNodeConflict,
    clock: Clock,
    timeout: Duration,
    connect: Connect,
    connect_timeout: Duration,
    reconnect_min: Duration,
    reconnect_max: Duration,
    heartbeat: Duration,
    max_record_bytes: usize,
    max_in_flight: usize,
    max_in_flight_bytes: usize,
    max_clock_ahead: Option<Duration>,
    protocol: Protocol,
    claim_version: Option<String>,
    tls: TlsFiles,
}

impl Options {
    /// The names that [`Options::set`] knows, in the order of the table above.
    pub const NAMES: &'static [&'static str] = &[
        "username",
        "password",
        "database",
        "client_name",
        "node_id",
        "node_lease",
        "on_node_conflict",
        "timeout",
        "connect",
        "connect_timeout",
        "reconnect_min",
        "reconnect_max",
        "heartbeat",
        "max_record_bytes",
        "max_in_flight",
        "max_in_flight_bytes",
        "max_clock_ahead",
        "protocol",
        "claim_version",
        "tls_ca",
        "tls_certificate",
        "tls_key",
        "clock",
    ];

    /// The defaults for a server: `redis://`, `rediss://`, `valkey://`, `valkeys://` with
    /// `[user[:password]@]host[:port][/database]`, or `unix:///path[?db=…&user=…&pass=…]`. Other options may follow as
    /// its query.
    ///
    /// Fails with [`Code::InvalidOption`]; the text shows no part of the URL that could hold a secret.
    pub fn new(url: &str) -> Result<Self> {
        let location = Location::parse(url)?;
        let mut options = Self {
            endpoint: location.endpoint,
            username: location.username,
            password: location.password.map(Password::Text),
            database: location.database.unwrap_or(0),
            client_name: None,
            node_id: None,
            node_lease: Duration::from_secs(30),
            on_node_conflict: OnNodeConflict::Warn,
            clock: Clock::system(),
            timeout: Duration::from_secs(5),
            connect: Connect::default(),
            connect_timeout: Duration::from_secs(5),
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(2),
            heartbeat: Duration::from_secs(1),
            max_record_bytes: 1 << 20,
            max_in_flight: 1 << 16,
            max_in_flight_bytes: 64 << 20,
            max_clock_ahead: Some(Duration::from_secs(60)),
            protocol: Protocol::Auto,
            claim_version: None,
            tls: TlsFiles::default(),
        };
        for (name, value) in &location.options {
            options.set(name, value)?;
        }
        Ok(options)
    }

    /// Sets one option by its name. Fails with [`Code::InvalidOption`], naming it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "username" => self.username = Some(value.to_owned()),
            "password" => self.password = Some(Password::Text(value.to_owned())),
            "database" => self.database = number(name, value)?,
            "client_name" => self.client_name = Some(client_name(value)?),
            "node_id" => self.node_id = Some(number(name, value)?),
            "node_lease" => self.node_lease = lease_time(duration(name, value)?)?,
            "on_node_conflict" => self.on_node_conflict = on_conflict(value)?,
            "clock" => self.clock = Clock::standing(number(name, value)?),
            "timeout" => self.timeout = duration(name, value)?,
            "connect" => self.connect = connect(value)?,
            "connect_timeout" => self.connect_timeout = duration(name, value)?,
            "reconnect_min" => self.reconnect_min = duration(name, value)?,
            "reconnect_max" => self.reconnect_max = duration(name, value)?,
            "heartbeat" => self.heartbeat = duration(name, value)?,
            "max_record_bytes" => self.max_record_bytes = positive(name, value)?,
            "max_in_flight" => self.max_in_flight = positive(name, value)?,
            "max_in_flight_bytes" => self.max_in_flight_bytes = positive(name, value)?,
            "max_clock_ahead" if value == "none" => self.max_clock_ahead = None,
            "max_clock_ahead" => self.max_clock_ahead = Some(duration(name, value)?),
            "protocol" => self.protocol = protocol(value)?,
            "claim_version" => self.claim_version = Some(version(value)?),
            "tls_ca" => self.tls.ca = Some(PathBuf::from(value)),
            "tls_certificate" => self.tls.certificate = Some(PathBuf::from(value)),
            "tls_key" => self.tls.key = Some(PathBuf::from(value)),
            _ => return Err(Error::new(Code::InvalidOption, "there is no option of that name").about(name)),
        }
        Ok(())
    }

    /// The user and password to log in with.
    pub fn credentials(mut self, username: Option<&str>, password: &str) -> Self {
        self.username = username.map(str::to_owned);
        self.password = Some(Password::Text(password.to_owned()));
        self
    }

    /// A function that is asked for the password each time a connection is opened, for passwords that change while the
    /// client lives. It takes the place of any other password.
    ///
    /// The function is called, and its future runs, on the client's runtime; a blocking client uses
    /// [`runtime()`](crate::runtime) for it. So neither may block: what does belongs into
    /// `tokio::task::spawn_blocking`. It counts within `connect_timeout`. It may be asked by several connections at once.
    /// Where it fails or panics there is no connection, for the reason [`Code::Auth`], and it is asked again with the next
    /// attempt. Its error is shown as part of the reason, so it must not hold a secret.
    ///
    /// ```
    /// # async fn token_of_the_hour() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// let options = echomq::Options::new("rediss://bus@events.example.com")?.password_from(token_of_the_hour);
    /// # Ok::<(), echomq::Error>(())
    /// ```
    pub fn password_from<F, A, E>(mut self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Result<String, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.password = Some(Password::asked(ask));
        self
    }

    /// The database to use.
    pub fn database(self, database: u32) -> Self {
        Self { database, ..self }
    }

    /// The node to mint with, this process's own: 0 to 1022. Without it the client leases a free one when it first mints.
    pub fn node_id(self, node: u16) -> Self {
        Self { node_id: Some(node), ..self }
    }

    /// How long the lease of a node holds after the process was killed: a second to a day. It is renewed at a third of
    /// that time; where the server cannot be reached for all of it, nothing is minted until it can.
    pub fn node_lease(self, node_lease: Duration) -> Self {
        Self { node_lease, ..self }
    }

    /// What follows where another live process holds the node id that was given.
    pub fn on_node_conflict(self, on_node_conflict: OnNodeConflict) -> Self {
        Self { on_node_conflict, ..self }
    }

    /// Where the client takes the time from.
    pub fn clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// How long a call may take, waiting and an outage included: a day at most, as of all times here.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// How the client is connected for the first time.
    pub fn connect(self, connect: Connect) -> Self {
        Self { connect, ..self }
    }

    /// How long one attempt to connect may take, and with [`Connect::Wait`] all of them together.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self { connect_timeout, ..self }
    }

    /// The first and the longest wait between attempts to connect again.
    pub fn reconnect(self, min: Duration, max: Duration) -> Self {
        Self { reconnect_min: min, reconnect_max: max, ..self }
    }

    /// How long the connection of listeners may be silent before it is asked for a sign of life, and then until it is given
    /// up and opened again.
    pub fn heartbeat(self, heartbeat: Duration) -> Self {
        Self { heartbeat, ..self }
    }

    /// How many bytes of names and values a record may have.
    pub fn max_record_bytes(self, max_record_bytes: usize) -> Self {
        Self { max_record_bytes, ..self }
    }

    /// How many commands may wait for their answers before calls are refused with [`Code::Overloaded`].
    pub fn max_in_flight(self, max_in_flight: usize) -> Self {
        Self { max_in_flight, ..self }
    }

    /// How many bytes of records and commands may wait for their answers before calls are refused with
    /// [`Code::Overloaded`]. A single call that is larger is taken where nothing else waits.
    pub fn max_in_flight_bytes(self, max_in_flight_bytes: usize) -> Self {
        Self { max_in_flight_bytes, ..self }
    }

    /// How far this host's clock may be ahead of the server's before appends are refused with [`Code::ClockAhead`];
    /// nothing lifts the bound.
    pub fn max_clock_ahead(self, max_clock_ahead: Option<Duration>) -> Self {
        Self { max_clock_ahead, ..self }
    }

    /// Checks everything that can be checked without the server, and reads the TLS files: what one client is made of.
    pub(crate) fn settings(&self) -> Result<Settings> {
        let tls = match &self.endpoint {
            Endpoint::Tcp { host, tls: true, .. } => Some(Arc::new(Tls::new(&self.tls, host)?)),
            _ if self.tls == TlsFiles::default() => None,
            _ => {
                return Err(Error::new(
                    Code::InvalidOption,
                    "TLS files are given, but the URL asks for no TLS: use rediss:// or valkeys://",
                ));
            }
        };
        if self.username.is_some() && self.password.is_none() {
            return Err(
                Error::new(Code::InvalidOption, "a user without a password cannot log in").about("username")
            );
        }
        let node = match self.node_id {
            Some(node) => Some(node),
            None => match std::env::var("ECHOMQ_NODE_ID") {
                Ok(text) => Some(number("ECHOMQ_NODE_ID", &text)?),
                Err(_) => None,
            },
        };
        let node = node.map(Mint::new).transpose()?;
        let terms = Terms {
            node: node.as_ref().map(Mint::node),
            time: lease_time(checked("node_lease", self.node_lease)?)?,
            on_conflict: self.on_node_conflict,
        };
        let minter = Arc::new(Minter::leased(self.clock, node, self.max_clock_ahead));
        let notices = Board::new();
        let board = notices.clone();
        let tell = move |error: &Error| board.post(Notice::of_error(NoticeKind::ClockAhead, error));
        minter.server_clock().tell(tell);
        let board = notices.clone();
        let tell = move |told| {
            board.post(match told {
                Told::Lost(error) => Notice::of_error(NoticeKind::NodeLeaseLost, &error),
                Told::Conflict(error) => Notice::of_error(NoticeKind::NodeConflict, &error),
            });
        };
        let client_name = self.client_name.as_deref().unwrap_or_default();
        let lease = Arc::new(Lease::new(minter.clone(), terms, client_name, Box::new(tell)));
        Ok(Settings {
            endpoint: self.endpoint.clone(),
            connect: self.connect,
            tls,
            username: self.username.clone(),
            password: self.password.clone(),
            database: self.database,
            client_name: self.client_name.clone(),
            protocol: self.protocol,
            claim_version: self.claim_version.clone(),
            minter,
            lease,
            beside: false,
            greeted: Arc::new(AtomicBool::new(false)),
            notices,
            timeout: checked("timeout", self.timeout)?,
            connect_timeout: checked("connect_timeout", self.connect_timeout)?,
            reconnect_min: checked("reconnect_min", self.reconnect_min)?,
            reconnect_max: checked("reconnect_max", self.reconnect_max)?,
            heartbeat: checked("heartbeat", self.heartbeat)?,
            max_record_bytes: self.max_record_bytes,
            max_in_flight: self.max_in_flight,
            max_in_flight_bytes: self.max_in_flight_bytes,
            demotions: Demotions::default(),
        })
    }
}

/// Shows the server, never a password.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("endpoint", &format_args!("{}", self.endpoint))
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

fn refusal(name: &str, why: impl Into<String>) -> Error {
    Error::new(Code::InvalidOption, why).about(name)
}

fn number<N: FromStr>(name: &str, value: &str) -> Result<N> {
    value.parse().map_err(|_| refusal(name, format!("`{}` is no number that fits", value.escape_debug())))
}

fn positive(name: &str, value: &str) -> Result<usize> {
    match number(name, value)? {
        0 => Err(refusal(name, "0 would refuse everything")),
        positive => Ok(positive),
    }
}

fn duration(name: &str, value: &str) -> Result<Duration> {
    checked(name, Duration::from_millis(number(name, value)?))
}

fn checked(name: &str, time: Duration) -> Result<Duration> {
    match time {
        Duration::ZERO => Err(refusal(name, "0 milliseconds is no time to wait")),
        // Longer is no wait either, and a clock can show any sum with it.
        time if time > Duration::from_secs(86_400) => {
            Err(refusal(name, "more than a day, 86400000 milliseconds"))
        }
        time => Ok(time),
    }
}

/// Shorter ones would be lost to any pause of a host.
fn lease_time(time: Duration) -> Result<Duration> {
    if time < Duration::from_secs(1) {
        return Err(refusal("node_lease", "less than a second, 1000 milliseconds"));
    }
    Ok(time)
}

fn on_conflict(value: &str) -> Result<OnNodeConflict> {
    match value {
        "warn" => Ok(OnNodeConflict::Warn),
        "wait" => Ok(OnNodeConflict::Wait),
        "refuse" => Ok(OnNodeConflict::Refuse),
        _ => Err(refusal("on_node_conflict", "it is none of warn, wait and refuse")),
    }
}

fn client_name(value: &str) -> Result<String> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(value.to_owned());
    }
    Err(refusal("client_name", "the server takes visible ASCII without blanks"))
}

fn connect(value: &str) -> Result<Connect> {
    match value {
        "wait" => Ok(Connect::Wait),
        "lazy" => Ok(Connect::Lazy),
        "once" => Ok(Connect::Once),
        _ => Err(refusal("connect", "it is none of wait, lazy and once")),
    }
}

fn protocol(value: &str) -> Result<Protocol> {
    match value {
        "auto" => Ok(Protocol::Auto),
        "2" | "resp2" => Ok(Protocol::Resp2),
        "3" | "resp3" => Ok(Protocol::Resp3),
        _ => Err(refusal("protocol", "it is none of auto, 2 and 3")),
    }
}

fn version(value: &str) -> Result<String> {
    if is_version(value.as_bytes()) {
        return Ok(value.to_owned());
    }
    Err(refusal("claim_version", "a version reads echomq:<major>.<minor>.<patch> with a major of 2 or 3"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_option_is_taken_by_name_and_documented() {
        let mut options = Options::new("redis://h").unwrap();
        for name in Options::NAMES {
            let accepted = ["7", "2", "1000", "warn", "echomq:2.0.0", "lazy"]
                .iter()
                .any(|value| options.set(name, value).is_ok());
            assert!(accepted, "{name}");
        }
        let rows = include_str!("options.rs").lines().filter(|line| line.starts_with("/// | `"));
        let documented: Vec<&str> =
            rows.flat_map(|row| row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2)).collect();
        assert_eq!(documented, Options::NAMES);
    }

    #[test]
    fn times_that_are_no_wait_are_refused_however_they_are_given() {
        let options = || Options::new("redis://h").unwrap();
        let day = Duration::from_secs(86_400);
        for time in [Duration::ZERO, day + Duration::from_nanos(1), Duration::MAX] {
            for (name, options) in [
                ("timeout", options().timeout(time)),
                ("connect_timeout", options().connect_timeout(time)),
                ("reconnect_min", options().reconnect(time, day)),
                ("reconnect_max", options().reconnect(day, time)),
                ("heartbeat", options().heartbeat(time)),
            ] {
                let error = options.settings().err().unwrap();
                assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some(name)), "{time:?}");
            }
        }
        assert!(
            options().timeout(day).connect_timeout(day).reconnect(day, day).heartbeat(day).settings().is_ok()
        );
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        let mut options = Options::new("redis://h").unwrap();
        for (name, value) in [
            ("database", "x"),
            ("database", "-1"),
            ("node_id", ""),
            ("node_id", "70000"),
            ("timeout", "0"),
            ("timeout", "1e3"),
            ("max_in_flight", "0"),
            ("max_in_flight_bytes", "0"),
            ("max_record_bytes", "0"),
            ("connect", "never"),
            ("protocol", "4"),
            ("claim_version", "2"),
            ("client_name", "a b"),
            ("client_name", ""),
            ("connect_timeout", "86400001"),
            ("no_such_option", "1"),
        ] {
            let error = options.set(name, value).unwrap_err();
            assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some(name)), "{value}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        let code = |url: &str, set: &[(&str, &str)]| {
            let mut options = Options::new(url).unwrap();
            set.iter().for_each(|(name, value)| options.set(name, value).unwrap());
            options.settings().err().map(|error| error.code())
        };
        assert_eq!(code("redis://h", &[]), None);
        assert_eq!(code("redis://h", &[("node_id", "1023")]), Some(Code::InvalidOption));
        assert_eq!(code("redis://h", &[("tls_ca", "/ca.pem")]), Some(Code::InvalidOption));
        assert_eq!(code("rediss://h", &[("tls_ca", "/no/such/file.pem")]), Some(Code::Tls));
        assert_eq!(code("redis://u@h", &[]), Some(Code::InvalidOption));
    }

    #[test]
    fn a_secret_is_never_shown() {
        let options = Options::new("redis://u:secret@h").unwrap();
        assert!(!format!("{options:?}").contains("secret"));
    }
}
