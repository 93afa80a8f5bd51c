//! An answer that is on its way.

use crate::error::{Code, Error, Result};
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The answer to a call, on its way.
///
/// The call is made when the method is called, not when the answer is awaited: several calls in a row go out in that
/// order, and awaiting them afterwards costs one round trip in all.
///
/// # Cancel safety
///
/// Dropping it gives up the answer, not the call: a record may still be appended.
#[must_use = "the call is made, and its answer is an error or a receipt"]
pub struct Pending<T>(Arc<Cell<T>>);

/// The other end: gives the answer. Dropped without one, it answers `closed`.
pub(crate) struct Promise<T>(Arc<Cell<T>>);

struct Cell<T>(Mutex<State<T>>);

enum State<T> {
    Waiting(Option<Waker>),
    Calling(Callback<T>),
    Answered(Result<T>),
    Taken,
}

type Callback<T> = Box<dyn FnOnce(Result<T>) + Send>;

impl<T> Cell<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends of one answer.
pub(crate) fn pending<T>() -> (Promise<T>, Pending<T>) {
    let cell = Arc::new(Cell(Mutex::new(State::Waiting(None))));
    (Promise(cell.clone()), Pending(cell))
}

impl<T> Pending<T> {
    /// An answer that is there already.
    pub(crate) fn ready(answer: Result<T>) -> Self {
        Self(Arc::new(Cell(Mutex::new(State::Answered(answer)))))
    }

    /// The answer, if it is there already.
    pub fn try_take(&mut self) -> Option<Result<T>> {
        let mut state = self.0.state();
        match mem::replace(&mut *state, State::Taken) {
            State::Answered(answer) => Some(answer),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Has the answer given to a function, for callers that are no Rust futures.
    ///
    /// It runs on the thread that reads the answer, so it must be short and must not wait; where the answer is there
    /// already, it runs at once on the caller's own thread. A panic in it ends nothing but itself.
    pub fn on_complete(self, callback: impl FnOnce(Result<T>) + Send + 'static) {
        let mut state = self.0.state();
        match mem::replace(&mut *state, State::Taken) {
            State::Answered(answer) => {
                drop(state);
                let _ = catch_unwind(AssertUnwindSafe(|| callback(answer)));
            }
            State::Waiting(_) => *state = State::Calling(Box::new(callback)),
            // An answer that `try_take` took has no second taker.
            other => *state = other,
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state();
        match mem::replace(&mut *state, State::Taken) {
            State::Answered(answer) => Poll::Ready(answer),
            State::Taken => Poll::Ready(Err(Error::new(Code::State, "this answer was taken already"))),
            State::Waiting(Some(waker)) if waker.will_wake(context.waker()) => {
                *state = State::Waiting(Some(waker));
                Poll::Pending
            }
            State::Waiting(_) | State::Calling(_) => {
                *state = State::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

impl<T> Promise<T> {
    /// Gives the answer.
    pub(crate) fn answer(self, answer: Result<T>) {
        self.put(answer);
    }

    /// Who waits for the answer, as far as it can be woken.
    pub(crate) fn owner(&self) -> Option<Waker> {
        match &*self.0.state() {
            State::Waiting(waker) => waker.clone(),
            _ => None,
        }
    }

    fn put(&self, answer: Result<T>) {
        let mut state = self.0.state();
        match mem::replace(&mut *state, State::Taken) {
            State::Waiting(waker) => {
                *state = State::Answered(answer);
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            State::Calling(callback) => {
                drop(state);
                // It runs on the thread that all callers wait for. The panic hook has told of it; it ends only itself.
                let _ = catch_unwind(AssertUnwindSafe(|| callback(answer)));
            }
            other => *state = other,
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        // After an answer this finds it in place, or taken, and changes nothing.
        if matches!(&*self.0.state(), State::Waiting(_) | State::Calling(_)) {
            self.put(Err(Error::new(Code::Closed, "the client ended before the answer came")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn noop() -> Context<'static> {
        Context::from_waker(Waker::noop())
    }

    #[test]
    fn an_answer_reaches_whoever_asks_however_it_asks() {
        let (promise, mut waiting) = pending();
        assert!(Pin::new(&mut waiting).poll(&mut noop()).is_pending());
        assert!(waiting.try_take().is_none());
        promise.answer(Ok(1));
        assert_eq!(Pin::new(&mut waiting).poll(&mut noop()), Poll::Ready(Ok(1)));
        assert!(matches!(Pin::new(&mut waiting).poll(&mut noop()), Poll::Ready(Err(_))));

        let (sender, receiver) = mpsc::channel();
        let (promise, waiting) = pending();
        let first = sender.clone();
        waiting.on_complete(move |answer| first.send(answer).unwrap());
        promise.answer(Ok(2));
        assert_eq!(receiver.try_recv().unwrap(), Ok(2));

        Pending::ready(Ok(3)).on_complete(move |answer| sender.send(answer).unwrap());
        assert_eq!(receiver.try_recv().unwrap(), Ok(3));
    }

    #[test]
    fn a_callback_that_panics_does_not_reach_whoever_gives_the_answer() {
        let (promise, waiting) = pending::<()>();
        waiting.on_complete(|_| panic!("as a test wants it"));
        promise.answer(Ok(()));
        Pending::ready(Ok(())).on_complete(|_| panic!("as a test wants it"));
    }

    #[test]
    fn a_promise_that_is_dropped_answers_closed() {
        let (promise, mut waiting) = pending::<()>();
        drop(promise);
        assert_eq!(waiting.try_take().unwrap().unwrap_err().code(), Code::Closed);
    }
}
