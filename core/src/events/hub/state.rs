//! Which channels are wanted, and by whom. It does no I/O.

use super::Sink;
use crate::error::Error;
use crate::events::Channel;
use crate::events::event::Event;
use crate::events::listener::ListenerStatus;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

/// How it stands with a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is to be subscribed to.
    Wanted,
    Confirmed,
    Refused(Error),
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
    standing: Standing,
    /// Those who want it, by their numbers.
    holds: Vec<u64>,
    sinks: Sinks,
    /// It was confirmed before.
    was_confirmed: bool,
    resubscriptions: u64,
}

impl State {
    /// Wants a channel: the number of the hold, and whether an engine is to be started.
    pub(super) fn hold(&mut self, channel: &Channel) -> (u64, bool) {
        self.holds += 1;
        let number = self.holds;
        let subscription = self.channels.entry(channel.spelled.clone()).or_insert_with(|| Subscription {
            standing: Standing::Wanted,
            holds: Vec::new(),
            sinks: Sinks::default(),
            was_confirmed: false,
            resubscriptions: 0,
        });
        subscription.holds.push(number);
        self.attention = true;
        (number, !mem::replace(&mut self.running, true))
    }

    /// How it stands with the channel of a hold.
    pub(super) fn standing(&self, channel: &str, number: u64) -> Standing {
        match self.channels.get(channel).filter(|subscription| subscription.holds.contains(&number)) {
            Some(subscription) => subscription.standing.clone(),
            None => match self.ended.get(&number) {
                Some(error) => Standing::Refused(error.clone()),
                None => Standing::Wanted,
            },
        }
    }

    /// Lets go of a hold, and hands out what heard through it.
    pub(super) fn release(&mut self, channel: &str, number: u64) -> Vec<Arc<dyn Sink>> {
        self.ended.remove(&number);
        let Some(subscription) = self.channels.get_mut(channel) else { return Vec::new() };
        subscription.holds.retain(|other| *other != number);
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

    /// Adds what hears a channel through a hold; why not, where that was ended.
    pub(super) fn attach(
        &mut self,
        channel: &str,
        number: u64,
        sink: Arc<dyn Sink>,
    ) -> Option<Option<Error>> {
        match self.channels.get_mut(channel).filter(|subscription| subscription.holds.contains(&number)) {
            Some(subscription) => {
                Arc::make_mut(&mut subscription.sinks).push((number, sink));
                None
            }
            None => Some(self.ended.get(&number).cloned()),
        }
    }

    pub(super) fn detach(&mut self, channel: &str, sink: &Arc<dyn Sink>) {
        if let Some(subscription) = self.channels.get_mut(channel) {
            Arc::make_mut(&mut subscription.sinks).retain(|(_, other)| !Arc::ptr_eq(other, sink));
        }
    }

    pub(super) fn status(&self, channel: &str) -> ListenerStatus {
        let subscription = self.channels.get(channel);
        ListenerStatus {
            connected: self.connected
                && subscription.is_some_and(|subscription| subscription.standing == Standing::Confirmed),
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

    pub(super) fn is_running(&self) -> bool {
        self.running
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
        self.error = Some(error);
        self.channels.values_mut().for_each(|subscription| subscription.standing = Standing::Wanted);
    }

    /// The server confirmed a channel. Hands out what is to be told that something may be missing.
    pub(super) fn confirmed(&mut self, channel: &str) -> Option<Sinks> {
        let subscription = self.channels.get_mut(channel)?;
        if mem::replace(&mut subscription.standing, Standing::Confirmed) == Standing::Confirmed {
            return None;
        }
        if !mem::replace(&mut subscription.was_confirmed, true) {
            return None;
        }
        subscription.resubscriptions += 1;
        Some(subscription.sinks.clone())
    }

    /// The server refused a channel. Hands out what heard it.
    pub(super) fn refused(&mut self, channel: &str, error: &Error) -> Sinks {
        let Some(subscription) = self.channels.remove(channel) else { return Sinks::default() };
        self.ended.extend(subscription.holds.iter().map(|hold| (*hold, error.clone())));
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
                self.ended.extend(subscription.holds.iter().map(|hold| (*hold, error.clone())));
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
