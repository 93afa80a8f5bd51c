//! The administration of consumer groups.

use crate::argument::{number, text};
use crate::client::{Connection, stream};
use crate::error::call;
use crate::reply::{answer, answer_later};
use crate::term::{Done, IntoTerm};
use echomq::{GroupInfo, Start};
use rustler::{Encoder, Env, NifResult, NifStruct, ResourceArc, Term};
use std::time::Duration;

/// `EchoMQ.Group`.
#[derive(NifStruct)]
#[module = "EchoMQ.Group"]
struct Group {
    name: String,
    pending: u64,
    lag: Option<u64>,
    last_delivered: String,
    consumers: Vec<Member>,
}

/// `EchoMQ.Group.Consumer`.
#[derive(NifStruct)]
#[module = "EchoMQ.Group.Consumer"]
struct Member {
    name: String,
    pending: u64,
    idle: u64,
}

impl IntoTerm for GroupInfo {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        let member = |consumer: &echomq::ConsumerInfo| Member {
            name: consumer.name().to_owned(),
            pending: consumer.pending(),
            idle: u64::try_from(consumer.idle().as_millis()).unwrap_or(u64::MAX),
        };
        Group {
            name: self.name().to_owned(),
            pending: self.pending(),
            lag: self.lag(),
            last_delivered: self.last_delivered().to_string(),
            consumers: self.consumers().iter().map(member).collect(),
        }
        .encode(env)
    }
}

#[rustler::nif]
fn groups<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || answer(env, tag, stream(&connection, queue, name)?.groups()))
}

#[rustler::nif]
fn group_info<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    group: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        answer(env, tag, stream.group(&text(group, "the group")?))
    })
}

/// Makes a group, and answers whether it was this call that made it.
#[rustler::nif]
fn create_group<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    group: Term<'a>,
    start: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        let start = Start::parse(&text(start, "the start")?)?;
        answer(env, tag, stream.create_group(&text(group, "the group")?, start))
    })
}

#[rustler::nif]
fn seek<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    group: Term<'a>,
    start: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        let start = Start::parse(&text(start, "the start")?)?;
        let moved = stream.seek(&text(group, "the group")?, start);
        answer_later(env, tag, async move { Done(moved.await) })
    })
}

#[rustler::nif]
fn remove_consumer<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    group: Term<'a>,
    consumer: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        let removed = stream.remove_consumer(&text(group, "the group")?, &text(consumer, "the consumer")?);
        answer_later(env, tag, async move { Done(removed.await) })
    })
}

#[rustler::nif]
fn sweep_consumers<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    group: Term<'a>,
    idle: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        let idle = Duration::from_millis(number(idle, "the idle time in milliseconds")?);
        answer(env, tag, stream.sweep_consumers(&text(group, "the group")?, idle))
    })
}

/// Removes a group, and answers whether it was there.
#[rustler::nif]
fn remove_group<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    group: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        answer(env, tag, stream.remove_group(&text(group, "the group")?))
    })
}
