//! `echomq.aio.Client`.

use super::events::Events;
use super::notices::Notices;
use super::queue::LoopQueue;
use super::stream::Stream;
use crate::lease::NodeLease;
use crate::password::Password;
use crate::status::Status;
use crate::{arguments, error, host, options, reply, text};
use echomq::{Code, Options};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::sync::{Arc, OnceLock};

/// A client of one server for asyncio: the calls of ``echomq.Client``, each answering a future.
///
/// It is connected by ``await`` or by ``async with``, and connects again by itself whenever the connection breaks. A
/// call is made when the method is called, not when its future is awaited: several calls in a row go out in that order,
/// and awaiting them afterwards costs one round trip in all. Cancelling a future gives up the answer, not the call.
///
/// It can be used from any event loop, from several ones too; a call needs a running one. Where ``password`` is an ``async``
/// function, what it answers is awaited on the loop that the client was connected in.
///
/// >>> async def main():
/// ...     async with echomq.aio.Client(url, node_id=7) as client:
/// ...         events = client.stream("codemojex", "aio")
/// ...         ids = await asyncio.gather(*(events.append({"n": str(n)}) for n in range(3)))
/// ...         return [record.get("n") async for record in events.read(ids[0])]
/// >>> asyncio.run(main())
/// ['0', '1', '2']
#[pyclass(frozen, module = "echomq.aio")]
pub(crate) struct Client {
    options: Options,
    password: Option<Password>,
    client: Arc<OnceLock<echomq::Client>>,
}

impl Client {
    fn connected(&self, py: Python<'_>) -> PyResult<&echomq::Client> {
        self.client.get().ok_or_else(|| {
            error::refuse(
                py,
                Code::State,
                "the client is not connected: await it, or use it with `async with`",
                None,
            )
        })
    }

    /// The future of the client itself.
    fn connect<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let queue = LoopQueue::current(py)?;
        let this = slf.clone().into_any().unbind();
        let cell = &slf.get().client;
        if cell.get().is_some() {
            return queue.ready(py, this);
        }
        let Self { options, password, .. } = slf.get();
        let options = match password {
            Some(password) => password.set(options.clone(), Some(queue.event_loop(py))),
            None => options.clone(),
        };
        let cell = cell.clone();
        let runtime = error::runtime(py)?;
        let (future, promise) = queue.promise(py)?;
        runtime.spawn(async move {
            let connected = echomq::Client::connect(&options).await;
            promise.keep(move |py| {
                let connected = connected.map_err(|error| error::raise(py, &error))?;
                // Of two that connected at once, the first stays and the other is closed.
                let _ = cell.set(connected);
                Ok(this)
            });
        });
        Ok(future)
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (url, /, **options))]
    fn new(url: &Bound<'_, PyString>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        host::refuse_patched(url.py())?;
        let (options, password) = options::options(url, options)?;
        Ok(Self { options, password, client: Arc::default() })
    }

    /// Connects. Fails as ``echomq.Client`` does.
    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::connect(slf)?.call_method0("__await__")
    }

    /// A stream of a queue; see ``echomq.Client.stream``. Fails with ``StateError`` before the client is connected, too.
    #[pyo3(signature = (queue, name, *, writers = None))]
    fn stream(
        &self,
        queue: &Bound<'_, PyString>,
        name: &Bound<'_, PyString>,
        writers: Option<&Bound<'_, PyString>>,
    ) -> PyResult<Stream> {
        let (py, writers) = (queue.py(), arguments::writers(writers)?);
        let stream = self.connected(py)?.stream(&text::name(queue)?, &text::name(name)?);
        stream.map(|stream| stream.writers(writers).into()).map_err(|error| error::raise(py, &error))
    }

    /// The events of a queue. Fails with ``InvalidNameError``, and with ``StateError`` before the client is connected.
    fn events(&self, queue: &Bound<'_, PyString>) -> PyResult<Events> {
        let py = queue.py();
        let events = self.connected(py)?.events(&text::name(queue)?);
        events.map(Events::from).map_err(|error| error::raise(py, &error))
    }

    /// Makes one id, for ``append_id``. See ``echomq.Client.mint``.
    fn mint<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (client, queue) = (self.connected(py)?, LoopQueue::current(py)?);
        queue.answer(py, client.mint(), |py, id| Ok(String::from(id).into_pyobject(py)?.into_any().unbind()))
    }

    /// The leases of nodes that have not run out; see ``echomq.Client.nodes``.
    fn nodes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (client, queue) = (self.connected(py)?, LoopQueue::current(py)?);
        queue.answer(py, client.nodes(), |py, leases| {
            let leases: Vec<NodeLease> = leases.into_iter().map(NodeLease::from).collect();
            Ok(leases.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// Sends any command of the server's; see ``echomq.Client.command``.
    #[pyo3(signature = (*parts))]
    fn command<'py>(&self, parts: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = parts.py();
        let (client, queue) = (self.connected(py)?, LoopQueue::current(py)?);
        let pending = client.command(arguments::command(parts)?);
        queue.answer(py, pending, |py, reply| reply::object(py, reply).map(Bound::unbind))
    }

    /// Sends many commands at once; see ``echomq.Client.pipeline``.
    fn pipeline<'py>(&self, commands: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = commands.py();
        let (client, queue) = (self.connected(py)?, LoopQueue::current(py)?);
        let pending = client.pipeline(arguments::commands(commands)?);
        queue.answer(py, pending, |py, replies| {
            reply::results(py, replies, |reply| reply::object(py, reply)).map(Bound::unbind)
        })
    }

    /// What the client tells: of its connection, its clock and its node.
    fn notices(&self, py: Python<'_>) -> PyResult<Notices> {
        Ok(Notices::of_running(self.connected(py)?.notices()))
    }

    /// How the connection stands: at once, for it needs no server.
    fn status(&self, py: Python<'_>) -> PyResult<Status> {
        Ok(self.connected(py)?.status().into())
    }

    /// Takes no more calls, waits for those under way, and closes the connection; see ``echomq.Client.close``.
    #[pyo3(signature = (within = None))]
    fn close<'py>(&self, py: Python<'py>, within: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let within = arguments::within(within)?;
        let queue = LoopQueue::current(py)?;
        let Some(client) = self.client.get().cloned() else {
            return queue.ready(py, 0_usize.into_pyobject(py)?.into_any().unbind());
        };
        let runtime = error::runtime(py)?;
        let (future, promise) = queue.promise(py)?;
        runtime.spawn(async move {
            let unfinished = client.close(within).await;
            promise.keep(move |py| Ok(unfinished.into_pyobject(py)?.into_any().unbind()));
        });
        Ok(future)
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::connect(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__<'py>(
        &self,
        py: Python<'py>,
        _exception: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let queue = LoopQueue::current(py)?;
        let Some(client) = self.client.get().cloned() else { return queue.ready(py, py.None()) };
        let runtime = error::runtime(py)?;
        let (future, promise) = queue.promise(py)?;
        runtime.spawn(async move {
            client.close(arguments::UNBOUNDED).await;
            promise.keep(|py| Ok(py.None()));
        });
        Ok(future)
    }

    fn __repr__(&self) -> String {
        match self.client.get() {
            Some(client) => format!("<echomq.aio.{client:?}>"),
            None => format!("<echomq.aio.Client, not connected, {:?}>", self.options),
        }
    }
}
