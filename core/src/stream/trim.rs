//! Letting go of old records (`docs/protocol.md` §8).

use super::Key;
use crate::clock::Timestamp;
use crate::error::{Code, Error};
use crate::id::entry_id::EntryId;
use crate::operation::minter::Minter;
use crate::operation::sent::Sent;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;

/// How much of a stream to keep.
///
/// Approximate is the default and much cheaper: the server then lets go of whole nodes of its tree only, so it may keep
/// some records more (up to about a hundred), never fewer.
///
/// ```
/// use echomq::{Timestamp, Trim};
///
/// let newest = Trim::max_len(10_000);
/// let recent = Trim::min_id(Timestamp::from_millis(1_780_444_800_000)).exact();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    window: Window,
    approximate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Window {
    MaxLen(u64),
    MinId(Timestamp),
}

impl Trim {
    /// Keeps that many of the newest records.
    pub const fn max_len(records: u64) -> Self {
        Self { window: Window::MaxLen(records), approximate: true }
    }

    /// Keeps what was minted at or after an instant.
    pub const fn min_id(instant: Timestamp) -> Self {
        Self { window: Window::MinId(instant), approximate: true }
    }

    /// Keeps exactly as much as asked for.
    pub const fn exact(self) -> Self {
        Self { approximate: false, ..self }
    }
}

/// `XTRIM`. Sent again, it would answer another count, so it is sent once.
pub(crate) struct Trimming {
    key: Key,
    trim: Trim,
    sent: Sent,
}

impl Trimming {
    pub(crate) fn new(key: Key, trim: Trim) -> Self {
        Self { key, trim, sent: Sent::default() }
    }

    fn unknown(&self, why: &str) -> Error {
        Error::new(
            Code::UnknownOutcome,
            format!("the trim may or may not have been carried out: {why}; trimming again does no harm"),
        )
        .about(&*self.key)
    }
}

impl Operation for Trimming {
    type Reply = u64;

    fn prepare(&mut self, _: &Minter) -> crate::error::Result<()> {
        self.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        let operator = if self.trim.approximate { "~" } else { "=" };
        let mut command = commands.command(5);
        command.arg("XTRIM").arg(&*self.key);
        match self.trim.window {
            Window::MaxLen(records) => command.arg("MAXLEN").arg(operator).number(records),
            Window::MinId(instant) => {
                command.arg("MINID").arg(operator).arg(EntryId::floor(instant).text().as_bytes())
            }
        };
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        Step::Done(reply::count(reply).map_err(|error| error.about(&*self.key)))
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.sent.take_back();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        Step::Done(Err(self.unknown("the connection broke before the answer came")))
    }

    fn unsent(&mut self) {
        self.sent.take_back();
    }

    fn abandon(&mut self, why: Error) -> crate::error::Result<Self::Reply> {
        Err(if self.sent.is_open() { self.unknown(why.message()) } else { why.about(&*self.key) })
    }
}
