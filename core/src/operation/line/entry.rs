//! What stands on a line: an operation, whoever waits for it, and what is done with it while it is in hand.

use crate::error::{Code, Error, Result};
use crate::operation::minter::Minter;
use crate::operation::pending::Promise;
use crate::operation::server_clock::ServerClock;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// An operation on the line.
pub(crate) struct Entry {
    pub(super) age: u64,
    pub(super) weight: usize,
    pub(super) deadline: Instant,
    /// Was on its way when a connection broke.
    pub(super) lost: bool,
    pub(super) task: Box<dyn Task>,
}

impl Entry {
    pub(super) fn new<O: Operation>(
        age: u64,
        weight: usize,
        deadline: Instant,
        operation: O,
        promise: Promise<O::Reply>,
    ) -> Self {
        let task = Box::new(Running { operation, promise: Some(promise), time: Time::NotAsked });
        Self { age, weight, deadline, lost: false, task }
    }
}

/// An entry whose commands are on their way.
pub(crate) struct Flight {
    /// Nothing once the entry was given up: its answers are still to come and are dropped.
    pub(super) entry: Option<Entry>,
    pub(super) replies: Vec<Value>,
    pub(super) expected: usize,
}

/// Entries that were taken, and whose commands are made.
pub(crate) struct Outgoing {
    pub(super) flights: Vec<Flight>,
    /// Those for which no id can be made now, and those behind them.
    pub(super) held: Vec<Entry>,
    /// How many ended instead, because no id could be made for them.
    pub(super) ended: usize,
    pub(super) weight_of_ended: usize,
}

impl Outgoing {
    /// Whether nothing is to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Makes ids and adds commands, in the order of the entries.
    pub(crate) fn prepare(entries: Vec<Entry>, minter: &Minter, commands: &mut Packed) -> Self {
        let flights = Vec::with_capacity(entries.len());
        let mut outgoing = Self { flights, held: Vec::new(), ended: 0, weight_of_ended: 0 };
        for mut entry in entries {
            if !outgoing.held.is_empty() {
                outgoing.held.push(entry);
                continue;
            }
            let before = commands.count();
            match entry.task.send(minter, commands) {
                Sending::Sent => {
                    entry.lost = false;
                    let expected = commands.count() - before;
                    let replies = Vec::with_capacity(expected);
                    outgoing.flights.push(Flight { entry: Some(entry), replies, expected });
                }
                Sending::Held => outgoing.held.push(entry),
                Sending::Ended => {
                    outgoing.ended += 1;
                    outgoing.weight_of_ended += entry.weight;
                }
            }
        }
        outgoing
    }
}

/// What came of sending an entry.
pub(super) enum Sending {
    Sent,
    /// There is no node to make its ids with now.
    Held,
    Ended,
}

/// An entry that has all its answers.
pub(crate) struct Answered {
    pub(super) entry: Entry,
    pub(super) replies: Vec<Value>,
}

/// What an entry does after its answers, or after the loss of them.
pub(super) enum After {
    Ended,
    /// It has more to ask.
    Again,
    /// It has to ask again, once the server can serve.
    Later(Error),
}

/// Entries whose answers were read.
#[derive(Default)]
pub(crate) struct Settled {
    /// Why the server could not serve, where it could not.
    pub(crate) unavailable: Option<Error>,
    /// Those that have more to ask.
    pub(super) again: Vec<Entry>,
    pub(super) ended: usize,
    pub(super) weight_of_ended: usize,
}

impl Settled {
    /// Reads the answers, which wakes whoever waits for them.
    pub(crate) fn read(answered: Vec<Answered>) -> Self {
        let mut settled = Self::default();
        for Answered { mut entry, replies } in answered {
            let after = entry.task.answered(replies);
            settled.put(entry, after);
        }
        settled
    }

    fn put(&mut self, entry: Entry, after: After) {
        match after {
            After::Ended => {
                self.ended += 1;
                self.weight_of_ended += entry.weight;
            }
            After::Again => self.again.push(entry),
            After::Later(why) => {
                self.unavailable = Some(why);
                self.again.push(entry);
            }
        }
    }
}

/// Entries that are given up. Whoever waits for them is told with the line released, since it may use the client at once.
#[must_use = "whoever waits is told by `tell`"]
#[derive(Default)]
pub(crate) struct Abandoned(pub(super) Vec<(Entry, Error)>);

impl Abandoned {
    pub(crate) fn tell(self) {
        for (mut entry, why) in self.0 {
            entry.task.abandon(why);
        }
    }
}

/// Entries whose answers will not come.
#[must_use = "they go back by `Line::recover`"]
pub(crate) struct Lost(pub(super) Vec<Entry>);

impl Lost {
    /// Asks each what to do now, which wakes whoever waits for those that end.
    pub(crate) fn ask(self) -> Settled {
        let mut settled = Settled::default();
        for mut entry in self.0 {
            let after = entry.task.lost();
            entry.lost = !matches!(after, After::Ended);
            settled.put(entry, after);
        }
        settled
    }
}

/// An operation with whoever waits for it.
pub(super) trait Task: Send {
    /// Adds its commands, unless it ends or waits instead.
    fn send(&mut self, minter: &Minter, commands: &mut Packed) -> Sending;
    /// Whether an id is to be made for it.
    fn mints(&self) -> bool;
    /// Reads its answers.
    fn answered(&mut self, replies: Vec<Value>) -> After;
    /// Its answers will not come.
    fn lost(&mut self) -> After;
    fn abandon(&mut self, why: Error);
    /// Who waits for it, as far as it can be woken.
    fn owner(&self) -> Option<Waker>;
}

struct Running<O: Operation> {
    operation: O,
    promise: Option<Promise<O::Reply>>,
    time: Time,
}

/// Whether the server was asked for its time, which it is before an id is refused for being ahead of it.
enum Time {
    NotAsked,
    /// It is on its way instead of the operation's own commands.
    Asked(Arc<ServerClock>, Instant),
    Answered,
}

impl<O: Operation> Running<O> {
    fn end(&mut self, answer: Result<O::Reply>) {
        if let Some(promise) = self.promise.take() {
            promise.answer(answer);
        }
    }

    fn step(&mut self, step: Step<O::Reply>) -> After {
        match step {
            Step::Again => After::Again,
            Step::Later(why) => After::Later(why),
            Step::Done(answer) => {
                self.end(answer);
                After::Ended
            }
        }
    }
}

impl<O: Operation> Task for Running<O> {
    fn send(&mut self, minter: &Minter, commands: &mut Packed) -> Sending {
        match self.operation.prepare(minter) {
            Ok(()) => {
                self.operation.commands(commands);
                Sending::Sent
            }
            Err(error) if error.code() == Code::ClockAhead && matches!(self.time, Time::NotAsked) => {
                self.time = Time::Asked(minter.server_clock().clone(), Instant::now());
                commands.command(1).arg("TIME");
                Sending::Sent
            }
            Err(error) if error.code() == Code::NodeLeaseLost && self.operation.mints() => Sending::Held,
            Err(error) => {
                if error.code() == Code::ClockAhead {
                    minter.server_clock().refused(&error);
                }
                let answer = self.operation.abandon(error);
                self.end(answer);
                Sending::Ended
            }
        }
    }

    fn mints(&self) -> bool {
        self.operation.mints()
    }

    fn answered(&mut self, replies: Vec<Value>) -> After {
        if let Time::Asked(clock, asked) = &self.time {
            if let Some(why) = replies.iter().find_map(reply::unavailable) {
                self.time = Time::NotAsked;
                return After::Later(why);
            }
            // A server that does not tell its time leaves it as it was known before.
            if let Some(Ok(ms)) = replies.into_iter().next().map(reply::server_time) {
                clock.set(ms, *asked);
            }
            self.time = Time::Answered;
            return After::Again;
        }
        let step = match replies.iter().find_map(reply::unavailable) {
            Some(why) => self.operation.unavailable(replies, why),
            None => self.operation.answered(replies),
        };
        self.step(step)
    }

    fn lost(&mut self) -> After {
        if matches!(self.time, Time::Asked(..)) {
            // Nothing of its own was on its way.
            self.time = Time::NotAsked;
            return After::Again;
        }
        let step = self.operation.lost();
        self.step(step)
    }

    fn abandon(&mut self, why: Error) {
        let answer = self.operation.abandon(why);
        self.end(answer);
    }

    fn owner(&self) -> Option<Waker> {
        self.promise.as_ref()?.owner()
    }
}
