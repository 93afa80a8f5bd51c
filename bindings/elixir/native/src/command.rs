//! Commands of the server's own.

use crate::argument::{elements, iodata};
use crate::client::Connection;
use crate::error::{Refusal, call};
use crate::reply::answer;
use rustler::{Env, NifResult, ResourceArc, Term};
use std::borrow::Cow;

#[rustler::nif]
fn command<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    parts: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || answer(env, tag, connection.0.command(words(parts)?)))
}

#[rustler::nif]
fn pipeline<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    commands: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let commands: Result<Vec<_>, _> =
            elements(commands, "the commands")?.map(|parts| parts.and_then(words)).collect();
        answer(env, tag, connection.0.pipeline(commands?))
    })
}

/// Name and arguments: iodata, and whole numbers as their decimal text.
fn words(parts: Term<'_>) -> Result<Vec<Cow<'_, [u8]>>, Refusal> {
    elements(parts, "a command")?
        .map(|part| {
            let part = part?;
            match (iodata(part), part.decode::<i64>()) {
                (Some(bytes), _) => Ok(Cow::Borrowed(bytes)),
                (None, Ok(number)) => Ok(Cow::Owned(number.to_string().into_bytes())),
                (None, Err(_)) => {
                    Err(Refusal::argument("each part of a command must be iodata or a whole number"))
                }
            }
        })
        .collect()
}
