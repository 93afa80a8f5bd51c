//! The first words on a connection: protocol, user, database, name, version fence, which server it is, and the server's
//! clock (`docs/protocol.md` §2 and §4).
//!
//! It does no I/O: it says what to send in each round and reads the answers, so that every door opens its connections
//! alike.

use super::identity::{Identity, eviction};
use super::settings::{Protocol, Settings};
use crate::error::{Code, Error, Result};
use crate::keyspace::VERSION_KEY;
use crate::notice::Notice;
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::time::Instant;

/// Majors of the wire version that this crate speaks.
const MAJORS: [&str; 2] = ["2", "3"];

/// A handshake under way.
pub(crate) struct Handshake<'a> {
    settings: &'a Settings,
    /// What the server was told or asked for; a password may be another one each time.
    password: Option<String>,
    /// Whether the server has said who it is.
    identified: bool,
    /// Whether to ask what the server evicts.
    asks_eviction: bool,
    round: Round,
    asked: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// `HELLO 3`, with the user.
    Hello,
    /// `AUTH` alone, for a server without RESP3.
    Auth,
    /// Everything else.
    Rest,
}

/// What a handshake found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The server's clock in Unix milliseconds, and when it was read.
    pub(crate) server_time: (u64, Instant),
    /// What the server evicts, where it was asked and evicts anything.
    pub(crate) eviction: Option<Notice>,
}

impl<'a> Handshake<'a> {
    /// A handshake with the password of this attempt.
    pub(crate) fn new(settings: &'a Settings, password: Option<String>) -> Self {
        let round = match (settings.protocol, &password) {
            (Protocol::Auto | Protocol::Resp3, _) => Round::Hello,
            (Protocol::Resp2, Some(_)) => Round::Auth,
            (Protocol::Resp2, None) => Round::Rest,
        };
        let asks_eviction = !settings.greeted();
        Self { settings, password, identified: false, asks_eviction, round, asked: Instant::now() }
    }

    /// The commands of this round.
    pub(crate) fn commands(&mut self) -> Packed {
        self.asked = Instant::now();
        let mut commands = Packed::default();
        let mut add = |words: &[&str]| {
            let mut command = commands.command(words.len());
            words.iter().for_each(|word| {
                command.arg(word);
            });
        };
        let username = self.settings.username.as_deref();
        match (self.round, self.password.as_deref()) {
            (Round::Hello, Some(password)) => {
                add(&["HELLO", "3", "AUTH", username.unwrap_or("default"), password])
            }
            (Round::Hello, None) => add(&["HELLO", "3"]),
            (Round::Auth, password) => {
                let words: Vec<&str> = ["AUTH"].into_iter().chain(username).chain(password).collect();
                add(&words);
            }
            (Round::Rest, _) => self.rest(add),
        }
        commands
    }

    fn rest(&self, mut add: impl FnMut(&[&str])) {
        // What only informs the server comes first; its answers are not looked at.
        add(&["CLIENT", "SETINFO", "LIB-NAME", "echomq"]);
        add(&["CLIENT", "SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")]);
        if !self.identified {
            add(&["INFO", "server"]);
        }
        if self.asks_eviction {
            add(&["CONFIG", "GET", "maxmemory-policy"]);
            add(&["INFO", "memory"]);
        }
        if let Some(name) = &self.settings.client_name {
            add(&["CLIENT", "SETNAME", name]);
        }
        if self.settings.database != 0 {
            add(&["SELECT", &self.settings.database.to_string()]);
        }
        if let Some(version) = &self.settings.claim_version {
            add(&["SET", VERSION_KEY, version, "NX"]);
        }
        add(&["GET", VERSION_KEY]);
        add(&["TIME"]);
    }

    /// Reads the answers of this round: what was found, or nothing while another round is needed.
    ///
    /// Fails with `auth`, `version_fence`, `unsupported_server`, `unavailable` while the server cannot serve, and `server`.
    pub(crate) fn answered(&mut self, replies: Vec<Value>) -> Result<Option<Greeting>> {
        match self.round {
            Round::Hello | Round::Auth => {
                let reply = replies.into_iter().next().unwrap_or(Value::Nil);
                self.round = match reply {
                    Value::ServerError(error)
                        if self.round == Round::Hello && self.speaks_only_resp2(&error) =>
                    {
                        if self.settings.protocol == Protocol::Resp3 {
                            return Err(self.refused(&error));
                        }
                        if self.password.is_some() { Round::Auth } else { Round::Rest }
                    }
                    Value::ServerError(error) => return Err(self.refused(&error)),
                    hello if self.round == Round::Hello => {
                        self.check(&Identity::of_hello(hello))?;
                        self.identified = true;
                        Round::Rest
                    }
                    _ => Round::Rest,
                };
                Ok(None)
            }
            Round::Rest => self.finish(replies).map(Some),
        }
    }

    /// What the server said before it hung up in the middle of a round, where that is the reason.
    pub(crate) fn turned_away(&self, replies: &[Value]) -> Option<Error> {
        replies.iter().find_map(|reply| match reply {
            Value::ServerError(error) if is_full(error) || error.code() == "DENIED" => {
                Some(self.refused(error))
            }
            _ => None,
        })
    }

    fn finish(&self, replies: Vec<Value>) -> Result<Greeting> {
        let settings = self.settings;
        let mut replies = replies.into_iter().skip(2);
        let mut next = || replies.next().unwrap_or(Value::Nil);
        if !self.identified {
            // A sentinel refuses what follows, so this is looked at first.
            self.check(&Identity::of_info(next()))?;
        }
        let eviction = if self.asks_eviction { eviction(next(), next()) } else { None };
        for needed in
            [settings.client_name.is_some(), settings.database != 0, settings.claim_version.is_some()]
        {
            if needed {
                self.accepted(next())?;
            }
        }
        let version = self.accepted(next())?;
        check_version(reply::optional_bytes(version)?.as_deref())?;
        let server_time = (reply::server_time(self.accepted(next())?)?, self.asked);
        Ok(Greeting { server_time, eviction })
    }

    /// Whether the server knows no `HELLO`. Where it asks for a password some say so only by asking for one, which one that
    /// knows it would have found in it.
    fn speaks_only_resp2(&self, error: &redis::ServerError) -> bool {
        match error.code() {
            "NOPROTO" => true,
            "NOAUTH" => self.password.is_some(),
            _ => error.details().is_some_and(is_unknown),
        }
    }

    fn check(&self, identity: &Identity) -> Result<()> {
        identity.check().map_err(|error| error.about(self.settings.endpoint.to_string()))
    }

    fn accepted(&self, reply: Value) -> Result<Value> {
        match reply {
            Value::ServerError(error) => Err(self.refused(&error)),
            reply => Ok(reply),
        }
    }

    fn refused(&self, error: &redis::ServerError) -> Error {
        let text = reply::refused(error);
        let details = error.details().unwrap_or_default();
        let code = match error.code() {
            _ if is_full(error) => Code::Unavailable,
            // A password where none is set, or a user that does not exist, has no code word of its own.
            "ERR" if matches!(self.round, Round::Auth | Round::Hello) && !is_unknown(details) => Code::Auth,
            // Protected mode: the server takes nobody from elsewhere while it has no password.
            "DENIED" => Code::Auth,
            _ => text.code(),
        };
        Error::new(code, text.message()).about(self.settings.endpoint.to_string())
    }
}

/// Whether the server takes no more clients. It says so once, whatever it was sent, and hangs up.
fn is_full(error: &redis::ServerError) -> bool {
    error.code() == "ERR" && error.details().is_some_and(|text| text.contains("max number of clients"))
}

/// Whether the server, or a proxy before it, does not know a command.
fn is_unknown(details: &str) -> bool {
    let details = details.to_ascii_lowercase();
    ["unknown command", "unsupported command"].iter().any(|text| details.contains(text))
}

/// Lets absent and fitting versions pass.
fn check_version(version: Option<&[u8]>) -> Result<()> {
    match version {
        None => Ok(()),
        Some(version) if is_version(version) => Ok(()),
        Some(version) => Err(Error::new(
            Code::VersionFence,
            format!(
                "the deployment is marked as `{}`, this client speaks echomq:2 and echomq:3",
                version.escape_ascii()
            ),
        )
        .about(VERSION_KEY)),
    }
}

/// `echomq:<major>.<minor>.<patch>` with a major that this crate speaks.
pub(crate) fn is_version(version: &[u8]) -> bool {
    let Some(numbers) = str::from_utf8(version).ok().and_then(|text| text.strip_prefix("echomq:")) else {
        return false;
    };
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number) && MAJORS.contains(&parts[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::options::Options;
    use crate::connection::password::Password;
    use crate::notice::NoticeKind;

    fn settings(options: &[(&str, &str)]) -> Settings {
        let mut all = Options::new("redis://h").unwrap();
        for (name, value) in options {
            all.set(name, value).unwrap();
        }
        all.settings().unwrap()
    }

    fn begin(settings: &Settings) -> Handshake<'_> {
        let Some(Password::Text(password)) = settings.password.clone() else {
            return Handshake::new(settings, None);
        };
        Handshake::new(settings, Some(password))
    }

    fn texts(commands: Packed) -> Vec<String> {
        commands.texts().into_iter().filter(|text| !text.starts_with("CLIENT SETINFO")).collect()
    }

    fn replies(raw: &[&str]) -> Vec<Value> {
        raw.iter().map(|reply| redis::parse_redis_value(reply.as_bytes()).unwrap()).collect()
    }

    /// The last round of another handshake with a server that speaks RESP3.
    fn handshake_rest(settings: &Settings) -> Packed {
        let mut handshake = begin(settings);
        handshake.commands();
        handshake.answered(replies(&["%0\r\n"])).unwrap();
        handshake.commands()
    }

    const TIME: &str = "*2\r\n$10\r\n1735689600\r\n$6\r\n123999\r\n";

    #[test]
    fn resp3_with_user_database_name_and_claim() {
        let settings = settings(&[
            ("username", "u"),
            ("password", "p"),
            ("database", "3"),
            ("client_name", "me"),
            ("claim_version", "echomq:2.1.0"),
        ]);
        let mut handshake = begin(&settings);
        assert_eq!(texts(handshake.commands()), ["HELLO 3 AUTH u p"]);
        assert_eq!(handshake.answered(replies(&["%0\r\n"])).unwrap(), None);
        assert_eq!(
            texts(handshake.commands()),
            [
                "CONFIG GET maxmemory-policy",
                "INFO memory",
                "CLIENT SETNAME me",
                "SELECT 3",
                "SET {emq}:version echomq:2.1.0 NX",
                "GET {emq}:version",
                "TIME",
            ]
        );
        let rest = [
            "-ERR no",
            "-ERR no",
            "-NOPERM no",
            "$29\r\nmaxmemory_policy:volatile-ttl",
            "+OK",
            "+OK",
            "_",
            "$12\r\nechomq:3.0.9",
        ]
        .map(|reply| format!("{reply}\r\n"));
        let mut rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        rest.push(TIME);
        let greeting = handshake.answered(replies(&rest)).unwrap().unwrap();
        assert_eq!(greeting.server_time.0, 1_735_689_600_123);
        assert_eq!(greeting.eviction.as_ref().map(Notice::kind), Some(NoticeKind::EvictionPolicy));
        settings.greet(&greeting);
        assert_eq!(
            texts(handshake_rest(&settings)).len(),
            5,
            "only the first connection asks what is evicted"
        );
    }

    #[test]
    fn resp2_where_the_server_knows_no_other() {
        for error in [
            "-NOPROTO unsupported protocol version\r\n",
            "-ERR unknown command 'HELLO'\r\n",
            "-ERR unsupported command 'HELLO'\r\n",
            "-NOAUTH Authentication required.\r\n",
        ] {
            let with_password = settings(&[("password", "p")]);
            let mut handshake = begin(&with_password);
            assert_eq!(texts(handshake.commands()), ["HELLO 3 AUTH default p"]);
            assert_eq!(handshake.answered(replies(&[error])).unwrap(), None);
            assert_eq!(texts(handshake.commands()), ["AUTH p"]);
            assert_eq!(handshake.answered(replies(&["+OK\r\n"])).unwrap(), None);
            assert_eq!(
                texts(handshake.commands()),
                ["INFO server", "CONFIG GET maxmemory-policy", "INFO memory", "GET {emq}:version", "TIME"]
            );

            let only_resp3 = settings(&[("protocol", "3")]);
            let mut handshake = begin(&only_resp3);
            handshake.commands();
            let code = if error.starts_with("-NOAUTH") { Code::Auth } else { Code::Server };
            let error = handshake.answered(replies(&[error])).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_used_is_refused_in_either_protocol() {
        let cluster = "%2\r\n$7\r\nversion\r\n$5\r\n9.1.0\r\n$4\r\nmode\r\n$7\r\ncluster\r\n";
        let resp3 = settings(&[]);
        let mut handshake = begin(&resp3);
        handshake.commands();
        assert_eq!(handshake.answered(replies(&[cluster])).unwrap_err().code(), Code::UnsupportedServer);

        let resp2 = settings(&[("protocol", "2")]);
        let mut handshake = begin(&resp2);
        handshake.commands();
        let unknown = "-ERR unknown command\r\n";
        let info = "$21\r\nredis_mode:sentinel\r\n\r\n";
        let error = handshake.answered(replies(&[unknown, unknown, info, unknown, unknown])).unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::UnsupportedServer, Some("h:6379")));
    }

    #[test]
    fn a_refusal_has_its_code() {
        let with_password = settings(&[("password", "secret")]);
        for (error, code) in [
            ("-WRONGPASS invalid username-password pair or user is disabled.\r\n", Code::Auth),
            ("-ERR AUTH <password> called without any password configured\r\n", Code::Auth),
            ("-DENIED Redis is running in protected mode\r\n", Code::Auth),
            ("-LOADING the dataset in memory\r\n", Code::Unavailable),
            ("-ERR max number of clients reached\r\n", Code::Unavailable),
            ("-ERR max number of clients + cluster connections reached\r\n", Code::Unavailable),
        ] {
            let mut handshake = begin(&with_password);
            handshake.commands();
            let error = handshake.answered(replies(&[error])).unwrap_err();
            assert_eq!(error.code(), code, "{error}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn the_fence_names_both_versions() {
        for version in ["echomq:2.0.0", "echomq:3.10.7"] {
            assert!(check_version(Some(version.as_bytes())).is_ok(), "{version}");
        }
        assert!(check_version(None).is_ok());
        for version in [
            "",
            "echomq:1.9.9",
            "echomq:4.0.0",
            "echomq:2.0",
            "echomq:2.0.0.0",
            "echomq:2..0",
            "bull:2.0.0",
            "echomq:+2.0.0",
        ] {
            let error = check_version(Some(version.as_bytes())).unwrap_err();
            assert_eq!(error.code(), Code::VersionFence, "{version}");
            assert!(error.message().contains(version) && error.message().contains("echomq:3"), "{error}");
        }
    }
}
