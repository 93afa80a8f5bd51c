//! What one operation is: what to send, how to read the answer, and what to do next.
//!
//! An operation does no I/O. It is driven by a [`line::Line`], which keeps the order of what is sent, and a door
//! (`connection/`) carries the line's commands to the server and back: asynchronously for all callers of a client, or
//! on the caller's own thread. So each rule is written once and tested without a server.

pub(crate) mod command;
pub(crate) mod lease;
pub(crate) mod line;
pub(crate) mod minter;
pub(crate) mod monitor;
#[cfg(test)]
mod monitor_tests;
pub(crate) mod one_answer;
pub(crate) mod pending;
pub(crate) mod sent;
pub(crate) mod server_clock;
pub(crate) mod wakers;

use crate::error::{Code, Error, Result};
use crate::record::packed::Packed;
use minter::Minter;
use redis::Value;

/// What a [`monitor`] locks with; its models are checked with those of loom.
mod locks {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
}

/// What to do after an answer.
#[derive(Debug)]
pub enum Step<T> {
    /// The operation is over.
    Done(Result<T>),
    /// There is more to ask.
    Again,
    /// The server cannot serve now, for this reason, and has not applied what was asked: ask again after a pause.
    Later(Error),
    /// Ask again after a pause, for this reason, which is no other operation's: those go on.
    Wait(Error),
}

impl<T> Step<T> {
    /// Goes on with the answer of an operation that is over.
    pub(crate) fn then<U>(self, next: impl FnOnce(Result<T>) -> Step<U>) -> Step<U> {
        match self {
            Self::Done(answer) => next(answer),
            Self::Again => Step::Again,
            Self::Later(why) => Step::Later(why),
            Self::Wait(why) => Step::Wait(why),
        }
    }
}

/// The answer of an operation that ended early: an outcome is unknown for that reason.
pub(crate) fn with_cause<T>(answer: Result<T>, why: &Error) -> Result<T> {
    answer.map_err(|error| match error.code() {
        Code::UnknownOutcome if error.cause().is_none() => error.because(why.clone()),
        _ => error,
    })
}

/// One thing that the bus does on the wire, as a state machine.
///
/// Its life: `prepare` and `commands` before each sending, then `answered`, or `lost` when the connection broke
/// before the answers came; `abandon` ends it early.
pub trait Operation: Send + 'static {
    /// What the caller gets.
    type Reply: Send + 'static;

    /// Makes what can only be made when it is about to be sent: ids, whose order must be the order of sending.
    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        let _ = minter;
        Ok(())
    }

    /// Adds the commands of the next round, at least one.
    fn commands(&self, commands: &mut Packed);

    /// Whether an id is minted for it when it is sent, which needs a node.
    fn mints(&self) -> bool {
        false
    }

    /// Reads the answers to the commands of this round, one each.
    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply>;

    /// At least one command was refused because the server cannot serve now (`docs/protocol.md` §4); that one was not applied.
    ///
    /// An operation that sends one command, or only reads, asks for all of it again.
    fn unavailable(&mut self, replies: Vec<Value>, why: Error) -> Step<Self::Reply> {
        let _ = replies;
        Step::Later(why)
    }

    /// The connection broke after the commands were handed to it; nobody knows which of them were applied.
    ///
    /// An operation that only reads asks again.
    fn lost(&mut self) -> Step<Self::Reply> {
        Step::Again
    }

    /// The connection broke after the answers to the first commands of this round had come, and before the others came.
    ///
    /// An operation that only reads asks for all of it again.
    fn cut(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        drop(replies);
        self.lost()
    }

    /// The connection broke before any byte of the commands of this round had left: none of them was carried out, and they are
    /// sent again. An operation that remembers that it was sent takes that back here.
    fn unsent(&mut self) {}

    /// Gives up, for the reason given.
    ///
    /// With [`Code::Unavailable`](crate::Code::Unavailable) nothing is on its way: the last answer was given to `unavailable`.
    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(why)
    }

    /// Whether it has been sent and still finds out what became of it, so that ending it early would leave that unknown.
    ///
    /// It waits for its deadline even while the server refuses the client.
    fn finds_out(&self) -> bool {
        false
    }

    /// How many commands it may need at once: its share of the client's bound.
    fn weight(&self) -> usize {
        1
    }

    /// How many bytes it holds for sending: its share of the client's bound in bytes. What is always short counts as nothing.
    fn bytes(&self) -> usize {
        0
    }
}
