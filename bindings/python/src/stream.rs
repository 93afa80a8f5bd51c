//! `echomq.Stream` and `echomq.Reader`.

use crate::record::Record;
use crate::wait::wait;
use crate::{arguments, error, instant, reply, text};
use echomq::{EventId, Range, Timestamp, Trim, blocking};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use std::borrow::Cow;
use std::vec;

/// The range of two bounds as text; one that is not given is the end of the stream.
pub(crate) fn range(
    py: Python<'_>,
    first: Option<&Bound<'_, PyString>>,
    last: Option<&Bound<'_, PyString>>,
) -> PyResult<Range> {
    let first = first.map_or(Ok(Cow::Borrowed("-")), text::name)?;
    let last = last.map_or(Ok(Cow::Borrowed("+")), text::name)?;
    Range::parse(&first, &last).map_err(|error| error::raise(py, &error))
}

/// The two instants of a window.
pub(crate) fn window(first: &Bound<'_, PyAny>, last: &Bound<'_, PyAny>) -> PyResult<(Timestamp, Timestamp)> {
    Ok((instant::timestamp(first, "first")?, instant::timestamp(last, "last")?))
}

/// How much to keep: exactly one of the two is given.
pub(crate) fn trim(
    max_len: Option<&Bound<'_, PyAny>>,
    min_id: Option<&Bound<'_, PyAny>>,
    exact: bool,
) -> PyResult<Trim> {
    let trim = match (max_len, min_id) {
        (Some(max_len), None) => Trim::max_len(arguments::count(max_len, "max_len")?),
        (None, Some(min_id)) => Trim::min_id(instant::timestamp(min_id, "min_id")?),
        _ => return Err(PyTypeError::new_err("trim takes max_len or min_id")),
    };
    Ok(if exact { trim.exact() } else { trim })
}

/// The id that a caller brings.
pub(crate) fn event_id(id: &Bound<'_, PyString>) -> PyResult<EventId> {
    EventId::parse(text::text(id, "an id")?).map_err(|error| error::raise(id.py(), &error))
}

/// How a reader is to read.
pub(crate) struct Pace {
    limit: Option<u64>,
    page_size: Option<u64>,
}

impl Pace {
    pub(crate) fn new(
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let count = |value: Option<&Bound<'_, PyAny>>, what| {
            value.map(|value| arguments::count(value, what)).transpose()
        };
        Ok(Self { limit: count(limit, "limit")?, page_size: count(page_size, "page_size")? })
    }

    /// Gives both to a reader, each by the method that takes it.
    pub(crate) fn set<R>(self, reader: R, limit: impl Fn(R, u64) -> R, page_size: impl Fn(R, u64) -> R) -> R {
        let reader = match self.limit {
            Some(records) => limit(reader, records),
            None => reader,
        };
        match self.page_size {
            Some(records) => page_size(reader, records),
            None => reader,
        }
    }

    fn reader(self, reader: blocking::Reader) -> Reader {
        let reader = self.set(reader, blocking::Reader::limit, blocking::Reader::page_size);
        Reader { reader, page: Vec::new().into_iter() }
    }
}

/// An append-only log of one queue, made by ``Client.stream``.
///
/// Each record carries a branded id made by the writer, so that stream order, id order and the order of making are one.
/// For that a stream has *one writer*: one client of one process. A record of a second writer whose id is not above the
/// stream's top is refused with ``NonmonotonicError``, never written elsewhere and never dropped in silence.
///
/// Fields are a mapping or pairs of name and value, each ``str`` (UTF-8 with ``surrogateescape``) or ``bytes``.
///
/// Every call can also fail with ``WrongTypeError``, ``AuthError``, ``OutOfMemoryError`` and ``ServerError``, when the
/// server says so; with ``OverloadedError`` when too many calls wait; with ``DisconnectedError`` when there was no
/// connection until the client's ``timeout``; with ``TimeoutError`` when only the answer was late; with ``ClosedError``.
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Stream(blocking::Stream);

impl From<blocking::Stream> for Stream {
    fn from(stream: blocking::Stream) -> Self {
        Self(stream)
    }
}

#[pymethods]
impl Stream {
    /// The stream's key on the server.
    #[getter]
    fn key(&self) -> &str {
        self.0.key()
    }

    /// Appends one record and answers its branded id.
    ///
    /// The record is written once or reported, never twice. Fails with ``ReservedFieldError`` for a field named ``id``,
    /// ``TooLargeError``, ``InvalidOptionError`` without a node id, ``ClockAheadError`` and ``NonmonotonicError``, and
    /// with ``UnknownOutcomeError``, which has the id, when nobody could say by the deadline whether the record is there.
    /// The same may be true after ``KeyboardInterrupt``.
    fn append<'py>(&self, fields: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
        let py = fields.py();
        let fields = arguments::fields(fields)?;
        wait(py, || self.0.append(fields)).map(|id| PyString::new(py, id.as_str()))
    }

    /// Appends one record under an id of the caller's, to repeat history or to ask again after ``UnknownOutcomeError``.
    ///
    /// Fails with ``MalformedIdError`` and ``KindError``, and as ``append`` does, but needs no node id and does not look
    /// at the clock.
    fn append_id<'py>(
        &self,
        id: &Bound<'py, PyString>,
        fields: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyString>> {
        let py = fields.py();
        let (id, fields) = (event_id(id)?, arguments::fields(fields)?);
        wait(py, || self.0.append_id(id, fields)).map(|id| PyString::new(py, id.as_str()))
    }

    /// Appends many records at once. Answers a list with one result for each, in their order: its id, or an exception.
    ///
    /// With ``atomic`` all of them are appended in one step of the server's or none, whatever their number: it answers
    /// their ids, or raises.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     events = client.stream("codemojex", "batches")
    /// ...     first, second = events.append_batch([{"kind": "guessed"}, {"id": "mine"}])
    /// ...     ids = events.append_batch([{"kind": "solved"}, {"kind": "paid"}], atomic=True)
    /// >>> second
    /// ReservedFieldError("a field is named `id`, which the record's own id uses", 'emq:{codemojex}:stream:batches')
    /// >>> first < ids[0] < ids[1]
    /// True
    #[pyo3(signature = (records, *, atomic = false))]
    fn append_batch<'py>(&self, records: &Bound<'py, PyAny>, atomic: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = records.py();
        let records = arguments::records(records)?;
        if atomic {
            let ids = wait(py, || self.0.append_batch_atomic(records))?;
            return Ok(PyList::new(py, ids.iter().map(EventId::as_str))?.into_any());
        }
        let results = wait(py, || self.0.append_batch(records))?;
        reply::results(py, results, |id| Ok(PyString::new(py, id.as_str()).into_any()))
    }

    /// Reads a range, oldest first: an iterator that asks for a page at a time.
    ///
    /// A bound is an id, or ``(`` and an id for what lies behind or before that record; ``-`` and ``+`` are the ends of
    /// the stream. ``limit`` is how many records to give at most, ``page_size`` how many to ask for at a time.
    /// Fails with ``MalformedIdError`` and ``KindError``.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     numbers = client.stream("codemojex", "ranges")
    /// ...     ids = numbers.append_batch([{"n": str(n)} for n in range(5)])
    /// ...     [record.get("n") for record in numbers.read("(" + ids[1], ids[3])]
    /// ['2', '3']
    #[pyo3(signature = (first = None, last = None, *, limit = None, page_size = None))]
    fn read(
        &self,
        py: Python<'_>,
        first: Option<&Bound<'_, PyString>>,
        last: Option<&Bound<'_, PyString>>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Pace::new(limit, page_size)?.reader(self.0.read(range(py, first, last)?)))
    }

    /// Reads what was made in the closed interval of two instants, oldest first.
    ///
    /// Instants have a time zone and are cut to the millisecond towards the past. Fails with ``InvalidWindowError`` when
    /// the second is before the first, and with ``InvalidOptionError`` for a ``datetime`` without a time zone.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     days = client.stream("codemojex", "windows")
    /// ...     made = echomq.Id(days.append({"kind": "guessed"})).instant
    /// ...     inside = days.read_window(made, made + timedelta(hours=1)).all()
    /// ...     before = days.read_window(made - timedelta(hours=1), made - timedelta(milliseconds=1)).all()
    /// >>> len(inside), len(before)
    /// (1, 0)
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
        Ok(Pace::new(limit, page_size)?.reader(reader))
    }

    /// Reads what was made at or after an instant, oldest first; see ``read_window``.
    #[pyo3(signature = (first, *, limit = None, page_size = None))]
    fn read_since(
        &self,
        first: &Bound<'_, PyAny>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Pace::new(limit, page_size)?.reader(self.0.read_since(instant::timestamp(first, "first")?)))
    }

    /// Reads the newest records, newest first.
    #[pyo3(signature = (records, *, page_size = None))]
    fn read_last(
        &self,
        records: &Bound<'_, PyAny>,
        page_size: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Pace::new(None, page_size)?.reader(self.0.read_last(arguments::count(records, "records")?)))
    }

    /// Lets go of old records and answers how many went.
    ///
    /// Keeps the newest ``max_len`` records, or what was made at or after the instant ``min_id``. Without ``exact`` the
    /// server may keep some more, up to about a hundred, and has much less to do. A record goes whether it was read or
    /// not. Fails with ``UnknownOutcomeError``: trimming again does no harm then.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     events = client.stream("codemojex", "trims")
    /// ...     ids = events.append_batch([{"n": str(n)} for n in range(5)])
    /// ...     events.trim(max_len=2, exact=True)
    /// 3
    #[pyo3(signature = (*, max_len = None, min_id = None, exact = false))]
    fn trim(
        &self,
        py: Python<'_>,
        max_len: Option<&Bound<'_, PyAny>>,
        min_id: Option<&Bound<'_, PyAny>>,
        exact: bool,
    ) -> PyResult<u64> {
        let trim = trim(max_len, min_id, exact)?;
        wait(py, || self.0.trim(trim))
    }

    fn __repr__(&self) -> String {
        format!("<echomq.Stream {}>", self.0.key())
    }
}

/// The records of a range, asked for a page at a time: an iterator of ``Record``, made by ``Stream.read`` and its kin.
///
/// Records appended while it is read are seen when they lie in the range ahead of it. After an exception it can be asked
/// again and goes on where it was.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     numbers = client.stream("codemojex", "readers")
/// ...     ids = numbers.append_batch([{"n": str(n)} for n in range(5)])
/// ...     reader = numbers.read(page_size=2)
/// ...     next(reader).get("n")
/// ...     [record.get("n") for record in reader.next_page()]
/// ...     [record.get("n") for record in reader.next_page()]
/// ...     [record.get("n") for record in reader.all()]
/// '0'
/// ['1']
/// ['2', '3']
/// ['4']
#[pyclass(module = "echomq")]
pub(crate) struct Reader {
    reader: blocking::Reader,
    page: vec::IntoIter<echomq::Record>,
}

#[pymethods]
impl Reader {
    /// The next page as a list, or what is left of the one under way; ``None`` at the end of the range.
    fn next_page(&mut self, py: Python<'_>) -> PyResult<Option<Vec<Record>>> {
        if self.page.len() == 0 && !self.turn(py)? {
            return Ok(None);
        }
        Ok(Some(self.page.by_ref().map(Record::from).collect()))
    }

    /// All records that are left, as a list.
    fn all(&mut self, py: Python<'_>) -> PyResult<Vec<Record>> {
        let mut records: Vec<echomq::Record> = self.page.by_ref().collect();
        loop {
            match wait(py, || self.reader.next_page()) {
                Ok(Some(page)) => records.extend(page),
                Ok(None) => return Ok(records.into_iter().map(Record::from).collect()),
                Err(raised) => {
                    self.page = records.into_iter();
                    return Err(raised);
                }
            }
        }
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Record>> {
        if self.page.len() == 0 && !self.turn(py)? {
            return Ok(None);
        }
        Ok(self.page.next().map(Record::from))
    }

    fn __repr__(&self) -> &'static str {
        "<echomq.Reader>"
    }
}

impl Reader {
    /// Asks for the next page; false at the end.
    fn turn(&mut self, py: Python<'_>) -> PyResult<bool> {
        let page = wait(py, || self.reader.next_page())?;
        let more = page.is_some();
        self.page = page.unwrap_or_default().into_iter();
        Ok(more)
    }
}
