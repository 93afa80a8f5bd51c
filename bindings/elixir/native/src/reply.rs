//! The one way in which an answer reaches Elixir.
//!
//! An answer that is there already is returned from the function itself. Any other is sent as `{tag, answer}`, and the
//! function returns `:pending`.
//!
//! A message may reach a process that waits no longer. So an answer never holds what another wait could be given: who
//! waits for such a thing is only woken, by [`wake`], and takes it itself.
//!
//! A message is never sent from where the answer arises: the core gives answers while it holds the line that all
//! callers share, and a message takes the receiver's locks and wakes schedulers. So messages are put on a heap, and
//! whoever finds nobody at work on it has the runtime deliver it; the answers of one pipeline are delivered together. A
//! large answer is made into a term on the worker's thread, so that it does not hold up the connections.
//!
//! The runtime is asked for before anything is put together, so that what has to be said can be sent: without one, the
//! call fails as it is made.

use crate::atoms;
use crate::error::{Refusal, call};
use crate::term::IntoTerm;
use crate::worker::{self, Work};
use echomq::{Pending, runtime};
use rustler::{Encoder, Env, LocalPid, Monitor, NifResult, OwnedEnv, Resource, ResourceArc, Term};
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, yield_now};
use tokio::time::timeout;

use rustler::env::SavedTerm;
use rustler::types::atom::nif_panicked;

/// Who waits for an answer, and the tag to find it by.
///
/// One that is dropped without an answer, since something panicked, tells its process so.
struct Caller(Option<Address>);

struct Address {
    runtime: &'static Runtime,
    process: LocalPid,
    env: OwnedEnv,
    tag: SavedTerm,
}

impl Caller {
    fn new<'a>(env: Env<'a>, tag: Term<'a>) -> Result<Self, Refusal> {
        let (runtime, process) = (runtime()?, env.pid());
        let env = OwnedEnv::new();
        let tag = env.save(tag);
        Ok(Self(Some(Address { runtime, process, env, tag })))
    }

    /// Has the answer sent.
    fn answer(mut self, answer: impl IntoTerm + Send + 'static) {
        let Some(address) = self.0.take() else { return };
        let (runtime, large) = (address.runtime, is_large(&answer));
        let delivery = Box::new(move || address.send(|env| answer.into_term(env)));
        if large { worker::run(runtime, delivery) } else { deliver(delivery) }
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
        let Self { process, mut env, tag, .. } = self;
        let _gone = env.send_and_clear(&process, |env| {
            let answer = catch_unwind(AssertUnwindSafe(|| answer(env)));
            (tag.load(env), answer.unwrap_or_else(|_| nif_panicked().to_term(env)))
        });
    }
}

/// How many bytes are a lot: more are made into terms neither on a scheduler nor on the thread of the connections.
pub(crate) const LARGE: usize = 256 * 1024;

/// How many records are a lot to be made ready for the server.
pub(crate) const MANY: usize = 2_048;

/// Whether making a term of it takes long.
pub(crate) fn is_large(answer: &impl IntoTerm) -> bool {
    answer.cost() > LARGE
}

/// The messages that are to be sent, and whether somebody is at work on them.
struct Heap {
    waiting: Vec<Work>,
    at_work: bool,
}

static HEAP: Mutex<Heap> = Mutex::new(Heap { waiting: Vec::new(), at_work: false });

fn heap() -> MutexGuard<'static, Heap> {
    HEAP.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a message sent, from a thread of the runtime. Where there is none yet, it is sent together with the next.
pub(crate) fn deliver(delivery: Work) {
    let mut sending = heap();
    sending.waiting.push(delivery);
    if sending.at_work {
        return;
    }
    let Ok(runtime) = runtime() else { return };
    sending.at_work = true;
    drop(sending);
    runtime.spawn(send_all());
}

/// Sends what waits, in its order.
async fn send_all() {
    loop {
        let waiting = {
            let mut sending = heap();
            let waiting = mem::take(&mut sending.waiting);
            sending.at_work = !waiting.is_empty();
            waiting
        };
        if waiting.is_empty() {
            return;
        }
        waiting.into_iter().for_each(worker::guarded);
        yield_now().await;
    }
}

/// Returns the answer of a call if it is there, else has it sent.
pub(crate) fn answer<'a, T>(env: Env<'a>, tag: Term<'a>, mut answer: Pending<T>) -> Result<Term<'a>, Refusal>
where
    T: IntoTerm + Send + 'static,
{
    if let Some(answer) = answer.try_take() {
        return Ok(answer.into_term(env));
    }
    let caller = Caller::new(env, tag)?;
    answer.on_complete(move |answer| caller.answer(answer));
    Ok(atoms::pending().encode(env))
}

/// Makes a call on the worker's thread, since making it takes long, and has its answer sent.
pub(crate) fn answer_from_thread<'a, T, C>(env: Env<'a>, tag: Term<'a>, call: C) -> Result<Term<'a>, Refusal>
where
    T: IntoTerm + Send + 'static,
    C: FnOnce() -> Pending<T> + Send + 'static,
{
    let caller = Caller::new(env, tag)?;
    worker::run(runtime()?, Box::new(move || call().on_complete(move |answer| caller.answer(answer))));
    Ok(atoms::pending().encode(env))
}

/// Runs something on the runtime and has its answer sent.
pub(crate) fn answer_later<'a, T, F>(env: Env<'a>, tag: Term<'a>, work: F) -> Result<Term<'a>, Refusal>
where
    T: IntoTerm + Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let caller = Caller::new(env, tag)?;
    runtime()?.spawn(async move { caller.answer(work.await) });
    Ok(atoms::pending().encode(env))
}

/// A wait of a process, which ends with it.
struct Waiting(Mutex<Option<AbortHandle>>);

impl RefUnwindSafe for Waiting {}

#[rustler::resource_impl]
impl Resource for Waiting {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _: Env<'a>, _: LocalPid, _: Monitor) {
        if let Some(wait) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            wait.abort();
        }
    }
}

mod words {
    rustler::atoms! { ready, timeout }
}

/// Waits for what is only looked at, and has its outcome sent. A process that ends waits no longer.
pub(crate) fn look_out<'a, T, F>(env: Env<'a>, tag: Term<'a>, wait: F) -> Result<Term<'a>, Refusal>
where
    T: IntoTerm + Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    spawn_wait(env, tag, wait, Gate::default())?;
    Ok(atoms::pending().encode(env))
}

/// Whether a wait is over: its outcome was put where it will be sent, or the wait was given up.
type Gate = Arc<Mutex<bool>>;

/// Closes a gate, and does something in the same step where it was open.
fn close(gate: &Gate, first: impl FnOnce()) -> bool {
    let mut over = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let open = !mem::replace(&mut *over, true);
    if open {
        first();
    }
    open
}

fn spawn_wait<'a, T, F>(env: Env<'a>, tag: Term<'a>, wait: F, gate: Gate) -> Result<AbortHandle, Refusal>
where
    T: IntoTerm + Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut caller = GivenUp(Some(Caller::new(env, tag)?));
    let waiting = ResourceArc::new(Waiting(Mutex::default()));
    waiting.monitor(Some(env), &env.pid());
    let watched = waiting.clone();
    let task = runtime()?.spawn(async move {
        let outcome = wait.await;
        close(&gate, || {
            if let Some(caller) = caller.0.take() {
                caller.answer(outcome);
            }
        });
        drop(watched);
    });
    let wait = task.abort_handle();
    *waiting.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(wait.clone());
    Ok(wait)
}

/// A caller that is told nothing where its wait is given up.
struct GivenUp(Option<Caller>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(caller) = &mut self.0
            && !std::thread::panicking()
        {
            caller.0 = None;
        }
    }
}

/// Waits until something can be taken, at most that long, and has `:ready` or `:timeout` sent. Nothing is taken.
pub(crate) fn wake<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    within: Option<Duration>,
    ready: impl Future<Output = ()> + Send + 'static,
) -> Result<Term<'a>, Refusal> {
    look_out(env, tag, async move {
        match within {
            None => ready.await,
            Some(within) if timeout(within, ready).await.is_err() => return words::timeout(),
            Some(_) => {}
        }
        words::ready()
    })
}

/// The question of somebody who takes alone and wants to be told when there is something.
#[derive(Default)]
pub(crate) struct Question(Mutex<Option<(Gate, AbortHandle)>>);

impl Question {
    /// Has `:ready` sent. The question before is taken back.
    pub(crate) fn ask<'a>(
        &self,
        env: Env<'a>,
        tag: Term<'a>,
        ready: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Term<'a>, Refusal> {
        self.take_back();
        let gate = Gate::default();
        let ready = async move {
            ready.await;
            words::ready()
        };
        let wait = spawn_wait(env, tag, ready, gate.clone())?;
        *self.asked() = Some((gate, wait));
        Ok(atoms::pending().encode(env))
    }

    /// Takes it back; false where its answer was sent, or is about to be: what is answered from now on comes behind it.
    pub(crate) fn take_back(&self) -> bool {
        let Some((gate, wait)) = self.asked().take() else { return true };
        close(&gate, || wait.abort())
    }

    fn asked(&self) -> MutexGuard<'_, Option<(Gate, AbortHandle)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers `:ok` behind everything that is to be sent already.
#[rustler::nif]
fn behind_all<'a>(env: Env<'a>, tag: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || answer_later(env, tag, async { atoms::ok() }))
}
