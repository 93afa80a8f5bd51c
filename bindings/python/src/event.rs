//! `echomq.Event` and `echomq.EventGap`.

use echomq::Heard;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

/// An event that was heard.
///
/// It is read as JSON, whatever the order of its members, when it is first asked for one. What is no JSON object, or
/// has no text ``event``, is given all the same: its name is ``unknown``, and ``payload`` has its bytes.
///
/// >>> with echomq.Client(url) as client:
/// ...     events = client.events("codemojex")
/// ...     with events.listen() as listener, listener.subscribe() as subscriber:
/// ...         heard = events.publish("failed", "JOB000xY9Wvvcd", {"attempts": "3"})
/// ...         event = next(subscriber)
/// >>> event.name, event.job, event.get("attempts"), event.get("reason", "none")
/// ('failed', 'JOB000xY9Wvvcd', '3', 'none')
/// >>> event.payload
/// b'{"event":"failed","job":"JOB000xY9Wvvcd","attempts":"3"}'
#[pyclass(frozen, eq, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct Event(echomq::Event);

#[pymethods]
impl Event {
    /// The event's name; ``unknown`` for what is no JSON object or has none.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The id of the job that it is about; ``None`` where the payload has no well-formed one.
    #[getter]
    fn job<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.0.job().map(|job| PyString::new(py, job.as_str()))
    }

    /// The bytes as they came.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.payload())
    }

    /// A new dictionary of all members in their order, ``event`` and ``job`` among them; an empty one for what is no
    /// JSON object. A value that is no string, which this bus does not write, is its JSON text.
    #[getter]
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let members = PyDict::new(py);
        for (name, value) in self.0.members() {
            members.set_item(name, value)?;
        }
        Ok(members)
    }

    /// The value of a member, else ``default``; see ``members``.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        &self,
        name: &Bound<'py, PyString>,
        default: Option<Bound<'py, PyAny>>,
    ) -> Option<Bound<'py, PyAny>> {
        let value = name.to_str().ok().and_then(|name| self.0.get(name));
        value.map(|value| PyString::new(name.py(), value).into_any()).or(default)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Event({})", self.payload(py).repr()?))
    }
}

/// A place where events are missing, or may be.
#[pyclass(frozen, eq, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct EventGap(echomq::EventGap);

#[pymethods]
impl EventGap {
    /// How many events did not fit into the subscriber's buffer.
    #[getter]
    fn missed(&self) -> u64 {
        self.0.missed()
    }

    /// Whether the connection was lost and is there again: nobody knows how many events were published meanwhile.
    #[getter]
    fn reconnected(&self) -> bool {
        self.0.reconnected()
    }

    fn __repr__(&self) -> String {
        let reconnected = if self.reconnected() { "True" } else { "False" };
        format!("EventGap(missed={}, reconnected={reconnected})", self.missed())
    }
}

/// The object of what a subscriber is given.
pub(crate) fn object(py: Python<'_>, heard: Heard) -> PyResult<Py<PyAny>> {
    match heard {
        Heard::Event(event) => Ok(Py::new(py, Event(event))?.into_any()),
        Heard::Gap(gap) => Ok(Py::new(py, EventGap(gap))?.into_any()),
    }
}
