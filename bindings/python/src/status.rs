//! How a connection stands.

use pyo3::prelude::*;

/// How a client's connection stands.
#[pyclass(frozen, eq, get_all, module = "echomq")]
#[derive(PartialEq)]
pub(crate) struct Status {
    /// Whether there is a connection, as far as the client has noticed.
    connected: bool,
    /// How often the client has connected again.
    reconnects: u64,
}

impl From<echomq::Status> for Status {
    fn from(status: echomq::Status) -> Self {
        Self { connected: status.connected, reconnects: status.reconnects }
    }
}

#[pymethods]
impl Status {
    fn __repr__(&self) -> String {
        let connected = if self.connected { "True" } else { "False" };
        format!("Status(connected={connected}, reconnects={})", self.reconnects)
    }
}
