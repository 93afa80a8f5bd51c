//! The server's clock, as it was read last.
//!
//! Between two readings this host's clock that counts suspends goes on for it. That is wrong after the server's clock was set,
//! so nothing is refused by it before the server was asked again.

use crate::clock::boot_ns;
use crate::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The server's clock was never read.
const UNKNOWN: i64 = i64::MIN;

const NS_PER_MS: u64 = 1_000_000;

/// How often is told that ids are refused.
const TOLD_EVERY: Duration = Duration::from_secs(60);

type Teller = Box<dyn Fn(&Error) + Send + Sync>;

/// The server's clock.
pub(crate) struct ServerClock {
    /// Server time minus the time of [`boot_ns`], in milliseconds.
    offset: AtomicI64,
    teller: OnceLock<Teller>,
    told: Mutex<Option<Instant>>,
}

impl ServerClock {
    pub(crate) fn new() -> Self {
        Self { offset: AtomicI64::new(UNKNOWN), teller: OnceLock::new(), told: Mutex::new(None) }
    }

    /// Takes the server's time, in Unix milliseconds, as it was at `at`.
    pub(crate) fn set(&self, ms: u64, at: Instant) {
        let then = (boot_ns() / NS_PER_MS).saturating_sub(at.elapsed().as_millis() as u64);
        self.offset.store((ms as i64).saturating_sub(then as i64), Ordering::Relaxed);
    }

    /// The server's time in Unix milliseconds at an instant of [`boot_ns`], as far as it is known.
    #[inline]
    pub(crate) fn at(&self, boot_ns: u64) -> Option<u64> {
        match self.offset.load(Ordering::Relaxed) {
            UNKNOWN => None,
            offset => Some(offset.saturating_add((boot_ns / NS_PER_MS) as i64).max(0) as u64),
        }
    }

    /// The server's time in Unix milliseconds now.
    pub(crate) fn now(&self) -> Option<u64> {
        self.at(boot_ns())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use std::sync::Arc;
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
