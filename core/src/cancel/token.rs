//! The cooperative token.

use crate::error::Error;
use crate::events::hub::Hold;
use crate::operation::monitor::Monitor;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// A token that a handler looks at, at points where it can stop safely.
///
/// It trips once, and the first reason stays. [`Events::watch`](crate::Events::watch) gives one that other processes can trip.
///
/// ```
/// use echomq::CancelToken;
///
/// let token = CancelToken::new();
/// assert!(token.check().is_ok());
/// token.cancel("the player left");
/// assert_eq!(token.check().unwrap_err().reason(), "the player left");
/// ```
///
/// Clones are the same token.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Inner>);

#[derive(Default)]
struct Inner {
    reason: OnceLock<Arc<str>>,
    waiting: Monitor<Waiting>,
    /// What keeps a token that other processes can trip informed.
    watch: Option<Hold>,
}

#[derive(Default)]
struct Waiting {
    callbacks: Vec<Callback>,
    /// Why nothing is watched any longer.
    error: Option<Error>,
}

type Callback = Box<dyn FnOnce(&str) + Send>;

/// The error of a handler that stops because its token has tripped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancelled(Arc<str>);

impl Cancelled {
    /// Why.
    pub fn reason(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cancelled: {}", self.0)
    }
}

impl std::error::Error for Cancelled {}

impl CancelToken {
    /// A token that has not tripped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trips the token; false where it had tripped before, whose reason stays.
    pub fn cancel(&self, reason: impl Into<Arc<str>>) -> bool {
        let reason = reason.into();
        if self.0.reason.set(reason.clone()).is_err() {
            return false;
        }
        let callbacks = self.0.waiting.change(|waiting| std::mem::take(&mut waiting.callbacks));
        callbacks.into_iter().for_each(|callback| callback(&reason));
        true
    }

    /// Why it has tripped; nothing where it has not.
    pub fn reason(&self) -> Option<Arc<str>> {
        self.0.reason.get().cloned()
    }

    /// Fails where it has tripped.
    pub fn check(&self) -> Result<(), Cancelled> {
        match self.0.reason.get() {
            None => Ok(()),
            Some(reason) => Err(Cancelled(reason.clone())),
        }
    }

    /// Waits until it trips, and answers why.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn cancelled(&self) -> Arc<str> {
        self.0.waiting.until(|_| self.reason()).await
    }

    /// Waits on the caller's thread, for at most that long: nothing where it has not tripped by then.
    pub fn wait(&self, at_most: Duration) -> Option<Arc<str>> {
        self.0.waiting.wait(at_most, |_| self.reason())
    }

    /// Has a function called with the reason when it trips, on the thread that trips it; at once where it has tripped.
    pub fn on_cancel(&self, callback: impl FnOnce(&str) + Send + 'static) {
        let mut callback: Option<Callback> = Some(Box::new(callback));
        let tripped = self.0.waiting.with(|waiting| {
            let reason = self.reason();
            if reason.is_none() {
                waiting.callbacks.extend(callback.take());
            }
            reason
        });
        if let (Some(callback), Some(reason)) = (callback, tripped) {
            callback(&reason);
        }
    }

    /// Why a token of [`Events::watch`](crate::Events::watch) is not tripped by other processes any longer: its client was
    /// closed, or may not listen any longer. Nothing while it is.
    pub fn watch_error(&self) -> Option<Error> {
        self.0.waiting.with(|waiting| waiting.error.clone())
    }

    /// A token that keeps what informs it for as long as it lives.
    pub(super) fn with_watch(watch: Hold) -> Self {
        Self(Arc::new(Inner { watch: Some(watch), ..Inner::default() }))
    }

    /// What informs the token, where anything does.
    pub(super) fn watch(&self) -> Option<&Hold> {
        self.0.watch.as_ref()
    }

    /// The token as what informs it has it, which does not keep it.
    pub(super) fn downgrade(&self) -> WeakToken {
        WeakToken(Arc::downgrade(&self.0))
    }

    pub(super) fn watch_ended(&self, error: Option<Error>) {
        self.0.waiting.change(|waiting| waiting.error = error);
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.reason.get() {
            None => f.write_str("CancelToken"),
            Some(reason) => write!(f, "CancelToken(cancelled: {reason})"),
        }
    }
}

/// A token that may be gone.
#[derive(Clone)]
pub(super) struct WeakToken(Weak<Inner>);

impl WeakToken {
    pub(super) fn upgrade(&self) -> Option<CancelToken> {
        self.0.upgrade().map(CancelToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_first_reason_stays() {
        let token = CancelToken::new();
        assert_eq!((token.reason(), token.check()), (None, Ok(())));
        assert_eq!(token.wait(Duration::ZERO), None);
        assert!(token.cancel("first"));
        assert!(!token.clone().cancel("second"));
        assert_eq!(token.reason().as_deref(), Some("first"));
        assert_eq!(token.check().unwrap_err().to_string(), "cancelled: first");
    }

    #[test]
    fn whoever_waits_is_told_once_however_it_waits() {
        let token = CancelToken::new();
        let (sender, receiver) = mpsc::channel();
        let early = sender.clone();
        token.on_cancel(move |reason| early.send(format!("early {reason}")).unwrap());
        let thread = std::thread::spawn({
            let token = token.clone();
            move || token.wait(Duration::from_secs(60))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tripping = std::thread::spawn({
            let token = token.clone();
            move || token.cancel("why")
        });
        assert_eq!(&*runtime.block_on(token.cancelled()), "why");
        assert_eq!(thread.join().unwrap().as_deref(), Some("why"));
        assert!(tripping.join().unwrap());
        token.on_cancel(move |reason| sender.send(format!("late {reason}")).unwrap());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["early why", "late why"]);
    }
}
