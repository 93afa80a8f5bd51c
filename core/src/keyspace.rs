//! The only place where a key or a name is spelled and checked (`docs/protocol.md` §2).

use crate::error::{Code, Error, Result};
use crate::id::branded::BrandedId;
use std::fmt;
use std::sync::Arc;

/// The key that holds the deployment's wire version.
pub const VERSION_KEY: &str = "{emq}:version";

/// The key of the node leases.
pub(crate) const NODES_KEY: &str = "{emq}:nodes";

/// The key of the highest instants that the holders of nodes may have minted.
pub(crate) const NODE_FLOORS_KEY: &str = "{emq}:nodes:floor";

/// The key of who the owner of a node lease is.
pub(crate) fn node_owner(owner: &str) -> String {
    format!("{NODES_KEY}:{owner}")
}

const MAX_NAME: usize = 128;
const SLOTS: u16 = 16_384;

/// The keys of one queue: `emq:{queue}:<type>`. They share a cluster slot.
///
/// ```
/// use echomq::{Keyspace, slot};
///
/// let keys = Keyspace::new("orders")?;
/// assert_eq!(keys.stream("events")?, "emq:{orders}:stream:events");
/// assert_eq!(slot(&keys.stream("events")?), 105);
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Keyspace {
    queue: Arc<str>,
}

impl Keyspace {
    /// The keyspace of a queue.
    ///
    /// Fails with [`Code::InvalidName`] unless the name is 1 to 128 bytes of `A-Z a-z 0-9 . _ -` and not `emq`.
    pub fn new(queue: &str) -> Result<Self> {
        check_name("queue", queue)?;
        if queue == "emq" {
            return Err(refusal("queue", queue, "is reserved for the deployment"));
        }
        Ok(Self { queue: queue.into() })
    }

    /// The queue's name.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// The key of a stream. Fails with [`Code::InvalidName`] as [`Keyspace::new`] does.
    pub fn stream(&self, name: &str) -> Result<String> {
        check_name("stream", name)?;
        Ok(self.spell(&["stream:", name]))
    }

    /// The key of a stream's dead letters. Fails with [`Code::InvalidName`] as [`Keyspace::new`] does.
    pub fn dead_letters(&self, name: &str) -> Result<String> {
        check_name("stream", name)?;
        Ok(self.spell(&["stream:", name, ":dead"]))
    }

    /// The key of the queue's sequencer.
    pub fn sequencer(&self) -> String {
        self.spell(&["seq"])
    }

    /// The key of what the sequencer answered to questions whose first candidate is of that instant, in Unix milliseconds:
    /// one key for five seconds.
    pub fn asked(&self, candidate_ms: u64) -> String {
        self.spell(&["asked:", itoa::Buffer::new().format(candidate_ms / 5_000)])
    }

    /// The channel of the queue's lifecycle events.
    pub fn events(&self) -> String {
        self.spell(&["events"])
    }

    /// The key of a job's row.
    pub fn job(&self, job: BrandedId) -> String {
        self.spell(&["job:", job.as_str()])
    }

    /// The key of a job's cancel mark.
    pub fn cancel(&self, job: BrandedId) -> String {
        self.spell(&["cancel:", job.as_str()])
    }

    /// The key of any type, for example `stream:events` or `seq`.
    ///
    /// Fails with [`Code::InvalidName`] unless the type is names joined by `:`.
    pub fn key(&self, kind: &str) -> Result<String> {
        for part in kind.split(':') {
            check_name("key type", part)?;
        }
        Ok(self.spell(&[kind]))
    }

    fn spell(&self, parts: &[&str]) -> String {
        let mut key = format!("emq:{{{}}}:", self.queue);
        parts.iter().for_each(|part| key.push_str(part));
        key
    }
}

/// The name of a consumer group, checked. Fails with [`Code::InvalidName`].
pub(crate) fn group_name(name: &str) -> Result<Arc<str>> {
    check_reader_name("group", name)
}

/// The name of a consumer, checked. Fails with [`Code::InvalidName`].
pub(crate) fn consumer_name(name: &str) -> Result<Arc<str>> {
    check_reader_name("consumer", name)
}

fn check_reader_name(what: &str, name: &str) -> Result<Arc<str>> {
    check_name(what, name)?;
    if name.eq_ignore_ascii_case("STREAMS") {
        return Err(refusal(what, name, "is a word that servers misread as the keyword of XREADGROUP"));
    }
    Ok(name.into())
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyspace({})", self.queue)
    }
}

fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(refusal(what, name, "is empty"));
    }
    if name.len() > MAX_NAME {
        return Err(refusal(what, name, &format!("is longer than {MAX_NAME} bytes")));
    }
    match name.bytes().find(|byte| !(byte.is_ascii_alphanumeric() || b"._-".contains(byte))) {
        Some(byte) => Err(refusal(what, name, &format!("has `{}`", byte.escape_ascii()))),
        None => Ok(()),
    }
}

fn refusal(what: &str, name: &str, why: &str) -> Error {
    let mut shown: String = name.escape_debug().take(MAX_NAME).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    Error::new(
        Code::InvalidName,
        format!("the {what} name {why}; a name is 1 to {MAX_NAME} of A-Z a-z 0-9 . _ -"),
    )
    .about(shown)
}

/// The cluster slot of a key: CRC16-XMODEM of the text inside its first non-empty `{…}`, or of all of it, modulo
/// 16384.
///
/// The rule is the server's, see <https://valkey.io/topics/cluster-spec/>.
pub fn slot(key: &str) -> u16 {
    let hashed = match key.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        Some((tag, _)) if !tag.is_empty() => tag,
        _ => key,
    };
    crc16(hashed.as_bytes()) % SLOTS
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte) << 8,
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn vectors() -> Value {
        serde_json::from_str(include_str!("../../conformance/vectors.json")).unwrap()
    }

    #[test]
    fn every_key_and_slot_of_the_vectors() {
        for fact in vectors()["keys"].as_array().unwrap() {
            let key = fact["key"].as_str().unwrap();
            assert_eq!(u64::from(slot(key)), fact["slot"].as_u64().unwrap(), "{key}");
            if let (Some(queue), Some(kind)) = (fact["queue"].as_str(), fact["type"].as_str()) {
                assert_eq!(Keyspace::new(queue).unwrap().key(kind).unwrap(), key);
            }
        }
        assert_eq!(slot(VERSION_KEY), 9051);
    }

    #[test]
    fn every_name_of_the_vectors() {
        let names = &vectors()["names"];
        let keys = Keyspace::new("q").unwrap();
        for name in names["valid"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            assert_eq!(Keyspace::new(name).unwrap().queue(), name);
            assert_eq!(keys.stream(name).unwrap(), format!("emq:{{q}}:stream:{name}"));
        }
        for name in names["invalid"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            assert_eq!(Keyspace::new(name).unwrap_err().code(), Code::InvalidName, "{name:?}");
            if name != "emq" {
                assert_eq!(keys.stream(name).unwrap_err().code(), Code::InvalidName, "{name:?}");
            }
        }
        assert_eq!(keys.stream("emq").unwrap(), "emq:{q}:stream:emq");
    }

    #[test]
    fn the_keys_beside_a_stream() {
        let keys = Keyspace::new("q").unwrap();
        assert_eq!(keys.dead_letters("s").unwrap(), "emq:{q}:stream:s:dead");
        assert_eq!(keys.dead_letters("s:dead").unwrap_err().code(), Code::InvalidName);
        assert_eq!(keys.sequencer(), "emq:{q}:seq");
        assert_eq!(keys.asked(1_735_689_599_999), "emq:{q}:asked:347137919");
        assert_eq!(keys.asked(1_735_689_600_000), "emq:{q}:asked:347137920");
        assert_eq!(slot(&keys.asked(u64::MAX)), slot(&keys.sequencer()));
    }

    #[test]
    fn the_keys_of_a_job_and_the_channel() {
        let keys = Keyspace::new("q").unwrap();
        let job = BrandedId::parse("JOB000xY9Wvvcd").unwrap();
        assert_eq!(keys.events(), "emq:{q}:events");
        assert_eq!(keys.job(job), "emq:{q}:job:JOB000xY9Wvvcd");
        assert_eq!(keys.cancel(job), "emq:{q}:cancel:JOB000xY9Wvvcd");
    }

    #[test]
    fn names_of_groups_and_consumers() {
        for check in [group_name, consumer_name] {
            for name in ["emq", "mailer-1", "A.b_c", "STREAMS1", &"x".repeat(128)] {
                assert_eq!(&*check(name).unwrap(), name);
            }
            for name in ["", "a b", "a:b", "{a}", "é", "STREAMS", "streams", "Streams", &"x".repeat(129)] {
                assert_eq!(check(name).unwrap_err().code(), Code::InvalidName, "{name:?}");
            }
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for kind in ["", ":", "stream:", ":seq", "stream::x", "stream:a b", "a{b"] {
            assert_eq!(
                Keyspace::new("q").unwrap().key(kind).unwrap_err().code(),
                Code::InvalidName,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn an_empty_tag_hashes_the_whole_key() {
        assert_eq!(slot("{}123456789"), crc16(b"{}123456789") % SLOTS);
        assert_eq!(slot("a{123456789}b{x}"), 12_739);
        assert_eq!(slot("123456789"), 12_739);
        assert_eq!(slot("a{123456789"), crc16(b"a{123456789") % SLOTS);
    }
}
