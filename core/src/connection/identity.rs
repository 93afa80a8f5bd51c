//! What a server says of itself: which program it is, in which mode it runs, and what it evicts
//! (`docs/protocol.md` §4).
//!
//! A server may hide any of it, behind a proxy or a rule of access: what is not told is not held against it.

use crate::error::{Code, Error, Result};
use crate::notice::{Notice, NoticeKind};
use crate::record::reply::{self, Members};
use redis::Value;

/// The least versions, by the name that a server gives itself.
const LEAST: [(&str, &str, (u32, u32)); 2] = [("redis", "Redis", (7, 0)), ("valkey", "Valkey", (7, 2))];

/// Who a server says that it is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    name: Option<String>,
    version: Option<String>,
    mode: Option<String>,
}

impl Identity {
    /// From the answer to `HELLO`.
    pub(crate) fn of_hello(hello: Value) -> Self {
        let Ok(mut members) = Members::read(hello) else { return Self::default() };
        let mut text = |name| text(members.take(name));
        Self { name: text("server"), version: text("version"), mode: text("mode") }
    }

    /// From the answer to `INFO server`.
    pub(crate) fn of_info(info: Value) -> Self {
        let Some(info) = text(info) else { return Self::default() };
        let one_of = |names: &[&str]| names.iter().find_map(|name| field(&info, name));
        // A Valkey also shows the version of Redis that it is compatible with.
        let (name, version) = match (field(&info, "valkey_version"), field(&info, "redis_version")) {
            (Some(version), _) => (Some("valkey".to_owned()), Some(version)),
            (None, Some(version)) => (Some("redis".to_owned()), Some(version)),
            (None, None) => (None, None),
        };
        Self { name, version, mode: one_of(&["server_mode", "redis_mode"]) }
    }

    /// Fails with `unsupported_server` where the server runs in a mode that is not supported, or is older than the least
    /// version.
    pub(crate) fn check(&self) -> Result<()> {
        let refused = |why: String| Err(Error::new(Code::UnsupportedServer, why));
        match self.mode.as_deref() {
            Some("cluster") => {
                return refused(
                    "the server is a node of a cluster, which is not supported yet, one of a single node \
                     included: use a server whose cluster mode is off"
                        .to_owned(),
                );
            }
            Some("sentinel") => {
                return refused(
                    "the server is a sentinel, which holds no data and is not supported yet: use the address \
                     of the primary that it watches"
                        .to_owned(),
                );
            }
            _ => {}
        }
        let (Some(name), Some(version)) = (&self.name, &self.version) else { return Ok(()) };
        let Some((_, program, least)) = LEAST.iter().find(|(known, ..)| name.eq_ignore_ascii_case(known))
        else {
            return Ok(());
        };
        match major_and_minor(version) {
            Some(found) if found < *least => refused(format!(
                "the server is {program} {}, and the bus needs Valkey 7.2, Redis 7.0 or later",
                version.escape_debug()
            )),
            _ => Ok(()),
        }
    }
}

/// What is to be told of a server's `maxmemory-policy`, from the answers to `CONFIG GET maxmemory-policy` and to
/// `INFO memory`; either may be refused.
pub(crate) fn eviction(config: Value, info: Value) -> Option<Notice> {
    let configured = reply::member(config, "maxmemory-policy").ok().flatten().and_then(text);
    let policy = configured.or_else(|| field(&text(info)?, "maxmemory_policy"))?;
    let what = match policy.as_str() {
        policy if policy.starts_with("allkeys-") => "any key, streams and their groups among them",
        policy if policy.starts_with("volatile-") => {
            "keys with a time to live: node leases, what a repeated append is answered from, and cancel marks"
        }
        _ => return None,
    };
    Some(Notice::new(
        NoticeKind::EvictionPolicy,
        format!(
            "the server's maxmemory-policy is `{}`, so that it evicts {what} when its memory is full; set it to \
             noeviction",
            policy.escape_debug()
        ),
    ))
}

fn text(reply: Value) -> Option<String> {
    reply::bytes(reply).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The value of a line `name:value`.
fn field(info: &str, name: &str) -> Option<String> {
    let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
    info.lines().find_map(value)
}

fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str, version: &str, mode: &str) -> Identity {
        let hello = Value::Map(
            [("server", name), ("version", version), ("mode", mode)]
                .map(|(name, value)| (Value::BulkString(name.into()), Value::BulkString(value.into())))
                .to_vec(),
        );
        Identity::of_hello(hello)
    }

    fn info(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn least_versions() {
        for (name, version) in [
            ("redis", "7.0.0"),
            ("redis", "7.2.4"),
            ("redis", "10.0.1"),
            ("valkey", "7.2.5"),
            ("valkey", "9.1.0"),
            ("Valkey", "255.255.255"),
            ("redis", "unstable"),
            ("another", "1.0.0"),
            ("", ""),
        ] {
            assert_eq!(identity(name, version, "standalone").check(), Ok(()), "{name} {version}");
        }
        for (name, version) in
            [("redis", "6.2.14"), ("redis", "5.0"), ("valkey", "7.0.9"), ("valkey", "7.1.255")]
        {
            let error = identity(name, version, "standalone").check().unwrap_err();
            assert_eq!(error.code(), Code::UnsupportedServer);
            for named in [version, "Redis 7.0", "Valkey 7.2"] {
                assert!(error.message().contains(named), "{error}");
            }
        }
        assert_eq!(Identity::default().check(), Ok(()));
        assert_eq!(Identity::of_hello(Value::Nil), Identity::default());
    }

    #[test]
    fn modes_that_are_not_supported() {
        for mode in ["cluster", "sentinel"] {
            let error = identity("valkey", "9.1.0", mode).check().unwrap_err();
            assert_eq!(error.code(), Code::UnsupportedServer);
            assert!(error.message().contains(mode), "{error}");
            for name in ["redis_mode", "server_mode"] {
                let info = info(&format!("# Server\r\nredis_version:7.2.4\r\n{name}:{mode}\r\n"));
                assert_eq!(Identity::of_info(info).check(), Err(error.clone()), "{name}");
            }
        }
    }

    #[test]
    fn a_valkey_is_told_by_its_own_version() {
        let valkey = "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.1.0\r\n";
        assert!(Identity::of_info(info(valkey)).check().is_err());
        assert!(Identity::of_info(info("redis_version:6.2.6\r\n")).check().is_err());
        assert!(Identity::of_info(info("redis_version:7.0.0\r\nredis_mode:standalone\r\n")).check().is_ok());
        assert_eq!(Identity::of_info(Value::Nil), Identity::default());
    }

    #[test]
    fn what_evicts_is_told_of_from_whichever_answer_there_is() {
        let pair = |policy: &str| Value::Array(vec![info("maxmemory-policy"), info(policy)]);
        let refused = || redis::parse_redis_value(b"-NOPERM no\r\n").unwrap();
        for policy in ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-ttl"] {
            let memory = info(&format!("# Memory\r\nmaxmemory_policy:{policy}\r\n"));
            for notice in [eviction(pair(policy), refused()), eviction(refused(), memory.clone())] {
                let notice = notice.unwrap();
                assert_eq!(notice.kind(), NoticeKind::EvictionPolicy);
                assert!(notice.message().contains(policy), "{notice}");
            }
        }
        assert_eq!(eviction(pair("noeviction"), refused()), None);
        assert_eq!(eviction(refused(), info("maxmemory_policy:noeviction")), None);
        assert_eq!(eviction(refused(), refused()), None);
        assert_eq!(eviction(Value::Nil, Value::Nil), None);
    }
}
