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
    ("read", Call::OnHandle),
    ("read_window", Call::OnHandle),
    ("read_since", Call::OnHandle),
    ("read_last", Call::OnHandle),
    ("trim", Call::OnHandle),
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
    let (op, call) = named(step)?;
    let mut arguments = match call {
        Call::Plain => vec![],
        Call::OnHandle => vec![Token::text(handle)],
        Call::Opens => vec![Token::text(handle), Token::text(url)],
    };
    arguments.extend(item::values(&step[1..])?);
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
        assert!(request(&step("fly"), "h", "u").is_err());
    }
}
