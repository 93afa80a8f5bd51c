//! `echomq.Consumer`, which waits on the threads of its callers, and its workers.

use crate::delivery::Delivery;
use crate::notice::Notices;
use crate::wait::{wait_for, wait_for_ever};
use crate::{arguments, error};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A consumer of a group, made by ``Stream.consumer``: an iterator of ``Delivery``.
///
/// It hands out the group's entries, each at least once, in the stream's order. It reads on a connection of its own and
/// ahead of its handlers, ``count`` entries at most. What is in hand is kept from other consumers; what a dead consumer
/// had comes to a living one after ``min_idle``; what fails comes back. Handlers must be idempotent: the branded id tells
/// an entry that comes twice.
///
/// There are two ways to use it: ``run`` calls a handler with each entry, and a ``for`` loop pulls them, each to get its
/// verdict by hand. Threads may share it.
///
/// The loop ends when the consumer has stopped. It fails with ``WrongTypeError``, ``VersionFenceError``, or with
/// ``ClosedError`` when the client was closed; everything else is overcome, and told by ``notices``. A signal ends the
/// wait for an entry: Ctrl-C raises ``KeyboardInterrupt``, and loses nothing.
///
/// ``with`` stops it at the end. One that is dropped stops too, without waiting for anything.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     events = client.stream("codemojex", "consumers")
/// ...     ids = events.append_batch([{"to": "ada"}, {"to": ""}, {"to": "bob"}])
/// ...     with events.consumer("mailer", start="head", max_attempts=1) as consumer:
/// ...         for delivery in consumer:
/// ...             if delivery.record.get("to"):
/// ...                 delivery.ack()
/// ...             else:
/// ...                 delivery.fail("there is nobody to write to")
/// ...             if delivery.id == ids[-1]:
/// ...                 break
/// ...     events.group("mailer").pending
/// 0
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Consumer {
    consumer: echomq::Consumer,
    group: Arc<str>,
}

impl From<echomq::Consumer> for Consumer {
    fn from(consumer: echomq::Consumer) -> Self {
        let group = consumer.group().into();
        Self { consumer, group }
    }
}

/// An answer of the core's, or its error as an exception.
fn known<T>(py: Python<'_>, answer: echomq::Result<T>) -> PyResult<T> {
    answer.map_err(|error| error::raise(py, &error))
}

/// The deliveries of a batch, as a list.
fn list<'py>(
    py: Python<'py>,
    batch: Vec<echomq::Delivery>,
    group: &Arc<str>,
) -> PyResult<Bound<'py, PyList>> {
    let batch = batch.into_iter().map(|delivery| Bound::new(py, Delivery::new(delivery, group)));
    PyList::new(py, batch.collect::<PyResult<Vec<_>>>()?)
}

#[pymethods]
impl Consumer {
    /// The group's name.
    #[getter]
    fn group(&self) -> &str {
        &self.group
    }

    /// The consumer's own name, made up where none was given.
    #[getter]
    fn name(&self) -> &str {
        self.consumer.name()
    }

    /// The next entry; ``None`` where none came ``within`` that time, a ``timedelta``, or once the consumer has stopped.
    #[pyo3(signature = (within = None))]
    fn next(&self, py: Python<'_>, within: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Delivery>> {
        let within = arguments::within(within)?;
        let delivery = wait_for(py, self.consumer.next(), within, || false)?;
        let delivery = delivery.map_or(Ok(None), |answer| known(py, answer))?;
        Ok(delivery.map(|delivery| Delivery::new(delivery, &self.group)))
    }

    /// Between 1 and ``max_n`` entries, after waiting ``max_wait`` for more than are there; an empty list where none came
    /// ``within`` that time, a ``timedelta``, or once the consumer has stopped.
    #[pyo3(signature = (within = None))]
    fn next_batch<'py>(
        &self,
        py: Python<'py>,
        within: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let within = arguments::within(within)?;
        let batch = wait_for(py, self.consumer.next_batch(), within, || false)?;
        list(py, batch.map_or(Ok(Vec::new()), |answer| known(py, answer))?, &self.group)
    }

    /// Fetches and hands out nothing more until ``resume``. What is in hand stays there.
    fn pause(&self) {
        self.consumer.pause();
    }

    /// Goes on after ``pause``.
    fn resume(&self) {
        self.consumer.resume();
    }

    /// Waits until every verdict given so far is on the server.
    ///
    /// Verdicts travel in batches of their own accord; this is for who must know. Fails with the reason when one could not
    /// be brought there yet; it is tried again.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let flushed = wait_for_ever(py, self.consumer.flush())?;
        known(py, flushed)
    }

    /// Hands out nothing more and brings the last verdicts to the server.
    ///
    /// What was fetched and not handed out is given back to the group: another consumer takes it with its next beat. What
    /// is in hand has that time to finish, a ``timedelta``; without one it is not waited for, and a verdict given later
    /// still counts. Answers how many entries are left without a verdict on the server; they stay pending, and none is
    /// lost. Stopping again answers the same.
    #[pyo3(signature = (within = None))]
    fn stop(&self, py: Python<'_>, within: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let within = arguments::grace(within)?;
        wait_for_ever(py, self.consumer.stop(within))
    }

    /// What the consumer tells beside its deliveries: an iterator of ``Notice``, which waits for the next one and ends
    /// when the consumer has stopped.
    ///
    /// The last 1 024 wait to be taken; each is taken once, by whoever asks first.
    fn notices(&self) -> Notices {
        self.consumer.notices().into()
    }

    /// Its workers, for `echomq._handlers`.
    fn _workers(&self) -> Vec<Worker> {
        let left = Arc::new(AtomicBool::new(false));
        let workers = (0..).map_while(|number| self.consumer.worker(number).ok());
        workers.map(|worker| Worker { worker, group: self.group.clone(), left: left.clone() }).collect()
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Delivery>> {
        // What is there already is taken at once; a lock of the core is never held for long.
        let delivery = match known(py, self.consumer.wait_next(1, Duration::ZERO))? {
            Some(mut there) => there.pop(),
            None => known(py, wait_for_ever(py, self.consumer.next())?)?,
        };
        Ok(delivery.map(|delivery| Delivery::new(delivery, &self.group)))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.stop(py, None).map(drop)
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.consumer)
    }
}

/// One of the workers of a consumer, for `echomq._handlers`: an iterator of what it is to handle, one after the other.
#[pyclass(frozen, module = "echomq._echomq")]
pub(crate) struct Worker {
    worker: echomq::Worker,
    group: Arc<str>,
    /// All workers of one call of a handler leave together.
    left: Arc<AtomicBool>,
}

impl Worker {
    fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }

    /// What was taken, unless the worker has left meanwhile: then it is given back.
    fn unless_left(&self, taken: Vec<echomq::Delivery>) -> Vec<echomq::Delivery> {
        if !self.has_left() {
            return taken;
        }
        echomq::Delivery::give_back_all(taken);
        Vec::new()
    }
}

#[pymethods]
impl Worker {
    /// The next batch, as a list; an empty one at the end.
    fn next_batch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let batch = wait_for(py, self.worker.next_batch(), Duration::MAX, || self.has_left())?;
        let batch = batch.map_or(Ok(Vec::new()), |answer| known(py, answer))?;
        list(py, self.unless_left(batch), &self.group)
    }

    /// Has this worker and the others of its kind take nothing more.
    fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Delivery>> {
        let taken = match known(py, self.worker.wait_take(1, Duration::ZERO))? {
            Some(there) => there,
            None => {
                let taken = wait_for(py, self.worker.take(1), Duration::MAX, || self.has_left())?;
                taken.map_or(Ok(Vec::new()), |answer| known(py, answer))?
            }
        };
        Ok(self.unless_left(taken).pop().map(|delivery| Delivery::new(delivery, &self.group)))
    }
}
