//! What waits for a subscriber, a bounded number.

use super::event::Event;
use crate::error::{Error, Result};
use std::collections::VecDeque;

/// What a [`Subscriber`](crate::Subscriber) is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An event.
    Event(Event),
    /// Events may be missing in this place.
    Gap(EventGap),
}

/// A place where events are missing, or may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventGap {
    missed: u64,
    reconnected: bool,
}

impl EventGap {
    /// How many events did not fit into the subscriber's buffer.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Whether the connection was lost and is there again: nobody knows how many events were published meanwhile.
    pub fn reconnected(&self) -> bool {
        self.reconnected
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The events of one subscriber that nobody has taken yet.
pub(super) struct Mailbox {
    heard: VecDeque<Heard>,
    capacity: usize,
    /// What did not fit behind the last of them.
    gap: EventGap,
    ended: bool,
    error: Option<Error>,
}

impl Mailbox {
    pub(super) fn new(capacity: usize) -> Self {
        Self { heard: VecDeque::new(), capacity, gap: EventGap::default(), ended: false, error: None }
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.ended {
            return;
        }
        if self.heard.len() >= self.capacity {
            self.gap.missed += 1;
        } else {
            self.close_gap();
            self.heard.push_back(Heard::Event(event));
        }
    }

    /// The connection was lost and is there again.
    pub(super) fn reconnected(&mut self) {
        if self.ended {
            return;
        }
        self.gap.reconnected = true;
        if self.heard.len() < self.capacity {
            self.close_gap();
        }
    }

    /// What was missed gets its place.
    fn close_gap(&mut self) {
        if !self.gap.is_none() {
            self.heard.push_back(Heard::Gap(std::mem::take(&mut self.gap)));
        }
    }

    /// The next, up to `max`; nothing while there is nothing, an empty list at the end.
    pub(super) fn take(&mut self, max: usize) -> Option<Result<Vec<Heard>>> {
        let max = max.max(1);
        if self.heard.len() < max {
            self.close_gap();
        }
        if !self.heard.is_empty() {
            return Some(Ok(self.heard.drain(..max.min(self.heard.len())).collect()));
        }
        self.ended.then(|| self.error.take().map_or(Ok(Vec::new()), Err))
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ended || !self.heard.is_empty() || !self.gap.is_none()
    }

    /// Puts back what was taken and not used.
    pub(super) fn give_back(&mut self, mut heard: Vec<Heard>) {
        // A gap at the end may grow still.
        if self.heard.is_empty()
            && let Some(Heard::Gap(gap)) = heard.pop_if(|last| matches!(last, Heard::Gap(_)))
        {
            self.gap.missed += gap.missed;
            self.gap.reconnected |= gap.reconnected;
        }
        for one in heard.into_iter().rev() {
            self.heard.push_front(one);
        }
    }

    /// Nothing more comes. What waits can still be taken; then whoever takes is told the error, once.
    pub(super) fn end(&mut self, error: Option<Error>) {
        if !self.ended {
            self.ended = true;
            self.error = error;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use proptest::prelude::*;

    fn event(n: u64) -> Event {
        Event::new(n.to_string().into_bytes())
    }

    fn gap(missed: u64, reconnected: bool) -> Heard {
        Heard::Gap(EventGap { missed, reconnected })
    }

    #[test]
    fn what_does_not_fit_is_told_in_its_place() {
        let mut mailbox = Mailbox::new(2);
        (0..5).for_each(|n| mailbox.push(event(n)));
        assert_eq!(mailbox.take(1).unwrap().unwrap(), [Heard::Event(event(0))]);
        mailbox.push(event(5));
        let heard = mailbox.take(9).unwrap().unwrap();
        assert_eq!(heard, [Heard::Event(event(1)), gap(3, false), Heard::Event(event(5))]);
        assert!(mailbox.take(9).is_none());
    }

    #[test]
    fn what_was_missed_last_is_told_too() {
        let mut mailbox = Mailbox::new(1);
        (0..3).for_each(|n| mailbox.push(event(n)));
        assert_eq!(mailbox.take(1).unwrap().unwrap(), [Heard::Event(event(0))]);
        assert!(mailbox.is_ready());
        assert_eq!(mailbox.take(1).unwrap().unwrap(), [gap(2, false)]);
        assert!(!mailbox.is_ready());
    }

    #[test]
    fn each_reconnection_is_a_gap_of_its_own_where_there_is_room() {
        let mut mailbox = Mailbox::new(2);
        mailbox.reconnected();
        mailbox.reconnected();
        mailbox.push(event(0));
        mailbox.reconnected();
        let heard = mailbox.take(9).unwrap().unwrap();
        assert_eq!(heard, [gap(0, true), gap(0, true), gap(1, true)]);
    }

    #[test]
    fn what_waits_at_the_end_is_given_first() {
        let mut mailbox = Mailbox::new(2);
        mailbox.push(event(0));
        mailbox.end(Some(Error::new(Code::Closed, "over")));
        mailbox.end(None);
        mailbox.push(event(1));
        mailbox.reconnected();
        assert_eq!(mailbox.take(1).unwrap().unwrap(), [Heard::Event(event(0))]);
        assert_eq!(mailbox.take(1).unwrap().unwrap_err().code(), Code::Closed);
        assert_eq!(mailbox.take(1).unwrap().unwrap(), []);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Push,
        Reconnect,
        Take(usize),
        TakeAndGiveBack(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Push),
            1 => Just(Step::Reconnect),
            2 => (1_usize..5).prop_map(Step::Take),
            1 => (1_usize..5).prop_map(Step::TakeAndGiveBack),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// Every event is given once and in its order, or counted by the gap in its place, and the buffer is bounded.
        #[test]
        fn nothing_is_lost_in_silence(steps in steps(), capacity in 1_usize..6) {
            let mut mailbox = Mailbox::new(capacity);
            let (mut pushed, mut expected, mut reconnections, mut told) = (0, 0, false, false);
            let mut check = |heard: Vec<Heard>| {
                for one in heard {
                    match one {
                        Heard::Event(found) => {
                            prop_assert_eq!(&found, &event(expected));
                            expected += 1;
                        }
                        Heard::Gap(gap) => {
                            prop_assert!(gap.missed() > 0 || gap.reconnected());
                            expected += gap.missed();
                            told |= gap.reconnected();
                        }
                    }
                }
                Ok(())
            };
            for step in steps {
                match step {
                    Step::Push => {
                        mailbox.push(event(pushed));
                        pushed += 1;
                    }
                    Step::Reconnect => {
                        mailbox.reconnected();
                        reconnections = true;
                    }
                    Step::Take(max) => {
                        if let Some(heard) = mailbox.take(max) {
                            let heard = heard.unwrap();
                            prop_assert!(!heard.is_empty() && heard.len() <= max);
                            check(heard)?;
                        }
                    }
                    Step::TakeAndGiveBack(max) => {
                        if let Some(heard) = mailbox.take(max) {
                            mailbox.give_back(heard.unwrap());
                        }
                    }
                }
                prop_assert!(mailbox.heard.len() <= capacity + 2);
            }
            while let Some(heard) = mailbox.take(3) {
                check(heard.unwrap())?;
            }
            prop_assert_eq!(expected, pushed);
            prop_assert_eq!(told, reconnections);
        }
    }
}
