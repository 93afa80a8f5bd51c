//! Administration: making and removing groups, what they hold, where they stand, and who reads for them
//! (`docs/protocol.md` §6).

pub(crate) mod consumers;
pub(crate) mod existence;
pub(crate) mod info;
pub(crate) mod lag;
pub(crate) mod look;
pub(crate) mod seek;

use crate::error::{Code, Error};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::stream::Key;
use redis::Value;

/// Why the answer to a request is not known.
const BROKEN: &str = "the connection broke before the answer came";

/// `EXISTS key`, sent behind a command whose error has no code word of its own where the stream is missing.
fn ask_existence(key: &Key, commands: &mut Packed) {
    commands.command(2).arg("EXISTS").arg(&**key);
}

/// Whether the stream is missing, by the reply to [`ask_existence`].
fn is_missing(reply: Value) -> bool {
    matches!(reply::count(reply), Ok(0))
}

/// Whether the command itself was carried out, where the server could not serve the one behind it.
fn is_decided(replies: &[Value]) -> bool {
    !matches!(replies.first(), Some(Value::ServerError(_)))
}

fn no_group(key: &Key, group: &str) -> Error {
    Error::new(Code::NoGroup, format!("there is no consumer group `{group}`")).about(&**key)
}

/// Nobody knows what a request did; `advice` says what is known, or what to do.
fn unknown(key: &Key, what: &str, why: &str, advice: &str) -> Error {
    let message = format!("{what} may or may not have been carried out: {why}; {advice}");
    Error::new(Code::UnknownOutcome, message).about(&**key)
}

#[cfg(test)]
mod tests;
