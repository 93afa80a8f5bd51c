//! What drives the listening connection.

use super::Inner;
use super::heartbeat::{Heartbeat, Pulse};
use super::incoming::Incoming;
use super::state::tell;
use crate::connection::backoff::Backoff;
use crate::connection::door::{Door, closed, demoted, silent};
use crate::connection::link::Link;
use crate::connection::settings::Settings;
use crate::connection::shared::{Attendance, Shared};
use crate::connection::socket::failure;
use crate::error::{Code, Error};
use crate::events::publish::refused;
use crate::record::packed::Packed;
use crate::record::reply;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use tokio::time::{sleep, sleep_until};

/// Listens until nobody does any longer.
pub(super) struct Engine {
    inner: Arc<Inner>,
    settings: Settings,
    /// Has the client's closing wait for the engine.
    attendance: Option<Attendance>,
    /// It has ended by itself, and another one may be at work.
    over: bool,
}

/// Why a connection is not used any longer.
enum End {
    /// Nobody listens.
    Finished,
    Broken(Error),
}

impl Engine {
    pub(super) fn new(inner: Arc<Inner>, door: &Shared) -> Self {
        let settings = door.settings().clone();
        Self { inner, settings, attendance: Some(door.attend()), over: false }
    }

    pub(super) async fn run(mut self) {
        let Some(mut attendance) = self.attendance.take() else { return };
        let closing = tokio::select! {
            biased;
            _ = attendance.closing() => Some(closed()),
            error = self.listen() => error,
        };
        self.over = true;
        if let Some(error) = closing {
            self.end(&error);
        }
    }

    /// Listens until nobody does any longer, or there is no way on.
    async fn listen(&mut self) -> Option<Error> {
        let settings = self.settings.clone();
        let mut backoff = Backoff::new(settings.reconnect_min, settings.reconnect_max);
        loop {
            let error = match self.unless_finished(Link::open(&settings)).await? {
                Ok(link) => {
                    match Connection::new(self.inner.clone(), link, &settings).serve(&mut backoff).await {
                        End::Finished => return None,
                        End::Broken(error) => error,
                    }
                }
                Err(error) if error.code() == Code::VersionFence => return Some(error),
                Err(error) => error,
            };
            self.inner.monitor.change(|state| state.disconnected(error));
            let wait = backoff.wait();
            self.unless_finished(sleep(wait)).await?;
        }
    }

    /// Waits while anybody listens.
    async fn unless_finished<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        let finished =
            self.inner.monitor.until(|state| (state.take_attention() && state.ends()).then_some(()));
        tokio::select! {
            biased;
            () = finished => None,
            value = wait => Some(value),
        }
    }

    fn end(&self, error: &Error) {
        for sinks in self.inner.monitor.change(|state| state.ended(error)) {
            sinks.iter().for_each(|(_, sink)| sink.end(Some(error.clone())));
        }
    }
}

/// Whatever ends the engine, the end of its runtime included, nobody waits for it any longer.
impl Drop for Engine {
    fn drop(&mut self) {
        if self.inner.origin.is_here() && !self.over {
            self.end(&closed());
        }
    }
}

/// A command that the server has not answered.
enum Asked {
    Subscribe(Arc<str>),
    Unsubscribe,
    Ping,
}

/// The open connection.
struct Connection<'a> {
    inner: Arc<Inner>,
    link: Link,
    settings: &'a Settings,
    asked: VecDeque<Asked>,
    /// The channels that were asked for, and whether they are confirmed.
    channels: HashMap<Arc<str>, bool>,
}

impl<'a> Connection<'a> {
    fn new(inner: Arc<Inner>, link: Link, settings: &'a Settings) -> Self {
        inner.monitor.change(|state| state.connected());
        Self { inner, link, settings, asked: VecDeque::new(), channels: HashMap::new() }
    }

    /// Listens until the connection breaks or nobody listens any longer.
    async fn serve(mut self, backoff: &mut Backoff) -> End {
        let mut heartbeat = Heartbeat::new(self.settings.heartbeat, Instant::now());
        let mut incoming = Vec::new();
        let mut heard = self.link.heard();
        loop {
            // A long message that arrives steadily is a sign of life before it is whole.
            if heard < self.link.heard() {
                heard = self.link.heard();
                heartbeat.heard(heard);
            }
            if self.inner.monitor.with(|state| state.take_attention()) {
                if self.inner.monitor.with(|state| state.ends()) {
                    return End::Finished;
                }
                self.adjust();
            }
            if !self.link.opened().is_current() {
                return End::Broken(demoted(self.settings));
            }
            match heartbeat.look(Instant::now()) {
                Pulse::Fine => {}
                Pulse::Ask => {
                    self.link.output().command(1).arg("PING");
                    self.asked.push_back(Asked::Ping);
                }
                Pulse::Silent(silent_for) => return End::Broken(silent(self.settings, silent_for)),
            }
            let inner = self.inner.clone();
            tokio::select! {
                biased;
                exchanged = self.link.exchange_with(|decoder| Incoming::take(decoder, &mut incoming)) => match exchanged {
                    Ok(()) => {
                        heartbeat.heard(Instant::now());
                        // To be greeted is no answer: a server that hangs up then is given rest.
                        backoff.reset();
                        incoming.drain(..).for_each(|incoming| self.take_in(incoming));
                    }
                    Err(error) => return End::Broken(failure(&self.settings.endpoint, &error)),
                },
                () = inner.monitor.until(|state| state.has_attention().then_some(())) => {}
                () = sleep_until(heartbeat.look_at().into()) => {}
            }
        }
    }

    /// Asks for the channels that are wanted, and for the end of those that are not.
    fn adjust(&mut self) {
        let Self { inner, link, asked, channels, .. } = self;
        inner.monitor.change(|state| {
            channels.retain(|channel, _| {
                let wanted = state.is_wanted(channel);
                if !wanted {
                    command("UNSUBSCRIBE", channel, link.output());
                    asked.push_back(Asked::Unsubscribe);
                }
                wanted
            });
            let wanted: Vec<Arc<str>> = state.wanted().cloned().collect();
            for channel in wanted {
                match channels.get(&channel) {
                    // Whoever wants it now finds it confirmed.
                    Some(true) => drop(state.confirmed(&channel)),
                    Some(false) => {}
                    None => {
                        command("SUBSCRIBE", &channel, link.output());
                        asked.push_back(Asked::Subscribe(channel.clone()));
                        channels.insert(channel, false);
                    }
                }
            }
        });
    }

    /// Hands events on, and takes answers.
    fn take_in(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Events { channel, events } => {
                let channel = String::from_utf8_lossy(&channel);
                tell(&self.inner.monitor.with(|state| state.sinks(&channel)), &events);
            }
            Incoming::Subscribed(channel) => {
                self.asked.pop_front();
                let channel = String::from_utf8_lossy(&channel);
                // With another request behind it, this one was followed by an end of the subscription.
                let asked_again =
                    |asked: &Asked| matches!(asked, Asked::Subscribe(other) if **other == *channel);
                match self.channels.get_mut(&*channel) {
                    Some(confirmed) if !self.asked.iter().any(asked_again) => *confirmed = true,
                    _ => return,
                }
                let sinks = self.inner.monitor.change(|state| state.confirmed(&channel));
                if let Some(sinks) = sinks {
                    sinks.iter().for_each(|(_, sink)| sink.resubscribed());
                }
            }
            Incoming::Refused(error) => {
                if let Some(Asked::Subscribe(channel)) = self.asked.pop_front() {
                    self.channels.remove(&channel);
                    let error = refused(reply::refused(&error), &channel);
                    let sinks = self.inner.monitor.change(|state| state.refused(&channel, &error));
                    sinks.iter().for_each(|(_, sink)| sink.end(Some(error.clone())));
                }
            }
            Incoming::Unsubscribed | Incoming::Pong => drop(self.asked.pop_front()),
            Incoming::Other => {}
        }
    }
}

fn command(name: &str, channel: &str, commands: &mut Packed) {
    commands.command(2).arg(name).arg(channel);
}
