//! `echomq.Stream`.

use crate::arguments::{event_id, range, trim, window};
use crate::consumer::Consumer;
use crate::events::announced;
use crate::group::GroupInfo;
use crate::options::consumer_options;
use crate::reader::{Pace, Reader};
use crate::tail::Tail;
use crate::wait::wait;
use crate::{arguments, error, instant, reply, text};
use echomq::{EventId, blocking};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

/// An append-only log of one queue, made by ``Client.stream``.
///
/// Each record carries a branded id made by the writer, so that stream order, id order and the order of making are one.
/// For that a stream has *one writer*: one client of one process. A record of a second writer whose id is not above the
/// stream's top is refused with ``NonmonotonicError``, never written elsewhere and never dropped in silence.
///
/// Where several clients append to a stream, each opens it with ``writers="many"``: then ``append``, ``append_batch`` and
/// ``append_and_publish`` are sequenced, as ``append_sequenced`` is, and none is refused for the others' records.
///
/// >>> with echomq.Client(url) as client, echomq.Client(url) as other:
/// ...     both = [each.stream("codemojex", "shared", writers="many") for each in (client, other)]
/// ...     ids = [stream.append({"n": str(n)}) for n in range(5) for stream in both]
/// ...     ids == sorted(ids), len(both[0].read().all())
/// (True, 10)
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
    /// ``TooLargeError``, ``NodeLeaseLostError`` where no node id can be leased, ``ClockAheadError`` and ``NonmonotonicError``, and
    /// with ``UnknownOutcomeError``, which has the id, when nobody could say by the deadline whether the record is there.
    /// The same may be true after ``KeyboardInterrupt``.
    fn append<'py>(&self, fields: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
        let py = fields.py();
        let fields = arguments::fields(fields)?;
        wait(py, || self.0.append(fields)).map(|id| PyString::new(py, id.as_str()))
    }

    /// Appends one record, and then publishes an event of the queue with its place; see ``Events.append_and_publish``.
    #[pyo3(signature = (fields, event, job, extra = None))]
    fn append_and_publish(
        &self,
        fields: &Bound<'_, PyAny>,
        event: &Bound<'_, PyString>,
        job: &Bound<'_, PyString>,
        extra: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let (py, fields, signal) =
            (job.py(), arguments::fields(fields)?, arguments::signal(event, job, extra)?);
        announced(py, wait(py, || self.0.append_and_publish(fields, signal))?)
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

    /// Appends one record to a stream that has several writers, and answers its branded id.
    ///
    /// Decided on the server, in one round trip: this client's id is kept where it is above the stream's top; else the id
    /// comes from the queue's sequencer, just above it. Never fails with ``NonmonotonicError``. Fails otherwise as ``append``
    /// does, with ``StreamAheadError`` when the stream's top is more than a minute ahead of the server's clock, and with
    /// ``UnknownOutcomeError``, which has the id made here, when the answer was lost: the record may stand above that id.
    fn append_sequenced<'py>(&self, fields: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
        let py = fields.py();
        let fields = arguments::fields(fields)?;
        wait(py, || self.0.append_sequenced(fields)).map(|id| PyString::new(py, id.as_str()))
    }

    /// Appends many records at once. Answers a list with one result for each, in their order: its id, or an exception.
    ///
    /// With ``atomic`` all of them are appended in one step of the server's or none, whatever their number: it answers
    /// their ids, or raises. With ``sequenced`` too, and to a stream that has several writers, as by
    /// ``append_sequenced``.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     events = client.stream("codemojex", "batches")
    /// ...     first, second = events.append_batch([{"kind": "guessed"}, {"id": "mine"}])
    /// ...     ids = events.append_batch([{"kind": "solved"}, {"kind": "paid"}], atomic=True)
    /// >>> second
    /// ReservedFieldError("a field is named `id`, which the record's own id uses", 'emq:{codemojex}:stream:batches')
    /// >>> first < ids[0] < ids[1]
    /// True
    #[pyo3(signature = (records, *, atomic = false, sequenced = false))]
    fn append_batch<'py>(
        &self,
        records: &Bound<'py, PyAny>,
        atomic: bool,
        sequenced: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = records.py();
        let records = arguments::records(records)?;
        if atomic || sequenced {
            let ids = wait(py, || match sequenced {
                true => self.0.append_batch_sequenced(records),
                false => self.0.append_batch_atomic(records),
            })?;
            return Ok(PyList::new(py, ids.iter().map(EventId::as_str))?.into_any());
        }
        let results = wait(py, || self.0.append_batch(records))?;
        reply::results(py, results, |id| Ok(PyString::new(py, id.as_str()).into_any()))
    }

    /// Reads a range, oldest first: an iterator that asks for a page at a time.
    ///
    /// A bound is an id, or ``(`` and an id for what lies behind or before that record; ``-`` and ``+`` are the ends of
    /// the stream. ``limit`` is how many records to give at most, ``page_size`` how many to ask for at a time, and
    /// ``page_bytes`` about how many bytes: 4 MiB unless it is given, and a page of large records has fewer of them.
    /// Fails with ``MalformedIdError`` and ``KindError``.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     numbers = client.stream("codemojex", "ranges")
    /// ...     ids = numbers.append_batch([{"n": str(n)} for n in range(5)])
    /// ...     [record.get("n") for record in numbers.read("(" + ids[1], ids[3])]
    /// ['2', '3']
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
        Ok(Pace::new(limit, page_size, page_bytes)?.reader(self.0.read(range(py, first, last)?)))
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
        Ok(Pace::new(limit, page_size, page_bytes)?.reader(reader))
    }

    /// Reads what was made at or after an instant, oldest first; see ``read_window``.
    #[pyo3(signature = (first, *, limit = None, page_size = None, page_bytes = None))]
    fn read_since(
        &self,
        first: &Bound<'_, PyAny>,
        limit: Option<&Bound<'_, PyAny>>,
        page_size: Option<&Bound<'_, PyAny>>,
        page_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Pace::new(limit, page_size, page_bytes)?
            .reader(self.0.read_since(instant::timestamp(first, "first")?)))
    }

    /// Reads the newest records, newest first.
    #[pyo3(signature = (records, *, page_size = None, page_bytes = None))]
    fn read_last(
        &self,
        records: &Bound<'_, PyAny>,
        page_size: Option<&Bound<'_, PyAny>>,
        page_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Reader> {
        Ok(Pace::new(None, page_size, page_bytes)?
            .reader(self.0.read_last(arguments::count(records, "records")?)))
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

    /// Starts a consumer of one of the stream's groups, which is made where it does not exist yet.
    ///
    /// When it answers, the group exists and its place is pinned on the server: what is appended from then on is seen.
    /// ``start`` says where the group begins if it has to be made: ``"new"``, ``"head"``, an id (what follows it), or an
    /// instant; it has no default. The other options are those of the table in the README: durations are a ``timedelta``
    /// or whole milliseconds, and ``None`` leaves an option out.
    ///
    /// Fails with ``InvalidOptionError``, ``InvalidNameError``, ``MalformedIdError``, ``KindError``, ``WrongTypeError``,
    /// ``OutOfMemoryError``, and as ``Client`` does, since a consumer has connections of its own.
    #[pyo3(signature = (group, **options))]
    fn consumer(
        &self,
        group: &Bound<'_, PyString>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Consumer> {
        let options = consumer_options(group, options)?;
        wait(group.py(), || self.0.consumer(options)).map(Consumer::from)
    }

    /// Follows the stream from a place on, for ever: ``"new"``, ``"head"``, an id (what follows it), or an instant.
    ///
    /// When it answers, its place is pinned: what is appended from then on is seen. ``page_bytes`` is about how many bytes it
    /// reads at once and holds ahead, 4 MiB unless it is given. Fails with ``InvalidOptionError``,
    /// ``MalformedIdError``, ``KindError``, ``WrongTypeError``, and as ``Client`` does.
    #[pyo3(signature = (start, *, page_bytes = None))]
    fn tail(&self, start: &Bound<'_, PyAny>, page_bytes: Option<&Bound<'_, PyAny>>) -> PyResult<Tail> {
        let options = arguments::tail_options(start, page_bytes)?;
        wait(start.py(), || self.0.tail(options)).map(Tail::from)
    }

    /// All consumer groups with their consumers, in the server's order, as they were at one instant. A stream that is not
    /// there has none.
    fn groups(&self, py: Python<'_>) -> PyResult<Vec<GroupInfo>> {
        Ok(wait(py, || self.0.groups())?.into_iter().map(GroupInfo::from).collect())
    }

    /// One consumer group with its consumers. Fails with ``NoGroupError`` when the group or the stream is not there.
    fn group(&self, group: &Bound<'_, PyString>) -> PyResult<GroupInfo> {
        let name = text::name(group)?;
        wait(group.py(), || self.0.group(&name)).map(GroupInfo::from)
    }

    /// Makes a consumer group, and the stream where it is missing. Answers whether this call made the group.
    ///
    /// A group that is there stays as it is, wherever it stands; ``seek`` moves it. Fails with ``UnknownOutcomeError`` when
    /// the answer was lost; making it again does no harm.
    fn create_group(&self, group: &Bound<'_, PyString>, start: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (name, start) = (text::name(group)?, arguments::start(start)?);
        wait(group.py(), || self.0.create_group(&name, start))
    }

    /// Moves a consumer group: what is delivered next is the first record of ``start``; see ``consumer``.
    ///
    /// What is pending stays pending. Fails with ``NoGroupError``, and with ``UnknownOutcomeError`` when no answer came in
    /// time; moving it again does no harm.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     events = client.stream("codemojex", "seeks")
    /// ...     id = events.append({"n": "1"})
    /// ...     made = events.create_group("mailer", "new")
    /// ...     before = events.group("mailer").last_delivered
    /// ...     events.seek("mailer", "head")
    /// ...     before == echomq.Id(id).entry_id, events.group("mailer").last_delivered
    /// (True, '0-0')
    fn seek(&self, group: &Bound<'_, PyString>, start: &Bound<'_, PyAny>) -> PyResult<()> {
        let (name, start) = (text::name(group)?, arguments::start(start)?);
        wait(group.py(), || self.0.seek(&name, start))
    }

    /// Removes a consumer for which nothing is pending; looking and removing are one step of the server's.
    ///
    /// Fails with ``StateError``, naming how many, when entries are pending for it, ``GoneError`` when the group has no such
    /// consumer, ``NoGroupError``, and with ``UnknownOutcomeError`` when the answer was lost; asking again does no harm.
    fn remove_consumer(&self, group: &Bound<'_, PyString>, consumer: &Bound<'_, PyString>) -> PyResult<()> {
        let (name, consumer) = (text::name(group)?, text::name(consumer)?);
        wait(group.py(), || self.0.remove_consumer(&name, &consumer))
    }

    /// Removes all consumers of a group for which nothing is pending and that last asked longer than ``idle`` ago, a
    /// ``timedelta``, and answers their names.
    ///
    /// Fails with ``NoGroupError``, and with ``UnknownOutcomeError`` when the answer was lost; asking again does no harm.
    fn sweep_consumers(&self, group: &Bound<'_, PyString>, idle: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let (name, idle) = (text::name(group)?, arguments::duration(idle, "idle")?);
        wait(group.py(), || self.0.sweep_consumers(&name, idle))
    }

    /// Removes a consumer group with all that is pending in it. Answers whether the group was there. The records stay.
    ///
    /// Fails with ``UnknownOutcomeError`` when the answer was lost.
    fn remove_group(&self, group: &Bound<'_, PyString>) -> PyResult<bool> {
        let name = text::name(group)?;
        wait(group.py(), || self.0.remove_group(&name))
    }

    /// Reads the dead letters, oldest first: what consumer groups gave up after its last attempt. See ``read``.
    ///
    /// A dead letter is a record with an id of its own and the fields ``origin`` (the id that it had), ``group``,
    /// ``attempts``, ``error`` and ``at`` (Unix milliseconds), and behind them its own fields as they were.
    ///
    /// >>> with echomq.Client(url, node_id=7) as client:
    /// ...     events = client.stream("codemojex", "dead-letters")
    /// ...     id = events.append({"kind": "guessed"})
    /// ...     with events.consumer("mailer", start="head", max_attempts=1) as consumer:
    /// ...         next(consumer).fail("no such address")
    /// ...         consumer.flush()
    /// ...     [letter] = events.dead_letters()
    /// ...     again = events.put_back(letter.id)
    /// ...     [record.get("kind") for record in events.read(again)], events.dead_letters().all()
    /// (['guessed'], [])
    /// >>> letter.get("origin") == id, letter.get("error"), letter.get("attempts")
    /// (True, 'no such address', '1')
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
        Ok(Pace::new(limit, page_size, page_bytes)?.reader(self.0.dead_letters(range(py, first, last)?)))
    }

    /// Puts a dead letter back: its own fields become a new record of the stream, appended as by ``append_sequenced``, whose
    /// id is answered, and it is gone from the dead letters, in one step.
    ///
    /// Fails with ``GoneError`` where there is no such dead letter, ``StateError`` where the entry of that id is none,
    /// ``StreamAheadError``, ``ClockAheadError``, and with ``UnknownOutcomeError``, which has the id that the record may have,
    /// when an answer was lost. Putting it back again does no harm.
    #[pyo3(signature = (id, /))]
    fn put_back<'py>(&self, id: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyString>> {
        let (py, id) = (id.py(), event_id(id)?);
        wait(py, || self.0.put_back(id)).map(|id| PyString::new(py, id.as_str()))
    }

    fn __repr__(&self) -> String {
        format!("<echomq.Stream {}>", self.0.key())
    }
}
