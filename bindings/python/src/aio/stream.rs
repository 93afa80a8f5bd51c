//! `echomq.aio.Stream`.

use super::consumer::Consumer;
use super::queue::LoopQueue;
use super::reader::Reader;
use super::tail::Tail;
use crate::arguments::{event_id, range, trim, window};
use crate::group::GroupInfo;
use crate::options::consumer_options;
use crate::reader::Pace;
use crate::{arguments, error, instant, reply, text};
use echomq::EventId;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

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

/// The object of an answer.
fn object<T>(py: Python<'_>, answer: T) -> PyResult<Py<PyAny>>
where
    T: for<'py> IntoPyObject<'py>,
{
    answer.into_py_any(py)
}

fn truth(py: Python<'_>, answer: bool) -> PyResult<Py<PyAny>> {
    answer.into_py_any(py)
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

    /// Appends one record to a stream that has several writers; see ``echomq.Stream.append_sequenced``.
    fn append_sequenced<'py>(&self, fields: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = fields.py();
        let queue = LoopQueue::current(py)?;
        queue.answer(py, self.0.append_sequenced(arguments::fields(fields)?), id)
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
    #[pyo3(signature = (records, *, atomic = false, sequenced = false))]
    fn append_batch<'py>(
        &self,
        records: &Bound<'py, PyAny>,
        atomic: bool,
        sequenced: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = records.py();
        let queue = LoopQueue::current(py)?;
        let records = arguments::records(records)?;
        if atomic || sequenced {
            let pending = match sequenced {
                true => self.0.append_batch_sequenced(records),
                false => self.0.append_batch_atomic(records),
            };
            return queue.answer(py, pending, |py, ids| {
                Ok(PyList::new(py, ids.iter().map(EventId::as_str))?.into_any().unbind())
            });
        }
        queue.answer(py, self.0.append_batch(records), |py, results| {
            reply::results(py, results, |id| Ok(PyString::new(py, id.as_str()).into_any())).map(Bound::unbind)
        })
    }

    /// Reads a range, oldest first: an asynchronous iterator that asks for a page at a time. See ``echomq.Stream.read``.
    #[pyo3(signature = (first = None, last = None, *, limit = None, page_size = None, page_bytes = None))]
    fn read(
        &self,
        py: Python<'_>,
        first: Option<&Bound<'_, PyString>>,
        last: Option<&Bound<'_, PyString>>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
        page_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Reader::new(self.0.read(range(py, first, last)?), Pace::new(limit, page_size, page_bytes)?))
    }

    /// Reads what was made in the closed interval of two instants, oldest first; see ``echomq.Stream.read_window``.
    #[pyo3(signature = (first, last, *, limit = None, page_size = None, page_bytes = None))]
    fn read_window(
        &self,
        py: Python<'_>,
        first: &Bound<'_, PyAny>,
        last: &Bound<'_, PyAny>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
        page_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        let (first, last) = window(first, last)?;
        let reader = self.0.read_window(first, last).map_err(|error| error::raise(py, &error))?;
        Ok(Reader::new(reader, Pace::new(limit, page_size, page_bytes)?))
    }

    /// Reads what was made at or after an instant, oldest first; see ``echomq.Stream.read_since``.
    #[pyo3(signature = (first, *, limit = None, page_size = None, page_bytes = None))]
    fn read_since(
        &self,
        first: &Bound<'_, PyAny>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
        page_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Reader::new(
            self.0.read_since(instant::timestamp(first, "first")?),
            Pace::new(limit, page_size, page_bytes)?,
        ))
    }

    /// Reads the newest records, newest first; see ``echomq.Stream.read_last``.
    #[pyo3(signature = (records, *, page_size = None, page_bytes = None))]
    fn read_last(
        &self,
        records: &Bound<'_, PyAny>,
        page_size: Option<&Bound<'_, PyAny>>,
        page_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Reader::new(
            self.0.read_last(arguments::count(records, "records")?),
            Pace::new(None, page_size, page_bytes)?,
        ))
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

    /// A consumer of one of the stream's groups, which starts when it is awaited or first needed; see
    /// ``echomq.Stream.consumer``.
    ///
    /// Fails at once for options that cannot be read, and when it starts for the rest.
    #[pyo3(signature = (group, **options))]
    fn consumer(
        &self,
        group: &Bound<'_, PyString>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Consumer> {
        let options = consumer_options(group, options)?;
        Ok(Consumer::new(self.0.clone(), &text::name(group)?, options))
    }

    /// A tail of the stream, which starts when it is awaited or first needed; see ``echomq.Stream.tail``.
    #[pyo3(signature = (start, *, page_bytes = None))]
    fn tail(&self, start: &Bound<'_, PyAny>, page_bytes: Option<&Bound<'_, PyAny>>) -> PyResult<Tail> {
        Ok(Tail::new(self.0.clone(), arguments::tail_options(start, page_bytes)?))
    }

    /// All consumer groups with their consumers; see ``echomq.Stream.groups``.
    fn groups<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        LoopQueue::current(py)?.answer(py, self.0.groups(), |py, groups| {
            object(py, groups.into_iter().map(GroupInfo::from).collect::<Vec<_>>())
        })
    }

    /// One consumer group with its consumers; see ``echomq.Stream.group``.
    fn group<'py>(&self, group: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let (py, name) = (group.py(), text::name(group)?);
        LoopQueue::current(py)?
            .answer(py, self.0.group(&name), |py, group| object(py, GroupInfo::from(group)))
    }

    /// Makes a consumer group; see ``echomq.Stream.create_group``.
    fn create_group<'py>(
        &self,
        group: &Bound<'py, PyString>,
        start: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, name, start) = (group.py(), text::name(group)?, arguments::start(start)?);
        LoopQueue::current(py)?.answer(py, self.0.create_group(&name, start), truth)
    }

    /// Moves a consumer group; see ``echomq.Stream.seek``.
    fn seek<'py>(
        &self,
        group: &Bound<'py, PyString>,
        start: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, name, start) = (group.py(), text::name(group)?, arguments::start(start)?);
        LoopQueue::current(py)?.answer(py, self.0.seek(&name, start), |py, ()| Ok(py.None()))
    }

    /// Removes a consumer for which nothing is pending; see ``echomq.Stream.remove_consumer``.
    fn remove_consumer<'py>(
        &self,
        group: &Bound<'py, PyString>,
        consumer: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, name, consumer) = (group.py(), text::name(group)?, text::name(consumer)?);
        LoopQueue::current(py)?.answer(py, self.0.remove_consumer(&name, &consumer), |py, ()| Ok(py.None()))
    }

    /// Removes consumers that are idle and for which nothing is pending; see ``echomq.Stream.sweep_consumers``.
    fn sweep_consumers<'py>(
        &self,
        group: &Bound<'py, PyString>,
        idle: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, name, idle) = (group.py(), text::name(group)?, arguments::duration(idle, "idle")?);
        LoopQueue::current(py)?.answer(py, self.0.sweep_consumers(&name, idle), object)
    }

    /// Removes a consumer group with all that is pending in it; see ``echomq.Stream.remove_group``.
    fn remove_group<'py>(&self, group: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let (py, name) = (group.py(), text::name(group)?);
        LoopQueue::current(py)?.answer(py, self.0.remove_group(&name), truth)
    }

    /// Reads the dead letters, oldest first; see ``echomq.Stream.dead_letters``.
    #[pyo3(signature = (first = None, last = None, *, limit = None, page_size = None, page_bytes = None))]
    fn dead_letters(
        &self,
        py: Python<'_>,
        first: Option<&Bound<'_, PyString>>,
        last: Option<&Bound<'_, PyString>>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
        page_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Reader::new(
            self.0.dead_letters(range(py, first, last)?),
            Pace::new(limit, page_size, page_bytes)?,
        ))
    }

    /// Puts a dead letter back; see ``echomq.Stream.put_back``.
    #[pyo3(signature = (id, /))]
    fn put_back<'py>(&self, id: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let (py, letter) = (id.py(), event_id(id)?);
        LoopQueue::current(py)?.answer(py, self.0.put_back(letter), self::id)
    }

    fn __repr__(&self) -> String {
        format!("<echomq.aio.Stream {}>", self.0.key())
    }
}
