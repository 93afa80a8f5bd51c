//! State that tasks and threads wait on: for a reader that fetches ahead of whoever takes what it fetched.

use super::locks::{Condvar, Mutex, MutexGuard, PoisonError};
use crate::clock::deadline;
use crate::operation::wakers::{Key, Wakers};
use crate::process::Origin;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A state, and everyone who waits for it to change.
pub(crate) struct Monitor<S> {
    inner: Mutex<Inner<S>>,
    changed: Condvar,
    origin: Origin,
}

struct Inner<S> {
    state: S,
    wakers: Wakers,
    threads: usize,
}

impl<S: Default> Default for Monitor<S> {
    fn default() -> Self {
        Self::new(S::default())
    }
}

impl<S> Monitor<S> {
    pub(crate) fn new(state: S) -> Self {
        let inner = Mutex::new(Inner { state, wakers: Wakers::default(), threads: 0 });
        Self { inner, changed: Condvar::new(), origin: Origin::here() }
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
        let wakers = inner.wakers.take();
        let threads = inner.threads > 0;
        drop(inner);
        if threads {
            self.changed.notify_all();
        }
        wakers.for_each(Waker::wake);
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
    /// What `look` took is the caller's at once; dropping the future before loses nothing and leaves nothing behind. A change
    /// wakes everyone who waits, so a future that is dropped after it was woken keeps the wake-up from nobody.
    pub(crate) async fn until<R>(&self, mut look: impl FnMut(&mut S) -> Option<R>) -> R {
        let mut waiting = Waiting { monitor: self, polled: Polled::default() };
        poll_fn(|context| waiting.monitor.poll(context, &mut waiting.polled, &mut look)).await
    }

    /// One look of a task, which is woken by the next change when it found nothing.
    ///
    /// Whoever looks again does so with the same `polled`, and gives it to [`Monitor::forget`] when it does not wait any
    /// longer.
    pub(crate) fn poll<R>(
        &self,
        context: &mut Context<'_>,
        polled: &mut Polled,
        mut look: impl FnMut(&mut S) -> Option<R>,
    ) -> Poll<R> {
        let mut inner = self.lock();
        let (found, gone) = match look(&mut inner.state) {
            Some(found) => (Poll::Ready(found), inner.wakers.remove(&mut polled.0)),
            None => (Poll::Pending, inner.wakers.put(&mut polled.0, context.waker())),
        };
        // A waker may run code of its owner's when it is dropped.
        drop(inner);
        drop(gone);
        found
    }

    /// Wakes a task no longer that had polled.
    pub(crate) fn forget(&self, polled: &mut Polled) {
        // In a forked child the lock may be held by a thread that is not there.
        if polled.0.is_some() && self.origin.is_here() {
            let gone = self.lock().wakers.remove(&mut polled.0);
            drop(gone);
        }
    }

    /// How many tasks wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lock().wakers.len()
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

/// That a task polled and is to be woken. A clone is another's, who has not polled.
#[derive(Debug, Default)]
pub(crate) struct Polled(Option<Key>);

impl Clone for Polled {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A future that waits; dropping it leaves no waker behind.
struct Waiting<'a, S> {
    monitor: &'a Monitor<S>,
    polled: Polled,
}

impl<S> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        self.monitor.forget(&mut self.polled);
    }
}
