//! Options: whatever the user gives goes to the core as text, by name.

use crate::password::Password;
use crate::{error, instant, text};
use echomq::{ConsumerOptions, Options};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDateTime, PyDelta, PyDict, PyInt, PyString, PyTuple};

/// The options of a client, and the function that it asks for its password; one that is `None` is not given.
pub(crate) fn options(
    url: &Bound<'_, PyString>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<(Options, Option<Password>)> {
    let (py, mut password) = (url.py(), None);
    let mut options = Options::new(text::exact(url, "url")?).map_err(|error| error::raise(py, &error))?;
    for (name, value) in given.into_iter().flatten() {
        let name = name.cast_into::<PyString>()?;
        let name = text::exact(&name, "the name of an option")?;
        if value.is_none() {
            continue;
        }
        if name == "password" && plain(&value)?.is_none() {
            password = Some(Password::new(&value)?);
        } else {
            let value = spelled(name, &value)?;
            options.set(name, text::exact(&value, name)?).map_err(|error| error::raise(py, &error))?;
        }
    }
    Ok((options, password))
}

/// A value as text: durations in milliseconds, paths as they are.
fn spelled<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyString>> {
    let py = value.py();
    if let Some(text) = plain(value)? {
        return Ok(text);
    }
    let path = py.import(intern!(py, "os"))?.call_method1(intern!(py, "fspath"), (value,));
    path.and_then(|path| Ok(path.cast_into::<PyString>()?)).map_err(|_| {
        PyTypeError::new_err(format!("the option {name} is a str, an int, a timedelta or a path"))
    })
}

/// A text as it is, a number, or a duration in milliseconds; nothing for any other value.
fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyString>>> {
    let py = value.py();
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(text.clone()));
    }
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        return value.str().map(Some);
    }
    if value.is_instance_of::<PyDelta>() {
        return value.floor_div(PyDelta::new(py, 0, 0, 1_000, false)?)?.str().map(Some);
    }
    Ok(None)
}

/// The options of a consumer; one that is `None` is not given.
pub(crate) fn consumer_options(
    group: &Bound<'_, PyString>,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<ConsumerOptions> {
    let py = group.py();
    let mut pairs = vec![("group".to_owned(), text::name(group)?.into_owned())];
    for (name, value) in given.into_iter().flatten() {
        let name = name.cast_into::<PyString>()?;
        let name = text::exact(&name, "the name of an option")?;
        if !value.is_none() {
            pairs.push((name.to_owned(), consumer_option(name, &value)?));
        }
    }
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    ConsumerOptions::parse(pairs).map_err(|error| error::raise(py, &error))
}

/// A value as text: besides the plain ones an instant, and a pair of durations.
fn consumer_option(name: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let no_option = || PyTypeError::new_err(format!("the option {name} is a str, an int or a timedelta"));
    let text = |value: &Bound<'_, PyAny>| match plain(value)? {
        Some(text) => text::exact(&text, name).map(str::to_owned),
        None => Err(no_option()),
    };
    if name == "start" && value.is_instance_of::<PyDateTime>() {
        return Ok(format!("@{}", instant::timestamp(value, name)?.millis()));
    }
    match value.cast::<PyTuple>() {
        Ok(pair) if name == "retry" && pair.len() == 2 => {
            Ok(format!("{}..{}", text(&pair.get_item(0)?)?, text(&pair.get_item(1)?)?))
        }
        _ => text(value),
    }
}
