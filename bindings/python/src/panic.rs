//! What becomes of a panic, and two functions that panic so that the tests can see it.
//!
//! PyO3 ends every entry point with `pyo3_runtime.PanicException`; a task of the runtime that panics settles its future
//! with the same exception (`aio/queue.rs`).

use crate::aio::queue::LoopQueue;
use crate::error;
use pyo3::panic::PanicException;
use pyo3::prelude::*;

/// The exception for a panic that was caught elsewhere than at an entry point.
pub(crate) fn exception() -> PyErr {
    PanicException::new_err("a task of the client panicked; its message is on standard error")
}

/// Panics. It is there so that a test can see what becomes of a panic.
#[pyfunction]
#[allow(clippy::panic, reason = "that is what it is for")]
pub(crate) fn panic_for_tests() {
    panic!("a panic for tests")
}

/// Panics in a task of the runtime, whose answer the future waits for. It is there for a test too.
#[pyfunction]
#[allow(clippy::panic, reason = "that is what it is for")]
pub(crate) fn panic_in_runtime_for_tests(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let (future, promise) = LoopQueue::current(py)?.promise(py)?;
    error::runtime(py)?.spawn(async move {
        let _promise = promise;
        panic!("a panic for tests")
    });
    Ok(future)
}
