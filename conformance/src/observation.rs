//! What the plain client sees after the steps of a case.

use crate::case::Case;
use crate::protocol::Token;
use crate::snowflake;
use echomq_tests::{Command, Plain};
use redis::Value;

/// What the names of the keys that hold node leases begin with.
pub(crate) const LEASES: &str = "{emq}:nodes";

/// What is on the server, and what was sent to it.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// All keys, in byte order, but for those of the node leases.
    pub keys: Vec<String>,
    /// The entries of the case's stream: entry id, field, value, …
    pub entries: Vec<Vec<Token>>,
    /// The bytes of the reply to XRANGE over the whole stream.
    pub range: Vec<u8>,
    /// The server's own serialisation of the stream.
    pub dump: Option<Vec<u8>>,
    /// Every XADD that was sent, where the case captures.
    pub commands: Vec<Command>,
}

impl Observation {
    /// Looks at the server.
    ///
    /// # Errors
    ///
    /// Says so where the key of the case's stream holds something else.
    pub fn of(case: &Case, plain: &mut Plain, commands: Vec<Command>) -> Result<Self, String> {
        let mut keys: Vec<String> = plain.query(["KEYS", "*"]);
        // Everyone who has minted holds a node, and may renew it at any time.
        keys.retain(|key| !key.starts_with(LEASES));
        keys.sort();
        let mut seen = Self { keys, commands, ..Self::default() };
        if let Some(stream) = &case.expect.stream {
            let reply = plain.try_command(["XRANGE", &stream.key, "-", "+"]);
            seen.entries = entries(reply.map_err(|error| format!("{}: {error}", stream.key))?)?;
            if case.captures() {
                seen.range = plain.xrange_bytes(&stream.key);
                seen.dump = plain.dump(&stream.key);
            }
        }
        Ok(seen)
    }
}

/// Reads the reply to XRANGE.
pub(crate) fn entries(reply: Value) -> Result<Vec<Vec<Token>>, String> {
    let Value::Array(entries) = reply else { return Err(format!("no reply to XRANGE: {reply:?}")) };
    entries
        .into_iter()
        .map(|entry| {
            let mut places = Vec::new();
            flatten(entry, &mut places)?;
            Ok(places)
        })
        .collect()
}

fn flatten(value: Value, into: &mut Vec<Token>) -> Result<(), String> {
    match value {
        Value::BulkString(bytes) => into.push(Token::Value(bytes)),
        Value::Array(values) => values.into_iter().try_for_each(|value| flatten(value, into))?,
        other => return Err(format!("no part of an entry: {other:?}")),
    }
    Ok(())
}

/// The group that a reader has to answer for an entry: its id or nothing where it is foreign, and the rest.
pub fn as_read(entry: &[Token]) -> Vec<Token> {
    let (id, fields) = match entry {
        [Token::Value(place), Token::Value(name), Token::Value(id), fields @ ..]
            if name == b"id"
                && snowflake::snowflake(id).is_some_and(|id| snowflake::entry(id).as_bytes() == place) =>
        {
            (id.clone(), fields)
        }
        _ => (Vec::new(), entry.get(1..).unwrap_or_default()),
    };
    let mut group = vec![Token::Value(id)];
    group.extend(entry.first().cloned());
    group.extend_from_slice(fields);
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fields: &[&str]) -> Vec<Token> {
        fields.iter().map(Token::text).collect()
    }

    #[test]
    fn a_record_is_read_with_its_id() {
        let record = entry(&["1704067200000-1", "id", "EVT00000000001", "k", "v"]);
        assert_eq!(as_read(&record), entry(&["EVT00000000001", "1704067200000-1", "k", "v"]));
    }

    #[test]
    fn a_foreign_entry_keeps_all_its_fields() {
        for fields in [
            &["1704067200000-1", "k", "v"][..],
            &["1704067200000-1", "k", "v", "id", "EVT00000000001"],
            &["1704067200000-1", "id", "EVT00000000002"],
            &["1704067200000-1", "id", "JOB00000000001"],
            &["1704067200000-1", "ID", "EVT00000000001"],
        ] {
            let mut expected = entry(&["", fields[0]]);
            expected.extend(entry(&fields[1..]));
            assert_eq!(as_read(&entry(fields)), expected);
        }
    }
}
