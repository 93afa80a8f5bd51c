//! `echomq.aio.Listener` and `echomq.aio.Subscriber`.

use super::lazy::Lazy;
use super::notices::Notices;
use super::queue::LoopQueue;
use super::waiting::{Source, Wait, Waiting, is_there, taken};
use crate::error;
use crate::event::object;
use crate::listener::{ListenerStatus, options};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use std::time::Duration;

/// A listener on a queue's events for asyncio, made by ``Events.listen``: what ``echomq.Listener`` is.
///
/// It starts by ``await`` or by ``async with``, which is when the server has confirmed the subscription.
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Listener {
    events: echomq::Events,
    listener: Arc<Lazy<echomq::Listener>>,
}

impl Listener {
    pub(crate) fn new(events: echomq::Events) -> Self {
        let listening = events.clone();
        Self { events, listener: Lazy::new(move || listening.listen()) }
    }

    fn end(&self) {
        if let Some(listener) = self.listener.if_started() {
            listener.close();
        }
    }
}

#[pymethods]
impl Listener {
    /// Starts the listener. When it answers, the server has confirmed the subscription.
    ///
    /// Fails as ``echomq.Events.listen`` does.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::__aenter__(slf)?.call_method0("__await__")
    }

    /// The channel on the server.
    #[getter]
    fn channel(&self) -> &str {
        self.events.channel()
    }

    /// Hears every event from now on: an asynchronous iterator, at once. See ``echomq.Listener.subscribe``.
    ///
    /// Fails with ``StateError`` before the listener was started.
    #[pyo3(signature = (*, buffer = None))]
    fn subscribe(&self, py: Python<'_>, buffer: Option<&Bound<'_, PyAny>>) -> PyResult<Subscriber> {
        let subscriber = self.listener.running(py)?.subscribe(options(py, buffer)?);
        subscriber.map(Subscriber::new).map_err(|error| error::raise(py, &error))
    }

    /// How the subscription stands: at once. Fails with ``StateError`` before the listener was started.
    fn status(&self, py: Python<'_>) -> PyResult<ListenerStatus> {
        ListenerStatus::new(py, &self.listener.running(py)?.status())
    }

    /// What the listener tells beside its events: an asynchronous iterator of ``echomq.Notice``, at once; see
    /// ``echomq.Listener.notices``. Fails with ``StateError`` before the listener was started.
    fn notices(&self, py: Python<'_>) -> PyResult<Notices> {
        Ok(Notices::of_running(self.listener.running(py)?.notices()))
    }

    /// Ends the listener, at once. Its subscribers can take what they have already.
    fn close(&self) {
        self.end();
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().listener.object(slf.py(), slf.clone().into_any().unbind())
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__<'py>(
        &self,
        py: Python<'py>,
        _exception: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.end();
        LoopQueue::current(py)?.ready(py, py.None())
    }

    fn __repr__(&self) -> String {
        match self.listener.if_started() {
            Some(listener) => format!("<echomq.aio.{listener:?}>"),
            None => format!("<echomq.aio.Listener, not started, {}>", self.channel()),
        }
    }
}

struct Hearing(echomq::Subscriber);

impl Source for Hearing {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        taken(py, self.0.wait_take(1, Duration::ZERO), object)
    }

    async fn ready(&self) {
        self.0.ready().await;
    }

    fn is_ready(&self) -> bool {
        is_there(self.0.ready())
    }
}

/// One of any number that hear a listener's events, made by ``Listener.subscribe``: an asynchronous iterator of
/// ``echomq.Event``, and of ``echomq.EventGap`` where events are missing or may be.
///
/// It is what ``echomq.Subscriber`` is. Any number of tasks may wait for events. A wait that is cancelled loses
/// nothing; ``asyncio.timeout`` bounds it.
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Subscriber {
    subscriber: echomq::Subscriber,
    hearing: Arc<Waiting<Hearing>>,
}

impl Subscriber {
    fn new(subscriber: echomq::Subscriber) -> Self {
        Self { hearing: Waiting::new(Hearing(subscriber.clone())), subscriber }
    }
}

/// Whoever watches for events holds the subscriber too, so its last user says that it is to end.
impl Drop for Subscriber {
    fn drop(&mut self) {
        self.subscriber.close();
    }
}

#[pymethods]
impl Subscriber {
    /// Ends the subscription, at once. What it has already can be taken.
    fn close(&self) {
        self.subscriber.close();
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().hearing.next(slf)
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        LoopQueue::current(slf.py())?.ready(slf.py(), slf.clone().into_any().unbind())
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__<'py>(
        &self,
        py: Python<'py>,
        _exception: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.subscriber.close();
        LoopQueue::current(py)?.ready(py, py.None())
    }

    fn __repr__(&self) -> String {
        format!("<echomq.aio.{:?}>", self.subscriber)
    }
}
