//! The completion queue: answers on their way from the runtime's threads to JavaScript.
//!
//! JavaScript is woken only by the answer that finds the queue empty, and takes all that have come by then. One wake
//! costs more than a hundred answers, so under load this is what makes the face fast.
//!
//! A wake does not keep the process alive: JavaScript sees to that, for as long as promises wait.

use crate::answer::{IntoJs, Value, array_of, value};
use crate::error::caught;
use echomq::Pending;
use napi::bindgen_prelude::{Function, ToNapiValue};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, JsError, Result, Status, sys};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Called without arguments of its own; weak.
type Wake = ThreadsafeFunction<(), (), Completions, Status, false, true>;

/// The queue of one environment.
pub(crate) struct Queue {
    waiting: Arc<Waiting>,
    wake: Wake,
}

/// The answers that wait to be taken; nothing once the environment has ended and nobody takes them.
struct Waiting(Mutex<Option<Vec<Completion>>>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Completion>>> {
        // Nothing that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// JavaScript's end of the queue. It is dropped with the environment, and what waits then with it: a client among the
/// answers would otherwise keep the queue that keeps it.
struct Taker(Arc<Waiting>);

impl Taker {
    fn take(&self) -> Vec<Completion> {
        self.0.lock().as_mut().map(mem::take).unwrap_or_default()
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        let left = self.0.lock().take();
        drop(left);
    }
}

struct Completion {
    slot: u32,
    /// Nothing where the call was lost to a panic.
    answer: Option<Answer>,
}

/// Makes the answer a value of JavaScript's, once it is there.
type Answer = Box<dyn FnOnce(&Env) -> Result<Value> + Send>;

impl Queue {
    /// A queue that calls `settle` with the answers that have come.
    pub(crate) fn new(settle: &Function<'_, (), ()>) -> Result<Self> {
        let waiting = Arc::new(Waiting(Mutex::new(Some(Vec::new()))));
        let taker = Taker(waiting.clone());
        let wake = settle
            .build_threadsafe_function::<()>()
            .weak::<true>()
            .build_callback(move |_| Ok(Completions(taker.take())))?;
        Ok(Self { waiting, wake })
    }

    fn push(&self, completion: Completion) {
        let mut waiting = self.waiting.lock();
        let Some(answers) = waiting.as_mut() else { return };
        let first = answers.is_empty();
        answers.push(completion);
        drop(waiting);
        if first {
            // An environment that ends meanwhile refuses the call, and drops what waits.
            self.wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }
}

/// The right to answer one call. Dropped without an answer, it says that the call was lost.
pub(crate) struct Ticket {
    queue: Arc<Queue>,
    slot: Option<u32>,
}

impl Ticket {
    pub(crate) fn new(queue: &Arc<Queue>, slot: u32) -> Self {
        Self { queue: queue.clone(), slot: Some(slot) }
    }

    /// Answers the call.
    pub(crate) fn answer(mut self, answer: impl IntoJs) {
        if let Some(slot) = self.slot.take() {
            self.queue.push(Completion { slot, answer: Some(Box::new(|env| answer.into_js(env))) });
        }
    }

    /// Answers the call once the core has.
    pub(crate) fn answer_with<T: IntoJs>(self, pending: Pending<T>) {
        pending.on_complete(move |answer| self.answer(answer));
    }

    /// Runs a future on the runtime and answers the call with what it gives.
    pub(crate) fn answer_from<T: IntoJs>(
        self,
        future: impl Future<Output = echomq::Result<T>> + Send + 'static,
    ) {
        match echomq::runtime() {
            Ok(runtime) => {
                runtime.spawn(async move { self.answer(future.await) });
            }
            Err(error) => self.answer(Err::<T, _>(error)),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.queue.push(Completion { slot, answer: None });
        }
    }
}

/// What has come, as one array: slot, answer, slot, answer …
pub(crate) struct Completions(Vec<Completion>);

impl ToNapiValue for Completions {
    unsafe fn to_napi_value(env: sys::napi_env, completions: Self) -> Result<Value> {
        let env = Env::from_raw(env);
        let mut items = Vec::with_capacity(2 * completions.0.len());
        for Completion { slot, answer } in completions.0 {
            items.push(value(&env, slot)?);
            items.push(answer_or_error(&env, answer));
        }
        array_of(&env, &items)
    }
}

/// The answer as a value; an error of JavaScript's where it cannot be made into one.
fn answer_or_error(env: &Env, answer: Option<Answer>) -> Value {
    let made = match answer {
        Some(answer) => caught(|| answer(env)),
        None => Err(napi::Error::from_reason("the call ended in a defect of echomq and has no answer")),
    };
    // SAFETY: the environment is the one that runs now.
    made.unwrap_or_else(|error| unsafe { JsError::from(error).into_value(env.raw()) })
}
