//! The one way in which an answer reaches Elixir.
//!
//! An answer that is there already is returned from the function itself. Any other is sent as `{tag, answer}`, and the
//! function returns `:pending`.
//!
//! A message is never sent from where the answer arises: the core gives answers while it holds the line that all
//! callers share, and a message takes the receiver's locks and wakes schedulers. So messages are put on a heap, and
//! whoever finds it empty has the runtime deliver it; the answers of one pipeline are delivered together. A very long
//! answer is made into a term on a thread of its own, so that it does not hold up the connections.

use crate::atoms;
use crate::error::Refusal;
use crate::term::IntoTerm;
use echomq::{Pending, runtime};
use rustler::{Encoder, Env, LocalPid, OwnedEnv, Term};
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use rustler::env::SavedTerm;
use rustler::types::atom::nif_panicked;

/// Who waits for an answer, and the tag to find it by.
///
/// One that is dropped without an answer, since something panicked, tells its process so.
struct Caller(Option<Address>);

struct Address {
    process: LocalPid,
    env: OwnedEnv,
    tag: SavedTerm,
}

impl Caller {
    fn new<'a>(env: Env<'a>, tag: Term<'a>) -> Self {
        let process = env.pid();
        let env = OwnedEnv::new();
        let tag = env.save(tag);
        Self(Some(Address { process, env, tag }))
    }

    /// Has the answer sent.
    fn answer(mut self, answer: impl IntoTerm + Send + 'static) {
        let Some(address) = self.0.take() else { return };
        let large = answer.is_large();
        let delivery = move || address.send(|env| answer.into_term(env));
        match runtime() {
            Ok(runtime) if large => drop(runtime.spawn_blocking(delivery)),
            _ => deliver(Box::new(delivery)),
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(address) = self.0.take() {
            deliver(Box::new(move || address.send(|env| nif_panicked().to_term(env))));
        }
    }
}

impl Address {
    /// Sends the message; only from a thread of the runtime. A process that is gone is no fault.
    fn send(self, answer: impl for<'a> FnOnce(Env<'a>) -> Term<'a>) {
        let Self { process, mut env, tag } = self;
        let _gone = env.send_and_clear(&process, |env| {
            let answer = catch_unwind(AssertUnwindSafe(|| answer(env)));
            (tag.load(env), answer.unwrap_or_else(|_| nif_panicked().to_term(env)))
        });
    }
}

/// How many records or results are a lot: more are handled neither on a scheduler nor on the thread of the connections.
pub(crate) const LARGE: usize = 2_048;

pub(crate) type Delivery = Box<dyn FnOnce() + Send>;

static HEAP: Mutex<Vec<Delivery>> = Mutex::new(Vec::new());

fn heap() -> std::sync::MutexGuard<'static, Vec<Delivery>> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a message sent, from a thread of the runtime.
pub(crate) fn deliver(delivery: Delivery) {
    let mut waiting = heap();
    waiting.push(delivery);
    let first = waiting.len() == 1;
    drop(waiting);
    // Without a runtime there would be no answer to deliver.
    if first && let Ok(runtime) = runtime() {
        runtime.spawn(async { mem::take(&mut *heap()).into_iter().for_each(|delivery| delivery()) });
    }
}

/// Returns the answer of a call if it is there, else has it sent.
pub(crate) fn answer<'a, T>(env: Env<'a>, tag: Term<'a>, mut answer: Pending<T>) -> Term<'a>
where
    T: IntoTerm + Send + 'static,
{
    if let Some(answer) = answer.try_take() {
        return answer.into_term(env);
    }
    let caller = Caller::new(env, tag);
    answer.on_complete(move |answer| caller.answer(answer));
    atoms::pending().encode(env)
}

/// Makes a call on a thread of its own, since making it takes long, and has its answer sent.
pub(crate) fn answer_from_thread<'a, T, C>(env: Env<'a>, tag: Term<'a>, call: C) -> Result<Term<'a>, Refusal>
where
    T: IntoTerm + Send + 'static,
    C: FnOnce() -> Pending<T> + Send + 'static,
{
    let caller = Caller::new(env, tag);
    runtime()?.spawn_blocking(move || call().on_complete(move |answer| caller.answer(answer)));
    Ok(atoms::pending().encode(env))
}

/// Runs something on the runtime and has its answer sent.
pub(crate) fn answer_later<'a, T, F>(env: Env<'a>, tag: Term<'a>, work: F) -> Result<Term<'a>, Refusal>
where
    T: IntoTerm + Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let caller = Caller::new(env, tag);
    runtime()?.spawn(async move { caller.answer(work.await) });
    Ok(atoms::pending().encode(env))
}
