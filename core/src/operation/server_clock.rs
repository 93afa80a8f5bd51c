//! The server's clock, as it was read last, and the question for it.
//!
//! Between two readings this host's monotonic clock goes on for it. That is wrong after the server's clock was set, or this
//! host has slept, so nothing is refused by it before the server was asked again.

use crate::error::{Error, Result};
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The server's clock was never read.
const UNKNOWN: i64 = i64::MIN;

/// How often is told that ids are refused.
const TOLD_EVERY: Duration = Duration::from_secs(60);

type Teller = Box<dyn Fn(&Error) + Send + Sync>;

/// The server's clock.
pub(crate) struct ServerClock {
    started: Instant,
    /// Server time minus the time since `started`, in milliseconds.
    offset: AtomicI64,
    teller: OnceLock<Teller>,
    told: Mutex<Option<Instant>>,
}

impl ServerClock {
    pub(crate) fn new() -> Self {
        let started = Instant::now();
        Self { started, offset: AtomicI64::new(UNKNOWN), teller: OnceLock::new(), told: Mutex::new(None) }
    }

    /// Takes the server's time, in Unix milliseconds, as it was at `at`.
    pub(crate) fn set(&self, ms: u64, at: Instant) {
        let since = at.saturating_duration_since(self.started).as_millis() as i64;
        self.offset.store((ms as i64).saturating_sub(since), Ordering::Relaxed);
    }

    /// The server's time in Unix milliseconds, as far as it is known.
    #[inline]
    pub(crate) fn now(&self) -> Option<u64> {
        match self.offset.load(Ordering::Relaxed) {
            UNKNOWN => None,
            offset => Some(offset.saturating_add(self.started.elapsed().as_millis() as i64).max(0) as u64),
        }
    }

    /// Who is told that ids are refused. The first one given stays.
    pub(crate) fn tell(&self, teller: impl Fn(&Error) + Send + Sync + 'static) {
        let _ = self.teller.set(Box::new(teller));
    }

    /// An id was refused after the server was asked: tells so, once a minute at most.
    pub(crate) fn refused(&self, error: &Error) {
        let now = Instant::now();
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.is_some_and(|told| now.duration_since(told) < TOLD_EVERY) {
                return;
            }
            *told = Some(now);
        }
        if let Some(tell) = self.teller.get() {
            tell(error);
        }
    }
}

impl fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// `TIME`: reads the server's clock again.
pub(crate) struct ReadClock {
    clock: Arc<ServerClock>,
    asked: Instant,
}

impl ReadClock {
    pub(crate) fn new(clock: Arc<ServerClock>) -> Self {
        Self { clock, asked: Instant::now() }
    }
}

impl Operation for ReadClock {
    type Reply = ();

    fn commands(&self, commands: &mut Packed) {
        commands.command(1).arg("TIME");
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<()> {
        let time: Result<u64> = reply::server_time(replies.into_iter().next().unwrap_or(Value::Nil));
        // An earlier instant of asking only has the server's clock appear to be later, which refuses less.
        Step::Done(time.map(|ms| self.clock.set(ms, self.asked)))
    }

    fn lost(&mut self) -> Step<()> {
        self.asked = Instant::now();
        Step::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn it_goes_on_from_the_last_reading() {
        let clock = ServerClock::new();
        assert_eq!(clock.now(), None);
        let asked = Instant::now();
        for ms in [5_000, 1_000, 9_000] {
            clock.set(ms, asked);
            let now = clock.now().unwrap();
            assert!(ms <= now + 1 && now <= ms + 1 + asked.elapsed().as_millis() as u64, "{now}");
        }
    }

    #[test]
    fn an_answer_sets_it_and_a_refusal_does_not() {
        let clock = Arc::new(ServerClock::new());
        let answer = |reply: &[u8]| vec![redis::parse_redis_value(reply).unwrap()];
        let mut question = ReadClock::new(clock.clone());
        assert!(matches!(question.answered(answer(b"-ERR no\r\n")), Step::Done(Err(_))));
        assert_eq!(clock.now(), None);
        let time = b"*2\r\n$4\r\n1735\r\n$6\r\n123999\r\n";
        assert!(matches!(question.answered(answer(time)), Step::Done(Ok(()))));
        assert!(clock.now().unwrap() >= 1_735_122);
    }

    #[test]
    fn what_goes_on_is_told_once() {
        let clock = ServerClock::new();
        let told = Arc::new(AtomicU32::new(0));
        let counter = told.clone();
        clock.tell(move |error| {
            assert_eq!(error.code(), Code::ClockAhead);
            counter.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..3 {
            clock.refused(&Error::new(Code::ClockAhead, "ahead"));
        }
        assert_eq!(told.load(Ordering::Relaxed), 1);
    }
}
