//! The local door: one connection, driven by the threads of its callers.
//!
//! A thread that calls puts its operation on the line. If nobody drives the connection it leads: it sends what waits
//! as one pipeline and reads the answers, its own and those of the threads that follow meanwhile. A thread alone thus
//! talks to the server with no other thread between, and many threads share pipelines; either way the order of the
//! line is kept, as a stream needs it. A thread whose own time is over, or whose host wants its call to end, leaves the
//! connection as it is to the next one.

mod connection;
mod host;

pub use host::Interrupt;

use super::backoff::Backoff;
use super::door::{Door, Status, closed, connected, demoted, silent, too_late};
use super::progress::Verdict;
use super::settings::Settings;
use super::shared::{PAUSES, PIPELINE, Shared};
use super::socket::{BlockingSocket, failure};
use crate::error::{Code, Error, Result};
use crate::notice::Notice;
use crate::operation::Operation;
use crate::operation::line::{Abandoned, Line, Outgoing, Settled};
use crate::operation::minter::Minter;
use crate::operation::pending::Pending;
use crate::process::Origin;
use connection::{Connection, Waited};
use host::Host;
use redis::Value;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

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
    /// Why there is no connection.
    cause: Option<Error>,
    reconnects: Backoff,
    /// Before that instant nobody connects again.
    connect_at: Instant,
    pauses: Backoff,
}

impl Local {
    /// Connects on the caller's thread.
    pub(crate) fn connect(settings: Settings, interrupt: Interrupt) -> Result<Self> {
        let deadline = Instant::now() + settings.connect_timeout;
        let connection = Connection::open(&settings, &Host::new(&interrupt), deadline)?;
        let given_up = Arc::new(AtomicBool::new(false));
        let abandoned = given_up.clone();
        Ok(Self(Arc::new(Inner {
            origin: Origin::here(),
            interrupt: Arc::new(move || abandoned.load(Ordering::Relaxed) || interrupt()),
            given_up,
            state: Mutex::new(State {
                line: Line::new(settings.bounds()),
                connection: Some(connection),
                led: false,
                cause: None,
                reconnects: Backoff::new(settings.reconnect_min, settings.reconnect_max),
                connect_at: Instant::now(),
                pauses: Backoff::new(PAUSES[0], PAUSES[1]),
            }),
            idle: Condvar::new(),
            reconnects: AtomicU64::new(0),
            companion: tokio::sync::OnceCell::new(),
            settings,
        })))
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
        inner.given_up.store(true, Ordering::Relaxed);
        let (count, abandoned) = {
            let mut state = inner.state();
            state.connection = None;
            state.cause = Some(closed());
            state.line.abandon(&closed())
        };
        abandoned.tell();
        count
    }
}

impl Door for Local {
    type Answer<T: Send + 'static> = Result<T>;

    fn run<O: Operation>(&self, operation: Result<O>) -> Result<O::Reply> {
        let inner = &*self.0;
        inner.origin.check()?;
        let operation = operation?;
        let deadline = Instant::now() + inner.settings.timeout;
        let (age, answer) = inner.state().line.submit_as(operation, deadline)?;
        Caller { inner, age, deadline, host: Host::new(&inner.interrupt) }.wait(answer)
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
        let connect = || Shared::connect(self.0.settings.clone());
        let companion = self.0.companion.get_or_try_init(connect).await?;
        // A client that was closed meanwhile did not know of it.
        let open = self.0.state().line.check_open();
        if let Err(closed) = open {
            companion.close(Duration::ZERO).await;
            return Err(closed);
        }
        Ok(companion.clone())
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
        let connected = self.0.origin.is_here() && self.0.is_connected();
        Status { connected, reconnects: self.0.reconnects.load(Ordering::Relaxed) }
    }
}

impl Inner {
    /// Changes the line, and then tells whoever waits for what was given up.
    fn on_line(&self, change: impl FnOnce(&mut State) -> Abandoned) {
        let abandoned = change(&mut self.state());
        abandoned.tell();
    }

    /// The connection broke, for that reason, when so many bytes had left.
    fn broken(&self, left: u64, why: &Error) {
        let wait = {
            let mut state = self.state();
            let wait = state.reconnects.wait();
            state.connect_at = Instant::now() + wait;
            state.cause = Some(why.clone());
            wait
        };
        self.settings.notices.post(Notice::of_outage(why, wait));
        let lost = self.state().line.broken(left, why);
        let lost = lost.ask();
        self.on_line(|state| state.line.recover(lost));
    }

    /// Whether there is a connection, which is looked at where no thread uses it.
    fn is_connected(&self) -> bool {
        let mut state = self.state();
        let Some(dead) = state.connection.take_if(|connection| !connection.is_open()) else {
            return state.cause.is_none();
        };
        drop(state);
        self.broken(dead.left(), &hung_up(&self.settings));
        false
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The right to use the connection. Dropping it, even by a panic, lets another thread lead.
struct Lead<'a> {
    inner: &'a Inner,
    connection: Option<Connection>,
}

impl<'a> Lead<'a> {
    fn take(inner: &'a Inner) -> Option<Self> {
        let mut state = inner.state();
        if state.led {
            return None;
        }
        state.led = true;
        let connection = state.connection.take();
        drop(state);
        let mut lead = Self { inner, connection: None };
        match connection {
            Some(mut connection) if connection.is_open() => {
                connection.taken_over();
                lead.connection = Some(connection);
            }
            // Nobody looked at it since the last call. What is not sent on a dead one has no unknown outcome.
            Some(dead) => lead.broke(dead, &hung_up(&inner.settings)),
            None => {}
        }
        Some(lead)
    }

    /// Drives the line until the caller has its answer.
    fn until<T>(&mut self, caller: &Caller<'_>, answer: &mut Pending<T>) -> Result<T> {
        let mut checked = Instant::now();
        loop {
            match self.connection.take() {
                Some(mut connection) => match self.step(&mut connection, caller) {
                    Ok(()) => self.connection = Some(connection),
                    Err(error) => self.broke(connection, &error),
                },
                None => self.connect(caller),
            }
            if let Some(answer) = answer.try_take() {
                return answer;
            }
            if checked.elapsed() >= BlockingSocket::STEP || caller.left().is_zero() {
                checked = Instant::now();
                caller.check();
                if let Some(answer) = answer.try_take() {
                    return answer;
                }
            }
        }
    }

    /// Sends what waits where nothing is on its way, and waits for a step's time.
    fn step(&self, connection: &mut Connection, caller: &Caller<'_>) -> Result<()> {
        let inner = self.inner;
        if !connection.is_busy() {
            if !connection.opened().is_current() {
                return Err(demoted(&inner.settings));
            }
            let before = connection.output().count();
            let entries = {
                let mut state = inner.state();
                state.line.resume(Instant::now());
                state.line.take(PIPELINE)
            };
            let outgoing = Outgoing::prepare(entries, &inner.settings.minter, connection.output());
            inner.on_line(|state| state.line.sent(outgoing));
            let commands = connection.output().count() - before;
            if commands == 0 {
                let paused = inner.state().line.paused_until();
                let step = caller.left().min(BlockingSocket::STEP);
                let until = paused.map(|until| until.saturating_duration_since(Instant::now()));
                thread::sleep(until.unwrap_or_default().min(step));
                return Ok(());
            }
            connection.sending(commands);
        }
        let (began, mut replies) = (Instant::now(), Vec::new());
        while connection.is_busy() {
            // Answers that came together are given together, before the next wait.
            let waited = connection.step(&mut replies);
            self.give(connection, &mut replies);
            let now = Instant::now();
            if waited? == Waited::Paused
                && let Verdict::GiveUp(silence) = connection.progress().verdict(now)
            {
                return Err(silent(&inner.settings, silence));
            }
            if now.duration_since(began) >= BlockingSocket::STEP || now >= caller.deadline {
                break;
            }
        }
        Ok(())
    }

    /// Gives answers to those who wait for them.
    fn give(&self, connection: &Connection, replies: &mut Vec<Value>) {
        if replies.is_empty() {
            return;
        }
        let inner = self.inner;
        let answered = {
            let mut state = inner.state();
            replies.drain(..).filter_map(|reply| state.line.answer(reply)).collect()
        };
        // Owners are woken with nothing locked: a thread woken earlier would only run into the lock.
        let settled = Settled::read(answered);
        if settled.demoted {
            connection.opened().demoted();
        }
        inner.on_line(|State { line, pauses, reconnects, .. }| {
            match &settled.unavailable {
                _ if settled.demoted => {}
                // One pause for all that was refused together.
                Some(why) if line.paused_until().is_none() => {
                    line.pause(Instant::now() + pauses.wait(), why.clone());
                }
                Some(_) => {}
                None if settled.served => {
                    pauses.reset();
                    reconnects.answered();
                }
                None => {}
            }
            line.settle(settled)
        });
    }

    fn broke(&self, connection: Connection, error: &Error) {
        let left = connection.left();
        drop(connection);
        self.inner.broken(left, error);
    }

    /// One attempt to connect, after a wait where the last one failed.
    fn connect(&mut self, caller: &Caller<'_>) {
        let inner = self.inner;
        let at = inner.state().connect_at;
        match at.min(caller.deadline).saturating_duration_since(Instant::now()) {
            Duration::ZERO if Instant::now() >= caller.deadline => return,
            Duration::ZERO => {}
            left => return thread::sleep(left.min(BlockingSocket::STEP)),
        }
        match Connection::open(&inner.settings, &caller.host, caller.deadline) {
            Ok(connection) => {
                self.connection = Some(connection);
                inner.reconnects.fetch_add(1, Ordering::Relaxed);
                inner.state().cause = None;
                inner.settings.notices.post(connected(&inner.settings));
            }
            Err(error) => inner.on_line(|state| {
                if error.code() == Code::VersionFence {
                    state.line.close(error.clone());
                    return state.line.abandon(&error).1;
                }
                state.connect_at = Instant::now() + state.reconnects.wait();
                state.cause = Some(error);
                Abandoned::default()
            }),
        }
    }
}

/// The connection was closed while nobody used it.
fn hung_up(settings: &Settings) -> Error {
    failure(&settings.endpoint, &io::Error::other("the server closed the connection"))
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if thread::panicking() && self.connection.is_none() {
            let why = Error::new(Code::Disconnected, "a thread that used the connection has panicked");
            self.inner.broken(u64::MAX, &why);
        }
        let next = {
            let mut state = self.inner.state();
            // After a close nobody uses it any more.
            if !self.inner.given_up.load(Ordering::Relaxed) {
                state.connection = self.connection.take();
            }
            state.led = false;
            state.line.owner_of_oldest()
        };
        if let Some(next) = next {
            next.wake();
        }
        self.inner.idle.notify_all();
    }
}
