//! How long to wait before the next attempt to connect.

use std::time::Duration;

/// Doubling waits with a cap, each cut by chance to between a half and the whole of it, so that many clients of a
/// restarted server do not come back at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        Self { next: min.min(max), max }
    }

    /// The wait before the next attempt.
    pub(crate) fn wait(&mut self) -> Duration {
        let whole = self.next;
        self.next = (whole * 2).min(self.max);
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(300));
        for whole in [50, 100, 200, 300, 300] {
            let wait = backoff.wait();
            let whole = Duration::from_millis(whole);
            assert!(whole / 2 <= wait && wait <= whole, "{wait:?} of {whole:?}");
        }
    }
}
