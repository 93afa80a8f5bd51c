//! A state that events are folded into.

use super::mailbox::Heard;
use super::subscriber::Subscriber;
use crate::error::{Error, Result, panic_text};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle as Runtime;

/// A state that a handler folds a listener's events into, made by [`Listener::reduce`](crate::Listener::reduce).
///
/// Clones are the same reduction. It ends with its listener, or when the last clone is dropped.
pub struct Reduction<S> {
    shared: Arc<Mutex<Shared<S>>>,
    hearing: Arc<Hearing>,
}

struct Shared<S> {
    state: Arc<S>,
    failures: u64,
    last_failure: Option<String>,
    error: Option<Error>,
}

/// The subscriber that is folded; dropping the last one ends it.
struct Hearing(Subscriber);

impl Drop for Hearing {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<S: Send + Sync + 'static> Reduction<S> {
    pub(super) fn start<E: fmt::Display + 'static>(
        subscriber: Subscriber,
        runtime: &Runtime,
        state: S,
        handler: impl FnMut(&S, Heard) -> Result<S, E> + Send + 'static,
    ) -> Self {
        let shared = Shared { state: Arc::new(state), failures: 0, last_failure: None, error: None };
        let shared = Arc::new(Mutex::new(shared));
        runtime.spawn(fold(subscriber.clone(), shared.clone(), handler));
        Self { shared, hearing: Arc::new(Hearing(subscriber)) }
    }

    /// The state as it is now.
    pub fn state(&self) -> Arc<S> {
        lock(&self.shared).state.clone()
    }

    /// How often the handler failed.
    pub fn failures(&self) -> u64 {
        lock(&self.shared).failures
    }

    /// What the handler failed with last.
    pub fn last_failure(&self) -> Option<String> {
        lock(&self.shared).last_failure.clone()
    }

    /// Why it ended, where its listener could not go on. See [`Subscriber::next`].
    pub fn error(&self) -> Option<Error> {
        lock(&self.shared).error.clone()
    }

    /// Ends it. What was heard already is folded still, and the state stays.
    pub fn close(&self) {
        self.hearing.0.close();
    }
}

async fn fold<S, E: fmt::Display>(
    subscriber: Subscriber,
    shared: Arc<Mutex<Shared<S>>>,
    mut handler: impl FnMut(&S, Heard) -> Result<S, E>,
) {
    loop {
        let heard = match subscriber.next().await {
            Ok(Some(heard)) => heard,
            Ok(None) => return,
            Err(error) => return lock(&shared).error = Some(error),
        };
        let before = lock(&shared).state.clone();
        let after = match catch_unwind(AssertUnwindSafe(|| handler(&before, heard))) {
            Ok(after) => after.map_err(|error| error.to_string()),
            Err(panic) => Err(format!("the handler panicked: {}", panic_text(&*panic))),
        };
        let mut shared = lock(&shared);
        match after {
            Ok(state) => shared.state = Arc::new(state),
            Err(failure) => {
                shared.failures += 1;
                shared.last_failure = Some(failure);
            }
        }
    }
}

fn lock<S>(shared: &Mutex<Shared<S>>) -> MutexGuard<'_, Shared<S>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Clone for Reduction<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), hearing: self.hearing.clone() }
    }
}

impl<S> fmt::Debug for Reduction<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reduction({:?})", self.hearing.0)
    }
}
