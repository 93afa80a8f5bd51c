//! The cooperative token.

use crate::connection::door::Door;
use crate::error::Error;
use crate::events::hub::Hold;
use crate::operation::monitor::Monitor;
use std::fmt;
use std::mem;
use std::sync::{Arc, Weak};
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
    state: Monitor<State>,
    /// What keeps a token that other processes can trip informed.
    watch: Option<Hold>,
}

#[derive(Default)]
struct State {
    reason: Option<Arc<str>>,
    callbacks: Vec<Callback>,
    /// Why nothing is watched any longer.
    watch_error: Option<Error>,
    end_callbacks: Vec<EndCallback>,
}

type Callback = Box<dyn FnOnce(&str) + Send>;

impl State {
    fn reason(&mut self) -> Option<Arc<str>> {
        self.reason.clone()
    }

    /// What whoever waits is told.
    fn outcome(&mut self) -> Option<Result<Arc<str>, Error>> {
        let reason = self.reason.clone().map(Ok);
        reason.or_else(|| self.watch_error.clone().map(Err))
    }
}
type EndCallback = Box<dyn FnOnce(&Error) + Send>;

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
        let reason: Arc<str> = reason.into();
        let trip = |state: &mut State| match &state.reason {
            Some(_) => None,
            None => {
                state.reason = Some(reason.clone());
                Some(mem::take(&mut state.callbacks))
            }
        };
        match self.0.state.change(trip) {
            Some(callbacks) => {
                callbacks.into_iter().for_each(|callback| callback(&reason));
                true
            }
            None => false,
        }
    }

    /// Why it has tripped; nothing where it has not.
    pub fn reason(&self) -> Option<Arc<str>> {
        self.0.state.with(State::reason)
    }

    /// Fails where it has tripped.
    pub fn check(&self) -> Result<(), Cancelled> {
        self.reason().map_or(Ok(()), |reason| Err(Cancelled(reason)))
    }

    /// Waits until it trips, and answers why.
    ///
    /// Fails with [`CancelToken::watch_error`] where other processes do not trip it any longer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn cancelled(&self) -> Result<Arc<str>, Error> {
        self.check_origin()?;
        self.0.state.until(State::outcome).await
    }

    /// Waits on the caller's thread, for at most that long: nothing where it has not tripped by then. Fails as
    /// [`CancelToken::cancelled`] does.
    pub fn wait(&self, at_most: Duration) -> Result<Option<Arc<str>>, Error> {
        self.check_origin()?;
        self.0.state.wait(at_most, State::outcome).transpose()
    }

    /// A watch of the process that forked this one trips nothing here; what it had tripped before counts.
    fn check_origin(&self) -> Result<(), Error> {
        match &self.0.watch {
            Some(watch) if self.reason().is_none() => watch.door().origin().check(),
            _ => Ok(()),
        }
    }

    /// Has a function called with the reason when it trips, on the thread that trips it; at once where it has tripped.
    pub fn on_cancel(&self, callback: impl FnOnce(&str) + Send + 'static) {
        let mut callback: Option<Callback> = Some(Box::new(callback));
        let tripped = self.0.state.with(|state| {
            if state.reason.is_none() {
                state.callbacks.extend(callback.take());
            }
            state.reason()
        });
        if let (Some(callback), Some(reason)) = (callback, tripped) {
            callback(&reason);
        }
    }

    /// Why a token of [`Events::watch`](crate::Events::watch) is not tripped by other processes any longer: its client was
    /// closed, may not listen any longer, or belongs to the process that forked this one. Nothing while it is.
    pub fn watch_error(&self) -> Option<Error> {
        let here = self.0.watch.as_ref().map_or(Ok(()), |watch| watch.door().origin().check());
        here.err().or_else(|| self.0.state.with(|state| state.watch_error.clone()))
    }

    /// Has a function called with the reason when other processes do not trip it any longer, on the thread that finds out; at
    /// once where that is so already. See [`CancelToken::watch_error`].
    pub fn on_watch_end(&self, callback: impl FnOnce(&Error) + Send + 'static) {
        let mut callback: Option<EndCallback> = Some(Box::new(callback));
        let ended = self.0.state.with(|state| {
            if state.watch_error.is_none() {
                state.end_callbacks.extend(callback.take());
            }
            state.watch_error.clone()
        });
        if let (Some(callback), Some(error)) = (callback, ended) {
            callback(&error);
        }
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
        let callbacks = self.0.state.change(|state| {
            state.watch_error = error.clone();
            mem::take(&mut state.end_callbacks)
        });
        if let Some(error) = error {
            callbacks.into_iter().for_each(|callback| callback(&error));
        }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
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
    use crate::error::Code;
    use std::sync::mpsc;

    #[test]
    fn the_first_reason_stays() {
        let token = CancelToken::new();
        assert_eq!((token.reason(), token.check()), (None, Ok(())));
        assert_eq!(token.wait(Duration::ZERO), Ok(None));
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
        assert_eq!(&*runtime.block_on(token.cancelled()).unwrap(), "why");
        assert_eq!(thread.join().unwrap().unwrap().as_deref(), Some("why"));
        assert!(tripping.join().unwrap());
        token.on_cancel(move |reason| sender.send(format!("late {reason}")).unwrap());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["early why", "late why"]);
    }

    #[test]
    fn the_end_of_a_watch_is_told_once() {
        let token = CancelToken::new();
        let (sender, receiver) = mpsc::channel();
        let early = sender.clone();
        token.on_watch_end(move |error| early.send(format!("early {}", error.code())).unwrap());
        assert_eq!(token.watch_error(), None);
        token.watch_ended(Some(Error::new(Code::Closed, "over")));
        token.on_watch_end(move |error| sender.send(format!("late {}", error.code())).unwrap());
        assert_eq!(token.watch_error().unwrap().code(), Code::Closed);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), ["early closed", "late closed"]);
        assert_eq!(token.check(), Ok(()));
    }

    #[test]
    fn whoever_waits_is_told_of_the_end_of_a_watch() {
        let token = CancelToken::new();
        let thread = std::thread::spawn({
            let token = token.clone();
            move || token.wait(Duration::from_secs(60))
        });
        token.watch_ended(None);
        assert_eq!(token.wait(Duration::ZERO), Ok(None));
        token.watch_ended(Some(Error::new(Code::Closed, "over")));
        assert_eq!(thread.join().unwrap().unwrap_err().code(), Code::Closed);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(token.cancelled()).unwrap_err().code(), Code::Closed);
        // Here it can be tripped still.
        token.cancel("by hand");
        assert_eq!(token.wait(Duration::ZERO).unwrap().as_deref(), Some("by hand"));
    }
}
