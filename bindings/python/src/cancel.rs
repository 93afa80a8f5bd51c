//! `echomq.CancelToken`.

use crate::aio::waiting::{Source, Wait, Waiting};
use crate::text::exact;
use crate::wait::wait_for;
use crate::{arguments, error};
use echomq::Result;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

/// Why a token has tripped, or why a watch has ended.
type Outcome = Option<Result<Arc<str>>>;

/// What tasks of event loops wait for. It does not keep the token, whose end ends the watch.
struct Tripped(watch::Receiver<Outcome>);

impl Tripped {
    fn of(token: &echomq::CancelToken) -> Self {
        let (told, outcome) = watch::channel(None);
        let told_of_end = told.clone();
        token.on_cancel(move |reason| drop(told.send_replace(Some(Ok(reason.into())))));
        token.on_watch_end(move |error| {
            told_of_end.send_if_modified(|outcome| {
                outcome.get_or_insert_with(|| Err(error.clone()));
                true
            });
        });
        Self(outcome)
    }
}

impl Source for Tripped {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.0.borrow().clone() {
            Some(Ok(reason)) => Ok(Some(PyString::new(py, &reason).into_any().unbind())),
            Some(Err(error)) => Err(error::raise(py, &error)),
            None if self.0.has_changed().is_ok() => Ok(None),
            None => Err(PyRuntimeError::new_err("nobody has the token any longer")),
        }
    }

    async fn ready(&self) {
        let _ = self.0.clone().wait_for(Option::is_some).await;
    }

    fn is_ready(&self) -> bool {
        self.0.borrow().is_some() || self.0.has_changed().is_err()
    }
}

/// A token that work looks at, at points where it can stop safely.
///
/// It trips once, and the first reason stays. Any number of threads and event loops may share it. ``Events.watch``
/// gives one that other processes can trip.
///
/// ``await token`` waits in an event loop until it trips, and answers why; see ``wait``.
///
/// >>> token = echomq.CancelToken()
/// >>> token.check(), token.cancel("the player left"), token.cancel("too late"), token.check(), token.reason
/// (False, True, False, True, 'the player left')
/// >>> try:
/// ...     token.raise_if_cancelled()
/// ... except echomq.Cancelled as cancelled:
/// ...     print(cancelled)
/// cancelled: the player left
/// >>> async def main():
/// ...     return await token
/// >>> asyncio.run(main())
/// 'the player left'
#[pyclass(frozen, module = "echomq")]
pub(crate) struct CancelToken {
    token: echomq::CancelToken,
    tripped: OnceLock<Arc<Waiting<Tripped>>>,
}

impl From<echomq::CancelToken> for CancelToken {
    fn from(token: echomq::CancelToken) -> Self {
        Self { token, tripped: OnceLock::new() }
    }
}

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> Self {
        echomq::CancelToken::new().into()
    }

    /// Trips the token; ``False`` where it had tripped before, whose reason stays.
    fn cancel(&self, reason: &Bound<'_, PyString>) -> PyResult<bool> {
        Ok(self.token.cancel(exact(reason, "reason")?))
    }

    /// Whether it has tripped.
    fn check(&self) -> bool {
        self.token.reason().is_some()
    }

    /// Raises ``Cancelled``, which has the reason, where it has tripped.
    fn raise_if_cancelled(&self, py: Python<'_>) -> PyResult<()> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        match self.token.reason() {
            None => Ok(()),
            Some(reason) => {
                Err(PyErr::from_value(CLASS.import(py, "echomq.errors", "Cancelled")?.call1((&*reason,))?))
            }
        }
    }

    /// Why it has tripped; ``None`` where it has not.
    #[getter]
    fn reason<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.token.reason().map(|reason| PyString::new(py, &reason))
    }

    /// Why a token of ``Events.watch`` is not tripped by other processes any longer, an ``EchoMQError``: its client was
    /// closed, may not listen any longer, or belongs to the process that forked this one. ``None`` while it is.
    #[getter]
    fn watch_error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.token.watch_error().map(|error| error::exception(py, &error)).transpose()
    }

    /// Waits until it trips, and answers why; ``None`` where it did not ``within`` that time, a ``timedelta``.
    ///
    /// Raises ``watch_error`` when other processes do not trip it any longer. A signal ends the wait: Ctrl-C raises
    /// ``KeyboardInterrupt``.
    #[pyo3(signature = (within = None))]
    fn wait<'py>(
        &self,
        py: Python<'py>,
        within: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyString>>> {
        let within = arguments::within(within)?;
        let there = match self.token.wait(Duration::ZERO) {
            Ok(None) => wait_for(py, self.token.cancelled(), within, || false)?.transpose(),
            there => there,
        };
        let reason = there.map_err(|error| error::raise(py, &error))?;
        Ok(reason.map(|reason| PyString::new(py, &reason)))
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        let (py, this) = (slf.py(), slf.get());
        this.token.wait(Duration::ZERO).map_err(|error| error::raise(py, &error))?;
        let tripped = this.tripped.get_or_init(|| Waiting::new(Tripped::of(&this.token)));
        tripped.next(slf)
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.token)
    }
}
