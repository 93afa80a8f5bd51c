//! `echomq.aio.Consumer`, and its workers.

use super::lazy::{Lazy, carried_out};
use super::notices::Notices;
use super::queue::LoopQueue;
use super::waiting::{Source, Wait, Waiting, is_there, taken};
use crate::delivery::Delivery;
use crate::{arguments, error};
use echomq::ConsumerOptions;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;
use std::time::Duration;

type Found = Option<Vec<echomq::Delivery>>;

/// The delivery that was found: nothing where there was none, `StopAsyncIteration` at the end.
fn one(py: Python<'_>, found: echomq::Result<Found>, group: &Arc<str>) -> PyResult<Option<Py<PyAny>>> {
    taken(py, found, |py, delivery| Ok(Py::new(py, Delivery::new(delivery, group))?.into_any()))
}

/// The list of a batch that was found, an empty one at the end; nothing where there was none.
fn batch(py: Python<'_>, found: echomq::Result<Found>, group: &Arc<str>) -> PyResult<Option<Py<PyAny>>> {
    let Some(found) = found.map_err(|error| error::raise(py, &error))? else { return Ok(None) };
    let found = found.into_iter().map(|delivery| Bound::new(py, Delivery::new(delivery, group)));
    Ok(Some(PyList::new(py, found.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()))
}

/// The entries of a consumer, for whoever pulls.
struct Entries {
    consumer: Arc<Lazy<echomq::Consumer>>,
    group: Arc<str>,
}

impl Source for Entries {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.consumer.known(py)? {
            Some(consumer) => one(py, consumer.wait_next(1, Duration::ZERO), &self.group),
            None => Ok(None),
        }
    }

    async fn ready(&self) {
        if let Some(consumer) = self.consumer.get_for_wait().await {
            consumer.ready().await;
        }
    }

    fn is_ready(&self) -> bool {
        self.consumer.is_ready(|consumer| is_there(consumer.ready()))
    }
}

/// The batches of a consumer, for whoever pulls.
struct Batches(Entries);

impl Source for Batches {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match self.0.consumer.known(py)? {
            Some(consumer) => batch(py, consumer.ready_batch(), &self.0.group),
            None => Ok(None),
        }
    }

    async fn ready(&self) {
        if let Some(consumer) = self.0.consumer.get_for_wait().await {
            consumer.batch_ready().await;
        }
    }

    // Whether a batch is ready depends on how long it was waited for.
    fn is_ready(&self) -> bool {
        false
    }

    fn is_eager(&self) -> bool {
        false
    }
}

/// A consumer of a group for asyncio, made by ``Stream.consumer``: an asynchronous iterator of ``echomq.Delivery``.
///
/// It is what ``echomq.Consumer`` is. It starts by ``await`` or by ``async with``, or with the first wait for an entry.
/// Any number of tasks may wait for entries. A wait that is cancelled loses nothing; an entry that was handed out and gets
/// no verdict stays pending.
///
/// >>> async def main():
/// ...     async with echomq.aio.Client(url, node_id=7) as client:
/// ...         events = client.stream("codemojex", "aio-consumers")
/// ...         ids = await events.append_batch([{"n": str(n)} for n in range(3)])
/// ...         async with events.consumer("adder", start="head") as consumer:
/// ...             async for delivery in consumer:
/// ...                 delivery.ack()
/// ...                 if delivery.id == ids[-1]:
/// ...                     break
/// ...         return (await events.group("adder")).pending
/// >>> asyncio.run(main())
/// 0
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Consumer {
    consumer: Arc<Lazy<echomq::Consumer>>,
    group: Arc<str>,
    entries: Arc<Waiting<Entries>>,
    batches: Arc<Waiting<Batches>>,
}

impl Consumer {
    pub(crate) fn new(stream: echomq::Stream, group: &str, options: ConsumerOptions) -> Self {
        let group: Arc<str> = group.into();
        let consumer = Lazy::new(move || stream.consumer(options.clone()));
        let entries = || Entries { consumer: consumer.clone(), group: group.clone() };
        let (one, many) = (Waiting::new(entries()), Waiting::new(Batches(entries())));
        Self { entries: one, batches: many, consumer, group }
    }

    /// Stops, now; the future is settled at the end of it.
    fn stopping<'py>(
        &self,
        py: Python<'py>,
        within: Duration,
        object: fn(Python<'_>, usize) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(consumer) = self.consumer.if_started().cloned() else {
            return LoopQueue::current(py)?.ready(py, object(py, 0)?);
        };
        // In a forked child there is nothing to stop.
        let _ = consumer.begin_stop(within);
        carried_out(py, async move { consumer.stop(within).await }, object)
    }
}

/// Whoever watches for entries holds the consumer too, so its last user says that it is to stop.
impl Drop for Consumer {
    fn drop(&mut self) {
        if let Some(consumer) = self.consumer.if_started() {
            let _ = consumer.begin_stop(Duration::ZERO);
        }
    }
}

#[pymethods]
impl Consumer {
    /// The group's name.
    #[getter]
    fn group(&self) -> &str {
        &self.group
    }

    /// The consumer's own name, made up where none was given. Fails with ``StateError`` before it was started.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<&str> {
        Ok(self.consumer.running(py)?.name())
    }

    /// Starts the consumer. When it answers, the group exists and its place is pinned on the server.
    ///
    /// Fails as ``echomq.Stream.consumer`` does.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let started = slf.get().consumer.object(slf.py(), slf.clone().into_any().unbind())?;
        started.call_method0("__await__")
    }

    /// The next batch; see ``echomq.Consumer.next_batch``. ``asyncio.timeout`` bounds the wait.
    fn next_batch<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().batches.next(slf)
    }

    /// Fetches and hands out nothing more until ``resume``: at once. Fails with ``StateError`` before it was started.
    fn pause(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.running(py)?.pause();
        Ok(())
    }

    /// Goes on after ``pause``: at once. Fails with ``StateError`` before it was started.
    fn resume(&self, py: Python<'_>) -> PyResult<()> {
        self.consumer.running(py)?.resume();
        Ok(())
    }

    /// Waits until every verdict given so far is on the server; see ``echomq.Consumer.flush``.
    fn flush<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let consumer = self.consumer.running(py)?.clone();
        carried_out(py, async move { consumer.flush().await }, |py, flushed| match flushed {
            Ok(()) => Ok(py.None()),
            Err(error) => Err(error::raise(py, &error)),
        })
    }

    /// Hands out nothing more and brings the last verdicts to the server; see ``echomq.Consumer.stop``.
    #[pyo3(signature = (within = None))]
    fn stop<'py>(&self, py: Python<'py>, within: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        self.stopping(py, arguments::grace(within)?, |py, unfinished| {
            Ok(unfinished.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// What the consumer tells beside its deliveries: an asynchronous iterator of ``echomq.Notice``; see
    /// ``echomq.Consumer.notices``.
    fn notices(&self) -> Notices {
        Notices::of_consumer(self.consumer.clone())
    }

    /// Its workers, for `echomq._handlers`, once it was started.
    fn _workers(&self, py: Python<'_>) -> PyResult<Vec<Worker>> {
        let consumer = self.consumer.running(py)?;
        let workers = (0..).map_while(|number| Some(consumer.worker(number).ok()?.into()));
        Ok(workers.map(|worker| Worker::new(worker, &self.group)).collect())
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().entries.next(slf)
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().consumer.object(slf.py(), slf.clone().into_any().unbind())
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__<'py>(
        &self,
        py: Python<'py>,
        _exception: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.stopping(py, Duration::ZERO, |py, _| Ok(py.None()))
    }

    fn __repr__(&self) -> String {
        match self.consumer.if_started() {
            Some(consumer) => format!("<echomq.aio.{consumer:?}>"),
            None => format!("<echomq.aio.Consumer, not started, {}>", self.group),
        }
    }
}

/// The entries of a worker.
struct WorkerEntries {
    worker: Arc<echomq::Worker>,
    group: Arc<str>,
}

impl Source for WorkerEntries {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        one(py, self.worker.wait_take(1, Duration::ZERO), &self.group)
    }

    async fn ready(&self) {
        self.worker.ready().await;
    }

    fn is_ready(&self) -> bool {
        is_there(self.worker.ready())
    }
}

/// The batches of a worker.
struct WorkerBatches(WorkerEntries);

impl Source for WorkerBatches {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        batch(py, self.0.worker.ready_batch(), &self.0.group)
    }

    async fn ready(&self) {
        self.0.worker.batch_ready().await;
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn is_eager(&self) -> bool {
        false
    }
}

/// One of the workers of a consumer, for `echomq._handlers`: an asynchronous iterator of what it is to handle.
#[pyclass(frozen, module = "echomq._echomq")]
pub(crate) struct Worker {
    entries: Arc<Waiting<WorkerEntries>>,
    batches: Arc<Waiting<WorkerBatches>>,
}

impl Worker {
    fn new(worker: Arc<echomq::Worker>, group: &Arc<str>) -> Self {
        let entries = || WorkerEntries { worker: worker.clone(), group: group.clone() };
        Self { entries: Waiting::new(entries()), batches: Waiting::new(WorkerBatches(entries())) }
    }
}

#[pymethods]
impl Worker {
    /// The next batch, as a list; an empty one at the end.
    fn next_batch<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().batches.next(slf)
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().entries.next(slf)
    }
}
