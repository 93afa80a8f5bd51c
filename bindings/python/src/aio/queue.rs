//! How answers reach an event loop: one queue for each loop, which threads of the runtime fill and the loop empties.
//!
//! A thread of the runtime puts the answer beside its future and rings only when the queue was empty, so that one wake
//! serves any number of answers. It never attaches to the interpreter. The loop finds the bell readable and settles the
//! futures on its own thread.

use super::bell::Bell;
use crate::{error, panic};
use echomq::Pending;
use pyo3::exceptions::PyOSError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Makes the object of an answer, on the thread of the loop. It does not run for a future that was cancelled.
type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What the loop is to do.
enum Item {
    /// Give a future its answer.
    Answer(Py<PyAny>, Answer),
    /// Whatever else is to be done on its thread.
    Job(Box<dyn FnOnce(Python<'_>) + Send>),
}

/// What waits for the loop.
struct Queue {
    items: Mutex<Vec<Item>>,
    bell: Bell,
}

impl Queue {
    fn put(&self, item: Item) {
        let mut items = locked(&self.items);
        let first = items.is_empty();
        items.push(item);
        drop(items);
        if first {
            self.bell.ring();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the loop calls when the bell rang.
#[pyclass(frozen, module = "echomq._echomq")]
struct Drain(Arc<Queue>);

#[pymethods]
impl Drain {
    fn __call__(&self, py: Python<'_>) {
        // In this order: what comes in between rings again.
        self.0.bell.hush();
        let items = mem::take(&mut *locked(&self.0.items));
        for item in items {
            match item {
                Item::Answer(future, answer) => settle_or_report(future.bind(py), answer),
                Item::Job(job) => job(py),
            }
        }
    }
}

/// Gives a future its answer, unless it was cancelled.
fn settle(future: &Bound<'_, PyAny>, answer: Answer) -> PyResult<()> {
    let py = future.py();
    if is_done(future) {
        return Ok(());
    }
    let answer = catch_unwind(AssertUnwindSafe(|| answer(py))).unwrap_or_else(|_| Err(panic::exception()));
    match answer {
        Ok(answer) => future.call_method1(intern!(py, "set_result"), (answer,))?,
        Err(raised) => future.call_method1(intern!(py, "set_exception"), (raised.into_value(py),))?,
    };
    Ok(())
}

/// Settles a future where nobody can be told of a failure.
fn settle_or_report(future: &Bound<'_, PyAny>, answer: Answer) {
    if let Err(failure) = settle(future, answer) {
        failure.write_unraisable(future.py(), Some(future));
    }
}

/// Whether a future has its answer or was cancelled.
pub(crate) fn is_done(future: &Bound<'_, PyAny>) -> bool {
    let done = future.call_method0(intern!(future.py(), "done"));
    done.and_then(|done| done.is_truthy()).unwrap_or(true)
}

/// One event loop and its queue.
pub(crate) struct LoopQueue {
    event_loop: Py<PyAny>,
    create_future: Py<PyAny>,
    queue: Arc<Queue>,
}

/// The loops of this process that are in use.
static LOOPS: Mutex<Vec<Arc<LoopQueue>>> = Mutex::new(Vec::new());

impl LoopQueue {
    /// The queue of the loop that runs on this thread. Without one it fails as asyncio does.
    pub(crate) fn current(py: Python<'_>) -> PyResult<Arc<Self>> {
        static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let running = RUNNING.import(py, "asyncio", "get_running_loop")?.call0()?;
        let known = locked(&LOOPS).iter().find(|known| known.event_loop.is(&running)).cloned();
        match known {
            Some(known) => Ok(known),
            None => Self::open(&running),
        }
    }

    /// Begins to serve a loop, and lets go of those that were closed.
    fn open(event_loop: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let py = event_loop.py();
        let bell = Bell::new().map_err(|error| PyOSError::new_err(error.to_string()))?;
        let queue = Arc::new(Queue { items: Mutex::new(Vec::new()), bell });
        let drain = Py::new(py, Drain(queue.clone()))?;
        event_loop.call_method1(intern!(py, "add_reader"), (queue.bell.descriptor(), drain))?;
        let create_future = event_loop.getattr(intern!(py, "create_future"))?.unbind();
        let opened = Arc::new(Self { event_loop: event_loop.clone().unbind(), create_future, queue });
        // A loop may run code of Python when it is asked, so nothing is locked meanwhile.
        let mut used = mem::take(&mut *locked(&LOOPS));
        used.retain(|known| !known.is_closed(py));
        used.push(opened.clone());
        locked(&LOOPS).append(&mut used);
        Ok(opened)
    }

    fn is_closed(&self, py: Python<'_>) -> bool {
        let closed = self.event_loop.bind(py).call_method0(intern!(py, "is_closed"));
        closed.and_then(|closed| closed.is_truthy()).unwrap_or(true)
    }

    /// The loop itself.
    pub(crate) fn event_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.event_loop.clone_ref(py)
    }

    /// A future of the loop, to be settled on its thread.
    pub(crate) fn future(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.create_future.call0(py)
    }

    /// Has the loop do something on its thread.
    pub(crate) fn post(&self, job: impl FnOnce(Python<'_>) + Send + 'static) {
        self.queue.put(Item::Job(Box::new(job)));
    }

    /// A future of the loop, and the promise to settle it.
    pub(crate) fn promise<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Promise)> {
        let future = self.create_future.bind(py).call0()?;
        let promise = Promise { queue: self.queue.clone(), future: Some(future.clone().unbind()) };
        Ok((future, promise))
    }

    /// A future that has its answer already.
    pub(crate) fn ready<'py>(&self, py: Python<'py>, answer: Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let future = self.create_future.bind(py).call0()?;
        settle(&future, Box::new(|_| Ok(answer)))?;
        Ok(future)
    }

    /// The future of a call that was made.
    pub(crate) fn answer<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        mut pending: Pending<T>,
        object: fn(Python<'_>, T) -> PyResult<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let answer = move |py: Python<'_>, answer: echomq::Result<T>| match answer {
            Ok(answer) => object(py, answer),
            Err(error) => Err(error::raise(py, &error)),
        };
        // What failed at once needs no wake; in a forked child that could even be the parent's.
        if let Some(known) = pending.try_take() {
            let future = self.create_future.bind(py).call0()?;
            settle(&future, Box::new(move |py| answer(py, known)))?;
            return Ok(future);
        }
        let (future, promise) = self.promise(py)?;
        pending.on_complete(move |known| promise.keep(move |py| answer(py, known)));
        Ok(future)
    }
}

/// The promise to settle a future, from any thread. Dropped, it settles it with what a panic becomes.
pub(crate) struct Promise {
    queue: Arc<Queue>,
    future: Option<Py<PyAny>>,
}

impl Promise {
    /// Settles the future with what the function makes when the loop gets to it.
    pub(crate) fn keep(mut self, answer: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send + 'static) {
        if let Some(future) = self.future.take() {
            self.queue.put(Item::Answer(future, Box::new(answer)));
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(future) = self.future.take() {
            self.queue.put(Item::Answer(future, Box::new(|_| Err(panic::exception()))));
        }
    }
}
