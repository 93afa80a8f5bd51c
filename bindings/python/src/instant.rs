//! Instants: aware `datetime` objects, converted by exact arithmetic on whole numbers.

use crate::error;
use echomq::{Code, Timestamp};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAnyMethods, PyDateTime, PyDelta, PyDeltaAccess, PyTzInfo};

const SECONDS_A_DAY: i64 = 86_400;
const MICROSECONDS: i64 = 1_000_000;

/// The instant of an aware `datetime`.
pub(crate) fn timestamp(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Timestamp> {
    let py = value.py();
    let Ok(instant) = value.cast::<PyDateTime>() else {
        return Err(PyTypeError::new_err(format!("{what} is a datetime with a time zone")));
    };
    if instant.call_method0(intern!(py, "utcoffset"))?.is_none() {
        let message = "a datetime without a time zone is no instant; give it one, for example datetime.UTC";
        return Err(error::refuse(py, Code::InvalidOption, message, Some(what)));
    }
    let since = instant.sub(epoch(py)?)?.cast_into::<PyDelta>()?;
    let seconds = i64::from(since.get_days()) * SECONDS_A_DAY + i64::from(since.get_seconds());
    Ok(Timestamp::from_micros(seconds * MICROSECONDS + i64::from(since.get_microseconds())))
}

/// The `datetime`, in UTC, of milliseconds since 1970.
pub(crate) fn datetime(py: Python<'_>, ms: u64) -> PyResult<Bound<'_, PyAny>> {
    let day = 1_000 * SECONDS_A_DAY as u64;
    let (days, ms) = ((ms / day) as i32, (ms % day) as i32);
    epoch(py)?.add(PyDelta::new(py, days, ms / 1_000, ms % 1_000 * 1_000, false)?)
}

fn epoch(py: Python<'_>) -> PyResult<&Bound<'_, PyDateTime>> {
    static EPOCH: PyOnceLock<Py<PyDateTime>> = PyOnceLock::new();
    let made = EPOCH.get_or_try_init(py, || {
        let utc = PyTzInfo::utc(py)?.to_owned();
        PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&utc)).map(Bound::unbind)
    })?;
    Ok(made.bind(py))
}
