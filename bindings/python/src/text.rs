//! Text and bytes, without losing one: `str` is UTF-8 with `surrogateescape`, both ways.

use crate::error;
use echomq::Code;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};
use std::borrow::Cow;

/// The bytes of a name or a value.
pub(crate) enum Text<'a, 'py> {
    /// Those of the object itself.
    Borrowed(&'a [u8]),
    /// A copy of them.
    Copied(Bound<'py, PyBytes>),
}

impl AsRef<[u8]> for Text<'_, '_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Copied(bytes) => bytes.as_bytes(),
        }
    }
}

/// The bytes of a `str` or of anything with a buffer; other types are a `TypeError`, which names `what` it is for.
pub(crate) fn text<'a, 'py>(value: &'a Bound<'py, PyAny>, what: &str) -> PyResult<Text<'a, 'py>> {
    if let Some(bytes) = borrowed(value) {
        return Ok(Text::Borrowed(bytes));
    }
    let py = value.py();
    let bytes = if value.is_instance_of::<PyString>() {
        value.call_method1(intern!(py, "encode"), ("utf-8", "surrogateescape")).map_err(|_| {
            let message = format!("{what} has a surrogate that stands for no byte");
            error::refuse(py, Code::InvalidOption, &message, None)
        })?
    } else {
        PyMemoryView::from(value)
            .map_err(|_| {
                let found =
                    value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
                PyTypeError::new_err(format!("{what} is str or bytes, not {found}"))
            })?
            .call_method0(intern!(py, "tobytes"))?
    };
    Ok(Text::Copied(bytes.cast_into::<PyBytes>()?))
}

/// The bytes of what needs no call back into Python: `bytes`, and `str` without escaped bytes.
pub(crate) fn borrowed<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a [u8]> {
    if let Ok(text) = value.cast::<PyString>() {
        text.to_str().ok().map(str::as_bytes)
    } else {
        value.cast::<PyBytes>().ok().map(|bytes| bytes.as_bytes())
    }
}

/// A name or an id, which the core checks: whatever is no UTF-8 is no name either, and stays wrong.
pub(crate) fn name<'a>(value: &'a Bound<'_, PyString>) -> PyResult<Cow<'a, str>> {
    match value.to_str() {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) => Ok(Cow::Owned(value.to_string_lossy().into_owned())),
    }
}

/// A text that must come through as it is.
pub(crate) fn exact<'a>(value: &'a Bound<'_, PyString>, what: &str) -> PyResult<&'a str> {
    value
        .to_str()
        .map_err(|_| error::refuse(value.py(), Code::InvalidOption, "it is no Unicode text", Some(what)))
}

/// The `str` of bytes.
pub(crate) fn string<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    match str::from_utf8(bytes) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => {
            PyString::from_encoded_object(&PyBytes::new(py, bytes), Some(c"utf-8"), Some(c"surrogateescape"))
        }
    }
}
