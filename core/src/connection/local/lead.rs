//! The thread that leads: it uses the connection, for its own call and for those of the others.

use super::connection::{Connection, Waited};
use super::{Caller, Inner, State, hung_up};
use crate::connection::door::{demoted, silent};
use crate::connection::progress::Verdict;
use crate::connection::shared::PIPELINE;
use crate::connection::socket::BlockingSocket;
use crate::error::{Code, Error, Result};
use crate::operation::line::{Outgoing, Settled};
use crate::operation::pending::Pending;
use redis::Value;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The right to use the connection. Dropping it, even by a panic, lets another thread lead.
pub(super) struct Lead<'a> {
    inner: &'a Inner,
    pub(super) connection: Option<Connection>,
}

impl<'a> Lead<'a> {
    pub(super) fn take(inner: &'a Inner) -> Option<Self> {
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
    pub(super) fn until<T>(&mut self, caller: &Caller<'_>, answer: &mut Pending<T>) -> Result<T> {
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
    pub(super) fn step(&self, connection: &mut Connection, caller: &Caller<'_>) -> Result<()> {
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
                let paused = inner.state().line.goes_on_at();
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
                Some(why) if !line.is_paused() => {
                    line.pause(Instant::now() + pauses.wait(), why.clone());
                }
                Some(_) => {}
                None if settled.served && connection.opened().is_current() => {
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
                inner.connected();
            }
            Err(error) if error.code() == Code::VersionFence => {
                inner.on_line(|state| {
                    state.line.close(error.clone());
                    state.cause = Some(error.clone());
                    state.outage.failed(&inner.settings, &error, None);
                    state.line.abandon(&error).1
                });
            }
            Err(error) if Instant::now() >= caller.deadline => inner.cut_short(&error),
            Err(error) => inner.failed(&error),
        }
    }
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
