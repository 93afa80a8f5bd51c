//! `echomq.Tail` and `echomq.Gap`.

use crate::arguments;
use crate::record::Record;
use crate::wait::{following, next};
use echomq::Tailed;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::time::Duration;

/// A place in a stream where records may be missing, since they were trimmed away before they were read.
#[pyclass(frozen, eq, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct Gap(echomq::Gap);

#[pymethods]
impl Gap {
    /// The entry id of the last entry that the tail had been given, or of the position that it was to begin behind.
    #[getter]
    fn from_(&self) -> String {
        self.0.from().to_string()
    }

    /// The entry id of the first entry that is there again; on an empty stream of the last one that was ever there.
    #[getter]
    fn to(&self) -> String {
        self.0.to().to_string()
    }

    fn __repr__(&self) -> String {
        format!("Gap(from_='{}', to='{}')", self.from_(), self.to())
    }
}

/// The object of what a tail gives.
pub(crate) fn object(py: Python<'_>, tailed: Tailed) -> PyResult<Py<PyAny>> {
    match tailed {
        Tailed::Record(record) => Ok(Py::new(py, Record::from(record))?.into_any()),
        Tailed::Gap(gap) => Ok(Py::new(py, Gap(gap))?.into_any()),
    }
}

/// A stream's records as they are appended, for ever, in order, made by ``Stream.tail``: an iterator of ``Record``.
///
/// Where records were trimmed away before the tail read them, it gives a ``Gap`` in their place. It reads on a connection
/// of its own, which it opens again by itself, and goes on where it was. A tail can be taken up from the last id that it
/// gave.
///
/// The loop ends when the tail was closed. It fails with ``WrongTypeError``, ``VersionFenceError``, or with
/// ``ClosedError`` when the client was closed. A signal ends the wait for a record: Ctrl-C raises ``KeyboardInterrupt``.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     events = client.stream("codemojex", "tails")
/// ...     ids = events.append_batch([{"n": str(n)} for n in range(5)])
/// ...     gone = events.trim(max_len=2, exact=True)
/// ...     with events.tail(ids[0]) as tail:
/// ...         gap, first, second = next(tail), next(tail), next(tail)
/// >>> gap.from_ == echomq.Id(ids[0]).entry_id, gap.to == echomq.Id(ids[3]).entry_id
/// (True, True)
/// >>> first.get("n"), second.get("n")
/// ('3', '4')
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Tail(echomq::Tail);

impl From<echomq::Tail> for Tail {
    fn from(tail: echomq::Tail) -> Self {
        Self(tail)
    }
}

#[pymethods]
impl Tail {
    /// What comes next; ``None`` where nothing came ``within`` that time, a ``timedelta``, or once the tail was closed.
    #[pyo3(signature = (within = None))]
    fn next(&self, py: Python<'_>, within: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
        next(py, self.0.next(), arguments::within(within)?, object)
    }

    /// Ends the tail: whoever waits for it gets nothing.
    fn close(&self) {
        self.0.close();
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        following(py, self.0.wait_take(1, Duration::ZERO), self.0.next(), object)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        self.0.close();
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.0)
    }
}
