//! The first words on a connection: protocol, user, database, name, version fence, and the server's clock
//! (`docs/protocol.md` §2 and §4).
//!
//! It does no I/O: it says what to send in each round and reads the answers, so that every door opens its connections
//! alike.

use super::settings::{Protocol, Settings};
use crate::error::{Code, Error, Result};
use crate::keyspace::VERSION_KEY;
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::time::Instant;

/// Majors of the wire version that this crate speaks.
const MAJORS: [&str; 2] = ["2", "3"];

/// A handshake under way.
pub(crate) struct Handshake<'a> {
    settings: &'a Settings,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// The server's clock in Unix milliseconds, and when it was read.
    pub(crate) server_time: (u64, Instant),
}

impl<'a> Handshake<'a> {
    pub(crate) fn new(settings: &'a Settings) -> Self {
        let round = match (settings.protocol, &settings.password) {
            (Protocol::Auto | Protocol::Resp3, _) => Round::Hello,
            (Protocol::Resp2, Some(_)) => Round::Auth,
            (Protocol::Resp2, None) => Round::Rest,
        };
        Self { settings, round, asked: Instant::now() }
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
        let settings = self.settings;
        let (username, password) = (settings.username.as_deref(), settings.password.as_deref());
        match (self.round, password) {
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
    /// Fails with `auth`, `version_fence`, `disconnected` while the server is loading its data, and `server`.
    pub(crate) fn answered(&mut self, replies: Vec<Value>) -> Result<Option<Greeting>> {
        match self.round {
            Round::Hello | Round::Auth => {
                let reply = replies.into_iter().next().unwrap_or(Value::Nil);
                self.round = match reply {
                    Value::ServerError(error) if self.round == Round::Hello && speaks_only_resp2(&error) => {
                        if self.settings.protocol == Protocol::Resp3 {
                            return Err(self.refused(Value::ServerError(error)));
                        }
                        if self.settings.password.is_some() { Round::Auth } else { Round::Rest }
                    }
                    reply @ Value::ServerError(_) => return Err(self.refused(reply)),
                    _ => Round::Rest,
                };
                Ok(None)
            }
            Round::Rest => self.finish(replies).map(Some),
        }
    }

    fn finish(&self, replies: Vec<Value>) -> Result<Greeting> {
        let settings = self.settings;
        let mut replies = replies.into_iter().skip(2);
        let mut next = || replies.next().unwrap_or(Value::Nil);
        for needed in
            [settings.client_name.is_some(), settings.database != 0, settings.claim_version.is_some()]
        {
            if needed {
                self.accepted(next())?;
            }
        }
        let version = self.accepted(next())?;
        check_version(reply::optional_bytes(version)?.as_deref())?;
        Ok(Greeting { server_time: (reply::server_time(self.accepted(next())?)?, self.asked) })
    }

    fn accepted(&self, reply: Value) -> Result<Value> {
        match reply {
            reply @ Value::ServerError(_) => Err(self.refused(reply)),
            reply => Ok(reply),
        }
    }

    fn refused(&self, reply: Value) -> Error {
        let Value::ServerError(error) = reply else { return reply::unexpected("an error", &reply) };
        let text = reply::refused(&error);
        let code = match error.code() {
            // The server is there, but not ready to serve.
            "LOADING" | "MASTERDOWN" | "BUSY" => Code::Disconnected,
            // A password where none is set, or a user that does not exist, has no code word of its own.
            "ERR" if matches!(self.round, Round::Auth | Round::Hello) => Code::Auth,
            _ => text.code(),
        };
        Error::new(code, text.message()).about(self.settings.endpoint.to_string())
    }
}

fn speaks_only_resp2(error: &redis::ServerError) -> bool {
    error.code() == "NOPROTO" || error.details().is_some_and(|text| text.contains("unknown command"))
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

    fn settings(options: &[(&str, &str)]) -> Settings {
        let mut all = Options::new("redis://h").unwrap();
        for (name, value) in options {
            all.set(name, value).unwrap();
        }
        all.settings().unwrap()
    }

    fn texts(commands: Packed) -> Vec<String> {
        commands.texts().into_iter().filter(|text| !text.starts_with("CLIENT SETINFO")).collect()
    }

    fn replies(raw: &[&str]) -> Vec<Value> {
        raw.iter().map(|reply| redis::parse_redis_value(reply.as_bytes()).unwrap()).collect()
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
        let mut handshake = Handshake::new(&settings);
        assert_eq!(texts(handshake.commands()), ["HELLO 3 AUTH u p"]);
        assert_eq!(handshake.answered(replies(&["%0\r\n"])).unwrap(), None);
        assert_eq!(
            texts(handshake.commands()),
            [
                "CLIENT SETNAME me",
                "SELECT 3",
                "SET {emq}:version echomq:2.1.0 NX",
                "GET {emq}:version",
                "TIME",
            ]
        );
        let rest = ["-ERR no", "-ERR no", "+OK", "+OK", "_", "$12\r\nechomq:3.0.9"]
            .map(|reply| format!("{reply}\r\n"));
        let mut rest: Vec<&str> = rest.iter().map(String::as_str).collect();
        rest.push(TIME);
        assert_eq!(handshake.answered(replies(&rest)).unwrap().unwrap().server_time.0, 1_735_689_600_123);
    }

    #[test]
    fn resp2_where_the_server_knows_no_other() {
        for error in ["-NOPROTO unsupported protocol version\r\n", "-ERR unknown command 'HELLO'\r\n"] {
            let with_password = settings(&[("password", "p")]);
            let mut handshake = Handshake::new(&with_password);
            assert_eq!(texts(handshake.commands()), ["HELLO 3 AUTH default p"]);
            assert_eq!(handshake.answered(replies(&[error])).unwrap(), None);
            assert_eq!(texts(handshake.commands()), ["AUTH p"]);
            assert_eq!(handshake.answered(replies(&["+OK\r\n"])).unwrap(), None);
            assert_eq!(texts(handshake.commands()), ["GET {emq}:version", "TIME"]);

            let only_resp3 = settings(&[("protocol", "3")]);
            let mut handshake = Handshake::new(&only_resp3);
            handshake.commands();
            assert!(handshake.answered(replies(&[error])).is_err());
        }
    }

    #[test]
    fn a_refusal_has_its_code() {
        let with_password = settings(&[("password", "secret")]);
        for (error, code) in [
            ("-WRONGPASS invalid username-password pair or user is disabled.\r\n", Code::Auth),
            ("-NOAUTH HELLO must be called with the client already authenticated\r\n", Code::Auth),
            ("-ERR AUTH <password> called without any password configured\r\n", Code::Auth),
            ("-LOADING the dataset in memory\r\n", Code::Disconnected),
        ] {
            let mut handshake = Handshake::new(&with_password);
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
