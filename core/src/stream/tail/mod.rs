//! Following a stream for ever (`docs/protocol.md` §5).
//!
//! A tail reads on a connection of its own and is opened again by itself. What it was given last is its place, so a tail
//! can always be taken up from the last id that it gave. Where records were trimmed away ahead of it, it says so first.

mod edge;
mod follow;
pub(crate) mod options;
mod read;

use crate::connection::door::Door;
use crate::connection::lane::Lane;
use crate::connection::shared::Shared;
#[cfg(doc)]
use crate::error::Code;
use crate::error::{Error, Result};
use crate::id::entry_id::EntryId;
use crate::operation::monitor::{Monitor, Polled};
use crate::process::Origin;
use crate::record::Record;
use crate::stream::Key;
use crate::stream::page_size::PageSize;
use options::TailOptions;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// How many entries a tail reads at once, and holds ahead of whoever takes them.
const COUNT: usize = 1_000;

/// What a [`Tail`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tailed {
    /// The next record.
    Record(Record),
    /// Records between these two may have been trimmed away before they were read.
    Gap(Gap),
}

/// A place in a stream where records may be missing, both ends excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    from: EntryId,
    to: EntryId,
}

impl Gap {
    pub(crate) fn new(from: EntryId, to: EntryId) -> Self {
        Self { from, to }
    }

    /// The last entry that the tail had been given, or the position that it was to begin behind.
    pub fn from(&self) -> EntryId {
        self.from
    }

    /// The first entry that is there again; on an empty stream the last one that was ever there.
    pub fn to(&self) -> EntryId {
        self.to
    }
}

/// A stream's records as they are appended, for ever, in order.
///
/// It is asked with [`Tail::next`], or as a [`futures_core::Stream`].
///
/// ```no_run
/// # async fn example(stream: echomq::Stream, last: echomq::EventId) -> echomq::Result<()> {
/// use echomq::{Start, Tailed};
///
/// let tail = stream.tail(Start::After(last)).await?;
/// while let Some(next) = tail.next().await? {
///     match next {
///         Tailed::Record(record) => println!("{:?}", record.id()),
///         Tailed::Gap(gap) => println!("records between {} and {} may be missing", gap.from(), gap.to()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// Clones are the same tail. Dropping the last one ends it.
#[derive(Clone)]
pub struct Tail {
    handle: Arc<Handle>,
    polled: Polled,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.handle.0.monitor.forget(&mut self.polled);
    }
}

struct Handle(Arc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        // In a forked child there is no follower, and its locks may be held by threads that are not there.
        if self.0.origin.is_here() {
            self.0.monitor.change(|ahead| ahead.end(None));
        }
    }
}

/// What a tail and its follower share.
struct Inner {
    key: Key,
    door: Shared,
    origin: Origin,
    monitor: Monitor<Ahead>,
}

/// What was read and not taken yet.
struct Ahead {
    entries: VecDeque<Tailed>,
    /// How many bytes they have.
    bytes: usize,
    size: PageSize,
    ended: bool,
    error: Option<Error>,
}

impl Tailed {
    fn size(&self) -> usize {
        match self {
            Self::Record(record) => record.size(),
            Self::Gap(_) => 0,
        }
    }
}

impl Ahead {
    fn new(page_bytes: usize) -> Self {
        let size = PageSize::new(COUNT, page_bytes);
        Self { entries: VecDeque::new(), bytes: 0, size, ended: false, error: None }
    }

    /// How many more entries to read now: as many as fit beside those that are there, once half of what may be there was
    /// taken.
    fn room(&self) -> Option<usize> {
        let (held, page) = (self.entries.len(), self.size.next());
        if held == 0 {
            return Some(page);
        }
        let room = self.size.beside(self.bytes).min(COUNT.saturating_sub(held));
        (room >= page.div_ceil(2)).then_some(room)
    }

    fn put(&mut self, entries: impl IntoIterator<Item = Tailed>) {
        for entry in entries {
            self.bytes += entry.size();
            self.entries.push_back(entry);
        }
    }

    /// Up to `max` entries, and whether the follower is to be woken.
    fn take(&mut self, max: usize) -> Option<(Result<Vec<Tailed>>, bool)> {
        if self.ended {
            self.entries.clear();
            return Some((self.error.take().map_or(Ok(Vec::new()), Err), false));
        }
        if self.entries.is_empty() {
            return None;
        }
        let had_room = self.room().is_some();
        let taken: Vec<Tailed> = self.entries.drain(..max.max(1).min(self.entries.len())).collect();
        self.bytes -= taken.iter().map(Tailed::size).sum::<usize>();
        Some((Ok(taken), !had_room && self.room().is_some()))
    }

    fn give_back(&mut self, entries: Vec<Tailed>) {
        for entry in entries.into_iter().rev() {
            self.bytes += entry.size();
            self.entries.push_front(entry);
        }
    }

    fn end(&mut self, error: Option<Error>) {
        if !self.ended {
            self.ended = true;
            self.error = error;
        }
    }
}

impl Tail {
    /// Opens a lane, pins the place to begin at, and starts to follow on the current runtime.
    pub(crate) async fn start(door: Shared, key: Key, options: TailOptions) -> Result<Self> {
        let monitor = Monitor::new(Ahead::new(options.checked_page_bytes()?));
        let attendance = door.attend();
        let edge = door.run(Ok(edge::LookAtEdge::new(key.clone()))).await?;
        let place = edge::Place::new(options.start, &edge);
        let lane = Lane::open(door.settings().clone()).await?;
        monitor.with(|ahead| ahead.size.came(edge.entries(), edge.size()));
        let inner = Arc::new(Inner { key, door, origin: Origin::here(), monitor });
        tokio::spawn(follow::Follower::new(inner.clone(), attendance, lane, place).run());
        Ok(Self { handle: Arc::new(Handle(inner)), polled: Polled::default() })
    }

    /// What comes next; nothing once the tail was closed.
    ///
    /// Fails once with the reason when the tail cannot go on: [`Code::WrongType`], [`Code::VersionFence`], or
    /// [`Code::Closed`] when the client was closed. Whatever else happens it goes on where it was.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&self) -> Result<Option<Tailed>> {
        Ok(self.take(1).await?.pop())
    }

    /// The next entries, between 1 and `max`; none once the tail was closed. See [`Tail::next`].
    pub async fn take(&self, max: usize) -> Result<Vec<Tailed>> {
        self.inner().origin.check()?;
        let (taken, wake) = self.inner().monitor.until(|ahead| ahead.take(max)).await;
        self.taken(taken, wake)
    }

    /// Waits until there is something to take, or the tail was closed, and takes nothing.
    ///
    /// It is for who takes elsewhere, with [`Tail::wait_take`] and no time: the thread of an event loop, for example.
    pub async fn ready(&self) {
        if self.inner().origin.is_here() {
            let ready = |ahead: &mut Ahead| (ahead.ended || !ahead.entries.is_empty()).then_some(());
            self.inner().monitor.until(ready).await;
        }
    }

    /// Waits on the caller's thread, for at most that long, for up to `max` entries: nothing where none came in time, and
    /// an empty list once the tail was closed. Fails as [`Tail::next`] does.
    pub fn wait_take(&self, max: usize, at_most: Duration) -> Result<Option<Vec<Tailed>>> {
        self.inner().origin.check()?;
        match self.inner().monitor.wait(at_most, |ahead| ahead.take(max)) {
            Some((taken, wake)) => self.taken(taken, wake).map(Some),
            None => Ok(None),
        }
    }

    fn taken(&self, taken: Result<Vec<Tailed>>, wake: bool) -> Result<Vec<Tailed>> {
        if wake {
            self.inner().monitor.wake();
        }
        taken
    }

    /// Gives entries that were taken and not used back, in their order, to be taken again.
    pub fn give_back(&self, entries: Vec<Tailed>) {
        if self.inner().origin.is_here() {
            self.inner().monitor.change(|ahead| ahead.give_back(entries));
        }
    }

    /// Ends the tail: whoever waits for it gets nothing.
    pub fn close(&self) {
        if self.inner().origin.is_here() {
            self.inner().monitor.change(|ahead| ahead.end(None));
        }
    }

    fn inner(&self) -> &Arc<Inner> {
        &self.handle.0
    }
}

impl futures_core::Stream for Tail {
    type Item = Result<Tailed>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Self { handle, polled } = &mut *this;
        if let Err(error) = handle.0.origin.check() {
            return Poll::Ready(Some(Err(error)));
        }
        let taken = std::task::ready!(handle.0.monitor.poll(context, polled, |ahead| ahead.take(1)));
        Poll::Ready(this.taken(taken.0, taken.1).map(|mut entries| entries.pop()).transpose())
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tail({})", &*self.inner().key)
    }
}
