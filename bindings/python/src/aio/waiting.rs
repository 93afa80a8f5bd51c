//! Waiting for what a reader of the core fetches ahead.
//!
//! What is there already is taken at once, by an awaitable that is ready. Otherwise a future waits in a row, and one task
//! of the runtime watches for all of them: it takes nothing, it only has their loops look again. So whatever is taken
//! goes to somebody who still waits, in order, and a wait that is cancelled loses nothing.

use super::queue::{LoopQueue, is_done};
use crate::error;
use pyo3::PyClass;
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// After so many answers without a wait, the loop gets to run its other tasks.
const AT_ONCE: u32 = 64;

/// A reader of the core.
pub(crate) trait Source: Send + Sync + 'static {
    /// Takes what is there now, as an object: nothing while there is nothing, `StopAsyncIteration` at the end.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>>;

    /// Waits until there is something to take, and takes nothing.
    fn ready(&self) -> impl Future<Output = ()> + Send;

    /// Whether what is there now is all that a taker waits for.
    fn is_eager(&self) -> bool {
        true
    }
}

/// What a reader of the core had at once, as [`Source::take`] answers it.
pub(crate) fn taken<T>(
    py: Python<'_>,
    there: echomq::Result<Option<Vec<T>>>,
    object: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>>,
) -> PyResult<Option<Py<PyAny>>> {
    let there = there.map_err(|error| error::raise(py, &error))?;
    match there.map(|mut there| there.pop()) {
        Some(Some(one)) => object(py, one).map(Some),
        Some(None) => Err(PyStopAsyncIteration::new_err(())),
        None => Ok(None),
    }
}

/// A reader of the core, and who waits for it.
pub(crate) struct Waiting<S> {
    source: S,
    row: Mutex<Row>,
}

/// Who waits.
#[derive(Default)]
struct Row {
    waiters: VecDeque<Waiter>,
    /// A task of the runtime watches for them.
    watched: bool,
    /// How many answers were given at once since the last wait.
    at_once: u32,
}

struct Waiter {
    queue: Arc<LoopQueue>,
    future: Py<PyAny>,
}

impl<S: Source> Waiting<S> {
    pub(crate) fn new(source: S) -> Arc<Self> {
        Arc::new(Self { source, row: Mutex::default() })
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An awaitable of what comes next. Whoever waits keeps the object that is asked, whose end would end the wait.
    pub(crate) fn next<'py, T: PyClass>(
        self: &Arc<Self>,
        asked: &Bound<'py, T>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = asked.py();
        self.forget_done(py);
        let turn = {
            let mut row = self.row();
            row.at_once += 1;
            row.at_once > AT_ONCE
        };
        let first = self.row().waiters.is_empty();
        if first && !turn && self.source.is_eager() {
            match self.source.take(py) {
                Ok(None) => {}
                Ok(Some(answer)) => return Ok(Bound::new(py, Ready(Some(Ok(answer))))?.into_any()),
                Err(raised) => return Ok(Bound::new(py, Ready(Some(Err(raised))))?.into_any()),
            }
        }
        let queue = LoopQueue::current(py)?;
        let future = queue.future(py)?;
        let kept = Py::new(py, Kept(asked.clone().into_any().unbind()))?;
        future.call_method1(py, intern!(py, "add_done_callback"), (kept,))?;
        let waiter = Waiter { queue: queue.clone(), future: future.clone_ref(py) };
        {
            let mut row = self.row();
            row.waiters.push_back(waiter);
            row.at_once = 0;
        }
        if first && turn && self.source.is_eager() {
            // The loop comes back to it after whatever else it has to do.
            let this = self.clone();
            queue.clone().post(move |py| this.serve(py, &queue));
        } else {
            self.watch(py)?;
        }
        Ok(future.into_bound(py))
    }

    /// Lets go of futures that were cancelled.
    fn forget_done(&self, py: Python<'_>) {
        if self.row().waiters.is_empty() {
            return;
        }
        // A future may run code of Python when it is asked, so nothing is locked meanwhile.
        let mut waiters = mem::take(&mut self.row().waiters);
        waiters.retain(|waiter| !is_done(waiter.future.bind(py)));
        let mut row = self.row();
        waiters.append(&mut row.waiters);
        row.waiters = waiters;
    }

    /// Has a task watch for those who wait, unless one does.
    fn watch(self: &Arc<Self>, py: Python<'_>) -> PyResult<()> {
        let runtime = error::runtime(py)?;
        if !mem::replace(&mut self.row().watched, true) {
            runtime.spawn(self.clone().have_them_look());
        }
        Ok(())
    }

    async fn have_them_look(self: Arc<Self>) {
        self.source.ready().await;
        let mut queues: Vec<Arc<LoopQueue>> = Vec::new();
        {
            let mut row = self.row();
            row.watched = false;
            for waiter in &row.waiters {
                if !queues.iter().any(|queue| Arc::ptr_eq(queue, &waiter.queue)) {
                    queues.push(waiter.queue.clone());
                }
            }
        }
        for queue in queues {
            let this = self.clone();
            queue.clone().post(move |py| this.serve(py, &queue));
        }
    }

    /// Takes for those of a loop who still wait, on its thread.
    fn serve(self: &Arc<Self>, py: Python<'_>, queue: &Arc<LoopQueue>) {
        while let Some(waiter) = self.first_of(queue) {
            if is_done(waiter.future.bind(py)) {
                continue;
            }
            match self.source.take(py).transpose() {
                Some(answer) => queue.settle(py, waiter.future, answer),
                None => {
                    self.row().waiters.push_front(waiter);
                    break;
                }
            }
            if !self.source.is_eager() {
                break;
            }
        }
        if !self.row().waiters.is_empty()
            && let Err(raised) = self.watch(py)
        {
            while let Some(waiter) = self.first_of(queue) {
                queue.settle(py, waiter.future, Err(raised.clone_ref(py)));
            }
        }
    }

    fn first_of(&self, queue: &Arc<LoopQueue>) -> Option<Waiter> {
        let mut row = self.row();
        let first = row.waiters.iter().position(|waiter| Arc::ptr_eq(queue, &waiter.queue))?;
        row.waiters.remove(first)
    }
}

/// What a future keeps until it has its answer or is cancelled.
#[pyclass(frozen, module = "echomq._echomq")]
struct Kept(#[expect(dead_code, reason = "it is there to be held")] Py<PyAny>);

#[pymethods]
impl Kept {
    const fn __call__(&self, _future: &Bound<'_, PyAny>) {}
}

/// An awaitable that has its answer already: it costs no turn of the loop.
#[pyclass(module = "echomq._echomq")]
struct Ready(Option<PyResult<Py<PyAny>>>);

#[pymethods]
impl Ready {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self) -> PyResult<Py<PyAny>> {
        match self.0.take() {
            Some(Ok(answer)) => Err(PyStopIteration::new_err((answer,))),
            Some(Err(raised)) => Err(raised),
            None => Err(PyRuntimeError::new_err("it was awaited already")),
        }
    }
}
