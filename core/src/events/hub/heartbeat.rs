//! Whether the server is alive, judged by what is heard of it. It does no I/O and reads no clock.

use std::time::{Duration, Instant};

/// The signs of life on a connection. While nothing comes, the server is asked for one; an answer that fails to come ends it.
pub(super) struct Heartbeat {
    every: Duration,
    heard: Instant,
    /// Since when an answer is waited for.
    asked: Option<Instant>,
}

/// What a look finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pulse {
    /// Nothing is to be done until [`Heartbeat::look_at`].
    Fine,
    /// The server is to be asked for a sign of life.
    Ask,
    /// It has not answered, and was silent for so long.
    Silent(Duration),
}

impl Heartbeat {
    pub(super) fn new(every: Duration, now: Instant) -> Self {
        Self { every, heard: now, asked: None }
    }

    /// Something was heard.
    pub(super) fn heard(&mut self, now: Instant) {
        (self.heard, self.asked) = (now, None);
    }

    /// When it is to be looked at again.
    pub(super) fn look_at(&self) -> Instant {
        self.asked.unwrap_or(self.heard) + self.every
    }

    pub(super) fn look(&mut self, now: Instant) -> Pulse {
        let Some(late) = now.checked_duration_since(self.look_at()) else { return Pulse::Fine };
        match self.asked.replace(now) {
            None => Pulse::Ask,
            // Then it was this process that stood still. The answer may be there, or have been asked for only now.
            Some(_) if late >= self.every => Pulse::Fine,
            Some(_) => Pulse::Silent(now - self.heard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_millis(1_000);

    /// A heartbeat, and the instant so many milliseconds after its start.
    fn new() -> (Heartbeat, impl Fn(u64) -> Instant) {
        let start = Instant::now();
        (Heartbeat::new(EVERY, start), move |ms| start + Duration::from_millis(ms))
    }

    #[test]
    fn a_server_that_does_not_answer_is_silent_after_two_heartbeats() {
        let (mut heartbeat, at) = new();
        assert_eq!(heartbeat.look_at(), at(1_000));
        assert_eq!(heartbeat.look(at(999)), Pulse::Fine);
        assert_eq!(heartbeat.look(at(1_000)), Pulse::Ask);
        assert_eq!(heartbeat.look_at(), at(2_000));
        assert_eq!(heartbeat.look(at(1_999)), Pulse::Fine);
        assert_eq!(heartbeat.look(at(2_001)), Pulse::Silent(Duration::from_millis(2_001)));
    }

    #[test]
    fn whatever_is_heard_is_a_sign_of_life() {
        let (mut heartbeat, at) = new();
        assert_eq!(heartbeat.look(at(1_000)), Pulse::Ask);
        heartbeat.heard(at(1_900));
        assert_eq!(heartbeat.look(at(2_000)), Pulse::Fine);
        assert_eq!(heartbeat.look_at(), at(2_900));
        assert_eq!(heartbeat.look(at(2_900)), Pulse::Ask);
    }

    #[test]
    fn a_process_that_stood_still_takes_nobody_for_dead() {
        let (mut heartbeat, at) = new();
        // Before it had asked.
        assert_eq!(heartbeat.look(at(60_000)), Pulse::Ask);
        // After it had asked.
        assert_eq!(heartbeat.look(at(120_000)), Pulse::Fine);
        assert_eq!(heartbeat.look_at(), at(121_000));
        // A server that is dead all the same is found out.
        assert_eq!(heartbeat.look(at(121_000)), Pulse::Silent(Duration::from_millis(121_000)));
    }
}
