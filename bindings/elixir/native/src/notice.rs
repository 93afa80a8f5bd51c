//! What consumers and listeners tell beside what they hand out.

use crate::argument::time;
use crate::error::call;
use crate::reply::wake;
use crate::term::{IntoTerm, word};
use echomq::{Notice, NoticeKind, Notices};
use rustler::{Atom, Encoder, Env, NifResult, NifStruct, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;
use std::time::Duration;

/// The notices of a consumer or a listener, which goes on without them.
pub(crate) struct Telling(pub(crate) Notices);

impl RefUnwindSafe for Telling {}

#[rustler::resource_impl]
impl Resource for Telling {}

/// Waits until there is a notice to take, at most that long, and has `:ready` or `:timeout` sent.
#[rustler::nif]
fn await_notice<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    telling: ResourceArc<Telling>,
    within: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let (notices, within) = (telling.0.clone(), time(within, "the time to wait")?);
        wake(env, tag, within, async move { notices.ready().await })
    })
}

/// Takes the next notice: `:none` where there is none, nil once what tells them has ended.
#[rustler::nif]
fn take_notice(env: Env<'_>, telling: ResourceArc<Telling>) -> Term<'_> {
    match telling.0.wait_next(Duration::ZERO) {
        Some(notice) => notice.into_term(env),
        None => words::none().encode(env),
    }
}

mod words {
    rustler::atoms! { none }
}

/// The words of all kinds of notices.
#[rustler::nif]
fn notice_kinds() -> Vec<&'static str> {
    NoticeKind::ALL.iter().map(|kind| kind.as_str()).collect()
}

/// `EchoMQ.Notice`.
#[derive(NifStruct)]
#[module = "EchoMQ.Notice"]
struct Told {
    kind: Atom,
    message: String,
    entry_id: Option<String>,
    id: Option<String>,
    attempts: Option<u64>,
    code: Option<Atom>,
    times: u64,
}

impl IntoTerm for Notice {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        Told {
            kind: word(env, self.kind().as_str()),
            message: self.message().to_owned(),
            entry_id: self.entry_id().map(|entry_id| entry_id.to_string()),
            id: self.id().map(|id| id.as_str().to_owned()),
            attempts: self.attempts(),
            code: self.code().map(|code| word(env, code.as_str())),
            times: self.times(),
        }
        .encode(env)
    }
}
