//! Times of JavaScript's: numbers of milliseconds.

use echomq::Timestamp;
use napi::{Result, Status};
use std::time::Duration;

/// An instant: milliseconds since 1970.
pub(crate) fn instant(ms: f64) -> echomq::Result<Timestamp> {
    Timestamp::from_millis_f64(ms)
}

/// A length of time.
pub(crate) fn duration(ms: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(ms / 1_000.0)
        .map_err(|error| napi::Error::new(Status::InvalidArg, error.to_string()))
}

/// A length of time to wait; without one, however long it takes.
pub(crate) fn patience(ms: Option<f64>) -> Result<Duration> {
    ms.map_or(Ok(Duration::MAX), duration)
}
