//! `echomq.aio.Stream`.

use super::queue::LoopQueue;
use super::reader::Reader;
use crate::stream::{Pace, event_id, range, trim, window};
use crate::{arguments, error, instant, reply};
use echomq::EventId;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

/// An append-only log of one queue, made by ``Client.stream``: the calls of ``echomq.Stream``, each answering a future.
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Stream(echomq::Stream);

impl From<echomq::Stream> for Stream {
    fn from(stream: echomq::Stream) -> Self {
        Self(stream)
    }
}

fn id(py: Python<'_>, id: EventId) -> PyResult<Py<PyAny>> {
    Ok(PyString::new(py, id.as_str()).into_any().unbind())
}

#[pymethods]
impl Stream {
    /// The stream's key on the server.
    #[getter]
    fn key(&self) -> &str {
        self.0.key()
    }

    /// Appends one record and answers its branded id; see ``echomq.Stream.append``.
    fn append<'py>(&self, fields: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = fields.py();
        let queue = LoopQueue::current(py)?;
        queue.answer(py, self.0.append(arguments::fields(fields)?), id)
    }

    /// Appends one record under an id of the caller's; see ``echomq.Stream.append_id``.
    fn append_id<'py>(
        &self,
        id: &Bound<'py, PyString>,
        fields: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = fields.py();
        let queue = LoopQueue::current(py)?;
        queue.answer(py, self.0.append_id(event_id(id)?, arguments::fields(fields)?), self::id)
    }

    /// Appends many records at once; see ``echomq.Stream.append_batch``.
    ///
    /// >>> async def main():
    /// ...     async with echomq.aio.Client(url, node_id=7) as client:
    /// ...         events = client.stream("codemojex", "aio-batches")
    /// ...         first, second = await events.append_batch([{"kind": "guessed"}, {"id": "mine"}])
    /// ...         return first[:3], second.code
    /// >>> asyncio.run(main())
    /// ('EVT', 'reserved_field')
    #[pyo3(signature = (records, *, atomic = false))]
    fn append_batch<'py>(&self, records: &Bound<'py, PyAny>, atomic: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = records.py();
        let queue = LoopQueue::current(py)?;
        let records = arguments::records(records)?;
        if atomic {
            return queue.answer(py, self.0.append_batch_atomic(records), |py, ids| {
                Ok(PyList::new(py, ids.iter().map(EventId::as_str))?.into_any().unbind())
            });
        }
        queue.answer(py, self.0.append_batch(records), |py, results| {
            reply::results(py, results, |id| Ok(PyString::new(py, id.as_str()).into_any())).map(Bound::unbind)
        })
    }

    /// Reads a range, oldest first: an asynchronous iterator that asks for a page at a time. See ``echomq.Stream.read``.
    #[pyo3(signature = (first = None, last = None, *, limit = None, page_size = None))]
    fn read(
        &self,
        py: Python<'_>,
        first: Option<&Bound<'_, PyString>>,
        last: Option<&Bound<'_, PyString>>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Reader::new(self.0.read(range(py, first, last)?), Pace::new(limit, page_size)?))
    }

    /// Reads what was made in the closed interval of two instants, oldest first; see ``echomq.Stream.read_window``.
    #[pyo3(signature = (first, last, *, limit = None, page_size = None))]
    fn read_window(
        &self,
        py: Python<'_>,
        first: &Bound<'_, PyAny>,
        last: &Bound<'_, PyAny>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        let (first, last) = window(first, last)?;
        let reader = self.0.read_window(first, last).map_err(|error| error::raise(py, &error))?;
        Ok(Reader::new(reader, Pace::new(limit, page_size)?))
    }

    /// Reads what was made at or after an instant, oldest first; see ``echomq.Stream.read_since``.
    #[pyo3(signature = (first, *, limit = None, page_size = None))]
    fn read_since(
        &self,
        first: &Bound<'_, PyAny>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Reader::new(self.0.read_since(instant::timestamp(first, "first")?), Pace::new(limit, page_size)?))
    }

    /// Reads the newest records, newest first; see ``echomq.Stream.read_last``.
    #[pyo3(signature = (records, *, page_size = None))]
    fn read_last(
        &self,
        records: &Bound<'_, PyAny>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Reader::new(self.0.read_last(arguments::count(records, "records")?), Pace::new(None, page_size)?))
    }

    /// Lets go of old records and answers how many went; see ``echomq.Stream.trim``.
    #[pyo3(signature = (*, max_len = None, min_id = None, exact = false))]
    fn trim<'py>(
        &self,
        py: Python<'py>,
        max_len: Option<&Bound<'py, PyAny>>,
        min_id: Option<&Bound<'py, PyAny>>,
        exact: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let queue = LoopQueue::current(py)?;
        queue.answer(py, self.0.trim(trim(max_len, min_id, exact)?), |py, count| {
            Ok(count.into_pyobject(py)?.into_any().unbind())
        })
    }

    fn __repr__(&self) -> String {
        format!("<echomq.aio.Stream {}>", self.0.key())
    }
}
