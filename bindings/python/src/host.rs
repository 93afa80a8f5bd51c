//! What the interpreter must be like.

use crate::error;
use echomq::Code;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::{ffi, intern};

/// What replaces the waits of the standard library by those of its own loop: its module, how it is asked, and what for.
const PATCHERS: [(&str, &str, &str, [&str; 3]); 2] = [
    ("gevent", "gevent.monkey", "is_module_patched", ["threading", "_thread", "socket"]),
    ("eventlet", "eventlet.patcher", "is_monkey_patched", ["thread", "socket", "select"]),
];

/// Fails with `state` where the standard library is patched: a wait here would hold up everything else of the process.
pub(crate) fn refuse_patched(py: Python<'_>) -> PyResult<()> {
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    for (patcher, module, asked, names) in PATCHERS {
        let Ok(module) = modules.get_item(module) else { continue };
        // Whatever has that name and does not answer has patched nothing.
        let is_patched = |name| module.call_method1(asked, (name,)).and_then(|answer| answer.is_truthy());
        if names.into_iter().any(|name| is_patched(name).unwrap_or(false)) {
            let message = format!(
                "{patcher} has patched the standard library, and a wait of echomq would hold up all of its green \
                 threads: use echomq in a process that is not patched"
            );
            return Err(error::refuse(py, Code::State, &message, Some(patcher)));
        }
    }
    Ok(())
}

/// Fails in a sub-interpreter: what it made would be the main one's too, and would end with it.
pub(crate) fn refuse_subinterpreter(_attached: Python<'_>) -> PyResult<()> {
    // SAFETY: this thread is attached to an interpreter.
    let id = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if id == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "echomq runs in the main interpreter of a process only: import it there, or in a process of its own \
         (under mod_wsgi set `WSGIApplicationGroup %{GLOBAL}`)",
    ))
}
