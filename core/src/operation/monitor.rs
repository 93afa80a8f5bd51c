//! State that tasks and threads wait on: for a reader that fetches ahead of whoever takes what it fetched.

use super::locks::{Condvar, Mutex, MutexGuard, PoisonError};
use crate::clock::deadline;
use std::future::poll_fn;
use std::mem;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A state, and everyone who waits for it to change.
pub(crate) struct Monitor<S> {
    inner: Mutex<Inner<S>>,
    changed: Condvar,
}

struct Inner<S> {
    state: S,
    wakers: Vec<Waker>,
    threads: usize,
}

impl<S: Default> Default for Monitor<S> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S> Monitor<S> {
    pub(crate) fn new(state: S) -> Self {
        Self { inner: Mutex::new(Inner { state, wakers: Vec::new(), threads: 0 }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the state, or changes it in a way that nobody waits for.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        look(&mut self.lock().state)
    }

    /// Changes the state, and wakes everyone who waits.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        self.change_if(|state| (change(state), true))
    }

    /// Changes the state, and wakes everyone who waits when the change says so.
    pub(crate) fn change_if<R>(&self, change: impl FnOnce(&mut S) -> (R, bool)) -> R {
        let mut inner = self.lock();
        let (result, wake) = change(&mut inner.state);
        if !wake {
            return result;
        }
        let wakers = mem::take(&mut inner.wakers);
        let threads = inner.threads > 0;
        drop(inner);
        if threads {
            self.changed.notify_all();
        }
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Wakes everyone who waits.
    pub(crate) fn wake(&self) {
        self.change(|_| ());
    }

    /// Waits as a task until `look` finds something.
    ///
    /// # Cancel safety
    ///
    /// What `look` took is the caller's at once; dropping the future before loses nothing.
    pub(crate) async fn until<R>(&self, mut look: impl FnMut(&mut S) -> Option<R>) -> R {
        poll_fn(|context| self.poll(context, &mut look)).await
    }

    /// One look of a task, which is woken by the next change when it found nothing.
    pub(crate) fn poll<R>(
        &self,
        context: &mut Context<'_>,
        mut look: impl FnMut(&mut S) -> Option<R>,
    ) -> Poll<R> {
        let mut inner = self.lock();
        if let Some(found) = look(&mut inner.state) {
            return Poll::Ready(found);
        }
        if !inner.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            inner.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// Waits as a thread until `look` finds something, for at most that long.
    pub(crate) fn wait<R>(&self, at_most: Duration, mut look: impl FnMut(&mut S) -> Option<R>) -> Option<R> {
        let until = deadline(at_most);
        let mut inner = self.lock();
        loop {
            if let Some(found) = look(&mut inner.state) {
                return Some(found);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            inner.threads += 1;
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
            inner.threads -= 1;
        }
    }
}
