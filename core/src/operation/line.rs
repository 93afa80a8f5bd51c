//! The line: what waits to be sent, what is on its way, and what a broken connection left open.
//!
//! Order is the point. Ids are made when an operation is about to be sent, so ids leave in the order in which they
//! were made; and after a broken connection, what was on its way is asked after first, then sent again where it is
//! missing, and only then does anything newer follow. Otherwise a newer record would overtake an older one, and the
//! server would refuse the older for ever.
//!
//! A line is shared by all callers of a client, under a lock. Work that grows with a batch, making its commands and reading
//! its answers, is done with the lock released, on entries that are *in hand*: [`Line::take`] and [`Line::answer`] hand them
//! out, [`Line::sent`] and [`Line::settle`] take them back. Nor is anyone told of an answer under the lock: whoever is told may
//! use the client at once. Only the one who drives the connection does that.

mod entry;
mod node;

pub(crate) use entry::{Abandoned, Answered, Entry, Lost, Outgoing, Settled};

use super::Operation;
use super::lease::Lease;
use super::pending::{Pending, pending};
use crate::error::{Code, Error, Result};
use crate::id::mint::Refusal;
use entry::{Ended, Flight};
use node::Node;
use redis::Value;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

/// The operations of one connection, oldest first.
pub(crate) struct Line {
    /// Never sent yet.
    fresh: VecDeque<Entry>,
    /// Sent before, and to be sent again before anything fresh; by age.
    again: BTreeMap<u64, Entry>,
    /// On its way, in the order of sending.
    flight: VecDeque<Flight>,
    /// How many were handed out.
    in_hand: usize,
    /// A connection broke, and what it carried is being asked after.
    recovering: bool,
    /// The node that ids are minted with.
    node: Node,
    /// How many operations may be on their way at once: few, while one of them is suspected of breaking connections.
    window: usize,
    /// The earliest instant at which something on the line is sent again that waits by itself.
    waits_until: Option<Instant>,
    /// Nothing is sent before that instant, since the server cannot serve, for that reason.
    paused: Option<(Instant, Error)>,
    next: u64,
    weight: usize,
    bytes: usize,
    bounds: Bounds,
    closed: Option<Error>,
    /// Everything was given up; what is in hand follows when it comes back.
    given_up: Option<Error>,
}

/// Until what is on a line has more than so much, it takes operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Commands.
    pub(crate) weight: usize,
    /// Bytes for sending.
    pub(crate) bytes: usize,
}

impl Line {
    /// A line that takes operations until those on it are over the bounds.
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            fresh: VecDeque::new(),
            again: BTreeMap::new(),
            flight: VecDeque::new(),
            in_hand: 0,
            recovering: false,
            node: Node::default(),
            window: usize::MAX,
            waits_until: None,
            paused: None,
            next: node::FIRST + 1,
            weight: 0,
            bytes: 0,
            bounds,
            closed: None,
            given_up: None,
        }
    }

    /// A line whose ids are minted under a lease, given back when the line ends where it `releases`.
    pub(crate) fn leasing(bounds: Bounds, lease: Arc<Lease>, releases: bool) -> Self {
        Self { node: Node::new(lease, releases), ..Self::new(bounds) }
    }

    /// Puts an operation at the end of the line.
    ///
    /// Fails with `overloaded` where the line is full and the operation counts, and as [`Line::close`] was told where it is closed.
    pub(crate) fn submit<O: Operation>(
        &mut self,
        operation: O,
        deadline: Instant,
    ) -> Result<Pending<O::Reply>> {
        self.submit_as(operation, deadline).map(|(_, answer)| answer)
    }

    /// Puts an operation at the end of the line, as [`Line::submit`], and answers the age by which [`Line::cancel`] knows it.
    pub(crate) fn submit_as<O: Operation>(
        &mut self,
        operation: O,
        deadline: Instant,
    ) -> Result<(u64, Pending<O::Reply>)> {
        self.check_open()?;
        let (waiting, bound) = (self.weight, self.bounds.weight);
        if operation.weight() > 0 && waiting >= bound {
            return Err(Error::new(
                Code::Overloaded,
                format!(
                    "{waiting} commands are waiting for their answers already, the client's bound is {bound}"
                ),
            ));
        }
        let (size, waiting, bound) = (operation.bytes(), self.bytes, self.bounds.bytes);
        // What is over the bound by itself would never find room, so it is taken where nothing else waits.
        if waiting > 0 && waiting.saturating_add(size) > bound {
            return Err(Error::new(
                Code::Overloaded,
                format!(
                    "{waiting} bytes are waiting for their answers already and this call has {size}, the client's bound is \
                     {bound}"
                ),
            ));
        }
        let (promise, answer) = pending();
        let age = self.next;
        let entry = Entry::new(age, deadline, operation, promise);
        self.weight += entry.weight;
        self.bytes += entry.bytes;
        self.fresh.push_back(entry);
        self.next += 1;
        Ok((age, answer))
    }

    /// Hands out what is to be sent next, about `max` commands, in its order.
    pub(crate) fn take(&mut self, max: Bounds) -> Vec<Entry> {
        let mut taken = Vec::new();
        if self.is_paused() || self.recovering && !self.flight.is_empty() {
            return taken;
        }
        let most = self.window.saturating_sub(self.flight.len());
        if most > 0 {
            taken.extend(self.node.question());
        }
        let (asked, mut size) = (taken.len(), Bounds { weight: 0, bytes: 0 });
        let mut take = |taken: &mut Vec<Entry>, entry: Entry| {
            size.weight += entry.weight;
            size.bytes += entry.bytes;
            taken.push(entry);
            taken.len() < most && size.weight < max.weight && size.bytes < max.bytes
        };
        if self.recovering && asked < most {
            // What has no id yet is in no doubt, and goes on once there is a node.
            let node = &self.node;
            let mut lost = self.again.extract_if(.., |_, entry| entry.lost && !waits_for(node, entry));
            while let Some((_, entry)) = lost.next()
                && take(&mut taken, entry)
            {}
            drop(lost);
            self.recovering = taken.len() > asked;
        }
        if !self.recovering && taken.len() < most {
            while let Some(entry) = self.next()
                && take(&mut taken, entry)
            {}
        }
        if taken.is_empty() && self.has_release() {
            taken.extend(self.node.release());
        }
        self.in_hand += taken.len();
        taken
    }

    /// Hands out what is sent next.
    ///
    /// What mints waits for the lease, and what stands behind it waits with it: for the answer of the server's. Where that was
    /// to ask again later, only what mints waits.
    fn next(&mut self) -> Option<Entry> {
        let goes = |entry: &Entry| !waits_for(&self.node, entry);
        let passes = self.node.is_passed();
        let mut again = self.again.values().filter(|entry| entry.waits_until.is_none());
        let (entry, is_next) = match passes {
            true => (again.find(|entry| goes(entry)), true),
            false => {
                let first = again.next();
                (first.filter(|entry| goes(entry)), first.is_none())
            }
        };
        if let Some(age) = entry.map(|entry| entry.age) {
            return self.again.remove(&age);
        }
        if !is_next {
            return None;
        }
        let place = match passes {
            true => self.fresh.iter().position(goes)?,
            false => self.fresh.front().filter(|entry| goes(entry)).map(|_| 0)?,
        };
        self.fresh.remove(place)
    }

    /// Counts as on their way what was handed out by [`Line::take`].
    pub(crate) fn sent(&mut self, outgoing: Outgoing) -> Abandoned {
        let Outgoing { flights, held, ended } = outgoing;
        self.in_hand -= flights.len() + held.len() + ended.count;
        self.release(&ended);
        let mut abandoned = self.node_answered();
        for entry in held {
            if self.node.is_without() {
                self.release(&Ended::of(&entry));
                abandoned.0.push((entry, Refusal::NoLease.error()));
                continue;
            }
            self.node.hold();
            match &self.given_up {
                Some(why) => abandoned.0.push((entry, why.clone())),
                None => drop(self.again.insert(entry.age, entry)),
            }
        }
        for mut flight in flights {
            if let Some(why) = &self.given_up {
                abandoned.0.extend(flight.entry.take().map(|entry| (entry, why.clone())));
            }
            self.flight.push_back(flight);
        }
        abandoned
    }

    /// Takes one answer: the next to the oldest command on its way. Hands out the entry that now has all its answers.
    ///
    /// An answer that nothing waits for is dropped.
    pub(crate) fn answer(&mut self, reply: Value) -> Option<Answered> {
        let flight = self.flight.front_mut()?;
        flight.replies.push(reply);
        if flight.replies.len() < flight.expected {
            return None;
        }
        let Flight { entry, replies, .. } = self.flight.pop_front()?;
        self.in_hand += usize::from(entry.is_some());
        Some(Answered { entry: entry?, replies })
    }

    /// Takes back what was handed out by [`Line::answer`].
    pub(crate) fn settle(&mut self, settled: Settled) -> Abandoned {
        let ended = settled.ended.of_callers;
        let abandoned = self.put_back(settled);
        if self.window < usize::MAX && ended > 0 {
            // As many more are trusted, and all where no suspect is left.
            self.window = if self.is_suspicious() { self.window.saturating_add(ended) } else { usize::MAX };
        }
        abandoned
    }

    fn put_back(&mut self, settled: Settled) -> Abandoned {
        let Settled { again, ended, .. } = settled;
        self.in_hand -= again.len() + ended.count;
        self.release(&ended);
        let mut abandoned = self.node_answered();
        for entry in again {
            self.waits_until = self.waits_until.into_iter().chain(entry.waits_until).min();
            match &self.given_up {
                Some(why) => abandoned.0.push((entry, why.clone())),
                None => drop(self.again.insert(entry.age, entry)),
            }
        }
        abandoned
    }

    /// Looks whether the node lease was answered; where it was refused, what waits for it is given up.
    fn node_answered(&mut self) -> Abandoned {
        match self.node.answered() {
            Some(why) => self.give_up(|entry| entry.task.mints(), |_, _| why.clone()),
            None => Abandoned::default(),
        }
    }

    fn release(&mut self, ended: &Ended) {
        self.weight -= ended.weight;
        self.bytes -= ended.bytes;
    }

    /// Whether anything on the line was on its way when a connection broke.
    fn is_suspicious(&self) -> bool {
        let flight = self.flight.iter().filter_map(|flight| flight.entry.as_ref());
        flight.chain(self.again.values()).any(|entry| entry.breaks > 0)
    }

    /// The connection broke, for that reason, after so many bytes had left: hands out what was on its way, which goes back by
    /// [`Line::recover`] before anything is taken.
    ///
    /// Something among it may have broken the connection, and would break the next one too. So from the second time on fewer
    /// are on their way at once, until the guilty one is alone, and that one is given up; the others get their answers.
    pub(crate) fn broken(&mut self, left: u64, why: &Error) -> Lost {
        self.node.broken();
        let (sent, unsent): (Vec<Flight>, Vec<Flight>) =
            mem::take(&mut self.flight).into_iter().partition(|flight| flight.begins < left);
        let (alone, count) = (sent.len() == 1, sent.len());
        let again = |flight: &Flight| flight.entry.as_ref().is_some_and(|entry| entry.breaks > 0);
        if sent.iter().any(again) {
            self.window = (self.window.min(count) / 4).max(1);
        }
        let mut lost = Lost::new(why.clone(), alone);
        let answered = |Flight { entry, replies, .. }| Some(Answered { entry: entry?, replies });
        lost.sent.extend(sent.into_iter().filter_map(answered));
        lost.unsent.extend(unsent.into_iter().filter_map(|flight| flight.entry));
        self.in_hand += lost.sent.len() + lost.unsent.len();
        lost
    }

    /// Takes back what was lost: it is asked after before anything else is sent.
    pub(crate) fn recover(&mut self, lost: Settled) -> Abandoned {
        let abandoned = self.put_back(lost);
        self.recovering = self.again.values().any(|entry| entry.lost);
        if !self.is_suspicious() {
            self.window = usize::MAX;
        }
        abandoned
    }

    /// The server cannot serve, for that reason: nothing is sent before that instant. What is due before is `unavailable`.
    pub(crate) fn pause(&mut self, until: Instant, why: Error) {
        self.paused = Some((until, why));
    }

    /// Whether nothing is sent, since the server cannot serve.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// When sending goes on, of all or of what waits by itself.
    pub(crate) fn goes_on_at(&self) -> Option<Instant> {
        let paused = self.paused.as_ref().map(|(until, _)| *until);
        paused.into_iter().chain(self.waits_until).min()
    }

    /// Goes on with sending where a pause is over.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.paused.take_if(|(until, _)| *until <= now);
        if self.waits_until.take_if(|until| *until <= now).is_some() {
            for entry in self.again.values_mut() {
                entry.waits_until.take_if(|until| *until <= now);
            }
            self.waits_until = self.again.values().filter_map(|entry| entry.waits_until).min();
        }
    }

    /// Whether something is to be sent now.
    pub(crate) fn has_work(&self) -> bool {
        let mut entries = self.again.values().chain(&self.fresh).filter(|entry| entry.age != node::FIRST);
        let waits = entries.next().is_some_and(|entry| self.recovering || !waits_for(&self.node, entry));
        let blocked = self.recovering && !self.flight.is_empty();
        waits && !blocked
    }

    /// Whether nobody waits for anything. Answers to what was given up may still come, and the question for the node has no
    /// caller.
    pub(crate) fn is_empty(&self) -> bool {
        let flight = self.flight.iter().filter_map(|flight| flight.entry.as_ref());
        let mut entries = flight.chain(self.again.values());
        self.in_hand == 0
            && self.fresh.is_empty()
            && entries.all(|entry| entry.age == node::FIRST)
            && !self.node.is_releasing()
    }

    /// Whether nothing is left to do, and nothing will come.
    pub(crate) fn is_finished(&self) -> bool {
        self.closed.is_some() && self.is_empty() && !self.has_release()
    }

    /// The earliest deadline on the line.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let flight = self.flight.iter().filter_map(|flight| flight.entry.as_ref());
        let entries = flight.chain(self.again.values()).chain(&self.fresh);
        // The question for the node has no caller; what waits for it has its own deadline.
        entries.filter(|entry| entry.age != node::FIRST).map(|entry| entry.deadline).min()
    }

    /// Gives up what is past its deadline, for the reason given; what waits for a server that cannot serve, for that one.
    pub(crate) fn expire(&mut self, now: Instant, why: impl Fn() -> Error) -> Abandoned {
        self.resume(now);
        let refusal = self.node.refusal();
        self.give_up(
            |entry| entry.deadline <= now,
            |entry, refused| {
                let refusal = refusal.clone().filter(|_| entry.task.mints());
                refusal.or_else(|| refused.cloned()).unwrap_or_else(&why)
            },
        )
    }

    /// Gives up what waits, for the reason given: the server refuses the client. A write that was sent waits on, since the
    /// client may be taken again and what became of it can be found out then.
    pub(crate) fn refuse(&mut self, why: impl Fn() -> Error) -> Abandoned {
        self.give_up(|entry| !entry.task.finds_out(), |_, _| why())
    }

    /// Gives up one operation, whose caller does not wait any longer.
    pub(crate) fn cancel(&mut self, age: u64, why: &Error) -> Abandoned {
        self.give_up(|entry| entry.age == age, |_, _| why.clone())
    }

    /// The reason is made for an operation, from that for which the server could not serve, where that is what it waits for.
    fn give_up(
        &mut self,
        which: impl Fn(&Entry) -> bool,
        why: impl Fn(&Entry, Option<&Error>) -> Error,
    ) -> Abandoned {
        let mut gone: Vec<Entry> = Vec::new();
        let fresh = mem::take(&mut self.fresh);
        for entry in fresh {
            if which(&entry) { gone.push(entry) } else { self.fresh.push_back(entry) }
        }
        gone.extend(self.again.extract_if(.., |_, entry| which(entry)).map(|(_, entry)| entry));
        let here = gone.len();
        gone.extend(self.flight.iter_mut().filter_map(|flight| flight.entry.take_if(|entry| which(entry))));
        let mut ended = Ended::default();
        gone.iter().for_each(|entry| ended.count(entry));
        self.release(&ended);
        let paused = self.paused.as_ref().map(|(_, why)| why);
        let why = |(place, entry): (usize, Entry)| {
            let refused = entry.refused.as_ref().or(paused).filter(|_| place < here);
            let why = why(&entry, refused);
            (entry, why)
        };
        Abandoned(gone.into_iter().enumerate().map(why).collect())
    }

    /// Fails as [`Line::close`] was told where it is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.closed.clone().map_or(Ok(()), Err)
    }

    /// Whether the line is closed, has nothing left, and the node is still to be given back.
    pub(crate) fn has_release(&self) -> bool {
        self.closed.is_some() && self.is_empty() && self.given_up.is_none() && self.node.is_to_release()
    }

    /// Takes nothing more; further calls get the error.
    pub(crate) fn close(&mut self, error: Error) {
        self.closed.get_or_insert(error);
    }

    /// Gives up everything, and answers how many operations that were.
    pub(crate) fn abandon(&mut self, why: &Error) -> (usize, Abandoned) {
        let abandoned = self.give_up(|_| true, |_, _| why.clone());
        self.flight.clear();
        self.recovering = false;
        self.given_up = Some(why.clone());
        let count = self.in_hand + abandoned.0.iter().filter(|(entry, _)| entry.age != node::FIRST).count();
        (count, abandoned)
    }

    /// Who waits for the oldest operation, to be woken so that it takes over the work.
    pub(crate) fn owner_of_oldest(&self) -> Option<Waker> {
        let flight = self.flight.iter().filter_map(|flight| flight.entry.as_ref());
        // Nobody waits for the question for the node.
        flight
            .chain(self.again.values())
            .chain(&self.fresh)
            .find(|entry| entry.age != node::FIRST)?
            .task
            .owner()
    }
}

/// Whether an id is to be made for it, and there is no node to make it with.
fn waits_for(node: &Node, entry: &Entry) -> bool {
    node.is_held() && entry.task.mints()
}

#[cfg(test)]
mod tests;
