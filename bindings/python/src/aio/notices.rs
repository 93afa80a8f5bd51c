//! `echomq.aio.Notices`.

use super::lazy::Lazy;
use super::waiting::{Source, Waiting};
use crate::notice::Notice;
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

struct Told(Arc<Lazy<echomq::Consumer>>);

impl Source for Told {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(consumer) = self.0.known(py)? else { return Ok(None) };
        match consumer.notices().wait_next(Duration::ZERO) {
            Some(Some(notice)) => Ok(Some(Py::new(py, Notice::from(notice))?.into_any())),
            Some(None) => Err(PyStopAsyncIteration::new_err(())),
            None => Ok(None),
        }
    }

    async fn ready(&self) {
        if let Some(consumer) = self.0.get_for_wait().await {
            consumer.notices().ready().await;
        }
    }
}

/// What a consumer tells beside its deliveries, made by ``Consumer.notices``: an asynchronous iterator of
/// ``echomq.Notice``.
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Notices(Arc<Waiting<Told>>);

impl Notices {
    pub(crate) fn new(consumer: Arc<Lazy<echomq::Consumer>>) -> Self {
        Self(Waiting::new(Told(consumer)))
    }
}

#[pymethods]
impl Notices {
    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.0.next(py)
    }

    fn __repr__(&self) -> &'static str {
        "<echomq.aio.Notices>"
    }
}
