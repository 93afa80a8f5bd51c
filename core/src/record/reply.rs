//! Reading replies: whatever the protocol version, their shapes end here.

use super::Record;
use crate::error::{Code, Error, Result};
use crate::id::entry_id::EntryId;
use redis::{ServerError, Value};

/// The reply itself, or the error that the server answered.
pub(crate) fn accepted(reply: Value) -> Result<Value> {
    match reply {
        Value::ServerError(error) => Err(refused(&error)),
        Value::Attribute { data, .. } => accepted(*data),
        reply => Ok(reply),
    }
}

/// The error of an error reply, told by its leading code word.
pub(crate) fn refused(error: &ServerError) -> Error {
    let code = match error.code() {
        "WRONGTYPE" => Code::WrongType,
        "OOM" => Code::OutOfMemory,
        "NOGROUP" => Code::NoGroup,
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Code::Auth,
        "READONLY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "MISCONF" | "NOREPLICAS"
        | "BUSY" | "UNBLOCKED" => Code::Unavailable,
        "EMQKIND" => Code::Kind,
        "EMQSTALE" => Code::Stale,
        "EMQLOCK" => Code::Locked,
        "EMQSTATE" => Code::State,
        "EMQRATE" => Code::Overloaded,
        "EMQAHEAD" => return ahead(error.details().unwrap_or_default()),
        "ERR" if error.details().is_some_and(is_lack_of_permission) => Code::Auth,
        _ => Code::Server,
    };
    match error.details() {
        Some(details) => Error::new(code, format!("the server answered: {} {details}", error.code())),
        None => Error::new(code, format!("the server answered: {}", error.code())),
    }
}

/// Why the server could not serve a command, where that is what it answered: the command was not applied, and may be sent
/// again (`docs/protocol.md` §4).
pub(crate) fn unavailable(reply: &Value) -> Option<Error> {
    let Value::ServerError(error) = reply else { return None };
    let states =
        ["READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MISCONF", "NOREPLICAS", "BUSY"];
    states.contains(&error.code()).then(|| refused(error))
}

/// Whether a server refused to write because it is no primary any more.
pub(crate) fn is_demoted(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "READONLY")
}

/// Whether a server has ended a wait before its time: its role has changed, the key is gone, or somebody asked it to. The same
/// command, sent again, is answered by what is so.
pub(crate) fn is_unblocked(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "UNBLOCKED")
}

/// What a user may not do inside a script has no code word of its own on some servers, the first text from Valkey and the
/// second from Redis.
fn is_lack_of_permission(details: &str) -> bool {
    let texts = ["ACL failure in script", "The user executing the script can't"];
    texts.iter().any(|text| details.starts_with(text))
}

/// The error of an instant more than a minute ahead of the server's clock: whose instant, itself, and the server's.
fn ahead(details: &str) -> Error {
    let mut words = details.split(' ');
    let (whose, instant, server) = (words.next(), words.next(), words.next());
    let (code, whose) = match whose {
        Some("clock") => (Code::ClockAhead, "the next id would be"),
        Some("sequencer") => (Code::StreamAhead, "the next id of the queue's sequencer would be"),
        _ => (Code::StreamAhead, "the stream's last id is"),
    };
    let (instant, server) = (instant.unwrap_or("?"), server.unwrap_or("?"));
    Error::new(
        code,
        format!(
            "{whose} of the instant {instant} ms, which is more than a minute ahead of the server's clock, {server} ms"
        ),
    )
}

/// Whether the server refused an entry id because it is not above the stream's top.
///
/// Such an error has no code word of its own, so it is told by the stable part of its text; the second text is that
/// of a stream whose top is the largest id there is.
pub(crate) fn is_not_above_top(error: &ServerError) -> bool {
    error.code() == "ERR"
        && error.details().is_some_and(|text| {
            text.contains("equal or smaller than the target stream top item")
                || text.contains("exhausted the last possible ID")
        })
}

/// A text reply.
pub(crate) fn bytes(reply: Value) -> Result<Vec<u8>> {
    match accepted(reply)? {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::Okay => Ok(b"OK".to_vec()),
        Value::VerbatimString { text, .. } => Ok(text.into_bytes()),
        other => Err(unexpected("a text", &other)),
    }
}

/// A text reply, or nothing.
pub(crate) fn optional_bytes(reply: Value) -> Result<Option<Vec<u8>>> {
    match reply {
        Value::Nil => Ok(None),
        reply => bytes(reply).map(Some),
    }
}

/// A count.
pub(crate) fn count(reply: Value) -> Result<u64> {
    match accepted(reply)? {
        Value::Int(number) if number >= 0 => Ok(number as u64),
        other => Err(unexpected("a count", &other)),
    }
}

/// A count, or nothing where the server gives none.
pub(crate) fn optional_count(reply: Value) -> Result<Option<u64>> {
    match reply {
        Value::Nil => Ok(None),
        reply => count(reply).map(Some),
    }
}

/// The records of `XRANGE` and `XREVRANGE`.
pub(crate) fn records(reply: Value) -> Result<Vec<Record>> {
    list(accepted(reply)?)?.into_iter().map(record).collect()
}

/// An entry with its fields.
pub(crate) fn record(entry: Value) -> Result<Record> {
    let mut parts = list(entry)?.into_iter();
    let (Some(entry_id), Some(fields), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(unexpected("an entry id and its fields", &Value::Nil));
    };
    Ok(Record::new(EntryId::parse(bytes(entry_id)?)?, pairs(fields)?))
}

/// An entry as a group gives it out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Record(Record),
    /// Pending, but its data was trimmed away.
    Removed(EntryId),
}

impl Entry {
    pub(crate) fn entry_id(&self) -> EntryId {
        match self {
            Self::Record(record) => record.entry_id(),
            Self::Removed(entry_id) => *entry_id,
        }
    }
}

fn entry(entry: Value) -> Result<Entry> {
    let mut parts = list(entry)?.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(entry_id), Some(Value::Nil), None) => Ok(Entry::Removed(EntryId::parse(bytes(entry_id)?)?)),
        (Some(entry_id), Some(fields), None) => {
            Ok(Entry::Record(Record::new(EntryId::parse(bytes(entry_id)?)?, pairs(fields)?)))
        }
        _ => Err(unexpected("an entry id and its fields", &Value::Nil)),
    }
}

/// The entries of `XREAD` and `XREADGROUP` of one stream: a map by key (RESP3), a list of pairs (RESP2), or nothing.
pub(crate) fn stream_entries(reply: Value) -> Result<Vec<Entry>> {
    let entries = match accepted(reply)? {
        Value::Nil => return Ok(Vec::new()),
        Value::Map(streams) => streams.into_iter().next().map(|(_, entries)| entries),
        streams => match list(streams)?.into_iter().next() {
            Some(stream) => list(stream)?.into_iter().nth(1),
            None => None,
        },
    };
    match entries {
        Some(entries) => list(entries)?.into_iter().map(entry).collect(),
        None => Ok(Vec::new()),
    }
}

/// The answer of `XAUTOCLAIM`: where to go on, the entries, and those whose data is gone.
///
/// Servers before 7.0 answer no third part and put nothing in the place of an entry that is gone, so its id is not known.
pub(crate) fn claimed_entries(reply: Value) -> Result<(EntryId, Vec<Entry>, Vec<EntryId>)> {
    let mut parts = list(accepted(reply)?)?.into_iter();
    let (Some(cursor), Some(entries)) = (parts.next(), parts.next()) else {
        return Err(unexpected("a cursor and entries", &Value::Nil));
    };
    let known = list(entries)?.into_iter().filter(|entry| *entry != Value::Nil);
    let entries = known.map(entry).collect::<Result<_>>()?;
    let removed = match parts.next() {
        Some(removed) => list(removed)?.into_iter().map(entry_id).collect::<Result<_>>()?,
        None => Vec::new(),
    };
    Ok((entry_id(cursor)?, entries, removed))
}

/// An entry id.
pub(crate) fn entry_id(reply: Value) -> Result<EntryId> {
    EntryId::parse(bytes(reply)?)
}

/// The delivery count of the one entry that `XPENDING` was asked for; nothing where it is not pending.
pub(crate) fn delivery_count(reply: Value) -> Result<Option<u64>> {
    match list(accepted(reply)?)?.into_iter().next() {
        Some(pending) => list(pending)?
            .into_iter()
            .nth(3)
            .map(count)
            .transpose()?
            .map_or_else(|| Err(unexpected("a delivery count", &Value::Nil)), |count| Ok(Some(count))),
        None => Ok(None),
    }
}

/// The entries that `XPENDING` lists.
pub(crate) fn pending_entries(reply: Value) -> Result<Vec<EntryId>> {
    let first = |pending| {
        let first = list(pending)?.into_iter().next();
        first.map_or_else(|| Err(unexpected("an entry id", &Value::Nil)), entry_id)
    };
    list(accepted(reply)?)?.into_iter().map(first).collect()
}

/// Whether `XINFO` was asked about a key that does not exist, which has no code word of its own.
pub(crate) fn is_no_such_key(error: &ServerError) -> bool {
    error.code() == "ERR" && error.details().is_some_and(|text| text.contains("no such key"))
}

/// The members of a sorted set with their scores as whole numbers: pairs (RESP3) or one flat list (RESP2).
pub(crate) fn scores(reply: Value) -> Result<Vec<(Vec<u8>, u64)>> {
    let mut parts = Vec::new();
    for part in list(reply)? {
        match part {
            Value::Array(pair) => parts.extend(pair),
            part => parts.push(part),
        }
    }
    let mut scores = Vec::with_capacity(parts.len() / 2);
    let mut parts = parts.into_iter();
    while let (Some(member), Some(score)) = (parts.next(), parts.next()) {
        let score = match score {
            Value::Double(score) => score,
            score => {
                let text = String::from_utf8_lossy(&bytes(score)?).parse::<f64>();
                text.map_err(|_| Error::new(Code::Server, "a score is no number"))?
            }
        };
        scores.push((bytes(member)?, score.max(0.0) as u64));
    }
    Ok(scores)
}

/// Names and values, which both protocol versions send as one flat list.
fn pairs(reply: Value) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let parts = list(reply)?;
    let mut pairs = Vec::with_capacity(parts.len() / 2);
    let mut parts = parts.into_iter();
    while let Some(name) = parts.next() {
        let value = parts.next().ok_or_else(|| unexpected("a value behind each name", &Value::Nil))?;
        pairs.push((bytes(name)?, bytes(value)?));
    }
    Ok(pairs)
}

/// The value of a name in a map (RESP3) or a flat list of names and values (RESP2).
pub(crate) fn member(reply: Value, wanted: &str) -> Result<Option<Value>> {
    Members::read(reply).map(|mut members| members.find(wanted))
}

/// Names and values: a map (RESP3) or a flat list (RESP2).
pub(crate) struct Members(Vec<(Value, Value)>);

impl Members {
    pub(crate) fn read(reply: Value) -> Result<Self> {
        match accepted(reply)? {
            Value::Map(members) => Ok(Self(members)),
            members => {
                let mut parts = list(members)?.into_iter();
                Ok(Self(std::iter::from_fn(|| Some((parts.next()?, parts.next()?))).collect()))
            }
        }
    }

    /// The value of a name, or a nil where there is none. Each can be taken once.
    pub(crate) fn take(&mut self, wanted: &str) -> Value {
        self.find(wanted).unwrap_or(Value::Nil)
    }

    fn find(&mut self, wanted: &str) -> Option<Value> {
        let is_wanted = |name: &Value| {
            matches!(name, Value::BulkString(name) if name == wanted.as_bytes())
                || matches!(name, Value::SimpleString(name) if name == wanted)
        };
        let place = self.0.iter().position(|(name, _)| is_wanted(name))?;
        Some(self.0.swap_remove(place).1)
    }
}

/// What `TIME` answers, in milliseconds since 1970: the reply is seconds and microseconds.
pub(crate) fn server_time(reply: Value) -> Result<u64> {
    let mut numbers = list(accepted(reply)?)?.into_iter().map(|part| {
        let digits = bytes(part)?;
        str::from_utf8(&digits)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
            .ok_or_else(|| Error::new(Code::Server, "the server's TIME is no number"))
    });
    match (numbers.next().transpose()?, numbers.next().transpose()?) {
        (Some(seconds), Some(micros)) => Ok(seconds.saturating_mul(1_000).saturating_add(micros / 1_000)),
        _ => Err(Error::new(Code::Server, "the server's TIME has no two parts")),
    }
}

/// A list.
pub(crate) fn list(reply: Value) -> Result<Vec<Value>> {
    match reply {
        Value::Array(items) | Value::Set(items) => Ok(items),
        other => Err(unexpected("a list", &other)),
    }
}

pub(crate) fn unexpected(wanted: &str, reply: &Value) -> Error {
    let found = match reply {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } | Value::Okay => {
            "a text"
        }
        Value::Array(_) | Value::Set(_) => "a list",
        Value::Map(_) => "a map",
        Value::ServerError(_) => "an error",
        _ => "something else",
    };
    Error::new(Code::Server, format!("the server answered {found} where {wanted} belongs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(reply: &[u8]) -> Value {
        redis::parse_redis_value(reply).unwrap()
    }

    fn error(text: &str) -> ServerError {
        match parsed(format!("-{text}\r\n").as_bytes()) {
            Value::ServerError(error) => error,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn errors_are_told_by_their_code_word() {
        for (text, code) in [
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Code::WrongType),
            ("OOM command not allowed when used memory > 'maxmemory'.", Code::OutOfMemory),
            ("NOGROUP No such key", Code::NoGroup),
            ("NOPERM this user has no permissions", Code::Auth),
            ("WRONGPASS invalid username-password pair", Code::Auth),
            ("ERR ACL failure in script: No permissions to access a channel", Code::Auth),
            ("ERR The user executing the script can't publish to the channel", Code::Auth),
            ("ERR something", Code::Server),
            ("READONLY You can't write against a read only replica.", Code::Unavailable),
            ("UNBLOCKED force unblock from blocking operation, instance state changed", Code::Unavailable),
        ] {
            let error = refused(&error(text));
            assert_eq!(error.code(), code, "{text}");
            assert!(error.message().ends_with(text), "{error}");
        }
    }

    #[test]
    fn what_is_ahead_is_named_with_both_instants() {
        for (whose, code) in
            [("clock", Code::ClockAhead), ("stream", Code::StreamAhead), ("sequencer", Code::StreamAhead)]
        {
            let error = refused(&error(&format!("EMQAHEAD {whose} 1735689720000 1735689600000")));
            assert_eq!(error.code(), code);
            assert!(error.message().contains("1735689720000"), "{error}");
            assert!(error.message().contains("1735689600000"), "{error}");
        }
        assert_eq!(refused(&error("EMQAHEAD")).code(), Code::StreamAhead);
    }

    #[test]
    fn a_refused_entry_id_is_told_by_the_stable_part_of_its_text() {
        let text = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
        assert!(is_not_above_top(&error(text)));
        assert!(!is_not_above_top(&error("ERR wrong number of arguments for 'xadd' command")));
        assert!(!is_not_above_top(&error("WRONGTYPE equal or smaller than the target stream top item")));
    }

    #[test]
    fn entries_of_both_protocols_some_of_them_gone() {
        let entries = "*2\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\n1-2\r\n";
        let gone = EntryId::new(1, 2);
        for (reply, nil) in [("%1\r\n$1\r\ns\r\n", "_\r\n"), ("*1\r\n*2\r\n$1\r\ns\r\n", "*-1\r\n")] {
            let read = stream_entries(parsed(format!("{reply}{entries}{nil}").as_bytes())).unwrap();
            assert_eq!(read.len(), 2);
            assert!(matches!(&read[0], Entry::Record(record) if record.get("k") == Some(b"v")));
            assert_eq!(read[1], Entry::Removed(gone));
        }
        for nothing in ["_\r\n", "*-1\r\n"] {
            assert_eq!(stream_entries(parsed(nothing.as_bytes())).unwrap(), []);
        }
    }

    #[test]
    fn claimed_entries_of_servers_old_and_new() {
        let entry = "*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n";
        // Before 7.0 there is no third part, and nothing stands in the place of what is gone.
        let old = format!("*2\r\n$3\r\n0-0\r\n*2\r\n*-1\r\n{entry}");
        let (cursor, entries, removed) = claimed_entries(parsed(old.as_bytes())).unwrap();
        assert_eq!((cursor, entries.len(), removed.len()), (EntryId::MIN, 1, 0));
        let new = format!("*3\r\n$3\r\n1-9\r\n*1\r\n{entry}*1\r\n$3\r\n1-2\r\n");
        let (cursor, entries, removed) = claimed_entries(parsed(new.as_bytes())).unwrap();
        assert_eq!((cursor, entries.len()), (EntryId::new(1, 9), 1));
        assert_eq!(removed, [EntryId::new(1, 2)]);
    }

    #[test]
    fn a_member_is_found_under_both_protocols() {
        for reply in
            [&b"*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n"[..], b"%2\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:2\r\n"]
        {
            assert_eq!(member(parsed(reply), "b").unwrap(), Some(Value::Int(2)));
            assert_eq!(member(parsed(reply), "c").unwrap(), None);
        }
    }

    proptest! {
        /// Whatever a server sends, it is read or refused, never a panic.
        #[test]
        fn any_reply_is_read_or_refused(reply in any_reply()) {
            let _ = records(reply.clone());
            let _ = stream_entries(reply.clone());
            let _ = claimed_entries(reply.clone());
            let _ = delivery_count(reply.clone());
            let _ = pending_entries(reply.clone());
            let _ = member(reply.clone(), "k");
            let _ = server_time(reply.clone());
            let _ = count(reply.clone());
            let _ = optional_bytes(reply);
        }
    }

    fn any_reply() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<i64>().prop_map(Value::Int),
            any::<Vec<u8>>().prop_map(Value::BulkString),
            "[0-9]{1,3}-[0-9]{1,3}".prop_map(|text| Value::BulkString(text.into_bytes())),
            Just(Value::ServerError(error("ERR no"))),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::vec((inner.clone(), inner), 0..3).prop_map(Value::Map),
            ]
        })
    }
}
