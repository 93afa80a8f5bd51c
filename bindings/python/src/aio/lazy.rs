//! Readers that start when they are first needed: by `await`, by `async with`, or by the first wait for an entry.

use super::queue::LoopQueue;
use crate::error;
use echomq::{Code, Error, Pending, Result};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;

/// A reader and how it is started.
pub(crate) struct Lazy<T> {
    start: Box<dyn Fn() -> Pending<T> + Send + Sync>,
    started: OnceCell<T>,
    /// Why it could not be started, for whoever waits for an entry.
    failed: Mutex<Option<Error>>,
}

impl<T: Send + Sync + 'static> Lazy<T> {
    pub(crate) fn new(start: impl Fn() -> Pending<T> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { start: Box::new(start), started: OnceCell::new(), failed: Mutex::default() })
    }

    /// The reader, started if it was not.
    pub(crate) async fn get(&self) -> Result<&T> {
        self.started.get_or_try_init(|| (self.start)()).await
    }

    /// The reader for a wait, which is told of a failure by [`Lazy::known`].
    pub(crate) async fn get_for_wait(&self) -> Option<&T> {
        match self.get().await {
            Ok(reader) => Some(reader),
            Err(error) => {
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                None
            }
        }
    }

    /// The reader, where it was started; fails once where it could not be.
    pub(crate) fn known(&self, py: Python<'_>) -> PyResult<Option<&T>> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        match failed {
            Some(error) => Err(error::raise(py, &error)),
            None => Ok(self.started.get()),
        }
    }

    /// Whether a wait finds something now, or that the reader could not be started.
    pub(crate) fn is_ready(&self, look: impl FnOnce(&T) -> bool) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        failed || self.started.get().is_some_and(look)
    }

    /// The reader, for what makes no sense before it was started.
    pub(crate) fn running(&self, py: Python<'_>) -> PyResult<&T> {
        let idle = "it has not been started: await it, or use it with `async with`";
        self.started.get().ok_or_else(|| error::refuse(py, Code::State, idle, None))
    }

    /// The reader, where it was started.
    pub(crate) fn if_started(&self) -> Option<&T> {
        self.started.get()
    }

    /// The future of the object that holds the reader, settled when it was started.
    pub(crate) fn object<'py>(
        self: &Arc<Self>,
        py: Python<'py>,
        object: Py<PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let queue = LoopQueue::current(py)?;
        if self.started.get().is_some() {
            return queue.ready(py, object);
        }
        let runtime = error::runtime(py)?;
        let (future, promise) = queue.promise(py)?;
        let this = self.clone();
        runtime.spawn(async move {
            let started = this.get().await.map(drop);
            promise.keep(move |py| match started {
                Ok(()) => Ok(object),
                Err(error) => Err(error::raise(py, &error)),
            });
        });
        Ok(future)
    }
}

/// The future of what the runtime carries out.
pub(crate) fn carried_out<'py, T: Send + 'static>(
    py: Python<'py>,
    work: impl Future<Output = T> + Send + 'static,
    object: fn(Python<'_>, T) -> PyResult<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let queue = LoopQueue::current(py)?;
    let runtime = error::runtime(py)?;
    let (future, promise) = queue.promise(py)?;
    runtime.spawn(async move {
        let done = work.await;
        promise.keep(move |py| object(py, done));
    });
    Ok(future)
}
