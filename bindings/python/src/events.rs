//! `echomq.Events`, which waits on the threads of its callers.

use crate::cancel::CancelToken;
use crate::listener::Listener;
use crate::text::text;
use crate::wait::wait;
use crate::{arguments, error};
use echomq::blocking;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};

/// The object of a record that was appended and of what became of its event.
pub(crate) fn announced(py: Python<'_>, announced: echomq::Announced) -> PyResult<Py<PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let class = CLASS.import(py, "echomq._events", "Announced")?;
    let id = PyString::new(py, announced.id.as_str());
    let (published, error) = match announced.published {
        Ok(listening) => (Some(listening), None),
        Err(error) => (None, Some(error::exception(py, &error)?)),
    };
    Ok(class.call1((id, published, error))?.unbind())
}

/// An event to publish that was checked already, for `echomq._events`.
#[pyclass(frozen, module = "echomq._echomq")]
pub(crate) struct Signal(pub(crate) echomq::Signal);

/// The lifecycle events of a queue, made by ``Client.events``: fire and forget.
///
/// Delivery is at most once: whoever does not listen at that moment does not hear it. What must not be missed belongs
/// into a stream.
///
/// An event has a name, the branded id of the job that it is about, and further members: a mapping or pairs of name and
/// value, each ``str`` or ``bytes``. The value of each is a text. The README has the names known to the bus; others are
/// carried all the same.
///
/// Every call can also fail with ``AuthError``, which names the channel rule where the user lacks it, with
/// ``OverloadedError``, ``DisconnectedError``, ``TimeoutError``, ``ClosedError`` and ``ServerError``.
///
/// >>> with echomq.Client(url) as client:
/// ...     events = client.events("codemojex")
/// ...     with events.listen() as listener, listener.subscribe() as subscriber:
/// ...         print(events.publish("completed", "JOB000xY9Wvvcd", {"result": "won"}), "listened")
/// ...         for event in subscriber:
/// ...             print(event.name, event.job, event.get("result"))
/// ...             break
/// 1 listened
/// completed JOB000xY9Wvvcd won
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Events(blocking::Events);

impl From<blocking::Events> for Events {
    fn from(events: blocking::Events) -> Self {
        Self(events)
    }
}

#[pymethods]
impl Events {
    /// The channel on the server.
    #[getter]
    fn channel(&self) -> &str {
        self.0.channel()
    }

    /// Publishes an event, and answers how many listened, as the server counts them.
    ///
    /// Fails with ``MalformedIdError`` for a job that is no branded id, ``InvalidNameError`` for an event without a
    /// name, ``ReservedFieldError`` for a further member ``event`` or ``job``, ``InvalidOptionError`` for one that is
    /// given twice and for bytes that are no UTF-8, ``TooLargeError``, and with ``UnknownOutcomeError`` when the
    /// connection broke before the answer came: it is not sent again, since it could be heard twice.
    #[pyo3(signature = (event, job, extra = None))]
    fn publish(
        &self,
        event: &Bound<'_, PyString>,
        job: &Bound<'_, PyString>,
        extra: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let signal = arguments::signal(event, job, extra)?;
        wait(event.py(), || self.0.publish(signal))
    }

    /// Writes a job's progress, a text or a number, into its row and publishes the event ``progress``, in one step of
    /// the server's. Answers how many listened.
    ///
    /// Fails with ``GoneError`` where the job has no row, with ``MalformedIdError``, ``InvalidOptionError`` for bytes
    /// that are no UTF-8, ``TooLargeError`` and ``WrongTypeError``; nothing was changed then and nothing published.
    /// Fails with ``UnknownOutcomeError`` as ``publish`` does.
    fn update_progress(&self, job: &Bound<'_, PyString>, progress: &Bound<'_, PyAny>) -> PyResult<u64> {
        let (job, value) = (text(job, "a job")?, arguments::progress(progress)?);
        let job = job.as_ref();
        wait(progress.py(), || self.0.update_progress(job, value))
    }

    /// Appends a record to a stream of the queue, and then publishes an event with its place: the members ``stream``
    /// and ``id`` stand before the further ones. A listener that missed something reads from the last id that it knows.
    ///
    /// Fails as ``Stream.append`` does, with ``InvalidNameError`` for the stream, with ``ReservedFieldError`` for a
    /// further member ``stream`` or ``id``, and as ``publish`` does for what cannot be published; nothing is published
    /// then. Once the record is there the call succeeds, and its answer says what became of the event.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     events = client.events("codemojex")
    /// ...     announced = events.append_and_publish("games", {"kind": "won"}, "completed", "JOB000xY9Wvvcd")
    /// ...     [record] = client.stream("codemojex", "games").read(announced.id)
    /// >>> record.get("kind"), announced.published, announced.error
    /// ('won', 0, None)
    #[pyo3(signature = (stream, fields, event, job, extra = None))]
    fn append_and_publish(
        &self,
        stream: &Bound<'_, PyString>,
        fields: &Bound<'_, PyAny>,
        event: &Bound<'_, PyString>,
        job: &Bound<'_, PyString>,
        extra: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (name, fields, signal) = arguments::announcement(stream, fields, event, job, extra)?;
        let py = stream.py();
        announced(py, wait(py, || self.0.append_and_publish(&name, fields, signal))?)
    }

    /// The same for a stream that has several writers: see ``Stream.append_sequenced``.
    #[pyo3(signature = (stream, fields, event, job, extra = None))]
    fn append_sequenced_and_publish(
        &self,
        stream: &Bound<'_, PyString>,
        fields: &Bound<'_, PyAny>,
        event: &Bound<'_, PyString>,
        job: &Bound<'_, PyString>,
        extra: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (name, fields, signal) = arguments::announcement(stream, fields, event, job, extra)?;
        let py = stream.py();
        announced(py, wait(py, || self.0.append_sequenced_and_publish(&name, fields, signal))?)
    }

    /// Listens to the queue's events. It answers when the server has confirmed the subscription.
    ///
    /// Fails with ``AuthError``, which names the channel rule where the user lacks it, with ``DisconnectedError`` when
    /// there was no connection until the client's ``timeout``, and with ``VersionFenceError``.
    fn listen(&self, py: Python<'_>) -> PyResult<Listener> {
        wait(py, || self.0.listen()).map(Listener::from)
    }

    /// Cancels a job in whatever process it runs: writes a mark that lives for ``ttl``, a ``timedelta``, or for one
    /// day, and then publishes the event ``cancel`` with the reason. Answers how many listened.
    ///
    /// Fails with ``MalformedIdError``, with ``InvalidOptionError`` for a reason that is no UTF-8 or a ``ttl`` under a
    /// millisecond, with ``TooLargeError``, and with ``UnknownOutcomeError``; cancelling again does no harm.
    #[pyo3(signature = (job, reason, ttl = None))]
    fn cancel(
        &self,
        job: &Bound<'_, PyString>,
        reason: &Bound<'_, PyString>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let ttl = ttl.map(|ttl| arguments::duration(ttl, "ttl")).transpose()?;
        let (py, job, reason) = (job.py(), text(job, "a job")?, text(reason, "the reason")?);
        let (job, reason) = (job.as_ref(), reason.as_ref());
        wait(py, || self.0.cancel(job, reason, ttl))
    }

    /// A token that trips when the job is cancelled, or was before, by whatever process. It answers when the
    /// subscription is confirmed and the mark is read, which is read again after every gap.
    ///
    /// It watches for as long as the token lives. Fails with ``MalformedIdError``, and as ``listen`` does.
    ///
    /// >>> with echomq.Client(url) as client:
    /// ...     events = client.events("codemojex")
    /// ...     token = events.watch("JOB000xY9Wvvcd")
    /// ...     before = token.check()
    /// ...     heard = events.cancel("JOB000xY9Wvvcd", "the player left", ttl=timedelta(minutes=1))
    /// ...     before, token.wait(), token.check(), events.watch("JOB000xY9Wvvcd").reason
    /// (False, 'the player left', True, 'the player left')
    fn watch(&self, job: &Bound<'_, PyString>) -> PyResult<CancelToken> {
        let (py, job) = (job.py(), text(job, "a job")?);
        let job = job.as_ref();
        wait(py, || self.0.watch(job)).map(CancelToken::from)
    }

    /// Checks an event to publish, for `echomq._events`.
    fn _signal(
        &self,
        event: &Bound<'_, PyString>,
        job: &Bound<'_, PyString>,
        extra: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Signal> {
        arguments::signal(event, job, extra).map(Signal)
    }

    /// Publishes an event that was checked, for `echomq._events`.
    fn _publish(&self, py: Python<'_>, signal: &Signal) -> PyResult<u64> {
        wait(py, || self.0.publish(signal.0.clone()))
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.0)
    }
}
