//! `echomq.Client`: the client that waits on the thread of its caller.

use crate::events::Events;
use crate::lease::NodeLease;
use crate::notice::Notices;
use crate::status::Status;
use crate::stream::Stream;
use crate::wait::{interrupted, wait};
use crate::{arguments, error, host, options, reply, text};
use echomq::blocking;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::sync::Arc;

/// A client of one server, for any number of threads, which share its connection.
///
/// It connects when it is made and connects again by itself whenever the connection breaks. The options are those of
/// the table in the README: durations are a ``timedelta`` or whole milliseconds, and ``None`` leaves an option out.
/// ``password`` may also be a function, which is asked each time a connection is opened.
///
/// Fails with ``InvalidOptionError``, ``TlsError``, ``AuthError``, ``VersionFenceError``, or with ``DisconnectedError``
/// when the server cannot be reached within ``connect_timeout``.
///
/// Every call waits on the caller's own thread while other threads run, no longer than ``timeout``, and a signal ends
/// the wait: Ctrl-C raises ``KeyboardInterrupt``. A client does not go along into a forked child: there its calls fail
/// with ``ClosedError``, and a client made in the child works.
///
/// >>> with echomq.Client(url, node_id=7) as client:
/// ...     events = client.stream("codemojex", "clients")
/// ...     id = events.append({"kind": "guessed", "player": "PLR0NgWEfAEJfs"})
/// ...     [record.get("kind") for record in events.read(id)]
/// ['guessed']
#[pyclass(frozen, module = "echomq")]
pub(crate) struct Client(blocking::Client);

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (url, /, **options))]
    fn new(py: Python<'_>, url: &Bound<'_, PyString>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        host::refuse_patched(py)?;
        let (options, password) = options::options(url, options)?;
        let options = match password {
            Some(password) => password.set(options, None),
            None => options,
        };
        wait(py, || blocking::Client::open_with(&options, Arc::new(interrupted))).map(Self)
    }

    /// A stream of a queue, with ``writers`` ``"one"``, unless given, or ``"many"``: see ``Stream``.
    ///
    /// Fails with ``InvalidNameError``, and with ``InvalidOptionError`` for other writers.
    #[pyo3(signature = (queue, name, *, writers = None))]
    fn stream(
        &self,
        queue: &Bound<'_, PyString>,
        name: &Bound<'_, PyString>,
        writers: Option<&Bound<'_, PyString>>,
    ) -> PyResult<Stream> {
        let writers = arguments::writers(writers)?;
        let stream = self.0.stream(&text::name(queue)?, &text::name(name)?);
        stream.map(|stream| stream.writers(writers).into()).map_err(|error| error::raise(queue.py(), &error))
    }

    /// The events of a queue. Fails with ``InvalidNameError``.
    fn events(&self, queue: &Bound<'_, PyString>) -> PyResult<Events> {
        let events = self.0.events(&text::name(queue)?);
        events.map(Events::from).map_err(|error| error::raise(queue.py(), &error))
    }

    /// Makes one id, for ``append_id``. It is there at once while the client has its node; the first one leases a node,
    /// which takes the server.
    ///
    /// Fails with ``ClockAheadError``, with ``NodeLeaseLostError`` where no node is free, with ``NodeConflictError`` where
    /// another process has the one given and ``on_node_conflict`` says so, and with ``MintExhaustedError``.
    fn mint(&self, py: Python<'_>) -> PyResult<String> {
        wait(py, || self.0.mint()).map(String::from)
    }

    /// The leases of nodes that have not run out, by node: this client's own, once it has made an id, and those of all
    /// others. Two of one node are of processes to which one ``node_id`` was given. It only reads.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<NodeLease>> {
        Ok(wait(py, || self.0.nodes())?.into_iter().map(NodeLease::from).collect())
    }

    /// Sends any command of the server's, its parts ``str`` or ``bytes``, and gives the reply: texts as ``bytes``.
    ///
    /// It shares the connection with every other call. What would make the server wait (``BLPOP``), change the connection
    /// (``SELECT``, ``MULTI``) or the number of answers (``SUBSCRIBE``) is refused with ``InvalidOptionError``. Fails with
    /// ``UnknownOutcomeError`` when the connection broke before the answer came, and with what the server answered.
    ///
    /// >>> with echomq.Client(url) as client:
    /// ...     client.command("ECHO", "here")
    /// b'here'
    #[pyo3(signature = (*parts))]
    fn command<'py>(&self, parts: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = parts.py();
        let command = arguments::command(parts)?;
        reply::object(py, wait(py, || self.0.command(command))?)
    }

    /// Sends many commands at once; one reply for each, an error of the server's as an exception in its place.
    ///
    /// >>> with echomq.Client(url) as client:
    /// ...     client.pipeline([["ECHO", "a"], ["ECHO"]])
    /// [b'a', ServerError("the server answered: ERR wrong number of arguments for 'echo' command")]
    fn pipeline<'py>(&self, commands: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = commands.py();
        let commands = arguments::commands(commands)?;
        let replies = wait(py, || self.0.pipeline(commands))?;
        reply::results(py, replies, |reply| reply::object(py, reply))
    }

    /// What the client tells: of its connection, its clock and its node.
    fn notices(&self) -> Notices {
        self.0.notices().into()
    }

    /// How the connection stands.
    fn status(&self) -> Status {
        self.0.status().into()
    }

    /// Takes no more calls, waits for those of other threads, and closes the connection.
    ///
    /// What is not done within that time, a ``timedelta``, is given up; without one, every call has its own deadline.
    /// Answers how many calls were given up: 0 when the client was closed before.
    #[pyo3(signature = (within = None))]
    fn close(&self, py: Python<'_>, within: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let within = arguments::within(within)?;
        wait(py, || Ok(self.0.close(within)))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py, None).map(|_| ())
    }

    fn __repr__(&self) -> String {
        format!("<echomq.{:?}>", self.0)
    }
}
