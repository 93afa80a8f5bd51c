//! `echomq.aio.Notices`.

use super::lazy::Lazy;
use super::waiting::{Source, Wait, Waiting, is_there};
use crate::notice::Notice;
use pyo3::exceptions::PyStopAsyncIteration;
use pyo3::prelude::*;
use std::sync::Arc;
use std::time::Duration;

/// What tells.
enum Told {
    /// A consumer, which starts when it is first needed.
    Consumer(Arc<Lazy<echomq::Consumer>>),
    /// What is running.
    Running(echomq::Notices),
}

impl Told {
    fn known(&self, py: Python<'_>) -> PyResult<Option<echomq::Notices>> {
        match self {
            Self::Consumer(consumer) => Ok(consumer.known(py)?.map(echomq::Consumer::notices)),
            Self::Running(notices) => Ok(Some(notices.clone())),
        }
    }

    async fn started(&self) -> Option<echomq::Notices> {
        match self {
            Self::Consumer(consumer) => consumer.get_for_wait().await.map(echomq::Consumer::notices),
            Self::Running(notices) => Some(notices.clone()),
        }
    }
}

impl Source for Told {
    fn take(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let Some(notices) = self.known(py)? else { return Ok(None) };
        match notices.wait_next(Duration::ZERO) {
            Some(Some(notice)) => Ok(Some(Py::new(py, Notice::from(notice))?.into_any())),
            Some(None) => Err(PyStopAsyncIteration::new_err(())),
            None => Ok(None),
        }
    }

    async fn ready(&self) {
        if let Some(notices) = self.started().await {
            notices.ready().await;
        }
    }

    fn is_ready(&self) -> bool {
        match self {
            Self::Consumer(consumer) => consumer.is_ready(|consumer| is_there(consumer.notices().ready())),
            Self::Running(notices) => is_there(notices.ready()),
        }
    }
}

/// What a consumer or a listener tells beside what it hands out, made by ``Consumer.notices`` and ``Listener.notices``:
/// an asynchronous iterator of ``echomq.Notice``.
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Notices(Arc<Waiting<Told>>);

impl Notices {
    pub(crate) fn of_consumer(consumer: Arc<Lazy<echomq::Consumer>>) -> Self {
        Self(Waiting::new(Told::Consumer(consumer)))
    }

    pub(crate) fn of_running(notices: echomq::Notices) -> Self {
        Self(Waiting::new(Told::Running(notices)))
    }
}

#[pymethods]
impl Notices {
    fn __aiter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, Wait>> {
        slf.get().0.next(slf)
    }

    fn __repr__(&self) -> &'static str {
        "<echomq.aio.Notices>"
    }
}
