//! Who holds which node.

use pyo3::prelude::*;
use std::time::Duration;

/// A lease of a node: the right of one client to mint with it.
#[pyclass(frozen, module = "echomq")]
pub(crate) struct NodeLease(echomq::NodeLease);

impl From<echomq::NodeLease> for NodeLease {
    fn from(lease: echomq::NodeLease) -> Self {
        Self(lease)
    }
}

#[pymethods]
impl NodeLease {
    /// The node.
    #[getter]
    fn node(&self) -> u16 {
        self.0.node
    }

    /// The token that it is held under, a ULID.
    #[getter]
    fn owner(&self) -> &str {
        &self.0.owner
    }

    /// How much longer it holds unless it is renewed, a ``timedelta``, by the server's clock.
    #[getter]
    fn left(&self) -> Duration {
        self.0.left
    }

    /// The host of the process.
    #[getter]
    fn host(&self) -> &str {
        &self.0.host
    }

    /// The number of the process on its host.
    #[getter]
    fn process(&self) -> &str {
        &self.0.process
    }

    /// The client's name; empty where it has none.
    #[getter]
    fn client_name(&self) -> &str {
        &self.0.client_name
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let left = self.left().into_pyobject(py)?.repr()?;
        let [owner, host, process, client_name] =
            [self.owner(), self.host(), self.process(), self.client_name()]
                .map(|text| text.into_pyobject(py));
        Ok(format!(
            "NodeLease(node={}, owner={}, left={left}, host={}, process={}, client_name={})",
            self.node(),
            owner?.repr()?,
            host?.repr()?,
            process?.repr()?,
            client_name?.repr()?,
        ))
    }
}
