//! Waiting for what a reader of the core fetches ahead.
//!
//! What waits is only woken. What it waits for is taken when it resumes, in its own step, from which nothing can come
//! between it and its caller: so a wait that is cancelled has taken nothing, at whatever point that happens. It is how
//! `asyncio.Queue.get` does it.
//!
//! Who waits stands in a row. One task of the runtime watches for all of them and takes nothing: it has each loop wake the
//! first of its row. Whoever was woken wakes the next when it has taken, and when it is cancelled.

use super::queue::{LoopQueue, is_done};
use crate::error;
use pyo3::PyClass;
use pyo3::exceptions::{PyRuntimeError, PyStopAsyncIteration, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTraceback;
use std::collections::VecDeque;
use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// After so many answers without a wait, the loop gets to run its other tasks.
const AT_ONCE: u32 = 64;

/// A reader of the core.
pub(crate) trait Source: Send + Sync + 'static {
    /// Takes what is there now, as an object: nothing while there is nothing, `StopAsyncIteration` at the end.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>>;

    /// Waits until there is something to take, and takes nothing.
    fn ready(&self) -> impl Future<Output = ()> + Send;

    /// Whether `ready` would not wait. False does no harm: then a task asks.
    fn is_ready(&self) -> bool;

    /// Whether what is there now is all that a taker waits for.
    fn is_eager(&self) -> bool {
        true
    }
}

/// Whether what somebody would wait for is there already.
pub(crate) fn is_there(ready: impl Future<Output = ()>) -> bool {
    pin!(ready).poll(&mut Context::from_waker(Waker::noop())).is_ready()
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
    /// How many answers were given at once since the last wait.
    at_once: AtomicU32,
    /// Whose process this is: a forked child has no part in it.
    process: u32,
}

/// Who waits.
///
/// Where anybody of a loop waits, one of three holds: a task of the runtime watches, the loop was told to look, or one of
/// its own was woken and has not resumed yet.
#[derive(Default)]
struct Row {
    loops: Vec<InLoop>,
    /// A task of the runtime watches for them.
    watched: bool,
}

/// Who waits in one loop.
struct InLoop {
    queue: Arc<LoopQueue>,
    waiters: VecDeque<Arc<Waiter>>,
    /// Who was woken and has not resumed yet.
    woken: Vec<Arc<Waiter>>,
    /// The loop was told to look, and has not yet.
    told: bool,
}

/// Somebody who waits, and the future that wakes it.
struct Waiter {
    queue: Arc<LoopQueue>,
    future: Py<PyAny>,
}

impl Row {
    fn has_waiters(&self) -> bool {
        self.loops.iter().any(|one| !one.waiters.is_empty())
    }

    fn of(&mut self, queue: &Arc<LoopQueue>) -> Option<&mut InLoop> {
        self.loops.iter_mut().find(|one| Arc::ptr_eq(&one.queue, queue))
    }

    /// Adds somebody; true where nobody would wake it.
    fn join(&mut self, waiter: &Arc<Waiter>, first: bool) -> bool {
        if self.of(&waiter.queue).is_none() {
            let queue = waiter.queue.clone();
            self.loops.push(InLoop { queue, waiters: VecDeque::new(), woken: Vec::new(), told: false });
        }
        let watched = self.watched;
        self.of(&waiter.queue).is_some_and(|one| {
            if first {
                one.waiters.push_front(waiter.clone())
            } else {
                one.waiters.push_back(waiter.clone())
            }
            !watched && !one.told && one.woken.is_empty()
        })
    }

    /// Lets somebody go; true where it had been woken, so that the next is to be.
    fn leave(&mut self, waiter: &Arc<Waiter>) -> bool {
        let Some(one) = self.of(&waiter.queue) else { return false };
        one.waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        let before = one.woken.len();
        one.woken.retain(|other| !Arc::ptr_eq(other, waiter));
        let woken = one.woken.len() < before;
        self.loops.retain(|one| !one.waiters.is_empty() || !one.woken.is_empty());
        woken
    }

    /// Whether somebody of a loop waits whom nobody would wake.
    fn is_left_alone(&mut self, queue: &Arc<LoopQueue>) -> bool {
        self.of(queue).is_some_and(|one| !one.waiters.is_empty() && one.woken.is_empty() && !one.told)
    }

    /// The first of a loop, which counts as woken from now on.
    fn wake_first(&mut self, queue: &Arc<LoopQueue>) -> Option<Arc<Waiter>> {
        let one = self.of(queue)?;
        let first = one.waiters.pop_front()?;
        one.woken.push(first.clone());
        Some(first)
    }
}

impl<S: Source> Waiting<S> {
    pub(crate) fn new(source: S) -> Arc<Self> {
        let process = std::process::id();
        Arc::new(Self { source, row: Mutex::default(), at_once: AtomicU32::new(0), process })
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        self.row.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An awaitable of what comes next, which keeps the object that is asked: its end would end the wait.
    pub(crate) fn next<'py, T: PyClass>(
        self: &Arc<Self>,
        asked: &Bound<'py, T>,
    ) -> PyResult<Bound<'py, Wait>> {
        let (py, asked) = (asked.py(), asked.clone().into_any().unbind());
        Bound::new(py, Wait { asked, waited: self.clone(), state: State::New })
    }

    /// Joins the row; the future that wakes.
    fn join(self: &Arc<Self>, py: Python<'_>, queue: Arc<LoopQueue>, first: bool) -> PyResult<Arc<Waiter>> {
        let future = queue.future(py)?;
        let waiter = Arc::new(Waiter { queue, future });
        self.at_once.store(0, Ordering::Relaxed);
        let alone = self.row().join(&waiter, first);
        if alone && let Err(raised) = self.watch(py) {
            self.row().leave(&waiter);
            return Err(raised);
        }
        Ok(waiter)
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
            for one in &mut row.loops {
                if !one.waiters.is_empty() && one.woken.is_empty() && !one.told {
                    one.told = true;
                    queues.push(one.queue.clone());
                }
            }
        }
        for queue in queues {
            let this = self.clone();
            queue.clone().post(move |py| {
                this.heard(&queue);
                this.wake_first(py, &queue);
            });
        }
    }

    /// A loop looks, as it was told.
    fn heard(&self, queue: &Arc<LoopQueue>) {
        if let Some(one) = self.row().of(queue) {
            one.told = false;
        }
    }

    /// Wakes the first of a loop, on its thread, unless somebody is awake there who will do so.
    fn wake_first(self: &Arc<Self>, py: Python<'_>, queue: &Arc<LoopQueue>) {
        loop {
            let first = {
                let mut row = self.row();
                if !row.is_left_alone(queue) {
                    return;
                }
                row.wake_first(queue)
            };
            let Some(waiter) = first else { return };
            let future = waiter.future.bind(py);
            // It fails where the loop was closed, whose waiters resume no more.
            if !is_done(future) && future.call_method1(intern!(py, "set_result"), (py.None(),)).is_ok() {
                return;
            }
            self.row().leave(&waiter);
        }
    }

    /// Wakes the next of a loop, or has it watched for, on its thread.
    fn pass_on(self: &Arc<Self>, py: Python<'_>, queue: &Arc<LoopQueue>) {
        if !self.row().is_left_alone(queue) {
            return;
        }
        // Where nothing can watch, each finds out for itself why.
        if self.source.is_ready() || self.watch(py).is_err() {
            self.wake_first(py, queue);
        }
    }

    /// Takes for somebody whose turn it is, and passes the turn on.
    fn take(self: &Arc<Self>, py: Python<'_>, queue: Option<&Arc<LoopQueue>>) -> PyResult<Option<Py<PyAny>>> {
        let taken = self.source.take(py);
        if let (Ok(Some(_)) | Err(_), Some(queue)) = (&taken, queue) {
            self.pass_on(py, queue);
        }
        taken
    }
}

/// What a [`Wait`] does with what it waits for, whatever that is.
trait Waited: Send + Sync {
    /// Begins to wait.
    fn begin(self: Arc<Self>, py: Python<'_>) -> PyResult<Outcome>;

    /// Goes on after a wake.
    fn resume(self: Arc<Self>, py: Python<'_>, waiter: &Arc<Waiter>) -> PyResult<Outcome>;

    /// Waits no longer.
    fn give_up(self: Arc<Self>, waiter: &Arc<Waiter>);
}

/// What became of a step.
enum Outcome {
    Taken(Py<PyAny>),
    /// There is nothing: it is to be woken.
    Wait(Arc<Waiter>),
    /// The loop is to run its other tasks first.
    Turn,
}

impl<S: Source> Waited for Waiting<S> {
    fn begin(self: Arc<Self>, py: Python<'_>) -> PyResult<Outcome> {
        let free = self.source.is_eager() && !self.row().has_waiters();
        if free {
            if self.at_once.fetch_add(1, Ordering::Relaxed) >= AT_ONCE {
                self.at_once.store(0, Ordering::Relaxed);
                return Ok(Outcome::Turn);
            }
            if let Some(taken) = self.take(py, None)? {
                return Ok(Outcome::Taken(taken));
            }
        }
        let queue = LoopQueue::current(py)?;
        self.join(py, queue, false).map(Outcome::Wait)
    }

    fn resume(self: Arc<Self>, py: Python<'_>, waiter: &Arc<Waiter>) -> PyResult<Outcome> {
        self.row().leave(waiter);
        match self.take(py, Some(&waiter.queue))? {
            Some(taken) => Ok(Outcome::Taken(taken)),
            // Somebody else was faster.
            None => self.join(py, waiter.queue.clone(), true).map(Outcome::Wait),
        }
    }

    fn give_up(self: Arc<Self>, waiter: &Arc<Waiter>) {
        // The locks of a forked child may be held by threads that are not there.
        if std::process::id() != self.process {
            return;
        }
        let queue = &waiter.queue;
        {
            let mut row = self.row();
            if !row.leave(waiter) || !row.is_left_alone(queue) {
                return;
            }
            if let Some(one) = row.of(queue) {
                one.told = true;
            }
        }
        // This may be any thread: the end of an object is where the last reference to it was.
        let queue = queue.clone();
        queue.clone().post(move |py| {
            self.heard(&queue);
            self.pass_on(py, &queue);
        });
    }
}

/// A wait for what comes next: an awaitable that takes it when it resumes, or nothing when it is cancelled.
#[pyclass(module = "echomq._echomq")]
pub(crate) struct Wait {
    #[expect(dead_code, reason = "it is there to be held")]
    asked: Py<PyAny>,
    waited: Arc<dyn Waited>,
    state: State,
}

enum State {
    New,
    Waiting(Arc<Waiter>),
    Over,
}

impl Wait {
    /// Ends the wait with nothing.
    fn end(&mut self) {
        if let State::Waiting(waiter) = mem::replace(&mut self.state, State::Over) {
            self.waited.clone().give_up(&waiter);
        }
    }
}

/// A task that is dropped while it waits is as one that is cancelled.
impl Drop for Wait {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl Wait {
    fn __await__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let waited = self.waited.clone();
        let outcome = match mem::replace(&mut self.state, State::Over) {
            State::New => waited.begin(py),
            State::Waiting(waiter) => waited.resume(py, &waiter),
            State::Over => return Err(PyRuntimeError::new_err("it was awaited already")),
        };
        match outcome? {
            Outcome::Taken(taken) => Err(PyStopIteration::new_err((taken,))),
            Outcome::Turn => {
                self.state = State::New;
                Ok(py.None())
            }
            Outcome::Wait(waiter) => {
                // A task goes on when the future that it was given is done.
                let steps = waiter.future.bind(py).call_method0(intern!(py, "__await__"));
                let future = steps.and_then(|steps| steps.call_method0(intern!(py, "__next__")));
                self.state = State::Waiting(waiter);
                future.map(Bound::unbind).inspect_err(|_| self.end())
            }
        }
    }

    fn send(&mut self, py: Python<'_>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.__next__(py)
    }

    #[pyo3(signature = (kind, value = None, traceback = None))]
    fn throw(
        &mut self,
        kind: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyTraceback>>,
    ) -> PyResult<Py<PyAny>> {
        self.end();
        let raised = PyErr::from_value(value.unwrap_or(kind).clone());
        if traceback.is_some() {
            raised.set_traceback(kind.py(), traceback);
        }
        Err(raised)
    }

    fn close(&mut self) {
        self.end();
    }
}
