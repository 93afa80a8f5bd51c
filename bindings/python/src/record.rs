//! Records, as a reader gives them.

use crate::text::{string, text};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

/// One entry of a stream.
///
/// Its fields stand in the order in which they were appended, duplicates kept. Names and values are bytes inside:
/// ``fields`` gives them as ``str``, UTF-8 with ``surrogateescape``, so that no byte is lost, and ``raw`` as ``bytes``.
///
/// An entry that this bus did not write is *foreign*: it has no ``id`` and shows all its fields.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     events = client.stream("codemojex", "records")
/// ...     id = events.append([("kind", "guessed"), ("kind", b"\xff")])
/// ...     record = next(events.read())
/// >>> record.id == id, record.foreign
/// (True, False)
/// >>> record.fields
/// [('kind', 'guessed'), ('kind', '\udcff')]
/// >>> record.raw
/// [(b'kind', b'guessed'), (b'kind', b'\xff')]
/// >>> record.get("kind"), record.get("player"), record.get("player", "nobody")
/// ('guessed', None, 'nobody')
#[pyclass(frozen, eq, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct Record(echomq::Record);

impl From<echomq::Record> for Record {
    fn from(record: echomq::Record) -> Self {
        Self(record)
    }
}

#[pymethods]
impl Record {
    /// The branded id; ``None`` for a foreign entry.
    #[getter]
    fn id<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.0.id().map(|id| PyString::new(py, id.as_str()))
    }

    /// The server's own id of the entry, ``<ms>-<seq>``.
    #[getter]
    fn entry_id(&self) -> String {
        self.0.entry_id().to_string()
    }

    /// Whether this bus did not write the entry.
    #[getter]
    fn foreign(&self) -> bool {
        self.0.is_foreign()
    }

    /// Names and values in order, as ``str``.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pairs = self.0.fields().iter().map(|(name, value)| Ok((string(py, name)?, string(py, value)?)));
        PyList::new(py, pairs.collect::<PyResult<Vec<_>>>()?)
    }

    /// Names and values in order, as ``bytes``.
    #[getter]
    fn raw<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pairs =
            self.0.fields().iter().map(|(name, value)| (PyBytes::new(py, name), PyBytes::new(py, value)));
        PyList::new(py, pairs.collect::<Vec<_>>())
    }

    /// The first value of a field as ``str``, else ``default``.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        &self,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.0.get(text(name, "the name of a field")?) {
            Some(value) => Ok(Some(string(name.py(), value)?.into_any())),
            None => Ok(default),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let id =
            self.id(py).map_or_else(|| Ok("None".to_owned()), |id| id.repr().map(|text| text.to_string()))?;
        Ok(format!("Record(id={id}, entry_id='{}', fields={})", self.entry_id(), self.fields(py)?.repr()?))
    }
}
