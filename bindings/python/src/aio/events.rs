//! `echomq.aio.Events`.

use super::listener::Listener;
use super::queue::LoopQueue;
use crate::arguments;
use crate::cancel::CancelToken;
use crate::events::{Signal, announced};
use crate::text::text;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// The lifecycle events of a queue, made by ``Client.events``: the calls of ``echomq.Events``, each answering a future.
///
/// >>> async def main():
/// ...     async with echomq.aio.Client(url) as client:
/// ...         events = client.events("codemojex")
/// ...         async with events.listen() as listener, listener.subscribe() as subscriber:
/// ...             print(await events.publish("completed", "JOB000xY9Wvvcd", {"result": "won"}), "listened")
/// ...             async for event in subscriber:
/// ...                 return event.name, event.job, event.get("result")
/// >>> asyncio.run(main())
/// 1 listened
/// ('completed', 'JOB000xY9Wvvcd', 'won')
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Events(echomq::Events);

impl From<echomq::Events> for Events {
    fn from(events: echomq::Events) -> Self {
        Self(events)
    }
}

fn count(py: Python<'_>, listening: u64) -> PyResult<Py<PyAny>> {
    listening.into_py_any(py)
}

#[pymethods]
impl Events {
    /// The channel on the server.
    #[getter]
    fn channel(&self) -> &str {
        self.0.channel()
    }

    /// Publishes an event; see ``echomq.Events.publish``.
    #[pyo3(signature = (event, job, extra = None))]
    fn publish<'py>(
        &self,
        event: &Bound<'py, PyString>,
        job: &Bound<'py, PyString>,
        extra: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, signal) = (event.py(), arguments::signal(event, job, extra)?);
        LoopQueue::current(py)?.answer(py, self.0.publish(signal), count)
    }

    /// Writes a job's progress and publishes it; see ``echomq.Events.update_progress``.
    fn update_progress<'py>(
        &self,
        job: &Bound<'py, PyString>,
        progress: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, value) = (job.py(), arguments::progress(progress)?);
        let queue = LoopQueue::current(py)?;
        queue.answer(py, self.0.update_progress(text(job, "a job")?, value), count)
    }

    /// Appends a record and publishes where it is; see ``echomq.Events.append_and_publish``.
    #[pyo3(signature = (stream, fields, event, job, extra = None))]
    fn append_and_publish<'py>(
        &self,
        stream: &Bound<'py, PyString>,
        fields: &Bound<'py, PyAny>,
        event: &Bound<'py, PyString>,
        job: &Bound<'py, PyString>,
        extra: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (name, fields, signal) = arguments::announcement(stream, fields, event, job, extra)?;
        let (py, queue) = (stream.py(), LoopQueue::current(stream.py())?);
        queue.answer(py, self.0.append_and_publish(&name, fields, signal), announced)
    }

    /// The same for a stream that has several writers; see ``echomq.Events.append_sequenced_and_publish``.
    #[pyo3(signature = (stream, fields, event, job, extra = None))]
    fn append_sequenced_and_publish<'py>(
        &self,
        stream: &Bound<'py, PyString>,
        fields: &Bound<'py, PyAny>,
        event: &Bound<'py, PyString>,
        job: &Bound<'py, PyString>,
        extra: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (name, fields, signal) = arguments::announcement(stream, fields, event, job, extra)?;
        let (py, queue) = (stream.py(), LoopQueue::current(stream.py())?);
        queue.answer(py, self.0.append_sequenced_and_publish(&name, fields, signal), announced)
    }

    /// A listener on the queue's events, which starts when it is awaited or by ``async with``; see
    /// ``echomq.Events.listen``.
    fn listen(&self) -> Listener {
        Listener::new(self.0.clone())
    }

    /// Cancels a job in whatever process it runs; see ``echomq.Events.cancel``.
    #[pyo3(signature = (job, reason, ttl = None))]
    fn cancel<'py>(
        &self,
        job: &Bound<'py, PyString>,
        reason: &Bound<'py, PyString>,
        ttl: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, ttl) = (job.py(), ttl.map(|ttl| arguments::duration(ttl, "ttl")).transpose()?);
        let queue = LoopQueue::current(py)?;
        queue.answer(py, self.0.cancel(text(job, "a job")?, text(reason, "the reason")?, ttl), count)
    }

    /// A token that trips when the job is cancelled, or was before, by whatever process; see ``echomq.Events.watch``.
    ///
    /// >>> async def main():
    /// ...     async with echomq.aio.Client(url) as client:
    /// ...         events = client.events("codemojex")
    /// ...         token = await events.watch("JOB000xY9Wvvce")
    /// ...         await events.cancel("JOB000xY9Wvvce", "the player left", ttl=timedelta(minutes=1))
    /// ...         return await token
    /// >>> asyncio.run(main())
    /// 'the player left'
    fn watch<'py>(&self, job: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let py = job.py();
        let queue = LoopQueue::current(py)?;
        queue.answer(py, self.0.watch(text(job, "a job")?), |py, token| {
            Ok(Py::new(py, CancelToken::from(token))?.into_any())
        })
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
    fn _publish<'py>(&self, py: Python<'py>, signal: &Signal) -> PyResult<Bound<'py, PyAny>> {
        LoopQueue::current(py)?.answer(py, self.0.publish(signal.0.clone()), count)
    }

    fn __repr__(&self) -> String {
        format!("<echomq.aio.{:?}>", self.0)
    }
}
