//! What is known of a group and of its consumers.

use pyo3::prelude::*;
use std::time::Duration;

/// A consumer group of a stream, as the server had it at one instant.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     events = client.stream("codemojex", "groups")
/// ...     ids = events.append_batch([{"n": "1"}, {"n": "2"}])
/// ...     made = events.create_group("mailer", "head")
/// ...     events.group("mailer")
/// GroupInfo(name='mailer', pending=0, lag=2, last_delivered='0-0', consumers=[])
#[pyclass(frozen, eq, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct GroupInfo(echomq::GroupInfo);

impl From<echomq::GroupInfo> for GroupInfo {
    fn from(info: echomq::GroupInfo) -> Self {
        Self(info)
    }
}

#[pymethods]
impl GroupInfo {
    /// The group's name; in one that another program gave, bytes that are no UTF-8 show as ``U+FFFD``.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// How many entries were delivered and are not acknowledged.
    #[getter]
    fn pending(&self) -> u64 {
        self.0.pending()
    }

    /// How many records of the stream were not delivered to the group yet; ``None`` where that is not known.
    ///
    /// It is not known where records were removed one by one ahead of the group, where the group began in the middle of
    /// the stream, and where more than 1 000 are ahead of the group in a stream that was trimmed behind it.
    #[getter]
    fn lag(&self) -> Option<u64> {
        self.0.lag()
    }

    /// The entry id of the last entry that was delivered: the next one delivered stands behind it.
    #[getter]
    fn last_delivered(&self) -> String {
        self.0.last_delivered().to_string()
    }

    /// The consumers that the server knows, in its order.
    #[getter]
    fn consumers(&self) -> Vec<ConsumerInfo> {
        self.0.consumers().iter().cloned().map(ConsumerInfo).collect()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, lag) = (self.name().into_pyobject(py)?.repr()?, self.lag().into_pyobject(py)?.repr()?);
        let consumers = self.consumers().into_pyobject(py)?.repr()?;
        let (pending, last) = (self.pending(), self.last_delivered());
        Ok(format!(
            "GroupInfo(name={name}, pending={pending}, lag={lag}, last_delivered='{last}', consumers={consumers})"
        ))
    }
}

/// A consumer of a group, as the server had it at one instant.
#[pyclass(frozen, eq, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct ConsumerInfo(echomq::ConsumerInfo);

#[pymethods]
impl ConsumerInfo {
    /// The consumer's name; in one that another program gave, bytes that are no UTF-8 show as ``U+FFFD``.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// How many entries were delivered to it and are not acknowledged.
    #[getter]
    fn pending(&self) -> u64 {
        self.0.pending()
    }

    /// How long ago it last asked for entries, a ``timedelta``, by the server's clock.
    ///
    /// Servers before 7.2 do not count an attempt that found nothing.
    #[getter]
    fn idle(&self) -> Duration {
        self.0.idle()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, idle) = (self.name().into_pyobject(py)?.repr()?, self.idle().into_pyobject(py)?.repr()?);
        Ok(format!("ConsumerInfo(name={name}, pending={}, idle={idle})", self.pending()))
    }
}
