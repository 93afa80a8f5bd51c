//! What stands on a line: an operation, whoever waits for it, and what is done with it while it is in hand.

use super::node::FIRST;
use crate::error::{Code, Error, Result};
use crate::operation::minter::Minter;
use crate::operation::pending::Promise;
use crate::operation::server_clock::ServerClock;
use crate::operation::{Operation, Step, with_cause};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// An operation on the line.
pub(crate) struct Entry {
    pub(super) age: u64,
    pub(super) weight: usize,
    pub(super) bytes: usize,
    pub(super) deadline: Instant,
    /// Was on its way when a connection broke.
    pub(super) lost: bool,
    /// What was sent last asks after what was lost.
    asking: bool,
    /// How often the connection broke when it had been sent, questions after it not counted.
    pub(super) breaks: u32,
    /// What it had sent then, in short.
    sent: u64,
    /// Why the server could not serve it when it was sent last.
    pub(super) refused: Option<Error>,
    /// It is sent again after that instant; the others go on.
    pub(super) waits_until: Option<Instant>,
    pub(super) task: Box<dyn Task>,
}

impl Entry {
    pub(super) fn new<O: Operation>(
        age: u64,
        deadline: Instant,
        operation: O,
        promise: Promise<O::Reply>,
    ) -> Self {
        let (weight, bytes) = (operation.weight(), operation.bytes());
        let task = Box::new(Running { operation, promise: Some(promise), time: Time::NotAsked });
        Self {
            age,
            weight,
            bytes,
            deadline,
            lost: false,
            asking: false,
            breaks: 0,
            sent: 0,
            refused: None,
            waits_until: None,
            task,
        }
    }
}

/// How much memory is kept for commands that are only looked at.
const SCRATCH: usize = 64 * 1024;

impl Entry {
    /// The connection broke under these commands of its.
    ///
    /// A question after what was lost, which is another command, says nothing about what was lost: on a bad network it
    /// breaks too.
    fn broke(&mut self, commands: &Packed) {
        let mut hasher = DefaultHasher::new();
        commands.bytes().hash(&mut hasher);
        let sent = hasher.finish();
        if !self.asking || self.sent == sent {
            self.breaks += 1;
            self.sent = sent;
        }
    }
}

/// An entry whose commands are on their way.
pub(crate) struct Flight {
    /// Nothing once the entry was given up: its answers are still to come and are dropped.
    pub(super) entry: Option<Entry>,
    pub(super) replies: Vec<Value>,
    pub(super) expected: usize,
    /// Where its commands begin in what is sent on the connection.
    pub(super) begins: u64,
}

/// Entries that ended, and what they had counted for.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) count: usize,
    /// Those that are not the line's own questions for the node.
    pub(super) of_callers: usize,
    pub(super) weight: usize,
    pub(super) bytes: usize,
}

impl Ended {
    pub(super) fn of(entry: &Entry) -> Self {
        let mut ended = Self::default();
        ended.count(entry);
        ended
    }

    pub(super) fn count(&mut self, entry: &Entry) {
        self.count += 1;
        self.of_callers += usize::from(entry.age != FIRST);
        self.weight += entry.weight;
        self.bytes += entry.bytes;
    }
}

/// Entries that were taken, and whose commands are made.
pub(crate) struct Outgoing {
    pub(super) flights: Vec<Flight>,
    /// Those for which no id can be made now, and those behind them.
    pub(super) held: Vec<Entry>,
    /// Those that ended instead, because no id could be made for them.
    pub(super) ended: Ended,
}

impl Outgoing {
    /// Whether nothing is to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Makes ids and adds commands, in the order of the entries.
    pub(crate) fn prepare(entries: Vec<Entry>, minter: &Minter, commands: &mut Packed) -> Self {
        commands.begin_pipeline();
        let flights = Vec::with_capacity(entries.len());
        let mut outgoing = Self { flights, held: Vec::new(), ended: Ended::default() };
        for mut entry in entries {
            if !outgoing.held.is_empty() {
                outgoing.held.push(entry);
                continue;
            }
            let (before, begins) = (commands.count(), commands.position());
            match entry.task.send(minter, commands) {
                Sending::Sent => {
                    entry.asking = std::mem::take(&mut entry.lost);
                    let expected = commands.count() - before;
                    debug_assert!(expected > 0, "what sends nothing gets no answer");
                    let replies = Vec::with_capacity(expected);
                    outgoing.flights.push(Flight { entry: Some(entry), replies, expected, begins });
                }
                Sending::Held => outgoing.held.push(entry),
                Sending::Ended => outgoing.ended.count(&entry),
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

/// An entry that has all its answers, or those that came before the connection broke.
pub(crate) struct Answered {
    pub(super) entry: Entry,
    pub(super) replies: Vec<Value>,
}

/// How often the connection may break under the commands of an operation, the last time with nothing else on its way.
const BREAKS: u32 = 3;

/// The pause of an operation that asks again by itself.
const PAUSE: Duration = Duration::from_millis(100);

/// What an entry does after its answers, or after the loss of them.
pub(super) enum After {
    Ended,
    /// It has more to ask.
    Again,
    /// It has to ask again, once the server can serve.
    Later(Error),
    /// It has to ask again after a pause of its own.
    Wait(Error),
}

/// Entries whose answers were read.
#[derive(Default)]
pub(crate) struct Settled {
    /// Why the server could not serve, where it could not.
    pub(crate) unavailable: Option<Error>,
    /// Whether it said that it is no primary any more.
    pub(crate) demoted: bool,
    /// Whether it served anything.
    pub(crate) served: bool,
    /// Those that have more to ask.
    pub(super) again: Vec<Entry>,
    pub(super) ended: Ended,
}

impl Settled {
    /// Reads the answers, which wakes whoever waits for them.
    pub(crate) fn read(answered: Vec<Answered>) -> Self {
        let mut settled = Self::default();
        for Answered { mut entry, replies } in answered {
            settled.demoted |= replies.iter().any(reply::is_demoted);
            settled.served |= replies.iter().any(|reply| reply::unavailable(reply).is_none());
            let after = entry.task.answered(replies);
            settled.put(entry, after);
        }
        settled
    }

    fn put(&mut self, mut entry: Entry, after: After) {
        entry.refused = None;
        match after {
            After::Ended => self.ended.count(&entry),
            After::Again => self.again.push(entry),
            After::Later(why) => {
                let why = still_unavailable(why);
                entry.refused = Some(why.clone());
                self.unavailable = Some(why);
                self.again.push(entry);
            }
            After::Wait(why) => {
                entry.refused = Some(why);
                entry.waits_until = Some(Instant::now() + PAUSE);
                self.again.push(entry);
            }
        }
    }
}

/// What is said of an operation that the server could not serve until its deadline.
fn still_unavailable(why: Error) -> Error {
    let message = format!("the server could not serve it until the deadline: {}", why.message());
    Error::new(Code::Unavailable, message).because(why)
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
pub(crate) struct Lost {
    why: Error,
    /// Nothing else was on its way.
    alone: bool,
    pub(super) sent: Vec<Answered>,
    /// Those of which nothing had left.
    pub(super) unsent: Vec<Entry>,
}

impl Lost {
    pub(super) fn new(why: Error, alone: bool) -> Self {
        Self { why, alone, sent: Vec::new(), unsent: Vec::new() }
    }

    /// Asks each what to do now, which wakes whoever waits for those that end.
    pub(crate) fn ask(self) -> Settled {
        let (mut settled, mut commands) = (Settled::default(), Packed::default());
        for Answered { mut entry, replies } in self.sent {
            commands.clear(SCRATCH);
            entry.task.commands(&mut commands);
            entry.broke(&commands);
            let in_doubt = entry.asking || !entry.task.asks_time();
            let mut after = entry.task.cut(replies, &self.why);
            if self.alone && entry.breaks >= BREAKS && !matches!(after, After::Ended) {
                entry.task.abandon(broke_each_time(entry.breaks, &self.why));
                after = After::Ended;
            }
            entry.lost = in_doubt && !matches!(after, After::Ended);
            settled.put(entry, after);
        }
        for mut entry in self.unsent {
            entry.task.unsent();
            entry.lost = entry.asking;
            settled.put(entry, After::Again);
        }
        settled
    }
}

fn broke_each_time(times: u32, why: &Error) -> Error {
    let message = format!(
        "the connection broke each of the {times} times that this was sent, the last time with nothing else on its way: {}",
        why.message()
    );
    Error::new(Code::Disconnected, message).because(why.clone())
}

/// An operation with whoever waits for it.
pub(super) trait Task: Send {
    /// Adds its commands, unless it ends or waits instead.
    fn send(&mut self, minter: &Minter, commands: &mut Packed) -> Sending;
    /// Whether an id is to be made for it.
    fn mints(&self) -> bool;
    /// Adds its commands as they were sent last.
    fn commands(&self, commands: &mut Packed);
    /// Whether the server was asked for its time instead of what it is there for.
    fn asks_time(&self) -> bool;
    /// Reads its answers.
    fn answered(&mut self, replies: Vec<Value>) -> After;
    /// Its further answers will not come.
    fn cut(&mut self, replies: Vec<Value>, why: &Error) -> After;
    /// Nothing of it had left.
    fn unsent(&mut self);
    fn abandon(&mut self, why: Error);
    /// Whether ending it early would leave unknown what it can still find out.
    fn finds_out(&self) -> bool;
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
            Step::Wait(why) => After::Wait(why),
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
                let answer = self.operation.abandon(error.clone());
                self.end(with_cause(answer, &error));
                Sending::Ended
            }
        }
    }

    fn commands(&self, commands: &mut Packed) {
        if self.asks_time() {
            commands.command(1).arg("TIME");
        } else {
            self.operation.commands(commands);
        }
    }

    fn asks_time(&self) -> bool {
        matches!(self.time, Time::Asked(..))
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

    fn cut(&mut self, replies: Vec<Value>, why: &Error) -> After {
        if self.asks_time() {
            // Nothing of its own was on its way.
            self.time = Time::NotAsked;
            return After::Again;
        }
        let step = if replies.is_empty() { self.operation.lost() } else { self.operation.cut(replies) };
        self.step(step.then(|answer| Step::Done(with_cause(answer, why))))
    }

    fn unsent(&mut self) {
        if self.asks_time() {
            self.time = Time::NotAsked;
            return;
        }
        self.operation.unsent();
    }

    fn abandon(&mut self, why: Error) {
        let answer = self.operation.abandon(why.clone());
        self.end(with_cause(answer, &why));
    }

    fn finds_out(&self) -> bool {
        self.operation.finds_out()
    }

    fn owner(&self) -> Option<Waker> {
        self.promise.as_ref()?.owner()
    }
}
