//! The one way to wait on the caller's own thread.

use crate::error;
use echomq::Result;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio::time::timeout;

thread_local! {
    /// What a signal handler raised while this thread waited.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Makes a call of the core while other threads of Python run.
///
/// Signals are looked for meanwhile; what their handlers raise ends the call and is what the caller gets.
pub(crate) fn wait<T: Send>(py: Python<'_>, call: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    let answer = py.detach(call);
    match RAISED.take() {
        Some(raised) => Err(raised),
        None => answer.map_err(|error| error::raise(py, &error)),
    }
}

/// What the core asks while a call waits: true ends the call.
pub(crate) fn interrupted() -> bool {
    if RAISED.with_borrow(Option::is_some) {
        return true;
    }
    // Handlers run inside and may call a client themselves, so nothing is borrowed meanwhile.
    match Python::try_attach(|py| py.check_signals()) {
        Some(Ok(())) => false,
        Some(Err(raised)) => {
            RAISED.set(Some(raised));
            true
        }
        // The interpreter ends, and nobody takes the answer any longer.
        None => true,
    }
}

/// How long a thread waits at most before it looks for signals.
const STEP: Duration = Duration::from_millis(100);

/// Waits for something that a reader of the core gives, while other threads of Python run: nothing where it did not come
/// within that time, or once `left` says that nobody wants it any longer.
///
/// The future loses nothing when it is dropped. Signals are looked for meanwhile, and what their handlers raise ends the
/// wait.
pub(crate) fn wait_for<T: Send>(
    py: Python<'_>,
    future: impl Future<Output = T> + Send,
    within: Duration,
    left: impl Fn() -> bool,
) -> PyResult<Option<T>> {
    let runtime = error::runtime(py)?;
    let until = Instant::now().checked_add(within);
    let mut future = pin!(future);
    while !left() {
        let step = until.map_or(STEP, |until| STEP.min(until.saturating_duration_since(Instant::now())));
        let waiting = future.as_mut();
        if let Ok(found) = py.detach(|| runtime.block_on(async { timeout(step, waiting).await })) {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if step < STEP {
            break;
        }
    }
    Ok(None)
}

/// Waits as long as it takes; see [`wait_for`].
pub(crate) fn wait_for_ever<T: Send>(py: Python<'_>, future: impl Future<Output = T> + Send) -> PyResult<T> {
    let mut future = pin!(future);
    loop {
        // It ends with the answer or with what a signal raised.
        if let Some(found) = wait_for(py, future.as_mut(), Duration::MAX, || false)? {
            return Ok(found);
        }
    }
}

/// What a reader of the core gives next, as an object: nothing where nothing came within that time, or at the end.
pub(crate) fn next<T: Send>(
    py: Python<'_>,
    next: impl Future<Output = Result<Option<T>>> + Send,
    within: Duration,
    object: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    let next = wait_for(py, next, within, || false)?.unwrap_or(Ok(None));
    of(py, next, object)
}

/// What a reader of the core gives next, as an object: what is there already at once, and else as long as it takes; nothing
/// at the end.
pub(crate) fn following<T: Send>(
    py: Python<'_>,
    there: Result<Option<Vec<T>>>,
    next: impl Future<Output = Result<Option<T>>> + Send,
    object: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    let next = match there {
        Ok(Some(mut there)) => Ok(there.pop()),
        Ok(None) => wait_for_ever(py, next)?,
        Err(error) => Err(error),
    };
    of(py, next, object)
}

fn of<T>(
    py: Python<'_>,
    next: Result<Option<T>>,
    object: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    let next = next.map_err(|error| error::raise(py, &error))?;
    next.map(|next| object(py, next)).transpose()
}
