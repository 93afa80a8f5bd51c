//! Options: whatever the user gives goes to the core as text, by name.

use crate::{error, text};
use echomq::Options;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDict, PyInt, PyString};

/// The options of a client; one that is `None` is not given.
pub(crate) fn options(url: &Bound<'_, PyString>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let py = url.py();
    let mut options = Options::new(text::exact(url, "url")?).map_err(|error| error::raise(py, &error))?;
    for (name, value) in given.into_iter().flatten() {
        let name = name.cast_into::<PyString>()?;
        let name = text::exact(&name, "the name of an option")?;
        if !value.is_none() {
            let value = spelled(name, &value)?;
            options.set(name, text::exact(&value, name)?).map_err(|error| error::raise(py, &error))?;
        }
    }
    Ok(options)
}

/// A value as text: durations in milliseconds, paths as they are.
fn spelled<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let py = value.py();
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.clone());
    }
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        return value.str();
    }
    if value.is_instance_of::<PyDelta>() {
        return value.floor_div(PyDelta::new(py, 0, 0, 1_000, false)?)?.str();
    }
    let path = py.import(intern!(py, "os"))?.call_method1(intern!(py, "fspath"), (value,));
    path.and_then(|path| Ok(path.cast_into::<PyString>()?)).map_err(|_| {
        PyTypeError::new_err(format!("the option {name} is a str, an int, a timedelta or a path"))
    })
}
