//! `echomq.Listener` and `echomq.Subscriber`.

use crate::event::object;
use crate::notice::Notices;
use crate::wait::{following, next};
use crate::{arguments, error};
use echomq::SubscriberOptions;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::time::Duration;

/// How a listener's subscription stands.
#[pyclass(frozen, get_all, module = "echomq")]
pub(crate) struct ListenerStatus {
    /// Whether the server sends events, as far as the listener has noticed.
    connected: bool,
    /// How often the channel was subscribed to again.
    resubscriptions: u64,
    /// Why there is no connection, an ``EchoMQError``; ``None`` where there is one.
    error: Option<Py<PyAny>>,
}

impl ListenerStatus {
    pub(crate) fn new(py: Python<'_>, status: &echomq::ListenerStatus) -> PyResult<Self> {
        let error = status.error.as_ref().map(|error| error::exception(py, error)).transpose()?;
        let (connected, resubscriptions) = (status.connected, status.resubscriptions);
        Ok(Self { connected, resubscriptions, error: error.map(Bound::unbind) })
    }
}

#[pymethods]
impl ListenerStatus {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let connected = if self.connected { "True" } else { "False" };
        let error = match &self.error {
            Some(error) => error.bind(py).repr()?.to_string(),
            None => "None".to_owned(),
        };
        Ok(format!(
            "ListenerStatus(connected={connected}, resubscriptions={}, error={error})",
            self.resubscriptions
        ))
    }
}

/// The options of a subscriber; one that is `None` is not given.
pub(crate) fn options(py: Python<'_>, buffer: Option<&Bound<'_, PyAny>>) -> PyResult<SubscriberOptions> {
    let mut options = SubscriberOptions::new();
    if let Some(buffer) = buffer {
        let events = arguments::count(buffer, "buffer")?;
        options.set("buffer", &events.to_string()).map_err(|error| error::raise(py, &error))?;
    }
    Ok(options)
}

/// A listener on a queue's events, made by ``Events.listen``: one subscription, off which any number of subscribers
/// hear.
///
/// The subscription was confirmed when the listener was made. After a lost connection it is made again by itself, for
/// as long as it takes, and every subscriber is given an ``EventGap``. All listeners of a client share one connection.
///
/// ``with`` closes it at the end. It ends too when it and all its subscribers are dropped.
///
/// >>> with echomq.Client(url) as client:
/// ...     events = client.events("codemojex")
/// ...     with events.listen() as listener:
/// ...         first, second = listener.subscribe(), listener.subscribe(buffer=100)
/// ...         for event in ("added", "active", "completed"):
/// ...             heard = events.publish(event, "JOB000xY9Wvvcd")
/// ...         [next(first).name for _ in range(3)]
/// ...         next(second).name
/// ['added', 'active', 'completed']
/// 'added'
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Listener(echomq::Listener);

impl From<echomq::Listener> for Listener {
    fn from(listener: echomq::Listener) -> Self {
        Self(listener)
    }
}

#[pymethods]
impl Listener {
    /// The channel on the server.
    #[getter]
    fn channel(&self) -> &str {
        self.0.channel()
    }

    /// Hears every event from now on: an iterator of ``Event`` and ``EventGap``.
    ///
    /// ``buffer`` is how many events wait for the subscriber; what does not fit is counted, and told by an ``EventGap``
    /// in its place, while the other subscribers go on. Fails with ``InvalidOptionError`` for a buffer without room.
    #[pyo3(signature = (*, buffer = None))]
    fn subscribe(&self, py: Python<'_>, buffer: Option<&Bound<'_, PyAny>>) -> PyResult<Subscriber> {
        let subscriber = self.0.subscribe(options(py, buffer)?);
        subscriber.map(Subscriber).map_err(|error| error::raise(py, &error))
    }

    /// How the subscription stands.
    fn status(&self, py: Python<'_>) -> PyResult<ListenerStatus> {
        ListenerStatus::new(py, &self.0.status())
    }

    /// What the listener tells beside its events: an iterator of ``Notice``, which waits for the next one and ends with the
    /// listener. ``disconnected`` is told as soon as the connection is lost, and ``reconnected`` once the channel is
    /// subscribed to again; of one loss each once, however many attempts it takes.
    ///
    /// The last 1 024 wait to be taken; each is taken once, by whoever asks first.
    fn notices(&self) -> Notices {
        self.0.notices().into()
    }

    /// Ends the listener. Its subscribers can take what they have already.
    fn close(&self) {
        self.0.close();
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.0.close();
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.0)
    }
}

/// One of any number that hear a listener's events, each at its own pace and with its own buffer, made by
/// ``Listener.subscribe``: an iterator of ``Event``, and of ``EventGap`` where events are missing or may be.
///
/// Events come in the order in which the server handed them out, each at most once. Threads may share it.
///
/// The loop ends when the subscriber or its listener was closed and everything was taken. It fails once, with the
/// reason, when the listener cannot go on: with ``AuthError`` when the user may not listen any longer,
/// ``VersionFenceError``, or ``ClosedError`` when the client was closed. A signal ends the wait for an event: Ctrl-C
/// raises ``KeyboardInterrupt``.
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Subscriber(echomq::Subscriber);

#[pymethods]
impl Subscriber {
    /// What comes next; ``None`` where nothing came ``within`` that time, a ``timedelta``, or once the end is reached.
    #[pyo3(signature = (within = None))]
    fn next(&self, py: Python<'_>, within: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        next(py, self.0.next(), arguments::within(within)?, object)
    }

    /// Ends the subscription. What it has already can be taken.
    fn close(&self) {
        self.0.close();
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        following(py, self.0.wait_take(1, Duration::ZERO), self.0.next(), object)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.0.close();
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.0)
    }
}
