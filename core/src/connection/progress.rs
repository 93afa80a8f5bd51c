//! When a connection is given up: one rule for every kind of connection, without I/O.
//!
//! Silence is what counts, and it is counted from the last byte, not from the last whole reply: a long answer over a slow
//! network is no silence. Nor does the silence of a connection end one call: a call ends by its own deadline or by its
//! caller's interrupt, and the connection goes on for the others.

use crate::clock::end_of;
use std::time::{Duration, Instant};

/// What one connection shows of its life.
#[derive(Debug)]
pub(crate) struct Progress {
    /// How long it may be silent.
    patience: Duration,
    /// From when on silence counts: the last sign of life, or the instant at which an answer is due at the earliest.
    since: Instant,
}

/// What to do with a connection that says nothing right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Wait on, and look again at that instant.
    Wait(Instant),
    /// It is given up: silent for that long.
    GiveUp(Duration),
}

impl Progress {
    pub(crate) fn new(patience: Duration, now: Instant) -> Self {
        Self { patience, since: now }
    }

    /// How long a connection may be silent whose calls have that long: most of it, so that a server which stands still for
    /// a while finds its connections as they were, and yet not all, so that a connection which died without a word is
    /// replaced within the time of its calls.
    pub(crate) fn patience_for(timeout: Duration) -> Duration {
        timeout / 8 * 7
    }

    /// Something was asked, which the server answers after `wait` at the earliest. To be told where nothing else is on
    /// its way: silence that was rightful does not count.
    pub(crate) fn asked(&mut self, now: Instant, wait: Duration) {
        self.since = self.since.max(end_of(now, wait));
    }

    /// Bytes came, or left where there had been no room for them.
    pub(crate) fn sign_of_life(&mut self, at: Instant) {
        self.since = self.since.max(at);
    }

    /// When the connection is given up if nothing is heard until then.
    pub(crate) fn give_up_at(&self) -> Instant {
        end_of(self.since, self.patience)
    }

    /// What to do while an answer is missing.
    pub(crate) fn verdict(&self, now: Instant) -> Verdict {
        let at = self.give_up_at();
        if now < at { Verdict::Wait(at) } else { Verdict::GiveUp(self.patience) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_long_answer_that_arrives_steadily_is_no_silence() {
        let begin = Instant::now();
        let mut progress = Progress::new(2 * S, begin);
        progress.asked(begin, Duration::ZERO);
        for second in 1..60 {
            let now = begin + second * S;
            assert_eq!(progress.verdict(now), Verdict::Wait(now + S), "{second}");
            progress.sign_of_life(now);
        }
        assert_eq!(progress.verdict(begin + 61 * S), Verdict::GiveUp(2 * S));
    }

    #[test]
    fn a_wait_that_was_asked_for_is_no_silence() {
        let begin = Instant::now();
        let mut progress = Progress::new(5 * S, begin);
        progress.asked(begin, 30 * S);
        assert_eq!(progress.verdict(begin + 34 * S), Verdict::Wait(begin + 35 * S));
        // The first bytes of the answer come before its time is over, and do not shorten it.
        progress.sign_of_life(begin + 10 * S);
        assert_eq!(progress.give_up_at(), begin + 35 * S);
        progress.sign_of_life(begin + 34 * S);
        assert_eq!(progress.give_up_at(), begin + 39 * S);
    }

    #[test]
    fn a_time_that_no_instant_ends_is_waited_for_all_the_same() {
        let begin = Instant::now();
        let mut progress = Progress::new(5 * S, begin);
        progress.asked(begin, Duration::MAX);
        assert_eq!(progress.verdict(begin + HOUR), Verdict::Wait(progress.give_up_at()));
        assert!(progress.give_up_at() > begin + 24 * 365 * HOUR);
        for patience in [Duration::MAX, Progress::patience_for(Duration::MAX)] {
            let mut progress = Progress::new(patience, begin);
            assert!(matches!(progress.verdict(begin + HOUR), Verdict::Wait(_)));
            progress.asked(begin, Duration::MAX);
            progress.sign_of_life(begin + HOUR);
            assert!(matches!(progress.verdict(begin + 2 * HOUR), Verdict::Wait(_)));
        }
    }

    #[test]
    fn a_connection_that_was_idle_has_its_whole_time_when_it_is_asked() {
        let begin = Instant::now();
        let mut progress = Progress::new(5 * S, begin);
        progress.asked(begin + 3_600 * S, Duration::ZERO);
        assert_eq!(progress.verdict(begin + 3_604 * S), Verdict::Wait(begin + 3_605 * S));
    }

    #[test]
    fn a_server_that_stands_still_for_four_seconds_keeps_calls_of_five() {
        let patience = Progress::patience_for(5 * S);
        assert!(patience > 4 * S && patience < 5 * S, "{patience:?}");
    }
}
