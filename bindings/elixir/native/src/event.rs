//! What listeners hear, as Elixir gets it.

use crate::atoms;
use crate::message::map;
use crate::term::{IntoTerm, PART, binary};
use echomq::{Event, EventGap, Heard};
use rustler::{Encoder, Env, NifStruct, Term};

mod words {
    rustler::atoms! { emq_event, emq_gap, emq_end }
}

/// `EchoMQ.EventGap`.
#[derive(NifStruct)]
#[module = "EchoMQ.EventGap"]
struct Gap {
    missed: u64,
    reconnected: bool,
}

impl IntoTerm for EventGap {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        Gap { missed: self.missed(), reconnected: self.reconnected() }.encode(env)
    }
}

/// `{:emq_event, name, payload}` or `{:emq_gap, gap}`.
pub(crate) fn message<'a>(env: Env<'a>, heard: &Heard, raw: bool) -> Term<'a> {
    match heard {
        Heard::Event(event) => {
            let payload =
                if !raw && event.is_object() { members(env, event) } else { binary(env, event.payload()) };
            (words::emq_event(), binary(env, event.name().as_bytes()), payload).encode(env)
        }
        Heard::Gap(gap) => (words::emq_gap(), gap.into_term(env)).encode(env),
    }
}

/// `{:emq_end, error}`, whose error is nil where the end was wanted.
pub(crate) fn end(env: Env<'_>, error: Option<echomq::Error>) -> Term<'_> {
    (words::emq_end(), error.into_term(env)).encode(env)
}

fn members<'a>(env: Env<'a>, event: &Event) -> Term<'a> {
    let (names, values): (Vec<_>, Vec<_>) = event
        .members()
        .iter()
        .map(|(name, value)| (binary(env, name.as_bytes()), binary(env, value.as_bytes())))
        .unzip();
    map(env, &names, &values)
}

/// What making terms of these costs.
pub(crate) fn cost(heard: &[Heard]) -> usize {
    let cost = |heard: &Heard| match heard {
        Heard::Event(event) => 2 * PART + event.payload().len(),
        Heard::Gap(_) => PART,
    };
    heard.iter().map(cost).sum()
}

/// What a handler is given next: a list of messages, nil at the end.
pub(crate) struct Taken {
    pub(crate) answer: echomq::Result<Vec<Heard>>,
    pub(crate) raw: bool,
}

impl IntoTerm for Taken {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        match self.answer {
            Err(error) => crate::error::refused(env, error),
            Ok(heard) if heard.is_empty() => (atoms::ok(), atoms::nil()).encode(env),
            Ok(heard) => {
                let messages: Vec<_> = heard.iter().map(|heard| message(env, heard, self.raw)).collect();
                (atoms::ok(), messages).encode(env)
            }
        }
    }

    fn cost(&self) -> usize {
        self.answer.as_ref().map_or(PART, |heard| cost(heard))
    }
}
