//! What came of a step, compared with what had to come of it, and said in words.

use super::format::{Plain as Command, Step};
use super::stage::{Actor, Stop};
use crate::driver::Driver;
use crate::item::{self, Item, Names};
use crate::operation;
use crate::protocol::{Reply, Token, shorten};
use redis::Value;

/// Nothing but success has to come.
pub(super) fn expect_nothing(op: &str, reply: Reply) -> Result<(), Stop> {
    match reply {
        Reply::Ok(values) if values.is_empty() => Ok(()),
        Reply::Unsupported => Err(Stop::Gap(op.to_owned())),
        other => Err(Stop::Fault(format!("{op} answers {other:?}"))),
    }
}

/// Compares a reply with the values, or with the error, that had to come.
pub(super) fn compare(
    ok: &[Item],
    err: Option<&String>,
    text: &[String],
    reply: &Reply,
    names: &mut Names,
) -> Result<(), String> {
    match (err, reply) {
        (None, Reply::Ok(values)) => names.compare(&item::expand(ok)?, values),
        (Some(expected), Reply::Err { code, text: sentence }) if expected == code => {
            let spoken = sentence.to_lowercase();
            match text.iter().find(|part| !spoken.contains(&part.to_lowercase())) {
                None => Ok(()),
                Some(part) => Err(format!("{code} does not name {part:?}: {}", shorten(sentence))),
            }
        }
        (expected, other) => {
            let expected = expected.map_or("values", String::as_str);
            Err(format!("{} instead of {expected}", shorten(&format!("{other:?}"))))
        }
    }
}

/// The outer error is a mistake in the scene, the inner one what is wrong with the answer.
pub(super) fn judge(
    command: &Command,
    values: &[Token],
    names: &mut Names,
) -> Result<Result<(), String>, String> {
    if let Some(expected) = command.is.as_ref().or(command.until.as_ref()) {
        return Ok(names.compare(&item::expand(expected)?, values));
    }
    let Some(part) = &command.has else { return Ok(Ok(())) };
    let part = item::resolved(part, names)?;
    let found = values.windows(part.len().max(1)).any(|window| window == part);
    Ok(if found { Ok(()) } else { Err(format!("no {part:?} in {}", shorten(&format!("{values:?}")))) })
}

/// The values of a reply, one behind the other.
pub(super) fn flatten(reply: Value, into: &mut Vec<Token>) -> Result<(), String> {
    match reply {
        Value::Nil => into.push(Token::text("")),
        Value::Int(number) => into.push(Token::text(number.to_string())),
        Value::BulkString(bytes) => into.push(Token::Value(bytes)),
        Value::SimpleString(text) => into.push(Token::text(text)),
        Value::Okay => into.push(Token::text("OK")),
        Value::Array(values) => values.into_iter().try_for_each(|value| flatten(value, into))?,
        other => return Err(format!("a reply that no scene expects: {other:?}")),
    }
    Ok(())
}

/// What a step is, in a few words.
pub(super) fn describe(step: &Step, actors: &[Actor<'_>]) -> String {
    let who = |by: Option<&str>| {
        let actor = actors.iter().find(|actor| by.is_none_or(|name| actor.part.name == name));
        actor.map_or("nobody", |actor| actor.participant.name.as_str())
    };
    match step {
        Step::Op(op) => {
            let what = operation::named(&op.order).map_or("nothing", |(what, _)| what);
            format!("({what} in {})", who(op.by.as_deref()))
        }
        Step::Plain(command) => match command.plain.first() {
            Some(Item::Field(word)) => format!("({word} of the plain client)"),
            _ => String::new(),
        },
        Step::Records(_) => "(records)".to_owned(),
        Step::Kill { .. } => "(kill)".to_owned(),
        Step::Share(_) => "(sharing)".to_owned(),
        Step::Hear { .. } => "(listening of the plain client)".to_owned(),
        Step::Heard { .. } => "(what the plain client heard)".to_owned(),
        Step::Flood(_) => "(flood)".to_owned(),
        Step::Restart { .. } => "(restart)".to_owned(),
        Step::Interrupt(interrupt) => format!("(cancelled waits in {})", who(Some(&interrupt.interrupt.0))),
        Step::Write(_) => "(writing)".to_owned(),
        Step::Leases(leases) => format!("(leases, told by {})", who(leases.by.as_deref())),
        Step::Clock { .. } => "(the server's clock)".to_owned(),
        Step::Disturb { .. } => "(network)".to_owned(),
        Step::Begin(begin) => format!("(beginning in {})", who(begin.by.as_deref())),
        Step::Finish(finish) => format!("(what was begun in {})", who(Some(&finish.finish))),
    }
}

/// A fault with what those who play have said on standard error.
pub(super) fn with_diagnostics(mut fault: String, actors: &[Actor<'_>]) -> String {
    for actor in actors {
        let said = actor.driver.as_ref().map(Driver::diagnostics).unwrap_or_default();
        if !said.is_empty() {
            fault.push_str(&format!("; the standard error of {}: {said}", actor.participant.name));
        }
    }
    fault
}
