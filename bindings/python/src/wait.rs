//! The one way to wait on the caller's own thread.

use crate::error;
use echomq::Result;
use pyo3::prelude::*;
use std::cell::RefCell;

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
