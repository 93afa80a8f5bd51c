//! How a connection stands.

use crate::error;
use pyo3::prelude::*;

/// How a client's connection stands.
#[pyclass(frozen, eq, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct Status(echomq::Status);

impl From<echomq::Status> for Status {
    fn from(status: echomq::Status) -> Self {
        Self(status)
    }
}

#[pymethods]
impl Status {
    /// Whether there is a connection, as far as the client has noticed.
    #[getter]
    fn connected(&self) -> bool {
        self.0.connected
    }

    /// How often the client has connected again.
    #[getter]
    fn reconnects(&self) -> u64 {
        self.0.reconnects
    }

    /// Why there is no connection, an ``EchoMQError``; ``None`` where there is one.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.error.as_ref().map(|error| error::exception(py, error)).transpose()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let connected = if self.0.connected { "True" } else { "False" };
        let error = match self.error(py)? {
            Some(error) => error.repr()?.to_string(),
            None => "None".to_owned(),
        };
        Ok(format!("Status(connected={connected}, reconnects={}, error={error})", self.0.reconnects))
    }
}
