//! What drives a consumer: it fetches ahead, and has duties while it waits (`docs/protocol.md` §6).

use super::door::{From, OpenDoor};
use super::drain::Drain;
use super::notice::{Notice, NoticeKind};
use super::page::Page;
use super::read::ReadNew;
use super::reclaim::{Reclaim, Reclaimed};
use super::settle::Unseen;
use super::state::State;
use super::verdict::Inner;
use crate::connection::backoff::Backoff;
use crate::connection::door::Door;
use crate::connection::lane::Lane;
use crate::connection::shared::Attendance;
use crate::error::{Code, Error, Result};
use crate::id::entry_id::EntryId;
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
    source: Source,
    /// The last new entry that this consumer was given, or where the group stood when it began.
    position: EntryId,
    backoff: Backoff,
    disconnected: bool,
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
            source: Source::Own { after: EntryId::MIN, up_to: position },
            position,
            backoff,
            disconnected: false,
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
        // A blocked read ends with its connection.
        self.lane = None;
        self.duties.finish(self.position, error).await;
    }

    /// Fetches once; false once the consumer is to stop.
    async fn turn(&mut self) -> Result<bool> {
        let Self { duties, lane, .. } = self;
        duties.draining = matches!(self.source, Source::Own { .. });
        let inner = duties.inner.clone();
        let draining = duties.draining;
        let room = inner.monitor.until(|state| {
            let room = if draining { state.redelivery_room() } else { state.room() };
            (room > 0).then_some(room)
        });
        let Some(room) = duties.attend(room).await else { return Ok(false) };
        let lane = match lane {
            Some(open) if open.is_open() => open,
            closed => {
                *closed = None;
                let Some(opened) = duties.attend(Lane::open(inner.door.settings().clone())).await else {
                    return Ok(false);
                };
                // Whatever the old one was given last is pending and was never seen.
                self.source = match self.source {
                    Source::New => Source::Own { after: self.position, up_to: EntryId::MAX },
                    own => own,
                };
                closed.insert(opened?)
            }
        };
        let page = match self.source {
            Source::Own { after, .. } => {
                let operation = Drain::new(inner.member.clone(), after, room);
                duties.attend(lane.run(operation, Duration::ZERO)).await
            }
            Source::New => {
                let (count, block) = (duties.begin_read(room), inner.options.beat);
                let operation = ReadNew { member: inner.member.clone(), count, block };
                let page = duties.attend(lane.run(operation, block)).await;
                duties.reading = false;
                page
            }
        };
        let Some(page) = page else { return Ok(false) };
        self.take_in(page?);
        Ok(true)
    }

    fn take_in(&mut self, mut page: Page) {
        let inner = &self.duties.inner;
        if std::mem::take(&mut self.disconnected) {
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

    /// Tells of the first of a row of troubles.
    fn report(&mut self, error: &Error) {
        let lane_lost = self.lane.as_ref().is_none_or(|lane| !lane.is_open());
        if !lane_lost {
            self.duties.inner.tell(Notice::of_error(NoticeKind::Trouble, error));
        } else if !std::mem::replace(&mut self.disconnected, true) {
            self.duties.inner.tell(Notice::of_error(NoticeKind::Disconnected, error));
        }
    }
}

/// What goes on whatever the engine waits for: acknowledgements, signs of life, and the scan for idle entries.
struct Duties {
    inner: Arc<Inner>,
    /// Has the client's closing wait for the consumer.
    attendance: Attendance,
    next_sign: Instant,
    next_scan: Instant,
    /// A read is on its way that may bring as many entries as there is room for, but one.
    reading: bool,
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
            reading: false,
            draining: true,
            inner,
        }
    }

    /// How many entries a read asks for: while it is blocked, a scan can bring one.
    fn begin_read(&mut self, room: usize) -> usize {
        self.reading = true;
        (room - 1).max(1)
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
        let (inner, reading) = (self.inner.clone(), self.reading);
        let beat = self.next_scan <= now;
        if beat {
            self.next_scan = now + inner.options.beat;
        }
        let begun = inner.monitor.with(|state| state.begin_scan(now, beat, reading));
        let Some((cursor, count)) = begun else { return };
        let scan = Reclaim::new(inner.member.clone(), inner.options.min_idle, cursor, count);
        inner.clone().door.run(Ok(scan)).on_complete(move |answer| {
            // What a scan runs into, the reader runs into too, and reports.
            let Ok(Reclaimed { page, cursor }) = answer else {
                return inner.monitor.change(|state| state.scan_ended(None));
            };
            let found = page.deliveries.len() + page.removed.len();
            let known = inner.monitor.with(|state| state.known());
            inner.take_in(page, Some(known));
            inner.monitor.change(|state| state.scan_ended(Some((cursor, found))));
        });
    }

    /// Waits for what is in hand, brings the last verdicts to the server, and gives back what was not begun.
    async fn finish(&mut self, position: EntryId, error: Option<Error>) {
        let inner = self.inner.clone();
        let deadline = inner.monitor.change(|state| {
            if let Some(error) = error {
                state.fail(error);
                state.stop(Instant::now());
            }
            state.stopping().unwrap_or_else(Instant::now)
        });
        let unused = inner.monitor.with(State::take_unused);
        inner.keep_pending(&unused, inner.options.min_idle);
        if self.reading {
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

    /// What the read that was cut off had been given is pending, and nobody has seen it.
    async fn give_back_unseen(&self, position: EntryId, deadline: Instant) {
        let inner = &self.inner;
        let unseen = inner.door.run(Ok(Unseen { member: inner.member.clone(), after: position }));
        let last = deadline.max(Instant::now() + LAST_WORDS);
        if let Ok(Ok(unseen)) = timeout_at(last.into(), unseen).await {
            let known = inner.monitor.with(|state| state.known());
            let unseen: Vec<EntryId> =
                unseen.into_iter().filter(|entry_id| !known.contains(entry_id)).collect();
            inner.keep_pending(&unseen, inner.options.min_idle);
        }
    }
}

/// A timer that is due is looked at again after this time at the soonest.
const MOMENT: Duration = Duration::from_millis(1);

/// Whatever ends the engine, the end of its runtime included, nobody waits for it any longer.
impl Drop for Duties {
    fn drop(&mut self) {
        if self.inner.origin.is_here() {
            self.inner.monitor.change(|state| {
                if !state.has_ended() {
                    state.fail(Error::new(Code::Closed, "the runtime that drove the consumer has ended"));
                    state.end();
                }
            });
        }
    }
}
