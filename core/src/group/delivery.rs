//! An entry in hand, and its verdict.

use super::verdict::{Failure, Inner};
use crate::error::Result;
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use crate::record::Record;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// An entry as a handler sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    record: Record,
    attempts: u64,
    group: Arc<str>,
}

impl Message {
    /// The record.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The record, without a copy.
    pub fn into_record(self) -> Record {
        self.record
    }

    /// The branded id, by which a handler tells an entry that comes twice; nothing for a foreign entry.
    pub fn id(&self) -> Option<EventId> {
        self.record.id()
    }

    /// The server's id of the entry.
    pub fn entry_id(&self) -> EntryId {
        self.record.entry_id()
    }

    /// How often the entry was delivered, this delivery included.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// The group that it was delivered to.
    pub fn group(&self) -> &str {
        &self.group
    }
}

/// An entry in hand. It gets one verdict: [`Delivery::ack`] or [`Delivery::fail`].
///
/// While it is in hand it is kept from other consumers, however long that takes. Dropped without a verdict it stays
/// pending, and comes back after `min_idle`.
pub struct Delivery {
    inner: Arc<Inner>,
    /// In place until the verdict.
    message: Option<Message>,
    entry_id: EntryId,
    attempts: u64,
}

impl Delivery {
    pub(super) fn new(inner: Arc<Inner>, record: Record, attempts: u64) -> Self {
        let (entry_id, group) = (record.entry_id(), inner.member.group.clone());
        Self { inner, message: Some(Message { record, attempts, group }), entry_id, attempts }
    }

    /// The entry was handled: the group forgets it.
    ///
    /// The acknowledgement leaves together with others, within 5 ms; see [`Consumer::flush`](crate::Consumer::flush).
    pub fn ack(mut self) {
        self.decide(|inner, entry_id, _| inner.settle(&[entry_id], true));
    }

    /// The entry was not handled, for that reason: it comes back, or becomes a dead letter.
    pub fn fail(mut self, why: impl Into<Failure>) {
        let why = why.into();
        self.decide(|inner, entry_id, attempts| inner.fail(entry_id, attempts, why));
    }

    /// Acknowledges many of one consumer at once.
    pub fn ack_all(deliveries: impl IntoIterator<Item = Delivery>) {
        let mut entries = Vec::new();
        let mut consumer: Option<Arc<Inner>> = None;
        for mut delivery in deliveries {
            if consumer.as_ref().is_some_and(|inner| !Arc::ptr_eq(inner, &delivery.inner)) {
                delivery.ack();
                continue;
            }
            consumer.get_or_insert_with(|| delivery.inner.clone());
            delivery.decide(|_, entry_id, _| entries.push(entry_id));
        }
        if let Some(inner) = consumer {
            inner.settle(&entries, true);
        }
    }

    /// Shows a sign of life for this entry now.
    ///
    /// The consumer does so by itself, at a third of `min_idle`; this is for a handler that is about to keep the
    /// process too busy for that.
    pub fn extend(&self) {
        if self.inner.origin.is_here() {
            self.inner.keep_pending(&[self.entry_id], Duration::ZERO);
        }
    }

    /// Fails with [`Code::Closed`](crate::Code::Closed) in a forked child, where no verdict counts.
    pub fn check(&self) -> Result<()> {
        self.inner.origin.check()
    }

    /// Gives the entry back as if it had not been handed out: to the front of what its consumer has, or to the group where
    /// the consumer has stopped.
    pub fn give_back(self) {
        Self::give_back_all([self]);
    }

    /// Gives many of one consumer back; see [`Delivery::give_back`].
    pub fn give_back_all(deliveries: impl IntoIterator<Item = Delivery>) {
        let mut consumer: Option<Arc<Inner>> = None;
        let mut entries = Vec::new();
        for mut delivery in deliveries {
            let attempts = delivery.attempts;
            if let Some(message) = delivery.take() {
                consumer.get_or_insert_with(|| delivery.inner.clone());
                entries.push((message.record, attempts));
            }
        }
        if let Some(inner) = consumer {
            inner.return_unused(entries);
        }
    }

    /// The entry apart from the verdict that it still gets.
    pub(super) fn split(mut self) -> Option<(Message, Open)> {
        let (inner, entry_id, attempts) = (self.inner.clone(), self.entry_id, self.attempts);
        self.take().map(|message| (message, Open(Some((inner, entry_id, attempts)))))
    }

    fn take(&mut self) -> Option<Message> {
        if self.inner.origin.is_here() { self.message.take() } else { None }
    }

    fn decide(&mut self, verdict: impl FnOnce(&Arc<Inner>, EntryId, u64)) {
        if self.take().is_some() {
            verdict(&self.inner, self.entry_id, self.attempts);
        }
    }
}

impl Deref for Delivery {
    type Target = Message;

    #[allow(clippy::expect_used, reason = "only methods that consume the delivery take the message")]
    fn deref(&self) -> &Message {
        self.message.as_ref().expect("a delivery has its message until its verdict")
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.decide(|inner, entry_id, _| inner.settle(&[entry_id], false));
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivery({}, {})", self.entry_id, self.inner.member)
    }
}

/// An entry whose message is in a handler's hands. Dropped without a verdict it stays pending.
pub(super) struct Open(Option<(Arc<Inner>, EntryId, u64)>);

impl Open {
    /// Takes the verdict.
    pub(super) fn close(mut self, verdict: Result<(), Failure>) {
        if let Some((inner, entry_id, attempts)) = self.0.take() {
            match verdict {
                Ok(()) => inner.settle(&[entry_id], true),
                Err(failure) => inner.fail(entry_id, attempts, failure),
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some((inner, entry_id, _)) = self.0.take()
            && inner.origin.is_here()
        {
            inner.settle(&[entry_id], false);
        }
    }
}
