//! A password that a function of Python's is asked for, whenever a connection is opened.
//!
//! The core asks on its runtime, which never waits for the interpreter: a thread of a moment's life starts one of Python's,
//! and that one asks the function. It keeps no process alive, and ends with the interpreter wherever it stands.

use echomq::Options;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tokio::sync::oneshot;

/// A password, or why there is none, without anything that the function said.
type Answer = Result<String, String>;

/// Who waits for a password.
#[pyclass(frozen, module = "echomq._echomq")]
struct Question(Mutex<Option<oneshot::Sender<Answer>>>);

impl Question {
    fn settle(&self, answer: Answer) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // An answer that comes too late is given to nobody.
        drop(sender.map(|sender| sender.send(answer)));
    }
}

#[pymethods]
impl Question {
    /// Answers with what the function gave.
    fn answer(&self, password: &Bound<'_, PyAny>) {
        self.settle(spelled(password));
    }

    /// There is no password, for that reason.
    fn fail(&self, reason: String) {
        self.settle(Err(reason));
    }

    /// Whether nobody waits for the answer any longer.
    fn is_abandoned(&self) -> bool {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

/// The text of a `str` or of `bytes`. What is neither is told by its type.
fn spelled(password: &Bound<'_, PyAny>) -> Answer {
    if let Ok(text) = password.cast::<PyString>() {
        return text
            .to_str()
            .map(str::to_owned)
            .map_err(|_| "it answered a str that is no Unicode text".into());
    }
    if let Ok(bytes) = password.cast::<PyBytes>() {
        let text = str::from_utf8(bytes.as_bytes()).map(str::to_owned);
        return text.map_err(|_| "it answered bytes that are no UTF-8".into());
    }
    let found = password.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    Err(format!("it answered {found}, not str or bytes"))
}

/// A function that is asked for the password.
#[derive(Clone)]
pub(crate) struct Password(Arc<Parts>);

struct Parts {
    function: Py<PyAny>,
    /// Asks the function, and answers a question.
    answer: Py<PyAny>,
    start_new_thread: Py<PyAny>,
}

impl Password {
    /// The function of an option.
    pub(crate) fn new(value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = value.py();
        if !value.is_callable() {
            return Err(PyTypeError::new_err("the option password is a str, an int or a function"));
        }
        let get = |module, name| Ok::<_, PyErr>(py.import(module)?.getattr(name)?.unbind());
        Ok(Self(Arc::new(Parts {
            function: value.clone().unbind(),
            answer: get("echomq._password", "answer")?,
            start_new_thread: get("_thread", "start_new_thread")?,
        })))
    }

    /// Has a client ask the function. What it answers is awaited on the event loop, where there is one.
    pub(crate) fn set(&self, options: Options, event_loop: Option<Py<PyAny>>) -> Options {
        let (this, event_loop) = (self.clone(), event_loop.map(Arc::new));
        options.password_from(move || this.clone().ask(event_loop.clone()))
    }

    async fn ask(self, event_loop: Option<Arc<Py<PyAny>>>) -> Answer {
        let (sender, answer) = oneshot::channel();
        let question = Question(Mutex::new(Some(sender)));
        // tokio's own would panic where the system gives no thread.
        thread::Builder::new()
            .name("echomq-password".to_owned())
            .spawn(move || Python::try_attach(|py| self.start(py, event_loop.as_deref(), question)))
            .map_err(|error| format!("it was not asked, since the system gives no thread: {error}"))?;
        answer.await.unwrap_or_else(|_| Err("it was not asked, since the interpreter ends".to_owned()))
    }

    /// Starts the thread that asks. Nothing here lets go of the interpreter in between, so that it cannot end meanwhile.
    fn start(&self, py: Python<'_>, event_loop: Option<&Py<PyAny>>, question: Question) {
        let Parts { function, answer, start_new_thread } = &*self.0;
        let Ok(question) = Py::new(py, question) else { return };
        let started = start_new_thread.call1(py, (answer, (function, event_loop, &question)));
        if let Err(error) = started {
            let why = error.get_type(py).name().map_or_else(|_| String::new(), |name| name.to_string());
            question.get().fail(format!("it was not asked, since Python starts no thread: {why}"));
        }
    }
}
