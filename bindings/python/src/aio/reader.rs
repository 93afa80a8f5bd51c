//! `echomq.aio.Reader`.

use super::waiting::{Source, Wait, Waiting};
use crate::error;
use crate::reader::Pace;
use crate::record::Record;
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use pyo3::types::PyList;
use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The records of a range, asked for a page at a time: an asynchronous iterator of ``Record``.
///
/// It is what ``echomq.Reader`` is. A page is asked for when it is waited for. Any number of tasks may share the reader; a
/// wait that is cancelled loses nothing.
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
pub(crate) struct Reader {
    records: Arc<Waiting<Wanted>>,
    pages: Arc<Waiting<Wanted>>,
    all: Arc<Waiting<Wanted>>,
}

impl Reader {
    pub(crate) fn new(reader: echomq::Reader, pace: Pace) -> Self {
        let reader =
            pace.set(reader, echomq::Reader::limit, echomq::Reader::page_size, echomq::Reader::page_bytes);
        let shared = Arc::new(Shared { reader: tokio::sync::Mutex::new(reader), read: Mutex::default() });
        let waiting = |want| Waiting::new(Wanted { shared: shared.clone(), want });
        Self { records: waiting(Want::Record), pages: waiting(Want::Page), all: waiting(Want::All) }
    }
}

/// What those share who wait for records, for pages, and for all that is left.
struct Shared {
    /// Held while a page is asked for.
    reader: tokio::sync::Mutex<echomq::Reader>,
    read: Mutex<Read>,
}

/// What was read and not taken yet.
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

impl Read {
    fn needs_more(&self, want: Want) -> bool {
        !self.ended && self.failed.is_none() && (want == Want::All || self.records.is_empty())
    }

    fn add(&mut self, page: echomq::Result<Option<Vec<echomq::Record>>>) {
        match page {
            Ok(Some(page)) => self.records.extend(page),
            Ok(None) => self.ended = true,
            Err(error) => self.failed = Some(error),
        }
    }

    /// Takes what is wanted out of what was read; nothing where more has to be read for it.
    fn take(&mut self, want: Want) -> echomq::Result<Option<Taken>> {
        if self.needs_more(want) {
            return Ok(None);
        }
        if want == Want::All || self.records.is_empty() {
            // Whoever asks again goes on where it was.
            self.failed.take().map_or(Ok(()), Err)?;
        }
        Ok(Some(match want {
            Want::Record => self.records.pop_front().map_or(Taken::End, Taken::Record),
            Want::Page if self.records.is_empty() => Taken::End,
            Want::Page | Want::All => Taken::List(mem::take(&mut self.records)),
        }))
    }
}

/// What a waiter gets.
enum Taken {
    Record(echomq::Record),
    List(VecDeque<echomq::Record>),
    End,
}

/// What is wanted of a reader.
struct Wanted {
    shared: Arc<Shared>,
    want: Want,
}

impl Wanted {
    fn read(&self) -> MutexGuard<'_, Read> {
        self.shared.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Wanted {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let taken = self.read().take(self.want).map_err(|error| error::raise(py, &error))?;
        match taken {
            None => Ok(None),
            Some(Taken::Record(record)) => object(py, record).map(Some),
            Some(Taken::List(records)) => list(py, records).map(Some),
            Some(Taken::End) if self.want == Want::Record => Err(PyStopAsyncIteration::new_err(())),
            Some(Taken::End) => Ok(Some(py.None())),
        }
    }

    /// One page more, so that not much is read for somebody who is gone.
    async fn ready(&self) {
        let mut reader = self.shared.reader.lock().await;
        if !self.is_ready() {
            let page = reader.next_page().await;
            self.read().add(page);
        }
    }

    fn is_ready(&self) -> bool {
        !self.read().needs_more(self.want)
    }
}

fn object(py: Python<'_>, record: echomq::Record) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, Record::from(record))?.into_any())
}

fn list(py: Python<'_>, records: VecDeque<echomq::Record>) -> PyResult<Py<PyAny>> {
    let records = records.into_iter().map(|record| object(py, record)).collect::<PyResult<Vec<_>>>()?;
    Ok(PyList::new(py, records)?.into_any().unbind())
}

#[pymethods]
impl Reader {
    /// The next page as a list, or what is left of the one under way; ``None`` at the end of the range.
    fn next_page<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().pages.next(slf)
    }

    /// All records that are left, as a list.
    fn all<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().all.next(slf)
    }

    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().records.next(slf)
    }

    fn __repr__(&self) -> &'static str {
        "<echomq.aio.Reader>"
    }
}
