//! What a client, a consumer or a listener tells beside what it hands out.

use crate::clock;
use crate::error::{Code, Error};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use crate::operation::monitor::Monitor;
use crate::process::Origin;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle as Runtime;
use tokio::time::sleep_until;

/// How many notices wait for whoever takes them.
const KEPT: usize = 1_024;

/// How long the same trouble is told of once.
const TROUBLE: Duration = Duration::from_secs(1);

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What a [`Notice`] is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum NoticeKind {
            $($(#[$doc])* $variant,)*
        }

        impl NoticeKind {
            /// Every kind.
            pub const ALL: &'static [NoticeKind] = &[$(NoticeKind::$variant,)*];

            /// The kind's word, as every language shows it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(NoticeKind::$variant => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// The client's connection is open.
    Connected = "connected",
    /// The server's clock says that this host's is ahead by more than the bound: nothing is minted.
    ClockAhead = "clock_ahead",
    /// Another process mints with the client's node id.
    NodeConflict = "node_conflict",
    /// The client's node lease has run out: nothing is minted until it has one again.
    NodeLeaseLost = "node_lease_lost",
    /// The server evicts keys when it is full, streams and leases among them.
    EvictionPolicy = "eviction_policy",
    /// The group had vanished, with what was pending in it, and was made again.
    GroupRecreated = "group_recreated",
    /// The data of a pending entry was trimmed away; the entry was acknowledged and is not handed out.
    Lost = "lost",
    /// An entry that this bus did not write was skipped or failed, as `on_foreign` says.
    Foreign = "foreign",
    /// An entry's handler failed; the entry comes back.
    Failed = "failed",
    /// An entry failed its last attempt and is a dead letter now.
    DeadLetter = "dead_letter",
    /// The group could not be told or asked; it is tried again.
    Trouble = "trouble",
    /// The connection that reads or listens is gone; it is opened again.
    Disconnected = "disconnected",
    /// The connection that reads is open again; the one that listens has subscribed again.
    Reconnected = "reconnected",
    /// So many notices were not taken in time and are gone.
    Missed = "missed",
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that a client tells, a consumer beside its deliveries, or a listener beside its events (`docs/protocol.md` §10).
#[derive(Clone, PartialEq, Eq)]
pub struct Notice {
    kind: NoticeKind,
    message: String,
    entry_id: Option<EntryId>,
    id: Option<EventId>,
    attempts: Option<u64>,
    code: Option<Code>,
    times: u64,
}

impl Notice {
    pub(crate) fn new(kind: NoticeKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), entry_id: None, id: None, attempts: None, code: None, times: 1 }
    }

    pub(crate) fn of_error(kind: NoticeKind, error: &Error) -> Self {
        Self { code: Some(error.code()), ..Self::new(kind, error.to_string()) }
    }

    pub(crate) fn of_entry(kind: NoticeKind, entry_id: EntryId, message: impl Into<String>) -> Self {
        Self { entry_id: Some(entry_id), id: EventId::try_from(entry_id).ok(), ..Self::new(kind, message) }
    }

    /// Says more.
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.message.push_str("; ");
        self.message.push_str(more);
        self
    }

    pub(crate) fn with_attempts(self, attempts: u64) -> Self {
        Self { attempts: Some(attempts), ..self }
    }

    /// What it is about.
    pub fn kind(&self) -> NoticeKind {
        self.kind
    }

    /// A sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The entry concerned.
    pub fn entry_id(&self) -> Option<EntryId> {
        self.entry_id
    }

    /// The branded id that belongs to the entry's place, where there is one.
    pub fn id(&self) -> Option<EventId> {
        self.id
    }

    /// How often the entry was delivered.
    pub fn attempts(&self) -> Option<u64> {
        self.attempts
    }

    /// The cause of a trouble.
    pub fn code(&self) -> Option<Code> {
        self.code
    }

    /// How many it stands for: the same trouble is told of at most once a second.
    pub fn times(&self) -> u64 {
        self.times
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)?;
        if let Some(entry_id) = &self.entry_id {
            write!(f, " ({entry_id})")?;
        }
        if self.times > 1 {
            write!(f, " ({} times)", self.times)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notice({self})")
    }
}

/// Where notices wait to be taken.
#[derive(Clone)]
pub(crate) struct Board(Arc<Inner>);

struct Inner {
    monitor: Monitor<Waiting>,
    origin: Origin,
    /// Where it is seen to that troubles which came again are told of in time.
    runtime: Option<Runtime>,
    watched: OnceLock<Watched>,
}

/// What whoever waits for notices looks at meanwhile.
struct Watched {
    look: Box<dyn Fn() + Send + Sync>,
    /// When it was looked at last.
    at: Mutex<Instant>,
}

/// How long whoever waits for notices leaves what is watched alone.
const LOOK: Duration = Duration::from_secs(1);

impl Inner {
    /// Looks at what is watched, where that is due.
    fn look(&self) {
        let Some(watched) = self.watched.get() else { return };
        let due = {
            let mut at = watched.at.lock().unwrap_or_else(PoisonError::into_inner);
            let due = at.elapsed() >= LOOK;
            if due {
                *at = Instant::now();
            }
            due
        };
        if due {
            (watched.look)();
        }
    }
}

impl Board {
    /// For what tells of no trouble.
    pub(crate) fn new() -> Self {
        Self::with(None)
    }

    /// For what the current runtime drives.
    pub(crate) fn of_driven() -> Self {
        Self::with(Some(Runtime::current()))
    }

    fn with(runtime: Option<Runtime>) -> Self {
        let (monitor, origin) = (Monitor::default(), Origin::here());
        Self(Arc::new(Inner { monitor, origin, runtime, watched: OnceLock::new() }))
    }

    /// Has whoever waits for notices look at what nobody else watches.
    pub(crate) fn watch(&self, look: impl Fn() + Send + Sync + 'static) {
        // A connection beside the client's finds the client's own look here.
        let _ = self.0.watched.set(Watched { look: Box::new(look), at: Mutex::new(Instant::now()) });
    }

    pub(crate) fn post(&self, notice: Notice) {
        let runtime = self.0.runtime.as_ref().filter(|_| self.0.origin.is_here());
        let due = self.0.monitor.change(|waiting| {
            waiting.push(notice, Instant::now());
            // One task at a time sees to all of them.
            let due = waiting.due().filter(|_| runtime.is_some() && !waiting.seen_to);
            waiting.seen_to |= due.is_some();
            due
        });
        if let (Some(runtime), Some(due)) = (runtime, due) {
            runtime.spawn(tell_repeated(Arc::downgrade(&self.0), due));
        }
    }

    /// Nothing more comes; what waits can still be taken.
    pub(crate) fn end(&self) {
        self.0.monitor.change(Waiting::end);
    }

    pub(crate) fn notices(&self) -> Notices {
        Notices(self.0.clone())
    }
}

/// Tells of troubles that came again, first at that instant, and as long as they do.
async fn tell_repeated(board: Weak<Inner>, mut due: Instant) {
    loop {
        sleep_until(due.into()).await;
        let Some(board) = board.upgrade() else { return };
        let next = board.monitor.change(|waiting| {
            waiting.tell_repeated(Instant::now());
            let next = waiting.due();
            waiting.seen_to = next.is_some();
            next
        });
        match next {
            Some(next) => due = next,
            None => return,
        }
    }
}

/// The notices of a client, a consumer or a listener, made by [`Client::notices`](crate::Client::notices),
/// [`Consumer::notices`](crate::Consumer::notices) and [`Listener::notices`](crate::Listener::notices).
///
/// The last 1 024 wait to be taken; each is taken once, by whoever asks first.
#[derive(Clone)]
pub struct Notices(Arc<Inner>);

impl Notices {
    /// The next notice; nothing once what tells them has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&self) -> Option<Notice> {
        if !self.0.origin.is_here() {
            return None;
        }
        let mut next = pin!(self.0.monitor.until(Waiting::take));
        poll_fn(|context| {
            self.0.look();
            next.as_mut().poll(context)
        })
        .await
    }

    /// Waits until there is a notice to take, or none will come any more, and takes nothing.
    pub async fn ready(&self) {
        if self.0.origin.is_here() {
            self.0.monitor.until(|waiting| waiting.is_ready().then_some(())).await;
        }
    }

    /// Waits on the caller's thread, for at most that long; nothing where none came in time, `Some(None)` once what tells
    /// them has ended.
    ///
    /// Nobody watches the connection of a [`blocking::Client`](crate::blocking::Client) between its calls: whoever waits here
    /// looks at it every second, and so does a poll of [`Notices::next`].
    pub fn wait_next(&self, at_most: Duration) -> Option<Option<Notice>> {
        if !self.0.origin.is_here() {
            return Some(None);
        }
        let until = clock::deadline(at_most);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let step = if self.0.watched.get().is_some() { left.min(LOOK) } else { left };
            let taken = self.0.monitor.wait(step, Waiting::take);
            if taken.is_some() || step == left {
                return taken;
            }
            self.0.look();
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices")
    }
}

/// Notices that wait to be taken, a bounded number.
#[derive(Default)]
struct Waiting {
    notices: VecDeque<Notice>,
    /// The troubles of the last second, each with the instant of its notice and what came since.
    troubles: Vec<(Instant, Notice, u64)>,
    /// A task tells of those that came again.
    seen_to: bool,
    missed: u64,
    ended: bool,
}

impl Waiting {
    fn push(&mut self, notice: Notice, now: Instant) {
        self.tell_repeated(now);
        if notice.kind == NoticeKind::Trouble {
            let same = self.troubles.iter_mut().find(|(_, told, _)| told.code == notice.code);
            if let Some((_, told, times)) = same {
                *told = notice;
                *times += 1;
                return;
            }
            self.troubles.push((now, notice.clone(), 0));
        }
        self.put(notice);
    }

    /// When troubles that came again are to be told of next.
    fn due(&self) -> Option<Instant> {
        let again = self.troubles.iter().filter(|(.., times)| *times > 0);
        again.map(|(told, ..)| *told + TROUBLE).min()
    }

    /// Tells of the troubles that came again within a second of their notice, once it is over; at the end, of all of them.
    fn tell_repeated(&mut self, now: Instant) {
        let ended = self.ended;
        let over = |told: Instant| ended || now.saturating_duration_since(told) >= TROUBLE;
        let mut again = Vec::new();
        self.troubles.retain_mut(|(told, notice, times)| {
            if !over(*told) {
                return true;
            }
            if *times == 0 {
                return false;
            }
            again.push(Notice { times: std::mem::take(times), ..notice.clone() });
            *told = now;
            true
        });
        again.into_iter().for_each(|notice| self.put(notice));
    }

    fn put(&mut self, notice: Notice) {
        if self.notices.len() == KEPT {
            self.notices.pop_front();
            self.missed += 1;
        }
        self.notices.push_back(notice);
    }

    fn end(&mut self) {
        self.ended = true;
        self.tell_repeated(Instant::now());
    }

    fn is_ready(&self) -> bool {
        self.ended || !self.notices.is_empty()
    }

    /// The next; nothing at the end.
    fn take(&mut self) -> Option<Option<Notice>> {
        match self.pop() {
            None if !self.ended => None,
            taken => Some(taken),
        }
    }

    fn pop(&mut self) -> Option<Notice> {
        self.tell_repeated(Instant::now());
        if self.missed > 0 {
            let missed = std::mem::take(&mut self.missed);
            let message = format!("{missed} older notices were not taken in time");
            return Some(Notice::new(NoticeKind::Missed, message));
        }
        self.notices.pop_front()
    }
}

#[cfg(test)]
mod tests;
