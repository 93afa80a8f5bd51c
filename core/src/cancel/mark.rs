//! The mark that says to processes far away, or away for a while, that a job is cancelled.

use crate::error::{Code, Error, Result};
use crate::events::Channel;
use crate::events::publish::refused;
use crate::events::signal::Signal;
use crate::id::branded::BrandedId;
use crate::operation::minter::Minter;
use crate::operation::sent::Sent;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::time::Duration;

/// How long a mark lives where nobody says otherwise.
const TIME_TO_LIVE: Duration = Duration::from_secs(24 * 60 * 60);

/// The event that says so at once.
pub(super) const CANCEL: &str = "cancel";
pub(super) const REASON: &str = "reason";

/// Writes the mark, and then publishes the event.
///
/// Doing either again changes nothing for who watches, so it is sent again after a lost answer.
pub(crate) struct Cancel {
    channel: Channel,
    job: BrandedId,
    reason: Vec<u8>,
    payload: Vec<u8>,
    time_to_live: Duration,
    marked: bool,
    /// What is known of the mark, and once that is written, of the event.
    sent: Sent,
}

impl Cancel {
    /// Fails as [`Signal::new`] and [`Signal::with`] do, with `too_large`, and with `invalid_option` for no time to live.
    pub(crate) fn new(
        channel: Channel,
        job: &[u8],
        reason: &[u8],
        time_to_live: Option<Duration>,
        max_bytes: usize,
    ) -> Result<Self> {
        let signal = Signal::new(CANCEL, job)?.with(REASON, reason)?;
        let payload = signal.checked_payload(max_bytes).map_err(|error| error.about(&*channel))?;
        let time_to_live = time_to_live.unwrap_or(TIME_TO_LIVE);
        if time_to_live.as_millis() == 0 {
            let message = "a mark without a time to live would say nothing";
            return Err(Error::new(Code::InvalidOption, message).about("ttl"));
        }
        let job = BrandedId::parse(job)?;
        let (reason, marked, sent) = (reason.to_vec(), false, Sent::default());
        Ok(Self { channel, job, reason, payload, time_to_live, marked, sent })
    }

    fn error(&self, error: Error) -> Error {
        if self.marked { refused(error, &self.channel) } else { error.about(self.channel.mark(self.job)) }
    }
}

impl Operation for Cancel {
    type Reply = u64;

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        self.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        if self.marked {
            commands.command(3).arg("PUBLISH").arg(&*self.channel).arg(&self.payload);
        } else {
            let milliseconds = self.time_to_live.as_millis().min(i64::MAX as u128 / 2) as u64;
            let mut command = commands.command(5);
            command.arg("SET").arg(self.channel.mark(self.job)).arg(&self.reason);
            command.arg("PX").number(milliseconds);
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        if self.marked {
            return Step::Done(reply::count(reply).map_err(|error| self.error(error)));
        }
        match reply::accepted(reply) {
            Ok(_) => {
                (self.marked, self.sent) = (true, Sent::default());
                Step::Again
            }
            Err(error) => Step::Done(Err(self.error(error))),
        }
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.sent.take_back();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        self.sent.lost();
        Step::Again
    }

    fn unsent(&mut self) {
        self.sent.take_back();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        if !self.sent.is_open() {
            return Err(self.error(if self.marked { without_event(why) } else { why }));
        }
        let what = if self.marked { "the mark is written, the event" } else { "the mark" };
        let message =
            format!("{what} may or may not be out: {}; cancelling again does no harm", why.message());
        Err(self.error(Error::new(Code::UnknownOutcome, message)))
    }
}

/// Why the event is not out, though the mark is written.
fn without_event(why: Error) -> Error {
    let message = format!("the mark is written, the event is not out: {}", why.message());
    Error::new(why.code(), message).because(why)
}

/// Reads a job's mark: the reason, or nothing.
pub(crate) struct ReadMark {
    channel: Channel,
    job: BrandedId,
}

impl ReadMark {
    pub(crate) fn new(channel: Channel, job: BrandedId) -> Self {
        Self { channel, job }
    }
}

impl Operation for ReadMark {
    type Reply = Option<String>;

    fn commands(&self, commands: &mut Packed) {
        commands.command(2).arg("GET").arg(self.channel.mark(self.job));
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        let read = reply::optional_bytes(reply).map_err(|error| error.about(self.channel.mark(self.job)));
        Step::Done(read.map(|mark| mark.map(|reason| String::from_utf8_lossy(&reason).into_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;

    const A_JOB: &[u8] = b"JOB000xY9Wvvcd";

    fn cancel(job: &[u8], reason: &[u8], time_to_live: Option<u64>) -> Result<Cancel> {
        let channel = Channel::new(Keyspace::new("q").unwrap());
        Cancel::new(channel, job, reason, time_to_live.map(Duration::from_millis), 1_000)
    }

    fn command(operation: &Cancel) -> String {
        let mut commands = Packed::default();
        operation.commands(&mut commands);
        commands.texts().concat()
    }

    fn answered(operation: &mut Cancel, reply: &[u8]) -> Step<u64> {
        operation.answered(vec![redis::parse_redis_value(reply).unwrap()])
    }

    #[test]
    fn the_mark_is_written_before_the_event_is_out() {
        let mut operation = cancel(A_JOB, b"late", None).unwrap();
        assert_eq!(command(&operation), "SET emq:{q}:cancel:JOB000xY9Wvvcd late PX 86400000");
        assert!(matches!(operation.lost(), Step::Again));
        assert!(matches!(answered(&mut operation, b"+OK\r\n"), Step::Again));
        let event = r#"{"event":"cancel","job":"JOB000xY9Wvvcd","reason":"late"}"#;
        assert_eq!(command(&operation), format!("PUBLISH emq:{{q}}:events {event}"));
        assert!(matches!(answered(&mut operation, b":2\r\n"), Step::Done(Ok(2))));
    }

    #[test]
    fn nothing_is_published_without_a_mark() {
        let mut operation = cancel(A_JOB, b"late", Some(5)).unwrap();
        assert!(command(&operation).ends_with("late PX 5"));
        match answered(&mut operation, b"-OOM command not allowed\r\n") {
            Step::Done(Err(error)) => {
                assert_eq!(error.code(), Code::OutOfMemory);
                assert_eq!(error.subject(), Some("emq:{q}:cancel:JOB000xY9Wvvcd"));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_has_no_event_hears_that_the_mark_is_written() {
        let mut operation = cancel(A_JOB, b"late", None).unwrap();
        assert!(matches!(answered(&mut operation, b"+OK\r\n"), Step::Again));
        let error = operation.abandon(Error::new(Code::Unavailable, "busy")).unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::Unavailable, Some("emq:{q}:events")));
        assert_eq!(error.message(), "the mark is written, the event is not out: busy");
        assert_eq!(error.cause().map(Error::message), Some("busy"));
    }

    #[test]
    fn what_cannot_be_cancelled_is_refused() {
        for (job, reason, time_to_live, code) in [
            (&b"x"[..], &b"late"[..], None, Code::MalformedId),
            (A_JOB, b"\xff", None, Code::InvalidOption),
            (A_JOB, b"late", Some(0), Code::InvalidOption),
            (A_JOB, &[b'x'; 1_000], None, Code::TooLarge),
        ] {
            assert_eq!(cancel(job, reason, time_to_live).err().unwrap().code(), code);
        }
    }
}
