//! Which channels are wanted, and by whom. It does no I/O.

use super::Sink;
use crate::connection::outage::is_told;
use crate::error::Error;
use crate::events::Channel;
use crate::events::event::Event;
use crate::events::listener::ListenerStatus;
use crate::notice::{Board, Notice, NoticeKind};
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

/// How it stands with a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its channel is to be subscribed to.
    Wanted,
    /// The server has confirmed its channel.
    Confirmed,
    /// It was let go of, or there is no way on, for that reason.
    Ended(Option<Error>),
}

/// Everything that hears a channel; taken out as it is whenever something was heard.
pub(super) type Sinks = Arc<Vec<(u64, Arc<dyn Sink>)>>;

/// What a client's listeners want and how it stands.
#[derive(Default)]
pub(super) struct State {
    channels: HashMap<Arc<str>, Subscription>,
    /// Whether there is an engine.
    running: bool,
    connected: bool,
    /// Why there is no connection.
    error: Option<Error>,
    /// The engine is to look at the channels.
    attention: bool,
    holds: u64,
    /// Why a hold was ended from here.
    ended: HashMap<u64, Error>,
}

struct Subscription {
    confirmed: bool,
    /// Those who want it.
    holds: Vec<Holding>,
    sinks: Sinks,
    /// It was confirmed before.
    was_confirmed: bool,
    resubscriptions: u64,
}

struct Holding {
    number: u64,
    notices: Board,
    /// It was told that the connection is gone.
    cut_off: bool,
}

impl Subscription {
    /// Tells whoever does not know it yet that the connection is gone, or there again.
    fn tell(&mut self, cut_off: bool, notice: &Notice) {
        for hold in self.holds.iter_mut().filter(|hold| hold.cut_off != cut_off) {
            hold.cut_off = cut_off;
            hold.notices.post(notice.clone());
        }
    }

    /// Tells those that were told that they are cut off why they still are.
    fn tell_more(&self, notice: &Notice) {
        self.holds.iter().filter(|hold| hold.cut_off).for_each(|hold| hold.notices.post(notice.clone()));
    }

    /// There is no way on: why, for each hold.
    fn end(&self, error: &Error) -> impl Iterator<Item = (u64, Error)> {
        self.holds.iter().map(|hold| {
            hold.notices.end();
            (hold.number, error.clone())
        })
    }
}

impl State {
    /// Wants a channel: the number of the hold, and whether an engine is to be started.
    pub(super) fn hold(&mut self, channel: &Channel, notices: Board) -> (u64, bool) {
        self.holds += 1;
        let number = self.holds;
        let subscription = self.channels.entry(channel.spelled.clone()).or_insert_with(|| Subscription {
            confirmed: false,
            holds: Vec::new(),
            sinks: Sinks::default(),
            was_confirmed: false,
            resubscriptions: 0,
        });
        subscription.holds.push(Holding { number, notices, cut_off: false });
        self.attention = true;
        (number, !mem::replace(&mut self.running, true))
    }

    /// How it stands with a hold on a channel.
    pub(super) fn standing(&self, channel: &str, number: u64) -> Standing {
        match self.held(channel, number) {
            Some(subscription) if subscription.confirmed => Standing::Confirmed,
            Some(_) => Standing::Wanted,
            None => Standing::Ended(self.ended.get(&number).cloned()),
        }
    }

    fn held(&self, channel: &str, number: u64) -> Option<&Subscription> {
        let subscription = self.channels.get(channel)?;
        subscription.holds.iter().any(|hold| hold.number == number).then_some(subscription)
    }

    /// Lets go of a hold, and hands out what heard through it.
    pub(super) fn release(&mut self, channel: &str, number: u64) -> Vec<Arc<dyn Sink>> {
        self.ended.remove(&number);
        let Some(subscription) = self.channels.get_mut(channel) else { return Vec::new() };
        subscription.holds.retain(|hold| hold.number != number);
        let sinks = subscription.sinks.iter().filter(|(hold, _)| *hold == number);
        let gone: Vec<Arc<dyn Sink>> = sinks.map(|(_, sink)| sink.clone()).collect();
        if !gone.is_empty() {
            Arc::make_mut(&mut subscription.sinks).retain(|(hold, _)| *hold != number);
        }
        if subscription.holds.is_empty() {
            self.channels.remove(channel);
            self.attention = true;
        }
        gone
    }

    /// Adds what hears a channel through a hold, which has not ended.
    pub(super) fn attach(&mut self, channel: &str, number: u64, sink: Arc<dyn Sink>) {
        if let Some(subscription) = self.channels.get_mut(channel) {
            Arc::make_mut(&mut subscription.sinks).push((number, sink));
        }
    }

    pub(super) fn detach(&mut self, channel: &str, sink: &Arc<dyn Sink>) {
        if let Some(subscription) = self.channels.get_mut(channel) {
            Arc::make_mut(&mut subscription.sinks).retain(|(_, other)| !Arc::ptr_eq(other, sink));
        }
    }

    pub(super) fn status(&self, channel: &str, number: u64) -> ListenerStatus {
        let subscription = self.held(channel, number);
        ListenerStatus {
            connected: self.connected && subscription.is_some_and(|subscription| subscription.confirmed),
            resubscriptions: subscription.map_or(0, |subscription| subscription.resubscriptions),
            error: self.error.clone(),
        }
    }

    pub(super) fn take_attention(&mut self) -> bool {
        mem::take(&mut self.attention)
    }

    pub(super) fn has_attention(&self) -> bool {
        self.attention
    }

    /// Every channel that is wanted.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Arc<str>> {
        self.channels.keys()
    }

    pub(super) fn is_wanted(&self, channel: &str) -> bool {
        self.channels.contains_key(channel)
    }

    /// Whether nobody listens any longer, so that the engine ends.
    pub(super) fn ends(&mut self) -> bool {
        if self.channels.is_empty() {
            self.running = false;
            self.connected = false;
            self.error = None;
        }
        !self.running
    }

    pub(super) fn connected(&mut self) {
        self.connected = true;
        self.error = None;
        self.attention = true;
    }

    /// There is no connection: every channel is to be subscribed to again.
    pub(super) fn disconnected(&mut self, error: Error) {
        self.connected = false;
        let before = self.error.as_ref().map(Error::code);
        let is_another_reason = is_told(error.code()) && before != Some(error.code());
        let notice = Notice::of_error(NoticeKind::Disconnected, &error);
        for subscription in self.channels.values_mut() {
            if mem::take(&mut subscription.confirmed) {
                subscription.tell(true, &notice);
            } else if is_another_reason {
                subscription.tell_more(&notice);
            }
        }
        self.error = Some(error);
    }

    /// The server confirmed a channel. Hands out what is to be told that something may be missing.
    pub(super) fn confirmed(&mut self, channel: &str) -> Option<Sinks> {
        let subscription = self.channels.get_mut(channel)?;
        let already = mem::replace(&mut subscription.confirmed, true);
        let before = mem::replace(&mut subscription.was_confirmed, true);
        if already || !before {
            return None;
        }
        subscription.resubscriptions += 1;
        subscription.tell(false, &Notice::new(NoticeKind::Reconnected, "the listener hears again"));
        Some(subscription.sinks.clone())
    }

    /// The server refused a channel. Hands out what heard it.
    pub(super) fn refused(&mut self, channel: &str, error: &Error) -> Sinks {
        let Some(subscription) = self.channels.remove(channel) else { return Sinks::default() };
        self.ended.extend(subscription.end(error));
        self.attention = true;
        subscription.sinks
    }

    /// There is no way on for any channel. Hands out everything that heard.
    pub(super) fn ended(&mut self, error: &Error) -> Vec<Sinks> {
        self.running = false;
        self.connected = false;
        let channels = mem::take(&mut self.channels).into_values();
        channels
            .map(|subscription| {
                self.ended.extend(subscription.end(error));
                subscription.sinks
            })
            .collect()
    }

    /// Everything that hears a channel.
    pub(super) fn sinks(&self, channel: &str) -> Sinks {
        self.channels.get(channel).map(|subscription| subscription.sinks.clone()).unwrap_or_default()
    }
}

/// Tells everything that hears a channel.
pub(super) fn tell(sinks: &Sinks, events: &[Event]) {
    sinks.iter().for_each(|(_, sink)| sink.hear(events));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::keyspace::Keyspace;
    use std::sync::Mutex;
    use std::time::Duration;

    #[derive(Default)]
    struct Log(Mutex<Vec<String>>);

    impl Log {
        fn said(&self) -> Vec<String> {
            mem::take(&mut *self.0.lock().unwrap())
        }

        fn say(&self, what: String) {
            self.0.lock().unwrap().push(what);
        }
    }

    impl Sink for Log {
        fn hear(&self, events: &[Event]) {
            events.iter().for_each(|event| self.say(String::from_utf8_lossy(event.payload()).into_owned()));
        }

        fn resubscribed(&self) {
            self.say("gap".to_owned());
        }

        fn end(&self, error: Option<Error>) {
            self.say(error.map_or("end".to_owned(), |error| error.code().to_string()));
        }
    }

    fn channel(queue: &str) -> Channel {
        Channel::new(Keyspace::new(queue).unwrap())
    }

    fn attach(state: &mut State, channel: &Channel, hold: u64) -> Arc<Log> {
        let log = Arc::new(Log::default());
        state.attach(channel, hold, log.clone());
        log
    }

    fn error(code: Code) -> Error {
        Error::new(code, "why")
    }

    fn told(board: &Board) -> Vec<(NoticeKind, Option<Code>)> {
        let notices = std::iter::from_fn(|| board.notices().wait_next(Duration::ZERO).flatten());
        notices.map(|notice| (notice.kind(), notice.code())).collect()
    }

    /// What the engine does with what a change hands out.
    fn confirm(state: &mut State, channel: &Channel) {
        for (_, sink) in state.confirmed(channel).unwrap_or_default().iter() {
            sink.resubscribed();
        }
    }

    #[test]
    fn one_engine_for_all_until_nobody_listens() {
        let mut state = State::default();
        let (a, b) = (channel("a"), channel("b"));
        assert_eq!(state.hold(&a, Board::new()), (1, true));
        assert_eq!(state.hold(&a, Board::new()), (2, false));
        assert_eq!(state.hold(&b, Board::new()), (3, false));
        assert_eq!(state.wanted().count(), 2);
        assert!(state.take_attention() && !state.take_attention());
        state.release(&a, 1);
        assert!(state.is_wanted(&a) && !state.has_attention());
        state.release(&a, 2);
        assert!(!state.is_wanted(&a) && state.has_attention() && !state.ends());
        state.release(&b, 3);
        assert!(state.ends() && !state.running);
        assert_eq!(state.hold(&b, Board::new()), (4, true));
    }

    #[test]
    fn a_gap_is_told_after_each_loss_and_not_at_the_beginning() {
        let mut state = State::default();
        let (a, b) = (channel("a"), channel("b"));
        let board = Board::new();
        let (first, second) = (state.hold(&a, board.clone()).0, state.hold(&b, Board::new()).0);
        state.connected();
        assert_eq!(state.standing(&a, first), Standing::Wanted);
        confirm(&mut state, &a);
        assert_eq!(state.standing(&a, first), Standing::Confirmed);
        let log = attach(&mut state, &a, first);
        assert_eq!(log.said().len(), 0);
        for resubscriptions in 1..4 {
            state.disconnected(error(Code::Disconnected));
            state.disconnected(error(Code::Timeout));
            assert_eq!(told(&board), [(NoticeKind::Disconnected, Some(Code::Disconnected))]);
            state.disconnected(error(Code::Auth));
            state.disconnected(error(Code::Auth));
            assert_eq!(told(&board), [(NoticeKind::Disconnected, Some(Code::Auth))]);
            assert!(!state.status(&a, first).connected && state.status(&a, first).error.is_some());
            let late = Board::new();
            state.hold(&a, late.clone());
            state.connected();
            assert!(!state.status(&a, first).connected, "it is not confirmed yet");
            confirm(&mut state, &a);
            confirm(&mut state, &a);
            assert_eq!(log.said(), ["gap"]);
            assert_eq!(told(&board), [(NoticeKind::Reconnected, None)]);
            assert_eq!(told(&late), [], "it has lost nothing");
            assert!(state.status(&a, first).connected);
            assert_eq!(state.status(&a, first).resubscriptions, resubscriptions);
        }
        // A channel that was never confirmed before has missed nothing.
        let other = attach(&mut state, &b, second);
        confirm(&mut state, &b);
        assert_eq!(other.said().len(), 0);
        state.refused(&a, &error(Code::Auth));
        assert_eq!(board.notices().wait_next(Duration::ZERO), Some(None), "nothing more will be told");
    }

    #[test]
    fn what_is_let_go_of_ends_and_nothing_else() {
        let mut state = State::default();
        let a = channel("a");
        let (first, second) = (state.hold(&a, Board::new()).0, state.hold(&a, Board::new()).0);
        let (one, other) = (attach(&mut state, &a, first), attach(&mut state, &a, second));
        let gone = state.release(&a, first);
        gone.iter().for_each(|sink| sink.end(None));
        assert_eq!((gone.len(), one.said().len(), other.said().len()), (1, 1, 0));
        tell(&state.sinks(&a), &[Event::new(b"x".to_vec())]);
        assert_eq!((one.said().len(), other.said()), (0, vec!["x".to_owned()]));
        let sink: Arc<dyn Sink> = other.clone();
        state.detach(&a, &sink);
        assert_eq!(state.sinks(&a).len(), 0);
        assert!(state.release(&a, first).is_empty(), "it was let go of before");
    }

    #[test]
    fn a_refusal_is_of_one_channel_and_stays_until_its_holds_are_gone() {
        let mut state = State::default();
        let (a, b) = (channel("a"), channel("b"));
        let (first, second) = (state.hold(&a, Board::new()).0, state.hold(&b, Board::new()).0);
        attach(&mut state, &a, first);
        let sinks = state.refused(&a, &error(Code::Auth));
        assert_eq!(sinks.len(), 1);
        assert_eq!(state.standing(&a, first), Standing::Ended(Some(error(Code::Auth))));
        assert_eq!(state.standing(&b, second), Standing::Wanted);
        // Whoever wants it later asks anew.
        let third = state.hold(&a, Board::new()).0;
        assert_eq!(state.standing(&a, third), Standing::Wanted);
        state.release(&a, first);
        assert_eq!(state.standing(&a, first), Standing::Ended(None));
        assert!(state.is_wanted(&a));
        assert_eq!(state.ended.len(), 0);
    }

    #[test]
    fn an_end_is_of_everything() {
        let mut state = State::default();
        let (a, b) = (channel("a"), channel("b"));
        let (first, second) = (state.hold(&a, Board::new()).0, state.hold(&b, Board::new()).0);
        attach(&mut state, &b, second);
        let sinks = state.ended(&error(Code::Closed));
        assert_eq!(sinks.iter().map(|sinks| sinks.len()).sum::<usize>(), 1);
        for (channel, hold) in [(&a, first), (&b, second)] {
            assert_eq!(state.standing(channel, hold), Standing::Ended(Some(error(Code::Closed))));
        }
        assert!(!state.running && state.hold(&a, Board::new()).1);
    }
}
