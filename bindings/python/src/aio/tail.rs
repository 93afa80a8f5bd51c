//! `echomq.aio.Tail`.

use super::lazy::Lazy;
use super::queue::LoopQueue;
use super::waiting::{Source, Wait, Waiting, is_there, taken};
use crate::tail::object;
use echomq::TailOptions;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use std::time::Duration;

struct Followed(Arc<Lazy<echomq::Tail>>);

impl Source for Followed {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(tail) = self.0.known(py)? else { return Ok(None) };
        taken(py, tail.wait_take(1, Duration::ZERO), object)
    }

    async fn ready(&self) {
        if let Some(tail) = self.0.get_for_wait().await {
            tail.ready().await;
        }
    }

    fn is_ready(&self) -> bool {
        self.0.is_ready(|tail| is_there(tail.ready()))
    }
}

/// A stream's records as they are appended, for ever, in order, made by ``Stream.tail``: an asynchronous iterator of
/// ``echomq.Record``, and of ``echomq.Gap`` where records were trimmed away.
///
/// It is what ``echomq.Tail`` is. It starts by ``await`` or by ``async with``, or with the first wait for a record. A wait
/// that is cancelled loses nothing.
///
/// >>> async def main():
/// ...     async with echomq.aio.Client(url, node_id=7) as client:
/// ...         events = client.stream("codemojex", "aio-tails")
/// ...         async with events.tail("new") as tail:
/// ...             await events.append_batch([{"n": str(n)} for n in range(3)])
/// ...             return [(await anext(tail)).get("n") for _ in range(3)]
/// >>> asyncio.run(main())
/// ['0', '1', '2']
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Tail {
    tail: Arc<Lazy<echomq::Tail>>,
    followed: Arc<Waiting<Followed>>,
}

impl Tail {
    pub(crate) fn new(stream: echomq::Stream, options: TailOptions) -> Self {
        let tail = Lazy::new(move || stream.tail(options));
        Self { followed: Waiting::new(Followed(tail.clone())), tail }
    }

    fn end(&self) {
        if let Some(tail) = self.tail.if_started() {
            tail.close();
        }
    }
}

/// Whoever watches for records holds the tail too, so its last user says that it is to end.
impl Drop for Tail {
    fn drop(&mut self) {
        self.end();
    }
}

#[pymethods]
impl Tail {
    /// Starts the tail. When it answers, its place is pinned: what is appended from then on is seen.
    ///
    /// Fails as ``echomq.Stream.tail`` does.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::__aenter__(slf)?.call_method0("__await__")
    }

    /// Ends the tail, at once: whoever waits for it gets nothing.
    fn close(&self) {
        self.end();
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().followed.next(slf)
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().tail.object(slf.py(), slf.clone().into_any().unbind())
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
        match self.tail.if_started() {
            Some(tail) => format!("<echomq.aio.{tail:?}>"),
            None => "<echomq.aio.Tail, not started>".to_owned(),
        }
    }
}
