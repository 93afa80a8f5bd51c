//! `echomq.aio.Reader`.

use super::queue::{LoopQueue, Promise};
use crate::error;
use crate::reader::Pace;
use crate::record::Record;
use echomq::Code;
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The records of a range, asked for a page at a time: an asynchronous iterator of ``Record``.
///
/// It is what ``echomq.Reader`` is, for one task at a time. A wait that is cancelled loses nothing.
///
/// >>> async def main():
/// ...     async with echomq.aio.Client(url, node_id=7) as client:
/// ...         numbers = client.stream("codemojex", "aio-readers")
/// ...         await numbers.append_batch([{"n": str(n)} for n in range(5)])
/// ...         reader = numbers.read(page_size=2)
/// ...         first = await anext(reader)
/// ...         page = await reader.next_page()
/// ...         rest = await reader.all()
/// ...         return [[record.get("n") for record in part] for part in ([first], page, rest)]
/// >>> asyncio.run(main())
/// [['0'], ['1'], ['2', '3', '4']]
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Reader(Arc<State>);

struct State {
    /// Held while pages are asked for.
    reader: tokio::sync::Mutex<echomq::Reader>,
    read: Mutex<Read>,
}

/// What was read and not given out yet.
#[derive(Default)]
struct Read {
    records: VecDeque<echomq::Record>,
    ended: bool,
    failed: Option<echomq::Error>,
}

/// What somebody waits for.
#[derive(Clone, Copy, PartialEq)]
enum Want {
    Record,
    Page,
    All,
}

/// What a waiter gets.
enum Taken {
    Record(echomq::Record),
    List(VecDeque<echomq::Record>),
    End,
    Failed(echomq::Error),
    /// Somebody else was faster.
    Nothing,
}

impl Reader {
    pub(crate) fn new(reader: echomq::Reader, pace: Pace) -> Self {
        let reader =
            pace.set(reader, echomq::Reader::limit, echomq::Reader::page_size, echomq::Reader::page_bytes);
        Self(Arc::new(State { reader: tokio::sync::Mutex::new(reader), read: Mutex::default() }))
    }

    fn ask<'py>(&self, py: Python<'py>, want: Want) -> PyResult<Bound<'py, PyAny>> {
        let queue = LoopQueue::current(py)?;
        if want == Want::Record
            && let Some(record) = self.0.read().records.pop_front()
        {
            return queue.ready(py, object(py, record)?);
        }
        let runtime = error::runtime(py)?;
        let (future, promise) = queue.promise(py)?;
        runtime.spawn(self.0.clone().serve(want, promise));
        Ok(future)
    }
}

fn object(py: Python<'_>, record: echomq::Record) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, Record::from(record))?.into_any())
}

fn list(py: Python<'_>, records: VecDeque<echomq::Record>) -> PyResult<Py<PyAny>> {
    let records = records.into_iter().map(|record| object(py, record)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, records)?.into_any().unbind())
}

impl State {
    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is wanted and has it given out, unless nobody waits for it any longer: then it stays here.
    async fn serve(self: Arc<Self>, want: Want, promise: Promise) {
        {
            let mut reader = self.reader.lock().await;
            while self.needs_more(want) {
                let page = reader.next_page().await;
                self.add(page);
            }
        }
        promise.keep(move |py| self.give(py, want));
    }

    fn needs_more(&self, want: Want) -> bool {
        let read = self.read();
        !read.ended && read.failed.is_none() && (want == Want::All || read.records.is_empty())
    }

    fn add(&self, page: echomq::Result<Option<Vec<echomq::Record>>>) {
        let mut read = self.read();
        match page {
            Ok(Some(page)) => read.records.extend(page),
            Ok(None) => read.ended = true,
            Err(error) => read.failed = Some(error),
        }
    }

    /// Takes what is wanted out of what was read.
    fn take(&self, want: Want) -> Taken {
        let mut read = self.read();
        if want == Want::All || read.records.is_empty() {
            if let Some(error) = read.failed.take() {
                return Taken::Failed(error);
            }
            if !read.ended {
                return Taken::Nothing;
            }
        }
        match want {
            Want::Record => read.records.pop_front().map_or(Taken::End, Taken::Record),
            Want::Page if read.records.is_empty() => Taken::End,
            Want::Page | Want::All => Taken::List(std::mem::take(&mut read.records)),
        }
    }

    fn give(&self, py: Python<'_>, want: Want) -> PyResult<Py<PyAny>> {
        match self.take(want) {
            Taken::Record(record) => object(py, record),
            Taken::List(records) => list(py, records),
            Taken::End if want == Want::Record => Err(PyStopAsyncIteration::new_err(())),
            Taken::End => Ok(py.None()),
            Taken::Failed(error) => Err(error::raise(py, &error)),
            Taken::Nothing => {
                Err(error::refuse(py, Code::State, "another task waits for this reader too", None))
            }
        }
    }
}

#[pymethods]
impl Reader {
    /// The next page as a list, or what is left of the one under way; ``None`` at the end of the range.
    fn next_page<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(py, Want::Page)
    }

    /// All records that are left, as a list.
    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(py, Want::All)
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.ask(py, Want::Record)
    }

    fn __repr__(&self) -> &'static str {
        "<echomq.aio.Reader>"
    }
}
