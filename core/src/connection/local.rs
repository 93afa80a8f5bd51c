//! The local door: one connection, driven by the threads of its callers.
//!
//! A thread that calls puts its operation on the line. If nobody drives the connection it leads: it sends what waits
//! as one pipeline and reads the answers, its own and those of the threads that follow meanwhile. A thread alone thus
//! talks to the server with no other thread between, and many threads share pipelines; either way the order of the
//! line is kept, as a stream needs it. A thread whose own time is over, or whose host wants its call to end, leaves the
//! connection as it is to the next one.

mod connection;
mod host;
mod lead;

pub use host::Interrupt;

use super::backoff::Backoff;
use super::door::{Door, Status, closed, no_connection, too_late};
use super::outage::{FirstAttempts, Outage};
use super::settings::{Connect, Settings};
use super::shared::{PAUSES, PIPELINE, Shared};
use super::socket::{BlockingSocket, failure};
use crate::error::{Code, Error, Result};
use crate::operation::Operation;
use crate::operation::line::{Abandoned, Line, Outgoing};
use crate::operation::minter::Minter;
use crate::operation::pending::{Pending, pending};
use crate::process::{self, Origin};
use connection::Connection;
use host::Host;
use lead::Lead;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tokio::runtime::Handle as Runtime;

/// The local door of a client. Clones share the connection.
#[derive(Clone)]
pub struct Local(Arc<Inner>);

struct Inner {
    settings: Settings,
    origin: Origin,
    interrupt: Interrupt,
    /// Set when a close has given up what was left, so that nobody waits for it any longer.
    given_up: Arc<AtomicBool>,
    state: Mutex<State>,
    idle: Condvar,
    reconnects: AtomicU64,
    /// For the tasks of readers, opened when the first one starts.
    companion: tokio::sync::OnceCell<Shared>,
}

struct State {
    line: Line,
    /// In the hands of the leader while there is one.
    connection: Option<Connection>,
    led: bool,
    /// Whether the client has been connected before.
    before: bool,
    outage: Outage,
    /// Why there is no connection.
    cause: Option<Error>,
    reconnects: Backoff,
    /// Before that instant nobody connects again.
    connect_at: Instant,
    pauses: Backoff,
}

impl Local {
    /// Connects on the caller's thread, as the option `connect` says.
    pub(crate) fn connect(settings: Settings, interrupt: Interrupt) -> Result<Self> {
        let connection = Self::first(&settings, &Host::new(&interrupt))?;
        let mut outage = Outage::default();
        if connection.is_some() {
            outage.connected(&settings);
        }
        let given_up = Arc::new(AtomicBool::new(false));
        let abandoned = given_up.clone();
        let inner = Arc::new(Inner {
            origin: Origin::here(),
            interrupt: Arc::new(move || abandoned.load(Ordering::Relaxed) || interrupt()),
            given_up,
            state: Mutex::new(State {
                line: settings.line(),
                before: connection.is_some(),
                connection,
                led: false,
                outage,
                cause: None,
                reconnects: Backoff::new(settings.reconnect_min, settings.reconnect_max),
                connect_at: Instant::now(),
                pauses: Backoff::new(PAUSES[0], PAUSES[1]),
            }),
            idle: Condvar::new(),
            reconnects: AtomicU64::new(0),
            companion: tokio::sync::OnceCell::new(),
            settings,
        });
        let weak = Arc::downgrade(&inner);
        inner.settings.notices.watch(move || {
            if let Some(inner) = weak.upgrade() {
                inner.is_connected();
            }
        });
        Ok(Self(inner))
    }

    /// The first connection; nothing where it is not waited for.
    fn first(settings: &Settings, host: &Host<'_>) -> Result<Option<Connection>> {
        if settings.connect == Connect::Lazy {
            return Ok(None);
        }
        let mut attempts = FirstAttempts::new(settings);
        loop {
            match Connection::open(settings, host, attempts.deadline()) {
                Ok(connection) => return Ok(Some(connection)),
                Err(error) if host.says_stop() => return Err(error),
                Err(error) => host.sleep_until(Instant::now() + attempts.failed(error)?),
            }
        }
    }

    fn run_for<O: Operation>(&self, interrupt: &Interrupt, operation: O) -> Result<O::Reply> {
        let inner = &*self.0;
        let deadline = Instant::now() + inner.settings.timeout;
        let (age, answer) = inner.state().line.submit_as(operation, deadline)?;
        Caller { inner, age, deadline, host: Host::new(interrupt) }.wait(answer)
    }

    /// Takes no more calls, waits for those under way, and gives up what is left at the deadline. Answers how many.
    pub(crate) fn close(&self, within: Duration) -> usize {
        let inner = &*self.0;
        if inner.origin.check().is_err() {
            return 0;
        }
        let host = Host::new(&inner.interrupt);
        let started = Instant::now();
        if let Some(companion) = inner.companion.get().cloned() {
            let closing = async move { Ok(companion.close(within).await) };
            // Its readers have stopped, or their time is over and their entries stay pending.
            let _ = host.wait_for(closing);
        }
        let within = within.saturating_sub(started.elapsed());
        inner.state().line.close(closed());
        let until = Instant::now().checked_add(within);
        let left = || until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        // The host is asked while nothing is locked, since its answer may take another call of this client.
        while !left().is_zero() && !host.says_stop() {
            let step = BlockingSocket::STEP.min(left());
            let busy = |state: &mut State| state.led || !state.line.is_empty();
            let waited = inner.idle.wait_timeout_while(inner.state(), step, busy);
            if !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
                break;
            }
        }
        if !left().is_zero() {
            inner.release(left());
        }
        inner.given_up.store(true, Ordering::Relaxed);
        let (count, abandoned) = {
            let mut state = inner.state();
            state.connection = None;
            state.cause = Some(closed());
            state.line.abandon(&closed())
        };
        abandoned.tell();
        inner.settings.notices.end();
        count
    }
}

impl Door for Local {
    type Answer<T: Send + 'static> = Result<T>;

    fn run<O: Operation>(&self, operation: Result<O>) -> Result<O::Reply> {
        self.0.origin.check()?;
        self.run_for(&self.0.interrupt, operation?)
    }

    fn ready<T: Send + 'static>(answer: Result<T>) -> Result<T> {
        answer
    }

    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.0.origin.check()?;
        Host::new(&self.0.interrupt).wait_for(future)
    }

    async fn shared(&self) -> Result<Shared> {
        self.0.state().line.check_open()?;
        let connect = || Shared::connect(self.0.settings.beside());
        let companion = self.0.companion.get_or_try_init(connect).await?;
        // A client that was closed meanwhile did not know of it.
        let open = self.0.state().line.check_open();
        if let Err(closed) = open {
            companion.close(Duration::ZERO).await;
            return Err(closed);
        }
        Ok(companion.clone())
    }

    fn weak(&self) -> impl Fn() -> Option<Self> + Send + Sync + 'static {
        let inner = Arc::downgrade(&self.0);
        move || inner.upgrade().map(Self)
    }

    fn runtime(&self) -> Result<Runtime> {
        process::runtime().map(|runtime| runtime.handle().clone())
    }

    async fn run_aside<O: Operation>(self, operation: O) -> Result<O::Reply> {
        let (promise, answer) = pending();
        thread::Builder::new()
            .name("echomq-lease".to_owned())
            .spawn(move || promise.answer(self.run_for(&self.0.given_up_interrupt(), operation)))
            .map_err(|error| Error::new(Code::State, format!("the system gives no thread: {error}")))?;
        answer.await
    }

    fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn minter(&self) -> &Minter {
        &self.0.settings.minter
    }

    fn origin(&self) -> Origin {
        self.0.origin
    }

    fn status(&self) -> Status {
        // In a forked child the lock may be held by a thread that is not there.
        let known = self.0.origin.check().map(|()| {
            let connected = self.0.is_connected();
            (connected, self.0.state().cause.clone())
        });
        let (connected, error) = known.unwrap_or_else(|error| (false, Some(error)));
        Status { connected, reconnects: self.0.reconnects.load(Ordering::Relaxed), error }
    }
}

impl Inner {
    /// Ends the calls of threads that are no caller's own, which must not ask the host.
    fn given_up_interrupt(&self) -> Interrupt {
        let given_up = self.given_up.clone();
        Arc::new(move || given_up.load(Ordering::Relaxed))
    }

    /// Gives the node back, where the connection is open and nobody uses it.
    fn release(&self, within: Duration) {
        if !self.state().line.has_release() {
            return;
        }
        let Some(mut lead) = Lead::take(self) else { return };
        let deadline = Instant::now() + within.min(self.settings.timeout);
        let caller = Caller { inner: self, age: 0, deadline, host: Host::new(&self.interrupt) };
        while let Some(mut connection) = lead.connection.take() {
            // What could not be given back ends by itself.
            let stepped = lead.step(&mut connection, &caller);
            if stepped.is_err() || caller.left().is_zero() || self.state().line.is_empty() {
                break;
            }
            lead.connection = Some(connection);
        }
    }

    /// Changes the line, and then tells whoever waits for what was given up.
    fn on_line(&self, change: impl FnOnce(&mut State) -> Abandoned) {
        let abandoned = change(&mut self.state());
        abandoned.tell();
    }

    /// The connection broke, for that reason, when so many bytes had left.
    fn broken(&self, left: u64, why: &Error) {
        let lost = self.state().line.broken(left, why);
        let lost = lost.ask();
        self.on_line(|state| state.line.recover(lost));
        self.failed(why);
    }

    /// There is no connection, for that reason.
    fn failed(&self, cause: &Error) {
        self.on_line(|state| {
            let wait = state.reconnects.wait();
            state.connect_at = Instant::now() + wait;
            state.cause = Some(cause.clone());
            match state.outage.failed(&self.settings, cause, Some(wait)) {
                true => state.line.refuse(|| no_connection(cause)),
                false => Abandoned::default(),
            }
        });
    }

    /// An attempt to connect ended with its caller's time, which says nothing about the server: what was found before stands.
    fn cut_short(&self, error: &Error) {
        let mut state = self.state();
        if state.cause.is_none() {
            drop(state);
            return self.failed(error);
        }
        state.connect_at = Instant::now() + state.reconnects.wait();
    }

    /// There is a connection.
    fn connected(&self) {
        let mut state = self.state();
        state.cause = None;
        state.outage.connected(&self.settings);
        if std::mem::replace(&mut state.before, true) {
            self.reconnects.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether there is a connection, which is looked at where no thread uses it.
    fn is_connected(&self) -> bool {
        // Whoever leads looks at the connection first.
        drop(Lead::take(self));
        let state = self.state();
        state.before && state.cause.is_none()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last handle is gone: the node is given back, and the answer is not waited for.
impl Drop for Inner {
    fn drop(&mut self) {
        // In a forked child the connection is the parent's. The child may have closed what it inherited, and given the number to
        // a socket of its own, so it is not closed here either.
        if !self.origin.is_here() {
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(state.connection.take());
            return;
        }
        self.settings.notices.end();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.line.close(closed());
        if let Some(mut connection) = state.connection.take().filter(|_| state.line.has_release()) {
            let entries = state.line.take(PIPELINE);
            let outgoing = Outgoing::prepare(entries, &self.settings.minter, connection.output());
            if !outgoing.is_empty() {
                // It is short, so it leaves at once or not at all.
                let _ = connection.step(&mut Vec::new());
            }
        }
    }
}

/// A thread that waits for the answer to its call.
struct Caller<'a> {
    inner: &'a Inner,
    age: u64,
    deadline: Instant,
    host: Host<'a>,
}

impl Caller<'_> {
    fn wait<T>(&self, mut answer: Pending<T>) -> Result<T> {
        if let Some(mut lead) = Lead::take(self.inner) {
            return lead.until(self, &mut answer);
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut checked = Instant::now();
        loop {
            if let Poll::Ready(answer) = Pin::new(&mut answer).poll(&mut context) {
                return answer;
            }
            // Whoever led before woke this thread, or is still at it and will.
            if let Some(mut lead) = Lead::take(self.inner) {
                return lead.until(self, &mut answer);
            }
            thread::park_timeout(BlockingSocket::STEP.min(self.left()));
            if checked.elapsed() >= BlockingSocket::STEP || self.left().is_zero() {
                self.check();
                checked = Instant::now();
            }
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Lets deadlines and the host's signals end calls.
    fn check(&self) {
        if self.host.says_stop() {
            let why = Error::new(Code::Timeout, "the wait was interrupted");
            self.inner.on_line(|state| state.line.cancel(self.age, &why));
        } else if self.left().is_zero() {
            self.inner.on_line(|state| {
                let State { line, cause, .. } = state;
                line.expire(Instant::now(), || too_late(cause.as_ref()))
            });
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The connection was closed while nobody used it.
fn hung_up(settings: &Settings) -> Error {
    failure(&settings.endpoint, &io::Error::other("the server closed the connection"))
}
