//! What a consumer holds: entries ahead of its handlers, entries in their hands, and verdicts to pass on.
//!
//! It does no I/O and reads no clock, so the rules of `docs/protocol.md` §6 are tested on it alone.

mod room;

use super::acknowledgements::Acknowledgements;
use super::options::ConsumerOptions;
use super::scan::Scan;
use super::suspects::Suspects;
use crate::error::Error;
use crate::id::entry_id::EntryId;
use crate::record::Record;
use crate::stream::page_size::PageSize;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;
use std::time::Instant;

/// An entry that was fetched.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) record: Record,
    pub(super) attempts: u64,
    /// About how many bytes it has.
    bytes: usize,
    /// The value that keeps its order, as a hash.
    order: Option<u64>,
}

/// An entry that was handed out and has no verdict yet.
#[derive(Debug)]
struct InHand {
    worker: Option<usize>,
    order: Option<u64>,
}

/// Who takes entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taker {
    /// Whoever pulls: gets the next, whatever is in hand.
    Anyone,
    /// One of the workers, which handles what it takes one by one. The order of the chosen field is kept among workers.
    Worker(usize),
    /// One of the workers, which handles what it takes at once.
    Batch(usize),
}

/// What a taker gets.
#[derive(Debug)]
pub(super) enum Taken {
    Entries(Vec<Fetched>),
    /// There will be no more, because of the error if there is one.
    End(Option<Error>),
}

/// Whether the consumer works.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Hands nothing out, and waits for what is in hand until then.
    Stopping(Instant),
    Ended,
}

/// Which acknowledgements to send now, and whom a verdict woke.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) acknowledge: Vec<EntryId>,
    pub(super) wake: bool,
}

/// See the module.
pub(super) struct State {
    count: usize,
    pages: PageSize,
    concurrency: usize,
    order_by: Option<Arc<[u8]>>,
    phase: Phase,
    error: Option<Error>,
    paused: bool,
    buffer: VecDeque<Fetched>,
    /// How many bytes the buffer has.
    bytes: usize,
    hand: HashMap<EntryId, InHand>,
    /// For each worker, how many entries it took and has not begun.
    lent: Vec<usize>,
    /// For each value in the hands of a worker, the worker and how many entries of the value it has.
    busy: HashMap<u64, (usize, usize)>,
    /// How many entries the reads on their way may bring.
    reading: usize,
    /// How many entries a batch waits for.
    wanted: usize,
    /// A batch has waited for them long enough.
    due: bool,
    acknowledgements: Acknowledgements,
    /// Calls on their way to the server that tell it of verdicts.
    on_their_way: usize,
    suspects: Suspects,
    scan: Scan,
    /// Something changed that the engine must look at.
    attention: bool,
}

impl State {
    pub(super) fn new(options: &ConsumerOptions) -> Self {
        Self {
            count: options.count,
            pages: PageSize::new(options.count, options.page_bytes),
            concurrency: options.concurrency,
            order_by: options.order_by.clone(),
            phase: Phase::Running,
            error: None,
            paused: false,
            buffer: VecDeque::new(),
            bytes: 0,
            hand: HashMap::new(),
            lent: vec![0; options.concurrency],
            busy: HashMap::new(),
            reading: 0,
            wanted: 0,
            due: false,
            acknowledgements: Acknowledgements::default(),
            on_their_way: 0,
            suspects: Suspects::new(options.max_attempts.is_some()),
            scan: Scan::new(),
            attention: false,
        }
    }

    // What is held.

    /// Which entries the consumer holds, ahead of its handlers or in their hands.
    pub(super) fn held(&self) -> HashSet<EntryId> {
        self.hand.keys().copied().chain(self.buffer.iter().map(|entry| entry.record.entry_id())).collect()
    }

    /// Which entries the consumer holds, or has handled without the server knowing for certain: a drain and a reclaim can
    /// bring them once more.
    pub(super) fn known(&self) -> HashSet<EntryId> {
        let mut known = self.held();
        known.extend(self.acknowledgements.open());
        known
    }

    /// Takes entries that were fetched, in their order.
    pub(super) fn put(&mut self, entries: impl IntoIterator<Item = (Record, u64)>) {
        for (record, attempts) in entries {
            self.suspects.fetched(record.entry_id(), attempts);
            let bytes = record.size();
            self.bytes += bytes;
            let order = self.order_by.as_ref().and_then(|field| record.get(field)).map(|value| {
                let mut hasher = DefaultHasher::new();
                value.hash(&mut hasher);
                hasher.finish()
            });
            self.buffer.push_back(Fetched { record, attempts, bytes, order });
        }
    }

    // Handing out.

    /// Up to `max` entries for a taker, at least one, and whether the engine is to be woken; nothing while there is none for it.
    pub(super) fn take(&mut self, taker: Taker, max: usize) -> Option<(Taken, bool)> {
        match self.phase {
            Phase::Running if self.paused => return None,
            Phase::Running => {}
            Phase::Stopping(_) | Phase::Ended => return Some((Taken::End(self.error.take()), false)),
        }
        let (rooms, max) = (self.rooms(), max.max(1));
        let entries: Vec<Fetched> = match taker {
            Taker::Anyone => self.buffer.drain(..max.min(self.buffer.len())).collect(),
            Taker::Batch(worker) => self.take_for(worker, max),
            // What is there is shared among the workers.
            Taker::Worker(worker) => {
                self.take_for(worker, max.min(self.buffer.len().div_ceil(self.concurrency)))
            }
        };
        if entries.is_empty() {
            return None;
        }
        self.due = false;
        self.bytes -= entries.iter().map(|entry| entry.bytes).sum::<usize>();
        let worker = match taker {
            Taker::Anyone => None,
            Taker::Worker(worker) | Taker::Batch(worker) => Some(worker),
        };
        if taker == Taker::Anyone {
            self.suspects.fed();
        }
        if let (Taker::Worker(worker), Some(lent)) =
            (taker, worker.and_then(|worker| self.lent.get_mut(worker)))
        {
            debug_assert!(worker < self.concurrency);
            *lent = entries.len() - 1;
        }
        for entry in &entries {
            let order = worker.and(entry.order);
            if let (Some(order), Some(worker)) = (order, worker) {
                self.busy.entry(order).or_insert((worker, 0)).1 += 1;
            }
            self.hand.insert(entry.record.entry_id(), InHand { worker, order });
        }
        let has_room_again = self.has_room_again(rooms);
        self.attention |= has_room_again;
        Some((Taken::Entries(entries), has_room_again))
    }

    /// A taker is about to wait where there is nothing for it. True where the engine is to be woken.
    pub(super) fn ask(&mut self, taker: Taker) -> bool {
        let news = taker == Taker::Anyone && self.buffer.is_empty() && self.suspects.hunger();
        self.attention |= news;
        news
    }

    /// Whether a taker finds something, or its end.
    pub(super) fn is_ready(&self, taker: Taker) -> bool {
        match (self.phase == Phase::Running, taker) {
            (false, _) => true,
            (true, _) if self.paused => false,
            (true, Taker::Anyone) => !self.buffer.is_empty(),
            (true, Taker::Worker(worker) | Taker::Batch(worker)) => {
                self.buffer.iter().any(|entry| self.is_free(entry, worker))
            }
        }
    }

    /// Whether no other worker has an entry of the same value.
    fn is_free(&self, entry: &Fetched, worker: usize) -> bool {
        entry.order.and_then(|order| self.busy.get(&order)).is_none_or(|(owner, _)| *owner == worker)
    }

    /// Entries that this worker may begin: those whose value no other worker has, and that no entry of their value
    /// precedes.
    fn take_for(&mut self, worker: usize, max: usize) -> Vec<Fetched> {
        if self.order_by.is_none() {
            return self.buffer.drain(..max.min(self.buffer.len())).collect();
        }
        // The values are shared among the workers, or the first of them would have an entry of each to itself.
        let free = self.buffer.iter().filter(|entry| self.is_free(entry, worker));
        let share =
            free.filter_map(|entry| entry.order).collect::<HashSet<_>>().len().div_ceil(self.concurrency);
        let mut values = HashSet::with_capacity(share);
        let mut taken = Vec::new();
        let mut left = VecDeque::with_capacity(self.buffer.len());
        for entry in mem::take(&mut self.buffer) {
            let fits = taken.len() < max
                && self.is_free(&entry, worker)
                && entry.order.is_none_or(|value| {
                    values.contains(&value) || (values.len() < share && values.insert(value))
                });
            if fits { taken.push(entry) } else { left.push_back(entry) }
        }
        self.buffer = left;
        taken
    }

    /// How many entries there are for a batch to take.
    pub(super) fn available(&self) -> usize {
        self.buffer.len()
    }

    /// A batch waits no longer for more than is there: the next one to take is what is there then.
    pub(super) fn batch_has_waited(&mut self) {
        self.due = true;
    }

    /// Whether a batch may be taken: it has all that it wants, or all that can be held for it, or has waited long enough.
    pub(super) fn batch_is_due(&self, most: usize) -> bool {
        let full = !self.paused
            && !self.buffer.is_empty()
            && self.reading + self.scan.reserved() == 0
            && self.read_size() == 0;
        self.due || self.buffer.len() >= most || full || self.is_over()
    }

    /// Whether a taker need not wait any longer for what it has not got.
    pub(super) fn is_over(&self) -> bool {
        self.phase != Phase::Running
    }

    /// How many entries a batch waits for.
    pub(super) fn want(&mut self, entries: usize) {
        self.attention |= self.wanted < entries;
        self.wanted = entries;
    }

    /// Puts entries that were handed out and not begun back to the front. False where the consumer does not work any
    /// longer: they are to be given back to the group.
    pub(super) fn return_unused(&mut self, entries: Vec<(Record, u64)>) -> bool {
        let running = self.phase == Phase::Running;
        let buffered = mem::take(&mut self.buffer);
        for (record, _) in &entries {
            self.release(record.entry_id());
        }
        if running {
            self.put(entries);
        }
        self.buffer.extend(buffered);
        running
    }

    // Verdicts.

    /// Forgets an entry that was handed out. False where it was not in hand.
    fn release(&mut self, entry_id: EntryId) -> bool {
        let Some(InHand { worker, order }) = self.hand.remove(&entry_id) else { return false };
        if let Some(lent) = worker.and_then(|worker| self.lent.get_mut(worker)) {
            *lent = lent.saturating_sub(1);
        }
        if let Some(order) = order
            && let Entry::Occupied(mut busy) = self.busy.entry(order)
        {
            busy.get_mut().1 -= 1;
            if busy.get().1 == 0 {
                busy.remove();
            }
        }
        true
    }

    /// Takes the verdict on entries: those handled are acknowledged together, the others just leave the hand.
    pub(super) fn settle(&mut self, entries: &[EntryId], handled: bool, now: Instant) -> Settled {
        let rooms = self.rooms();
        let ordered = !self.busy.is_empty();
        let mut suspected = false;
        for entry_id in entries {
            // A delivery is settled once, by whoever has it; after the end its verdict still counts.
            if (self.release(*entry_id) || self.phase == Phase::Ended) && handled {
                self.acknowledgements.push(*entry_id);
                suspected |= self.suspects.contains(*entry_id);
            } else {
                self.attention |= self.suspects.cleared(*entry_id);
            }
        }
        let done = suspected || (self.hand.is_empty() && self.buffer.is_empty());
        let full = self.acknowledgements.waiting() >= self.count.min(1_000);
        let mut settled = Settled::default();
        if done || full || self.phase == Phase::Ended {
            settled.acknowledge = self.take_acknowledgements();
        } else {
            self.attention |= self.acknowledgements.schedule(now);
        }
        self.attention |= self.has_room_again(rooms) || self.phase != Phase::Running;
        settled.wake = self.attention || ordered;
        settled
    }

    /// Adds an acknowledgement of an entry that was never handed out.
    pub(super) fn acknowledge(&mut self, entry_id: EntryId, now: Instant) {
        self.acknowledgements.push(entry_id);
        self.attention |= self.acknowledgements.schedule(now);
    }

    /// The handler of an entry failed.
    pub(super) fn failed(&mut self, entry_id: EntryId) {
        self.suspects.failed(entry_id);
    }

    /// Acknowledgements arrived, or did not: then they are sent again a while later, as long as the consumer works.
    pub(super) fn acknowledged(
        &mut self,
        entries: Vec<EntryId>,
        arrived: Result<(), Error>,
        again_at: Instant,
    ) {
        self.on_their_way -= 1;
        match arrived {
            Ok(()) => {
                self.acknowledgements.confirmed(&entries);
                for entry_id in entries {
                    self.attention |= self.suspects.cleared(entry_id);
                }
            }
            Err(_) if self.phase == Phase::Ended => {}
            Err(error) => {
                self.acknowledgements.again(entries, again_at, error);
                self.attention = true;
            }
        }
    }

    /// All acknowledgements that wait, which count as on their way from now on.
    pub(super) fn take_acknowledgements(&mut self) -> Vec<EntryId> {
        let acknowledge = self.acknowledgements.take();
        self.on_their_way += usize::from(!acknowledge.is_empty());
        acknowledge
    }

    /// A verdict leaves for the server.
    pub(super) fn verdict_sent(&mut self) {
        self.on_their_way += 1;
    }

    /// A verdict arrived, or could not be brought there: then its entry is pending as before.
    pub(super) fn verdict_arrived(&mut self) {
        self.on_their_way -= 1;
    }

    /// Whether all acknowledgements are on the server; the reason where they could not be brought there yet.
    pub(super) fn verdicts_arrived(&mut self) -> Option<Result<(), Error>> {
        if self.on_their_way > 0 { None } else { self.acknowledgements.outcome() }
    }

    /// Whether a scan for idle entries is under way.
    pub(super) fn is_scanning(&self) -> bool {
        self.scan.reserved() > 0
    }

    /// How many entries are in hand or have been handled without the server knowing for certain.
    pub(super) fn unfinished(&self) -> usize {
        self.hand.len() + self.acknowledgements.open().count()
    }

    /// A failed entry is to come back then.
    pub(super) fn call_back(&mut self, entry_id: EntryId, at: Instant) {
        self.attention |= self.scan.call_back(entry_id, at);
    }

    // Times.

    /// When acknowledgements are to be sent, and when the next failed entry is to come back.
    pub(super) fn times(&self) -> (Option<Instant>, Option<Instant>) {
        (self.acknowledgements.by(), self.scan.next_due())
    }

    /// Whether something changed for the engine since it asked last.
    pub(super) fn take_attention(&mut self) -> bool {
        mem::take(&mut self.attention)
    }

    // Running, pausing, stopping.

    pub(super) fn pause(&mut self, paused: bool) {
        self.paused = paused;
        self.attention = true;
    }

    /// Asks for a stop; a second one can only bring it forward.
    pub(super) fn stop(&mut self, by: Instant) {
        match &mut self.phase {
            Phase::Running => self.phase = Phase::Stopping(by),
            Phase::Stopping(at) => *at = by.min(*at),
            Phase::Ended => {}
        }
        self.attention = true;
    }

    /// Until when a stop waits for what is in hand; nothing while the consumer works.
    pub(super) fn stopping(&self) -> Option<Instant> {
        match self.phase {
            Phase::Stopping(by) => Some(by),
            _ => None,
        }
    }

    /// Nothing is in hand any longer.
    pub(super) fn is_idle(&self) -> bool {
        self.hand.is_empty()
    }

    /// Lets go of everything that was not handed out.
    pub(super) fn take_unused(&mut self) -> Vec<EntryId> {
        self.bytes = 0;
        mem::take(&mut self.buffer).into_iter().map(|entry| entry.record.entry_id()).collect()
    }

    /// Whoever takes next is told of the error.
    pub(super) fn fail(&mut self, error: Error) {
        self.error = Some(error);
    }

    pub(super) fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }
}

#[cfg(test)]
mod tests;
