//! The ops that cases may use, and where each takes its handle.

use crate::item::{self, Item};
use crate::protocol::Token;

/// How an op is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It takes no handle.
    Plain,
    /// Its first argument is a handle.
    OnHandle,
    /// Its first two arguments are a handle and the server's address.
    Opens,
    /// Its first argument names a reader; a handle follows.
    OpensReader,
    /// Its first argument names a reader.
    OnReader,
}

const OPERATIONS: &[(&str, Call)] = &[
    ("hello", Call::Plain),
    ("id.decode", Call::Plain),
    ("id.encode", Call::Plain),
    ("id.from_entry", Call::Plain),
    ("key", Call::Plain),
    ("open", Call::Opens),
    ("close", Call::OnHandle),
    ("mint", Call::OnHandle),
    ("append", Call::OnHandle),
    ("append_id", Call::OnHandle),
    ("append_batch", Call::OnHandle),
    ("append_batch_atomic", Call::OnHandle),
    ("append_batch_sequenced", Call::OnHandle),
    ("read", Call::OnHandle),
    ("read_window", Call::OnHandle),
    ("read_since", Call::OnHandle),
    ("read_last", Call::OnHandle),
    ("trim", Call::OnHandle),
    ("append_sequenced", Call::OnHandle),
    ("tail", Call::OpensReader),
    ("consumer", Call::OpensReader),
    ("next", Call::OnReader),
    ("next_cancelled", Call::OnReader),
    ("ack", Call::OnReader),
    ("fail", Call::OnReader),
    ("stop", Call::OnReader),
    ("group.info", Call::OnHandle),
    ("listen", Call::OpensReader),
    ("event", Call::OnReader),
    ("publish", Call::OnHandle),
    ("append_and_publish", Call::OnHandle),
    ("progress", Call::OnHandle),
    ("cancel", Call::OnHandle),
    ("watch", Call::OpensReader),
    ("cancelled", Call::OnReader),
    ("nodes", Call::OnHandle),
];

/// The op of a step and how it is called.
///
/// # Errors
///
/// Says so where the step names no op of the protocol.
pub fn named(step: &[Item]) -> Result<(&'static str, Call), String> {
    let Some(Item::Field(name)) = step.first() else {
        return Err("a step begins with the name of an op".to_owned());
    };
    let known = OPERATIONS.iter().find(|(op, _)| op == name);
    known.copied().ok_or_else(|| format!("no op of the protocol: {name}"))
}

/// The op of a step and all its arguments, with the handle and the address in their places.
///
/// # Errors
///
/// Says what is wrong with the step.
pub fn request(step: &[Item], handle: &str, url: &str) -> Result<(&'static str, Vec<Token>), String> {
    place(step, item::values(&step[1..])?, handle, url)
}

/// The op of a step and all its arguments, where those that the step writes have been read.
///
/// # Errors
///
/// Says what is wrong with the step.
pub fn place(
    step: &[Item],
    mut arguments: Vec<Token>,
    handle: &str,
    url: &str,
) -> Result<(&'static str, Vec<Token>), String> {
    let (op, call) = named(step)?;
    let handle = || Token::text(handle);
    match call {
        Call::Plain | Call::OnReader => {}
        Call::OnHandle => arguments.insert(0, handle()),
        Call::Opens => drop(arguments.splice(..0, [handle(), Token::text(url)])),
        Call::OpensReader if arguments.is_empty() => return Err(format!("{op} names a reader first")),
        Call::OpensReader => arguments.insert(1, handle()),
    }
    Ok((op, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_and_address_are_put_in() {
        let step = |op: &str| vec![Item::Field(op.to_owned()), Item::Field("x".to_owned())];
        let sent = |op: &str| request(&step(op), "h", "u").unwrap().1;
        assert_eq!(sent("id.decode"), [Token::text("x")]);
        assert_eq!(sent("mint"), [Token::text("h"), Token::text("x")]);
        assert_eq!(sent("open"), [Token::text("h"), Token::text("u"), Token::text("x")]);
        assert_eq!(sent("tail"), [Token::text("x"), Token::text("h")]);
        assert_eq!(sent("next"), [Token::text("x")]);
        assert!(request(&step("fly"), "h", "u").is_err());
    }
}
