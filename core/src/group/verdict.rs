//! Bringing verdicts to the server: acknowledgements, retries, dead letters (`docs/protocol.md` §6.6 and §6.8).

use super::dead_letter::{DeadLetter, Outcome};
use super::member::Member;
use super::options::{ConsumerOptions, OnForeign};
use super::page::Page;
use super::settle::{Acknowledge, KeepPending};
use super::state::State;
use crate::connection::door::Door;
use crate::connection::shared::Shared;
use crate::error::Error;
use crate::id::entry_id::EntryId;
use crate::notice::{Board, Notice, NoticeKind};
use crate::operation::Operation;
use crate::operation::monitor::Monitor;
use crate::process::Origin;
use crate::record::Record;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many entries one call speaks of at most.
const SLICE: usize = 1_000;

/// After a verdict could not be brought to the server, it is brought again after this time.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What a consumer and its deliveries share.
pub(super) struct Inner {
    pub(super) member: Member,
    pub(super) options: ConsumerOptions,
    pub(super) door: Shared,
    pub(super) origin: Origin,
    pub(super) monitor: Monitor<State>,
    pub(super) notices: Board,
}

/// Why a handler did not handle an entry, and how soon it is to come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    reason: Vec<u8>,
    delay: Option<Duration>,
}

impl Failure {
    /// A failure for that reason, which a dead letter keeps.
    pub fn new(reason: impl Into<Vec<u8>>) -> Self {
        Self { reason: reason.into(), delay: None }
    }

    /// Has the entry come back after that time, `min_idle` at most, whatever the consumer's `retry` says.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay: Some(delay), ..self }
    }
}

impl<R: std::fmt::Display> From<R> for Failure {
    fn from(reason: R) -> Self {
        Self::new(reason.to_string())
    }
}

impl Inner {
    /// Takes the verdict on entries that were handed out.
    pub(super) fn settle(self: &Arc<Self>, entries: &[EntryId], handled: bool) {
        let settle = |state: &mut State| {
            let settled = state.settle(entries, handled, Instant::now());
            (settled.acknowledge, settled.wake)
        };
        let acknowledge = self.monitor.change_if(settle);
        self.acknowledge(acknowledge);
    }

    /// Sends acknowledgements, which were counted as on their way if there are any.
    pub(super) fn acknowledge(self: &Arc<Self>, entries: Vec<EntryId>) {
        if entries.is_empty() {
            return;
        }
        let inner = self.clone();
        let operation = Acknowledge { member: self.member.clone(), entries: entries.clone() };
        self.door.run(Ok(operation)).on_complete(move |answer| {
            inner.tell_trouble(answer.as_ref().err());
            inner.monitor.change(|state| {
                state.acknowledged(entries, answer.map(drop), Instant::now() + AGAIN_AFTER);
            });
        });
    }

    /// Takes back what was handed out and not begun.
    pub(super) fn return_unused(self: &Arc<Self>, entries: Vec<(Record, u64)>) {
        let ids: Vec<EntryId> = entries.iter().map(|(record, _)| record.entry_id()).collect();
        if !self.monitor.change(|state| state.return_unused(entries)) {
            self.keep_pending(&ids, self.options.min_idle);
        }
    }

    /// Takes the verdict that an entry was not handled.
    pub(super) fn fail(self: &Arc<Self>, entry_id: EntryId, attempts: u64, failure: Failure) {
        let Failure { reason, delay } = failure;
        let text = String::from_utf8_lossy(&reason).into_owned();
        self.tell(Notice::of_entry(NoticeKind::Failed, entry_id, text).with_attempts(attempts));
        if self.options.max_attempts.is_some_and(|max| attempts >= max) {
            return self.dead_letter(entry_id, attempts, reason);
        }
        self.monitor.with(|state| state.failed(entry_id));
        if let Some(delay) = delay.or_else(|| self.options.retry_delay(attempts)) {
            self.call_back(entry_id, delay.min(self.options.min_idle));
        } else {
            self.settle(&[entry_id], false);
        }
    }

    /// Has the entry come back sooner than after `min_idle`: to this consumer, or to another where this one is gone.
    fn call_back(self: &Arc<Self>, entry_id: EntryId, delay: Duration) {
        let idle = self.options.min_idle.saturating_sub(delay);
        let inner = self.clone();
        let keep = KeepPending::new(self.member.clone(), idle, vec![entry_id]);
        self.monitor.with(State::verdict_sent);
        // It leaves the hand before the server can give it to a scan, which drops what is in hand.
        self.settle(&[entry_id], false);
        self.bring(keep, move |_| {
            // The server counts whole milliseconds.
            let at = Instant::now() + delay + Duration::from_millis(1);
            inner.monitor.change(|state| state.call_back(entry_id, at));
        });
    }

    fn dead_letter(self: &Arc<Self>, entry_id: EntryId, attempts: u64, reason: Vec<u8>) {
        let inner = self.clone();
        let Member { key, group, .. } = self.member.clone();
        let mut operation =
            DeadLetter::new(key, group, entry_id, attempts, reason, self.door.settings().timeout);
        if self.door.minter().has_given_node() {
            operation = operation.with_given_node();
        }
        self.verdict(operation, move |outcome| {
            let notice = match outcome {
                Some(Outcome::Moved(id)) => {
                    Some((NoticeKind::DeadLetter, format!("is the dead letter {id} now")))
                }
                Some(Outcome::Lost) => Some((NoticeKind::Lost, LOST.to_owned())),
                // Another consumer has settled it, or it stays pending and fails again.
                Some(Outcome::Settled) | None => None,
            };
            if let Some((kind, message)) = notice {
                inner.tell(Notice::of_entry(kind, entry_id, message).with_attempts(attempts));
            }
            // Until here it was in hand, so that nobody reclaimed it.
            inner.settle(&[entry_id], false);
        });
    }

    /// Sends what tells the server of a verdict, and tells in a notice when it could not be brought there.
    fn verdict<O: Operation>(
        self: &Arc<Self>,
        operation: O,
        then: impl FnOnce(Option<O::Reply>) + Send + 'static,
    ) {
        self.monitor.with(State::verdict_sent);
        self.bring(operation, then);
    }

    /// The same for a verdict that was counted as on its way.
    fn bring<O: Operation>(
        self: &Arc<Self>,
        operation: O,
        then: impl FnOnce(Option<O::Reply>) + Send + 'static,
    ) {
        let inner = self.clone();
        self.door.run(Ok(operation)).on_complete(move |answer| {
            let (reply, error) = match answer {
                Ok(reply) => (Some(reply), None),
                Err(error) => (None, Some(error)),
            };
            then(reply);
            inner.tell_trouble(error.as_ref());
            inner.monitor.change(State::verdict_arrived);
        });
    }

    /// Tells something beside the deliveries.
    pub(super) fn tell(&self, notice: Notice) {
        self.notices.post(notice);
    }

    fn tell_trouble(&self, error: Option<&Error>) {
        if let Some(error) = error {
            self.tell(Notice::of_error(NoticeKind::Trouble, error));
        }
    }

    /// Says how long entries that are pending for this consumer have been idle.
    pub(super) fn keep_pending(self: &Arc<Self>, entries: &[EntryId], idle: Duration) {
        for slice in entries.chunks(SLICE) {
            self.verdict(KeepPending::new(self.member.clone(), idle, slice.to_vec()), |_| ());
        }
    }

    /// Gives back what was fetched and not handed out: any consumer may take it at once.
    pub(super) fn give_back_unused(self: &Arc<Self>) {
        let unused = self.monitor.with(State::take_unused);
        self.keep_pending(&unused, self.options.min_idle);
    }

    /// Takes what was fetched: most of it is handed out, some of it is settled at once.
    pub(super) fn take_in(self: &Arc<Self>, page: Page, known: Option<HashSet<EntryId>>) {
        let Page { mut deliveries, mut removed, entries, bytes, .. } = page;
        if let Some(known) = known {
            deliveries.retain(|(record, _)| !known.contains(&record.entry_id()));
            removed.retain(|entry_id| !known.contains(entry_id));
        }
        let mut skipped = Vec::new();
        let mut failed = Vec::new();
        let (options, max) = (&self.options, self.options.max_attempts.unwrap_or(u64::MAX));
        if max < u64::MAX || options.on_foreign != OnForeign::Deliver {
            deliveries.retain(|(record, attempts)| {
                let foreign = record.is_foreign().then_some(options.on_foreign);
                match foreign {
                    Some(OnForeign::Skip) => skipped.push(record.entry_id()),
                    Some(OnForeign::Fail) => {
                        failed.push((record.entry_id(), *attempts, Failure::new(FOREIGN)))
                    }
                    // Its deliveries were used up by handlers that never gave a verdict.
                    _ if *attempts > max => {
                        failed.push((record.entry_id(), *attempts - 1, Failure::new(SILENT)))
                    }
                    _ => return true,
                }
                false
            });
        }
        for (settled, kind, why) in
            [(&removed, NoticeKind::Lost, LOST), (&skipped, NoticeKind::Foreign, FOREIGN)]
        {
            settled.iter().for_each(|entry_id| self.tell(Notice::of_entry(kind, *entry_id, why)));
        }
        let now = Instant::now();
        self.monitor.change(|state| {
            removed.iter().chain(&skipped).for_each(|entry_id| state.acknowledge(*entry_id, now));
            state.page_came(entries, bytes);
            state.put(deliveries);
        });
        for (entry_id, attempts, failure) in failed {
            if failure.reason == FOREIGN.as_bytes() {
                self.tell(Notice::of_entry(NoticeKind::Foreign, entry_id, FOREIGN));
            }
            self.fail(entry_id, attempts, failure);
        }
    }
}

const LOST: &str = "its data was trimmed away before it was handled";
const FOREIGN: &str = "this bus did not write the entry";
const SILENT: &str = "its handlers ended without a verdict";
