//! The only look at the system clock; everything else is given time.

use crate::error::{Code, Error, Result};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where the client takes the host's time from.
///
/// A clock that stands still makes ids predictable: it is what pins a record to the byte in the conformance suite.
///
/// ```
/// use echomq::Clock;
/// assert_eq!(Clock::standing(1_735_689_600_000).now(), 1_735_689_600_000);
/// assert!(Clock::system().now() > 1_735_689_600_000);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    standing: Option<u64>,
}

impl Clock {
    /// The host's own clock.
    pub const fn system() -> Self {
        Self { standing: None }
    }

    /// A clock that shows `ms` milliseconds since 1970 for ever.
    pub const fn standing(ms: u64) -> Self {
        Self { standing: Some(ms) }
    }

    /// Milliseconds since 1970-01-01T00:00:00Z; 0 where the host's clock stands before that.
    #[inline]
    pub fn now(&self) -> u64 {
        match self.standing {
            Some(ms) => ms,
            None => since_1970().as_millis() as u64,
        }
    }

    /// What it shows, where it stands still.
    pub(crate) fn standing_at(&self) -> Option<u64> {
        self.standing
    }
}

/// How long ago 1970 was; nothing where the host's clock stands before that.
fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Nanoseconds on a clock that nobody sets and that goes on while the host is suspended.
#[cfg(unix)]
#[inline]
pub(crate) fn boot_ns() -> u64 {
    // On Apple's systems it is the monotonic clock that counts suspends.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: libc::clockid_t = libc::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: libc::clockid_t = libc::CLOCK_MONOTONIC;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a time of this function's own. The clock exists, and the call has no other error.
    unsafe { libc::clock_gettime(CLOCK, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds on a clock that nobody sets and that goes on while the host is suspended.
#[cfg(not(unix))]
pub(crate) fn boot_ns() -> u64 {
    static STARTED: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    1 + STARTED.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The host's wall clock, told from [`boot_ns`]: whoever needs both reads one clock.
///
/// The two are compared anew every 50 ms, so a wall clock that is set is followed after that time.
#[derive(Debug, Default)]
pub(crate) struct Wall {
    /// Nanoseconds from the one clock to the other.
    offset: AtomicI64,
    /// When they were compared last.
    compared: AtomicU64,
}

impl Wall {
    const GOOD_FOR: u64 = 50_000_000;

    /// Milliseconds since 1970, at what [`boot_ns`] has just shown.
    #[inline]
    pub(crate) fn at(&self, boot_ns: u64) -> u64 {
        let compared = self.compared.load(Ordering::Acquire);
        let offset = if compared == 0 || boot_ns.saturating_sub(compared) > Self::GOOD_FOR {
            self.compare()
        } else {
            self.offset.load(Ordering::Relaxed)
        };
        (boot_ns as i64).saturating_add(offset).max(0) as u64 / 1_000_000
    }

    #[cold]
    fn compare(&self) -> i64 {
        // A thread that loses the processor between the two reads would find a wall clock that is behind, never one that is
        // ahead; it looks again.
        for _ in 0..3 {
            let before = boot_ns();
            let wall = since_1970().as_nanos() as i64;
            let after = boot_ns();
            let offset = wall.saturating_sub(after as i64);
            self.offset.store(offset, Ordering::Relaxed);
            if after.saturating_sub(before) < 200_000 {
                break;
            }
        }
        self.compared.store(boot_ns(), Ordering::Release);
        self.offset.load(Ordering::Relaxed)
    }
}

/// The end of a time that begins now; of one beyond a century, the end of a century.
pub(crate) fn deadline(within: Duration) -> Instant {
    end_of(Instant::now(), within)
}

/// The end of a time that begins at an instant; of one beyond a century, the end of a century.
pub(crate) fn end_of(begin: Instant, within: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(36_525 * 24 * 3_600);
    begin + within.min(CENTURY)
}

/// An instant as a reader gives it: milliseconds since 1970, finer parts cut towards the past
/// (`docs/protocol.md` §5).
///
/// ```
/// use echomq::Timestamp;
/// assert_eq!(Timestamp::from_micros(1_780_512_970_164_999).millis(), 1_780_512_970_164);
/// assert_eq!(Timestamp::from_micros(-1).millis(), -1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since 1970.
    pub const fn from_millis(ms: i64) -> Self {
        Self(ms)
    }

    /// From microseconds since 1970, cut to the millisecond towards the past.
    pub const fn from_micros(us: i64) -> Self {
        Self(us.div_euclid(1_000))
    }

    /// From nanoseconds since 1970, cut to the millisecond towards the past.
    pub const fn from_nanos(ns: i64) -> Self {
        Self(ns.div_euclid(1_000_000))
    }

    /// From milliseconds since 1970 with a fraction, cut towards the past.
    ///
    /// Fails with [`Code::InvalidOption`] when the number is not finite or is beyond 2^53.
    pub fn from_millis_f64(ms: f64) -> Result<Self> {
        if ms.is_finite() && ms.abs() <= 9_007_199_254_740_992.0 {
            Ok(Self(ms.floor() as i64))
        } else {
            Err(Error::new(Code::InvalidOption, "an instant is a finite number of milliseconds since 1970"))
        }
    }

    /// Milliseconds since 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)),
            Err(before) => {
                let ns = before.duration().as_nanos();
                Self(i64::try_from(ns.div_ceil(1_000_000)).map_or(i64::MIN, |ms| -ms))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_is_told_from_the_clock_that_nobody_sets() {
        let wall = Wall::default();
        for _ in 0..3 {
            let before = Clock::system().now();
            let told = wall.at(boot_ns());
            let after = Clock::system().now();
            assert!(before.saturating_sub(1) <= told && told <= after, "{before} {told} {after}");
            // What was compared is used again, then compared anew.
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    #[test]
    fn the_longest_time_has_an_end() {
        assert!(deadline(Duration::MAX) > deadline(Duration::from_secs(3_600)));
    }

    #[test]
    fn instants_are_cut_towards_the_past() {
        for (us, ms) in [(0, 0), (999, 0), (1_000, 1), (-1, -1), (-1_000, -1), (-1_001, -2)] {
            assert_eq!(Timestamp::from_micros(us).millis(), ms, "{us} µs");
            assert_eq!(Timestamp::from_nanos(us * 1_000).millis(), ms, "{us} µs as ns");
            assert_eq!(
                Timestamp::from_millis_f64(us as f64 / 1_000.0).unwrap().millis(),
                ms,
                "{us} µs as f64"
            );
            let time = if us < 0 {
                UNIX_EPOCH - Duration::from_micros(us.unsigned_abs())
            } else {
                UNIX_EPOCH + Duration::from_micros(us as u64)
            };
            assert_eq!(Timestamp::from(time).millis(), ms, "{us} µs as SystemTime");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for ms in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300] {
            assert_eq!(Timestamp::from_millis_f64(ms).unwrap_err().code(), Code::InvalidOption);
        }
    }
}
