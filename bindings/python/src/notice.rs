//! `echomq.Notice` and `echomq.Notices`.

use crate::wait::wait_for_ever;
use pyo3::prelude::*;
use std::time::Duration;

/// Something that a consumer tells beside its deliveries, or a listener beside its events.
///
/// ``kind`` is one of ``connected``, ``clock_ahead``, ``node_conflict``, ``node_lease_lost``, ``eviction_policy``, ``group_recreated``, ``lost``, ``foreign``, ``failed``, ``dead_letter``, ``trouble``,
/// ``disconnected``, ``reconnected`` and ``missed``; the README says what they mean.
#[pyclass(frozen, eq, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct Notice(echomq::Notice);

impl From<echomq::Notice> for Notice {
    fn from(notice: echomq::Notice) -> Self {
        Self(notice)
    }
}

#[pymethods]
impl Notice {
    /// What it is about, the same word in every language.
    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind().as_str()
    }

    /// A sentence for people.
    #[getter]
    fn message(&self) -> &str {
        self.0.message()
    }

    /// The server's id of the entry concerned, ``<ms>-<seq>``; ``None`` where it is about none.
    #[getter]
    fn entry_id(&self) -> Option<String> {
        self.0.entry_id().map(|entry_id| entry_id.to_string())
    }

    /// The branded id that belongs to the entry's place; ``None`` where there is none.
    #[getter]
    fn id(&self) -> Option<String> {
        self.0.id().map(String::from)
    }

    /// How often the entry was delivered; ``None`` where that does not matter.
    #[getter]
    fn attempts(&self) -> Option<u64> {
        self.0.attempts()
    }

    /// The code of the error behind a trouble; ``None`` where there is none.
    #[getter]
    fn code(&self) -> Option<&'static str> {
        self.0.code().map(|code| code.as_str())
    }

    /// How many it stands for: the same trouble is told of at most once a second.
    #[getter]
    fn times(&self) -> u64 {
        self.0.times()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.0)
    }
}

/// What a consumer or a listener tells beside what it hands out, made by ``Consumer.notices`` and ``Listener.notices``:
/// an iterator of ``Notice``.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     events = client.stream("codemojex", "notices")
/// ...     id = events.append({"kind": "guessed"})
/// ...     with events.consumer("mailer", start="head") as consumer:
/// ...         next(consumer).fail("the mail server is away")
/// ...         notice = next(consumer.notices())
/// >>> notice.kind, notice.id == id, notice.attempts, notice.message
/// ('failed', True, 1, 'the mail server is away')
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Notices(echomq::Notices);

impl From<echomq::Notices> for Notices {
    fn from(notices: echomq::Notices) -> Self {
        Self(notices)
    }
}

#[pymethods]
impl Notices {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Notice>> {
        let notice = match self.0.wait_next(Duration::ZERO) {
            Some(there) => there,
            None => wait_for_ever(py, self.0.next())?,
        };
        Ok(notice.map(Notice::from))
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.0)
    }
}
