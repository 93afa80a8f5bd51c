//! The token that a handler looks at, and cancelling jobs in other processes.

use crate::argument::{bytes, is_word, number, text, time};
use crate::client::Connection;
use crate::error::call;
use crate::events::events;
use crate::reply::{answer, answer_later, deliver, look_out};
use crate::term::IntoTerm;
use echomq::CancelToken;
use rustler::{Atom, Encoder, Env, LocalPid, NifResult, OwnedEnv, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A token. One that watches a job does so until the VM has collected it.
struct Token(CancelToken);

impl RefUnwindSafe for Token {}

#[rustler::resource_impl]
impl Resource for Token {}

impl IntoTerm for Token {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        ResourceArc::new(self).encode(env)
    }
}

impl IntoTerm for Arc<str> {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        crate::term::binary(env, self.as_bytes())
    }
}

#[rustler::nif]
fn cancel_token<'a>(env: Env<'a>) -> Term<'a> {
    Token(CancelToken::new()).into_term(env)
}

/// Trips a token, and answers the reason that counts: the first one.
#[rustler::nif]
fn trip<'a>(env: Env<'a>, token: ResourceArc<Token>, reason: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        token.0.cancel(text(reason, "the reason")?);
        Ok(token.0.reason().into_term(env))
    })
}

/// Why it has tripped; nil where it has not.
#[rustler::nif]
fn cancel_reason<'a>(env: Env<'a>, token: ResourceArc<Token>) -> Term<'a> {
    token.0.reason().into_term(env)
}

/// Waits until it trips, at most that long: the reason, nil, or why nobody else can trip it any longer.
#[rustler::nif]
fn await_cancel<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    token: ResourceArc<Token>,
    within: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let within = time(within, "the time to wait")?;
        look_out(env, tag, async move {
            match within {
                None => token.0.cancelled().await.map(Some),
                Some(within) => timeout(within, token.0.cancelled()).await.ok().transpose(),
            }
        })
    })
}

mod words {
    rustler::atoms! { emq_cancel, emq_cancel_error }
}

/// Has `{:emq_cancel, ref, reason}` sent to a process when the token trips, at once where it has, and
/// `{:emq_cancel_error, ref, error}` where others cannot trip it any longer.
#[rustler::nif]
fn notify_cancel(token: ResourceArc<Token>, process: LocalPid, reference_term: Term<'_>) -> Atom {
    let mut env = OwnedEnv::new();
    let reference = env.save(reference_term);
    token.0.on_cancel(move |reason| {
        let reason = reason.to_owned();
        let tell = move || {
            // A process that is gone is no fault.
            let _gone = env.send_and_clear(&process, |env| {
                (words::emq_cancel(), reference.load(env), reason.into_term(env))
            });
        };
        deliver(Box::new(tell));
    });
    let mut env = OwnedEnv::new();
    let reference = env.save(reference_term);
    token.0.on_watch_end(move |error| {
        let error = error.clone();
        let tell = move || {
            let _gone = env.send_and_clear(&process, |env| {
                (words::emq_cancel_error(), reference.load(env), error.into_term(env))
            });
        };
        deliver(Box::new(tell));
    });
    crate::atoms::ok()
}

/// Why a token of [`watch_job`] is not tripped by others any longer; nil while it is.
#[rustler::nif]
fn watch_error<'a>(env: Env<'a>, token: ResourceArc<Token>) -> Term<'a> {
    token.0.watch_error().into_term(env)
}

/// Cancels a job wherever it runs, with a mark of that many milliseconds, and answers how many listened.
#[rustler::nif]
fn cancel_job<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    job: Term<'a>,
    reason: Term<'a>,
    time_to_live: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let events = events(&connection, queue)?;
        let (job, reason) = (bytes(job, "the job")?, bytes(reason, "the reason")?);
        let time_to_live = match is_word(time_to_live, "nil") {
            true => None,
            false => Some(Duration::from_millis(number(time_to_live, "the time to live in milliseconds")?)),
        };
        answer(env, tag, events.cancel(job, reason, time_to_live))
    })
}

/// A token that trips when a job is cancelled, or was before.
#[rustler::nif(name = "watch")]
fn watch_job<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    job: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let watched = events(&connection, queue)?.watch(bytes(job, "the job")?);
        answer_later(env, tag, async move { watched.await.map(Token) })
    })
}
