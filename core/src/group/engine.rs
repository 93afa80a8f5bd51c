//! What drives a consumer: it fetches ahead, and has duties while it waits (`docs/protocol.md` §6).

use super::door::{From, OpenDoor};
use super::drain::Drain;
use super::page::Page;
use super::read::ReadNew;
use super::reclaim::{Reclaim, Reclaimed};
use super::settle::Unseen;
use super::state::State;
use super::verdict::Inner;
use crate::connection::backoff::Backoff;
use crate::connection::door::Door;
use crate::connection::lane::Lane;
use crate::connection::outage::is_told;
use crate::connection::shared::Attendance;
use crate::error::{Code, Error, Result};
use crate::id::entry_id::EntryId;
use crate::notice::{Notice, NoticeKind};
use crate::operation::command::Command;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use redis::Value;
use std::collections::VecDeque;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, sleep_until, timeout_at};

/// How long the end waits for the server beyond the deadline, so that the last verdicts have a chance.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// Fetches for a consumer until it is stopped.
pub(super) struct Engine {
    duties: Duties,
    lane: Option<Lane>,
    /// The reads on their way.
    reads: VecDeque<Read>,
    source: Source,
    /// The last new entry that this consumer was given, or where the group stood when it began.
    position: EntryId,
    backoff: Backoff,
    disconnected: Option<Code>,
}

/// How many reads are on their way at most: one that the server works on, and one behind it.
const READS: usize = 2;

/// A read of new entries on its way.
struct Read {
    operation: ReadNew,
    sent: Instant,
}

/// Where entries come from.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// This consumer's own pending ones behind an entry.
    ///
    /// What a consumer finds when it starts was given out before; anything later is in the hands of another process that uses
    /// its name.
    Own {
        after: EntryId,
        up_to: EntryId,
    },
    New,
}

impl Engine {
    /// An engine for a group whose door is open, with a lane to begin with.
    pub(super) fn new(inner: Arc<Inner>, lane: Lane, position: EntryId) -> Self {
        let settings = inner.door.settings();
        let backoff = Backoff::new(settings.reconnect_min, settings.reconnect_max);
        Self {
            duties: Duties::new(inner),
            lane: Some(lane),
            reads: VecDeque::new(),
            source: Source::Own { after: EntryId::MIN, up_to: position },
            position,
            backoff,
            disconnected: None,
        }
    }

    /// Runs until the consumer is stopped or cannot go on.
    pub(super) async fn run(mut self) {
        let error = loop {
            match self.turn().await {
                Ok(true) => {}
                Ok(false) => break None,
                Err(error) => {
                    if let Some(error) = self.overcome(error).await {
                        break Some(error);
                    }
                }
            }
        };
        self.end_reads().await;
        // A read that has no answer yet ends with its connection.
        let cut_off = !self.reads.is_empty();
        self.close_lane();
        self.duties.finish(self.position, cut_off, error).await;
    }

    /// Ends the blocked reads and gives back what they had been given, which nobody has seen.
    ///
    /// A read that ended with its connection could be carried out after it was looked for what it had been given.
    async fn end_reads(&mut self) {
        let Self { duties, lane, reads, position, .. } = self;
        let inner = &duties.inner;
        let Some((lane, number)) = lane.as_mut().and_then(|lane| lane.number().map(|number| (lane, number)))
        else {
            return;
        };
        let last = Instant::now() + LAST_WORDS;
        while !reads.is_empty() && Instant::now() < last {
            let unblock = inner.door.run(Command::new(["CLIENT", "UNBLOCK", &number.to_string()]));
            // Where it is not allowed, the read ends with its connection.
            let Ok(Ok(_)) = timeout_at(last.into(), unblock).await else { return };
            let again = (Instant::now() + UNBLOCK_AGAIN).min(last);
            while let Some(read) = reads.front_mut() {
                // The server begins with the read behind it only now, which has to be unblocked too.
                let Ok(reply) = timeout_at(again.into(), lane.receive(last)).await else { break };
                let Ok(reply) = reply else { return };
                if let Step::Done(Ok(page)) = read.operation.answered(vec![reply]) {
                    let entries: Vec<EntryId> = page
                        .deliveries
                        .iter()
                        .map(|(record, _)| record.entry_id())
                        .chain(page.removed)
                        .collect();
                    inner.keep_pending(&entries, inner.options.min_idle);
                    *position = page.last.unwrap_or(*position);
                }
                if let Some(read) = reads.pop_front() {
                    inner.monitor.with(|state| state.end_read(read.operation.count));
                }
            }
        }
    }

    /// Fetches once; false once the consumer is to stop.
    async fn turn(&mut self) -> Result<bool> {
        self.duties.draining = matches!(self.source, Source::Own { .. });
        if !self.open_lane().await? {
            return Ok(false);
        }
        let page = match self.source {
            Source::Own { after, .. } => self.read_own(after).await,
            Source::New => self.read_new().await,
        };
        match page {
            Some(page) => self.take_in(page?),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Sees to it that there is a lane; false once the consumer is to stop.
    async fn open_lane(&mut self) -> Result<bool> {
        if self.lane.as_ref().is_some_and(Lane::is_open) {
            return Ok(true);
        }
        self.close_lane();
        let settings = self.duties.inner.door.settings().clone();
        let Some(opened) = self.duties.attend(Lane::open(settings)).await else { return Ok(false) };
        self.lane = Some(opened?);
        // Whatever the old one was given last is pending and was never seen.
        if let Source::New = self.source {
            self.source = Source::Own { after: self.position, up_to: EntryId::MAX };
            self.duties.draining = true;
        }
        Ok(true)
    }

    /// Closes the lane; what it was given last is read again by the next one.
    fn close_lane(&mut self) {
        self.lane = None;
        for read in self.reads.drain(..) {
            self.duties.inner.monitor.with(|state| state.end_read(read.operation.count));
        }
    }

    /// A page of the consumer's own pending entries; nothing once it is to stop.
    async fn read_own(&mut self, after: EntryId) -> Option<Result<Page>> {
        let (inner, duties) = (self.duties.inner.clone(), &mut self.duties);
        let room = inner.monitor.until(|state| Some(state.redelivery_room()).filter(|room| *room > 0));
        let room = duties.attend(room).await?;
        let lane = self.lane.as_mut()?;
        let drain = Drain::new(inner.member.clone(), after, room);
        let page = duties.attend(lane.run(drain, Duration::ZERO)).await?;
        if page.as_ref().is_err_and(is_cut) {
            inner.monitor.with(|state| state.page_cut(room));
        }
        Some(page)
    }

    /// A page of new entries; nothing once the consumer is to stop.
    ///
    /// The next read is sent as soon as there is room for what it may bring, so that the server need not wait for it.
    async fn read_new(&mut self) -> Option<Result<Page>> {
        let Self { duties, lane, reads, .. } = self;
        let (inner, lane) = (duties.inner.clone(), lane.as_mut()?);
        let block = inner.options.beat;
        let page = loop {
            let full = reads.len() == READS;
            let more =
                async { if full { pending().await } else { inner.monitor.until(State::begin_read).await } };
            // The server begins with a read when it has answered the one before.
            let answered = async {
                match reads.front() {
                    Some(read) => lane.receive(read.sent + block).await,
                    // A consumer that has enough to do hears all the same that its connection is gone.
                    None => Err(lane.lost().await),
                }
            };
            let next = async {
                tokio::select! {
                    biased;
                    size = more => Next::Send(size),
                    reply = answered => Next::Take(reply),
                }
            };
            match duties.attend(next).await? {
                Next::Send(count) => {
                    let operation = ReadNew { member: inner.member.clone(), count, block };
                    let mut commands = Packed::default();
                    operation.commands(&mut commands);
                    reads.push_back(Read { operation, sent: Instant::now() });
                    if let Err(error) = lane.send(&commands).await {
                        break Err(error);
                    }
                }
                Next::Take(Err(error)) => break Err(error),
                Next::Take(Ok(reply)) => {
                    let Some(mut read) = reads.pop_front() else { continue };
                    if let Some(behind) = reads.front_mut() {
                        behind.sent = Instant::now();
                    }
                    inner.monitor.with(|state| state.end_read(read.operation.count));
                    match read.operation.answered(vec![reply]) {
                        Step::Done(page) => break page,
                        Step::Again => continue,
                        Step::Later(why) | Step::Wait(why) => break Err(why),
                    }
                }
            }
        };
        if let Err(error) = &page {
            if is_cut(error) {
                // The answers to both reads may have been too much together.
                let asked = self.reads.iter().map(|read| read.operation.count).sum();
                inner.monitor.with(|state| state.page_cut(asked));
            }
            self.close_lane();
        }
        Some(page)
    }

    fn take_in(&mut self, mut page: Page) {
        let inner = &self.duties.inner;
        if self.disconnected.take().is_some() {
            inner.tell(Notice::new(NoticeKind::Reconnected, "the consumer reads again"));
        }
        let settings = inner.door.settings();
        self.backoff = Backoff::new(settings.reconnect_min, settings.reconnect_max);
        match (self.source, page.last) {
            (Source::Own { .. }, None) => self.source = Source::New,
            (Source::Own { up_to, .. }, Some(last)) => {
                self.source = if last < up_to { Source::Own { after: last, up_to } } else { Source::New };
                page.keep_up_to(up_to);
                let known = inner.monitor.with(|state| state.known());
                inner.take_in(page, Some(known));
            }
            (Source::New, None) => {}
            (Source::New, Some(last)) => {
                self.position = last;
                inner.take_in(page, None);
            }
        }
    }

    /// Deals with what went wrong and waits a while; the error where there is no way on.
    async fn overcome(&mut self, error: Error) -> Option<Error> {
        match error.code() {
            Code::NoGroup => match self.open_door().await {
                Some(Ok(())) | None => return None,
                Some(Err(again)) if again.code() == Code::NoGroup => {}
                Some(Err(again)) => self.report(&again),
            },
            Code::WrongType | Code::VersionFence | Code::Closed => return Some(error),
            _ => self.report(&error),
        }
        let wait = self.backoff.wait();
        self.duties.attend(sleep(wait)).await;
        None
    }

    /// Makes the group again that was lost; nothing once the consumer is to stop.
    async fn open_door(&mut self) -> Option<Result<()>> {
        let inner = self.duties.inner.clone();
        let (key, group) = (inner.member.key.clone(), inner.member.group.clone());
        let door = OpenDoor::new(key, group, From::Position(self.position));
        let opened = match self.duties.attend(inner.door.run(Ok(door))).await? {
            Ok(opened) => opened,
            Err(error) => return Some(Err(error)),
        };
        self.position = opened.position;
        let message = format!("the group had vanished and begins again behind {}", opened.position);
        inner.tell(Notice::new(NoticeKind::GroupRecreated, message));
        Some(Ok(()))
    }

    /// Tells of a trouble; of a connection that is lost once, until it is there again or the reason is another one.
    fn report(&mut self, error: &Error) {
        let inner = &self.duties.inner;
        match error.code() {
            code @ (Code::Disconnected | Code::Timeout | Code::Tls | Code::UnsupportedServer) => {
                let before = self.disconnected.replace(code);
                if before.is_none_or(|before| is_told(code) && before != code) {
                    inner.tell(Notice::of_error(NoticeKind::Disconnected, error));
                }
            }
            _ => inner.tell(Notice::of_error(NoticeKind::Trouble, error)),
        }
    }
}

/// Whether a page that was on its way did not come, perhaps for its size.
fn is_cut(error: &Error) -> bool {
    matches!(error.code(), Code::Disconnected | Code::Timeout)
}

/// What a reader does next.
enum Next {
    /// Sends another read, for so many entries.
    Send(usize),
    /// Takes an answer.
    Take(Result<Value>),
}

/// What goes on whatever the engine waits for: acknowledgements, signs of life, and the scan for idle entries.
struct Duties {
    inner: Arc<Inner>,
    /// Has the client's closing wait for the consumer.
    attendance: Attendance,
    next_sign: Instant,
    next_scan: Instant,
    /// The consumer's own pending entries are being read: a scan would bring some of them a second time.
    draining: bool,
}

impl Duties {
    fn new(inner: Arc<Inner>) -> Self {
        let now = Instant::now();
        Self {
            attendance: inner.door.attend(),
            next_sign: now + inner.options.min_idle / 3,
            next_scan: now,
            draining: true,
            inner,
        }
    }

    /// Waits while the duties go on; nothing once the consumer is to stop.
    async fn attend<T>(&mut self, wait: impl Future<Output = T>) -> Option<T> {
        let mut wait = pin!(wait);
        loop {
            if self.inner.monitor.with(|state| state.stopping()).is_some() {
                return None;
            }
            let timer = self.do_what_is_due(true);
            tokio::select! {
                biased;
                value = &mut wait => return Some(value),
                () = self.inner.monitor.until(|state| state.take_attention().then_some(())) => {}
                deadline = self.attendance.closing() => self.inner.monitor.change(|state| state.stop(deadline)),
                () = sleep_until(timer.into()) => {}
            }
        }
    }

    /// Does what is due, and answers when to look again.
    fn do_what_is_due(&mut self, scans: bool) -> Instant {
        let (inner, now) = (&self.inner, Instant::now());
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let (acknowledge_by, _) = inner.monitor.with(|state| state.times());
        if due(acknowledge_by) {
            inner.acknowledge(inner.monitor.with(State::take_acknowledgements));
        }
        if self.next_sign <= now {
            self.next_sign = now + inner.options.min_idle / 3;
            let held: Vec<EntryId> = inner.monitor.with(|state| state.held()).into_iter().collect();
            inner.keep_pending(&held, Duration::ZERO);
        }
        let scans = scans && !self.draining;
        if scans {
            self.scan(now);
        }
        let (acknowledge_by, call_back_at) = self.inner.monitor.with(|state| state.times());
        // What was to come back and found no room waits for room, not for a time.
        let call_back_at = call_back_at.filter(|at| *at > now);
        let scan_at = [Some(self.next_scan), call_back_at].into_iter().flatten().filter(|_| scans);
        let times = acknowledge_by.into_iter().chain(scan_at).chain([self.next_sign]);
        times.min().unwrap_or(self.next_sign).max(now + MOMENT)
    }

    /// Looks for idle entries when the beat says so, or for those that are to come back now.
    fn scan(&mut self, now: Instant) {
        let inner = self.inner.clone();
        let beat = self.next_scan <= now;
        if beat {
            self.next_scan = now + inner.options.beat;
        }
        let begun = inner.monitor.with(|state| state.begin_scan(now, beat));
        let Some((cursor, count)) = begun else { return };
        let scan = Reclaim::new(inner.member.clone(), inner.options.min_idle, cursor, count);
        inner.clone().door.run(Ok(scan)).on_complete(move |answer| {
            // What a scan runs into, the reader runs into too, and reports.
            let Reclaimed { page, cursor, asked } = match answer {
                Ok(reclaimed) => reclaimed,
                Err(error) => {
                    return inner.monitor.change(|state| {
                        if is_cut(&error) {
                            state.page_cut(count);
                        }
                        state.scan_ended(None);
                    });
                }
            };
            let found = page.deliveries.len() + page.removed.len();
            let known = inner.monitor.with(|state| {
                if asked < count {
                    state.page_cut(2 * asked);
                }
                state.known()
            });
            inner.take_in(page, Some(known));
            // It may have come after the consumer gave back what it had.
            if inner.monitor.with(|state| state.stopping()).is_some() {
                inner.give_back_unused();
            }
            inner.monitor.change(|state| state.scan_ended(Some((cursor, found, asked))));
        });
    }

    /// Waits for what is in hand, brings the last verdicts to the server, and gives back what was not begun.
    async fn finish(&mut self, position: EntryId, cut_off: bool, error: Option<Error>) {
        let inner = self.inner.clone();
        let deadline = inner.monitor.change(|state| {
            if let Some(error) = error {
                state.fail(error);
                state.stop(Instant::now());
            }
            state.stopping().unwrap_or_else(Instant::now)
        });
        // What a scan under way brings is given back with the rest.
        let scanned = inner.monitor.until(|state| (!state.is_scanning()).then_some(()));
        let _ = timeout_at((Instant::now() + LAST_WORDS).into(), scanned).await;
        inner.give_back_unused();
        if cut_off {
            self.give_back_unseen(position, deadline).await;
        }
        loop {
            let timer = self.do_what_is_due(false);
            let (idle, stop_at) = inner.monitor.with(|state| (state.is_idle(), state.stopping()));
            let stop_at = stop_at.unwrap_or(deadline);
            if idle || stop_at <= Instant::now() {
                break;
            }
            let attention = inner.monitor.until(|state| state.take_attention().then_some(()));
            let _ = timeout_at(timer.min(stop_at).into(), attention).await;
        }
        inner.acknowledge(inner.monitor.with(State::take_acknowledgements));
        let arrived = inner.monitor.until(State::verdicts_arrived);
        let last = deadline.max(Instant::now() + LAST_WORDS);
        let _ = timeout_at(last.into(), arrived).await;
        inner.monitor.change(State::end);
    }

    /// What the reads that were cut off had been given is pending, and nobody has seen it.
    ///
    /// The server may carry one of them out after the first look, since it comes over another connection; so it looks again.
    async fn give_back_unseen(&self, position: EntryId, deadline: Instant) {
        let inner = &self.inner;
        let last = deadline.max(Instant::now() + LAST_WORDS);
        for pause in LOOKS {
            sleep(pause).await;
            let unseen = inner.door.run(Ok(Unseen { member: inner.member.clone(), after: position }));
            let Ok(Ok(unseen)) = timeout_at(last.into(), unseen).await else { return };
            let known = inner.monitor.with(|state| state.known());
            let unseen: Vec<EntryId> =
                unseen.into_iter().filter(|entry_id| !known.contains(entry_id)).collect();
            inner.keep_pending(&unseen, inner.options.min_idle);
        }
    }
}

/// How soon a read that was unblocked before it began is unblocked again.
const UNBLOCK_AGAIN: Duration = Duration::from_millis(10);

/// When it is looked for what a read that was cut off had been given, each time after the last.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(10), Duration::from_millis(40)];

/// A timer that is due is looked at again after this time at the soonest.
const MOMENT: Duration = Duration::from_millis(1);

/// Whatever ends the engine, the end of its runtime included, nobody waits for it any longer.
impl Drop for Duties {
    fn drop(&mut self) {
        if self.inner.origin.is_here() {
            self.inner.notices.end();
            self.inner.monitor.change(|state| {
                if !state.has_ended() {
                    state.fail(Error::new(Code::Closed, "the runtime that drove the consumer has ended"));
                    state.end();
                }
            });
        }
    }
}
