//! The one way from an error of the core to an exception.

use echomq::{Code, Error};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use tokio::runtime::Runtime;

/// The exception of an error, as an object.
pub(crate) fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let made = class(py, error.code())?.call1((error.message(), error.subject(), error.id(), error.top()))?;
    if let Some(cause) = error.cause() {
        made.setattr(intern!(py, "__cause__"), exception(py, cause)?)?;
    }
    Ok(made)
}

/// The exception of an error, to be raised.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).map_or_else(|failure| failure, PyErr::from_value)
}

/// The exception for an argument that the core never sees, for it has no form there.
pub(crate) fn refuse(py: Python<'_>, code: Code, message: &str, subject: Option<&str>) -> PyErr {
    class(py, code)
        .and_then(|class| class.call1((message, subject)))
        .map_or_else(|failure| failure, PyErr::from_value)
}

/// The runtime that serves all asynchronous clients.
pub(crate) fn runtime(py: Python<'_>) -> PyResult<&'static Runtime> {
    echomq::runtime().map_err(|error| raise(py, &error))
}

/// The class of a code, made by `echomq.errors` from the list of all codes.
fn class(py: Python<'_>, code: Code) -> PyResult<Bound<'_, PyAny>> {
    static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    CLASSES.import(py, "echomq.errors", "BY_CODE")?.as_any().get_item(code.as_str())
}

/// What a module of Python makes once in this process, also where it is loaded again: a class of one copy is then one of
/// the other's, and so is what it raised.
#[pyfunction]
pub(crate) fn made_once<'py>(name: &str, make: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static MADE: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let py = make.py();
    let made = MADE.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    match made.get_item(name)? {
        Some(known) => Ok(known),
        None => {
            let new = make.call0()?;
            made.set_item(name, &new)?;
            Ok(new)
        }
    }
}
