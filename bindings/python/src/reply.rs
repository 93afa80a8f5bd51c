//! What the server answered to a raw command.

use crate::error;
use echomq::{Reply, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

/// The object of a reply: texts are `bytes`, lists lists, maps dictionaries.
pub(crate) fn object(py: Python<'_>, reply: Reply) -> PyResult<Bound<'_, PyAny>> {
    match reply {
        Reply::List(items) => {
            let items = items.into_iter().map(|item| object(py, item)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any())
        }
        Reply::Map(members) => {
            let dict = PyDict::new(py);
            for (name, value) in members {
                dict.set_item(key(py, name)?, object(py, value)?)?;
            }
            Ok(dict.into_any())
        }
        simple => key(py, simple),
    }
}

/// An object that can be a key of a dictionary: lists are tuples there.
fn key(py: Python<'_>, reply: Reply) -> PyResult<Bound<'_, PyAny>> {
    Ok(match reply {
        Reply::Nil => py.None().into_bound(py),
        Reply::Int(number) => number.into_pyobject(py)?.into_any(),
        Reply::Double(number) => number.into_pyobject(py)?.into_any(),
        Reply::Boolean(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Reply::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Reply::List(items) => {
            let items = items.into_iter().map(|item| key(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, items)?.into_any()
        }
        Reply::Map(members) => {
            let members = members.into_iter().map(|(name, value)| Ok((key(py, name)?, key(py, value)?)));
            PyTuple::new(py, members.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        _ => return Err(PyTypeError::new_err("the server answered something that has no form in Python")),
    })
}

/// One object for each result of a list: the answer, or the error as an exception that was not raised.
pub(crate) fn results<'py, T>(
    py: Python<'py>,
    results: Vec<Result<T>>,
    object: impl Fn(T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let objects = results.into_iter().map(|result| match result {
        Ok(answer) => object(answer),
        Err(error) => error::exception(py, &error),
    });
    Ok(PyList::new(py, objects.collect::<PyResult<Vec<_>>>()?)?.into_any())
}
