//! Ids and keys: pure functions of the core.

use crate::{error, instant, text};
use echomq::{BrandedId, Code, EntryId, EventId, Snowflake};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// What a branded id says. Everywhere else ids are text.
///
/// Ids of one namespace sort in the order in which they were made, as text and as ``Id``.
///
/// >>> id = echomq.Id("EVT0NgWEfAER90")
/// >>> id.namespace, id.snowflake, id.node, id.sequence
/// ('EVT', 320636799581974570, 7, 42)
/// >>> id.entry_id, id.unix_ms, id.instant.isoformat()
/// ('1780512970164-28714', 1780512970164, '2026-06-03T18:56:10.164000+00:00')
/// >>> echomq.Id.from_entry_id("1780512970164-28714") == id
/// True
/// >>> str(echomq.Id.encode("EVT", 320636799581974570))
/// 'EVT0NgWEfAER90'
#[pyclass(frozen, eq, ord, hash, str = "{0}", module = "echomq")]
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(BrandedId);

#[pymethods]
impl Id {
    /// Reads an id of any namespace. Fails with ``MalformedIdError``.
    #[new]
    #[pyo3(signature = (text, /))]
    fn new(text: &Bound<'_, PyString>) -> PyResult<Self> {
        let id = BrandedId::parse(text::text(text, "an id")?);
        id.map(Self).map_err(|error| error::raise(text.py(), &error))
    }

    /// The id of a snowflake in a namespace of three letters. Fails with ``MalformedIdError``.
    #[staticmethod]
    fn encode(namespace: &Bound<'_, PyString>, snowflake: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = namespace.py();
        let number = snowflake.extract::<u64>().ok().and_then(Snowflake::new).ok_or_else(|| {
            let message = format!("range: {snowflake} is no number from 0 to 2**63 - 1");
            error::refuse(py, Code::MalformedId, &message, None)
        })?;
        BrandedId::new(&text::name(namespace)?, number).map(Self).map_err(|error| error::raise(py, &error))
    }

    /// The ``EVT`` id of an entry id, ``<ms>-<seq>``. Fails with ``MalformedIdError``.
    #[staticmethod]
    #[pyo3(signature = (entry_id, /))]
    fn from_entry_id(entry_id: &Bound<'_, PyString>) -> PyResult<Self> {
        let id = EntryId::parse(text::text(entry_id, "an entry id")?).and_then(EventId::try_from);
        id.map(|id| Self(id.into())).map_err(|error| error::raise(entry_id.py(), &error))
    }

    /// The three letters in front: ``EVT`` for a record of a stream.
    #[getter]
    fn namespace(&self) -> &str {
        self.0.namespace()
    }

    /// The 63-bit number inside.
    #[getter]
    fn snowflake(&self) -> u64 {
        self.0.snowflake().number()
    }

    /// When it was made, in milliseconds since 1970.
    #[getter]
    fn unix_ms(&self) -> u64 {
        self.0.snowflake().unix_ms()
    }

    /// When it was made, to the millisecond, in UTC.
    #[getter]
    fn instant<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        instant::datetime(py, self.unix_ms())
    }

    /// The node that made it: 0 to 1022, or 1023 for the sequencer.
    #[getter]
    fn node(&self) -> u16 {
        self.0.snowflake().node()
    }

    /// Its place within the millisecond: 0 to 4095.
    #[getter]
    fn sequence(&self) -> u16 {
        self.0.snowflake().sequence()
    }

    /// Where its record stands in a stream, ``<ms>-<seq>``; ``None`` outside the namespace ``EVT``.
    #[getter]
    fn entry_id(&self) -> Option<String> {
        EventId::parse(self.0).ok().map(|id| EntryId::from(id).to_string())
    }

    fn __repr__(&self) -> String {
        format!("Id('{}')", self.0)
    }
}

/// The keys of one queue, all in one cluster slot, for anyone who looks at the server with another client.
///
/// >>> keys = echomq.Keyspace("orders")
/// >>> keys.stream("events"), keys.key("seq")
/// ('emq:{orders}:stream:events', 'emq:{orders}:seq')
/// >>> echomq.slot(keys.stream("events"))
/// 105
#[pyclass(frozen, eq, hash, module = "echomq")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Keyspace(echomq::Keyspace);

#[pymethods]
impl Keyspace {
    /// The keyspace of a queue. Fails with ``InvalidNameError``.
    #[new]
    #[pyo3(signature = (queue, /))]
    fn new(queue: &Bound<'_, PyString>) -> PyResult<Self> {
        echomq::Keyspace::new(&text::name(queue)?).map(Self).map_err(|error| error::raise(queue.py(), &error))
    }

    /// The queue's name.
    #[getter]
    fn queue(&self) -> &str {
        self.0.queue()
    }

    /// The key of a stream. Fails with ``InvalidNameError``.
    #[pyo3(signature = (name, /))]
    fn stream(&self, name: &Bound<'_, PyString>) -> PyResult<String> {
        self.0.stream(&text::name(name)?).map_err(|error| error::raise(name.py(), &error))
    }

    /// The key of any type, for example ``stream:events`` or ``seq``. Fails with ``InvalidNameError``.
    #[pyo3(signature = (kind, /))]
    fn key(&self, kind: &Bound<'_, PyString>) -> PyResult<String> {
        self.0.key(&text::name(kind)?).map_err(|error| error::raise(kind.py(), &error))
    }

    fn __repr__(&self) -> String {
        format!("Keyspace('{}')", self.0.queue())
    }
}

/// The cluster slot of a key: 0 to 16383.
#[pyfunction]
#[pyo3(signature = (key, /))]
pub(crate) fn slot(key: &Bound<'_, PyString>) -> PyResult<u16> {
    text::exact(key, "key").map(echomq::slot)
}
