//! How long to wait before the next attempt.

use std::time::Duration;

/// Doubling waits with a cap, each cut by chance to between a half and the whole of it, so that many clients of a
/// restarted server do not come back at once.
#[derive(Debug)]
pub(crate) struct Backoff {
    min: Duration,
    next: Duration,
    max: Duration,
    at_once: bool,
}

impl Backoff {
    pub(crate) fn new(min: Duration, max: Duration) -> Self {
        let min = min.min(max);
        Self { min, next: min, max, at_once: false }
    }

    /// Something was answered: the next attempt is made at once, and the waits after it begin anew.
    ///
    /// A connection that was only opened and greeted is no answer: a server that hangs up then, or at a certain command,
    /// would get no rest.
    pub(crate) fn answered(&mut self) {
        self.next = self.min;
        self.at_once = true;
    }

    /// The waits begin anew.
    pub(crate) fn reset(&mut self) {
        self.next = self.min;
    }

    /// The wait before the next attempt.
    pub(crate) fn wait(&mut self) -> Duration {
        if std::mem::take(&mut self.at_once) {
            return Duration::ZERO;
        }
        let whole = self.next;
        self.next = (whole * 2).min(self.max);
        whole.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubles(backoff: &mut Backoff) {
        for whole in [50, 100, 200, 300, 300] {
            let wait = backoff.wait();
            let whole = Duration::from_millis(whole);
            assert!(whole / 2 <= wait && wait <= whole, "{wait:?} of {whole:?}");
        }
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        doubles(&mut Backoff::new(Duration::from_millis(50), Duration::from_millis(300)));
    }

    #[test]
    fn after_an_answer_there_is_one_attempt_without_a_wait() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(300));
        doubles(&mut backoff);
        backoff.answered();
        backoff.answered();
        assert_eq!(backoff.wait(), Duration::ZERO);
        doubles(&mut backoff);
    }
}
