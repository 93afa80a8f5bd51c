//! A stream of a client.

use super::reader::Reader;
use crate::clock::Timestamp;
use crate::connection::door::Door;
use crate::connection::shared::Shared;
#[cfg(doc)]
use crate::error::Code;
use crate::error::Result;
use crate::events::Channel;
use crate::events::announce::{Announce, Announced};
use crate::events::signal::Signal;
use crate::id::branded::EventId;
use crate::operation::Operation;
use crate::record::Fields;
use crate::stream::Key;
use crate::stream::append::Append;
use crate::stream::append_sequenced::AppendSequenced;
use crate::stream::batch::AppendBatch;
use crate::stream::batch_atomic::AppendBatchAtomic;
use crate::stream::batch_sequenced::AppendBatchSequenced;
use crate::stream::range::Range;
use crate::stream::read::Cursor;
use crate::stream::trim::{Trim, Trimming};
use crate::stream::writers::Writers;
use std::fmt;
use std::time::Duration;

/// An append-only log of one queue.
///
/// Its records carry a branded id, so that stream order, id order and the order of making are one. A handle says once how
/// many writers its stream has:
///
/// | | [`Writers::One`], as it is opened | [`Writers::Many`], by [`Stream::writers`] |
/// |---|---|---|
/// | who appends | one client of one process | any number of clients, all with this |
/// | who makes the id | the writer | the writer, or the server where that id has no place |
/// | a second writer | its record is refused with [`Code::NonMonotonic`] | is what it is for |
/// | an append is | one `XADD` | one call of a script |
///
/// A refused record is never written elsewhere and never dropped in silence.
///
/// With [`Client`](crate::Client) each call answers a [`Pending`](crate::Pending), to be awaited; with
/// [`blocking::Client`](crate::blocking::Client) the answer itself.
///
/// Every call can also fail with [`Code::WrongType`], [`Code::Auth`], [`Code::OutOfMemory`] and [`Code::Server`], when
/// the server says so; with [`Code::Overloaded`] when too many calls wait; with [`Code::Disconnected`] when there was no
/// connection until the client's `timeout`; with [`Code::Timeout`] when only the answer was late; with [`Code::Closed`].
#[derive(Clone)]
pub struct Stream<D = Shared> {
    pub(super) door: D,
    pub(super) key: Key,
    writers: Writers,
}

impl<D: Door> Stream<D> {
    pub(super) fn new(door: D, key: Key) -> Self {
        Self { door, key, writers: Writers::One }
    }

    /// The same stream with that many writers: what [`Stream::append`], [`Stream::append_batch`],
    /// [`Stream::append_batch_atomic`] and [`Stream::append_and_publish`] of this handle and its clones do from now on.
    ///
    /// ```no_run
    /// # async fn example(client: echomq::Client) -> echomq::Result<()> {
    /// use echomq::Writers;
    ///
    /// let events = client.stream("codemojex", "events")?.writers(Writers::Many);
    /// let id = events.append([("kind", "guessed"), ("player", "PLR0NgWEfAEJfs")]).await?;
    /// println!("appended {id}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn writers(mut self, writers: Writers) -> Self {
        self.writers = writers;
        self
    }

    /// The stream's key on the server.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Appends one record and answers its branded id.
    ///
    /// With [`Writers::Many`] this is [`Stream::append_sequenced`]. What follows holds for one writer.
    ///
    /// The record is written once or reported, never twice: where the connection breaks before the answer came, the client
    /// connects again and looks the id up.
    ///
    /// Fails with [`Code::ReservedField`] for a field named `id`, [`Code::TooLarge`], [`Code::NodeLeaseLost`] where no node id
    /// can be leased, [`Code::ClockAhead`] and [`Code::NonMonotonic`], with [`Code::NodeConflict`] when another process holds the
    /// node id that was given or wrote another record under the same id, and with [`Code::UnknownOutcome`], with the id, when
    /// nobody can say whether the record was written.
    ///
    /// # Cancel safety
    ///
    /// Dropping the answer does not take the record back.
    pub fn append(&self, fields: impl Into<Fields>) -> D::Answer<EventId> {
        if self.writers == Writers::Many {
            return self.append_sequenced(fields);
        }
        let fields = self.checked(fields.into());
        self.door.run(fields.map(|fields| Append::new(self.key.clone(), None, fields)))
    }

    /// Appends one record, and then publishes an event of the queue with its place: the members `stream` and `id` stand
    /// before the further ones. A listener that missed something reads from the last id that it knows.
    ///
    /// Fails as [`Stream::append`] does, with [`Code::ReservedField`] for an event with a member `stream` or `id` of its own,
    /// and with [`Code::TooLarge`]; nothing is published then. Once the record is there the call succeeds, and
    /// [`Announced::published`] says what became of the event.
    ///
    /// # Cancel safety
    ///
    /// Dropping the answer takes neither the record nor the event back.
    ///
    /// ```no_run
    /// # async fn example(client: echomq::Client) -> echomq::Result<()> {
    /// use echomq::{Signal, Writers};
    ///
    /// let events = client.stream("codemojex", "events")?.writers(Writers::Many);
    /// let completed = Signal::new("completed", "JOB000xY9Wvvcd")?;
    /// let announced = events.append_and_publish([("kind", "completed")], completed).await?;
    /// println!("appended {}, heard by {:?}", announced.id, announced.published);
    /// # Ok(())
    /// # }
    /// ```
    pub fn append_and_publish(&self, fields: impl Into<Fields>, signal: Signal) -> D::Answer<Announced> {
        let fields = fields.into();
        match self.writers {
            Writers::One => {
                let append = |key, fields| Ok(Append::new(key, None, fields));
                self.door.run(self.announce(fields, signal, append))
            }
            Writers::Many => {
                let timeout = self.timeout();
                let append = |key, fields| AppendSequenced::one(key, fields, timeout);
                self.door.run(self.announce(fields, signal, append))
            }
        }
    }

    /// Appends one record under an id of the caller's, to repeat history or to ask again after
    /// [`Code::UnknownOutcome`].
    ///
    /// Fails as [`Stream::append`] of one writer does, however many the stream has, but needs no node id and does not look at
    /// the clock.
    pub fn append_id(&self, id: EventId, fields: impl Into<Fields>) -> D::Answer<EventId> {
        let fields = self.checked(fields.into());
        self.door.run(fields.map(|fields| Append::new(self.key.clone(), Some(id), fields)))
    }

    /// Appends many records in one pipeline; one result for each, in their order.
    ///
    /// Each is written or refused for itself, as by [`Stream::append`]. An empty batch answers an empty list.
    ///
    /// With [`Writers::Many`] a record that is refused before it is sent keeps its place and its error, and the others are
    /// appended in one step of the server's, as by [`Stream::append_batch_sequenced`]: where that fails, each of them has the
    /// same error.
    pub fn append_batch<F: Into<Fields>>(
        &self,
        records: impl IntoIterator<Item = F>,
    ) -> D::Answer<Vec<Result<EventId>>> {
        let records = records.into_iter().map(|fields| self.checked(fields.into())).collect();
        match self.writers {
            Writers::One => {
                let batch = AppendBatch::new(self.key.clone(), records);
                if batch.is_done() {
                    return D::ready(Ok(batch.into_results()));
                }
                self.door.run(Ok(batch))
            }
            Writers::Many => {
                let batch = AppendBatchSequenced::new(self.key.clone(), records, self.timeout());
                if batch.is_done() {
                    return D::ready(Ok(batch.into_results()));
                }
                self.door.run(Ok(batch))
            }
        }
    }

    /// Appends all records in one step of the server's, or none of them, whatever their number.
    ///
    /// With [`Writers::Many`] this is [`Stream::append_batch_sequenced`]. What follows holds for one writer.
    ///
    /// Fails as [`Stream::append`] does, and with [`Code::TooLarge`] for a record of more than 3 499 fields. After a
    /// failure nothing was written, except with [`Code::UnknownOutcome`]: then all of it or nothing, and the error has
    /// the id of the first record. An empty batch answers an empty list.
    pub fn append_batch_atomic<F: Into<Fields>>(
        &self,
        records: impl IntoIterator<Item = F>,
    ) -> D::Answer<Vec<EventId>> {
        match self.writers {
            Writers::One => self.append_all(records, AppendBatchAtomic::new),
            Writers::Many => self.append_batch_sequenced(records),
        }
    }

    /// Appends one record to a stream that has several writers, and answers the branded id that the server decided on.
    ///
    /// The id is made here and kept where it is above the stream's top. Otherwise the queue's sequencer on the server gives
    /// one, in the same round trip, so a far or slow writer is never refused with [`Code::NonMonotonic`]. Ids rise along the
    /// stream, and a call made after the answer of another gets the greater id.
    ///
    /// Fails with [`Code::ReservedField`] for a field named `id`, [`Code::TooLarge`], also for more than 3 499 fields,
    /// [`Code::NodeLeaseLost`] where no node id can be leased, [`Code::ClockAhead`] when this host's clock is more than a minute ahead of
    /// the server's, and [`Code::StreamAhead`] when the stream's top or the sequencer is; nothing was written then. Where the
    /// connection breaks before the answer came, the client connects again and asks the same question again, which gets the same
    /// answer: the record is written once. [`Code::UnknownOutcome`], with the id made here, is left for a deadline that passes,
    /// and for a record that may have been written and removed before the client could ask: a read from that id on tells.
    ///
    /// # Cancel safety
    ///
    /// Dropping the answer does not take the record back.
    ///
    /// ```no_run
    /// # async fn example(client: echomq::Client) -> echomq::Result<()> {
    /// let events = client.stream("codemojex", "events")?;
    /// let id = events.append_sequenced([("kind", "guessed"), ("player", "PLR0NgWEfAEJfs")]).await?;
    /// println!("appended {id}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn append_sequenced(&self, fields: impl Into<Fields>) -> D::Answer<EventId> {
        let fields = self.checked(fields.into());
        self.door
            .run(fields.and_then(|fields| AppendSequenced::one(self.key.clone(), fields, self.timeout())))
    }

    /// Appends all records to a stream that has several writers, in one step of the server's, or none of them.
    ///
    /// The ids are answered in the order of the records; nothing of another writer stands between them. Each is decided on as
    /// by [`Stream::append_sequenced`], and the call fails as that does: after a failure nothing was written, except with
    /// [`Code::UnknownOutcome`]: then all of it or nothing, and the error has the id made here for the first record. An empty
    /// batch answers an empty list.
    ///
    /// # Cancel safety
    ///
    /// Dropping the answer does not take the records back.
    ///
    /// ```no_run
    /// # async fn example(client: echomq::Client) -> echomq::Result<()> {
    /// let events = client.stream("codemojex", "events")?;
    /// let ids = events.append_batch_sequenced((0..100).map(|n| [("n", n.to_string())])).await?;
    /// assert_eq!(ids.len(), 100);
    /// # Ok(())
    /// # }
    /// ```
    pub fn append_batch_sequenced<F: Into<Fields>>(
        &self,
        records: impl IntoIterator<Item = F>,
    ) -> D::Answer<Vec<EventId>> {
        let timeout = self.timeout();
        self.append_all(records, |key, records| AppendSequenced::batch(key, records, timeout))
    }

    /// Reads a range, oldest first.
    ///
    /// The reader asks for a page at a time, so any range can be read in bounded memory.
    pub fn read(&self, range: Range) -> Reader<D> {
        Reader::new(self.door.clone(), Cursor::new(self.key.clone(), range, false))
    }

    /// Reads what was minted in the closed interval of two instants, oldest first.
    ///
    /// Fails with [`Code::InvalidWindow`] when the second is before the first.
    pub fn read_window(&self, first: Timestamp, last: Timestamp) -> Result<Reader<D>> {
        Range::window(first, last).map(|range| self.read(range)).map_err(|error| error.about(&*self.key))
    }

    /// Reads what was minted at or after an instant, oldest first.
    pub fn read_since(&self, first: Timestamp) -> Reader<D> {
        self.read(Range::since(first))
    }

    /// Reads the newest records, newest first.
    pub fn read_last(&self, records: u64) -> Reader<D> {
        Reader::new(self.door.clone(), Cursor::new(self.key.clone(), Range::all(), true)).limit(records)
    }

    /// Lets go of old records and answers how many went.
    ///
    /// Nothing looks at consumer groups here: a record goes whether it was read or not. Fails with
    /// [`Code::UnknownOutcome`] when the connection broke before the answer came; trimming again does no harm then.
    pub fn trim(&self, trim: Trim) -> D::Answer<u64> {
        self.door.run(Ok(Trimming::new(self.key.clone(), trim)))
    }

    /// Appends all records by one operation; an empty batch needs none.
    fn append_all<F, O>(
        &self,
        records: impl IntoIterator<Item = F>,
        operation: impl FnOnce(Key, Vec<Fields>) -> Result<O>,
    ) -> D::Answer<Vec<EventId>>
    where
        F: Into<Fields>,
        O: Operation<Reply = Vec<EventId>>,
    {
        let records: Result<Vec<Fields>> =
            records.into_iter().map(|fields| self.checked(fields.into())).collect();
        match records {
            Ok(records) if records.is_empty() => D::ready(Ok(Vec::new())),
            records => self.door.run(records.and_then(|records| operation(self.key.clone(), records))),
        }
    }

    fn announce<A: Operation<Reply = EventId>>(
        &self,
        fields: Fields,
        signal: Signal,
        append: impl FnOnce(Key, Fields) -> Result<A>,
    ) -> Result<Announce<A>> {
        let fields = self.checked(fields)?;
        let channel = Channel::new(self.key.keys().clone());
        let append = append(self.key.clone(), fields)?;
        Announce::new(append, channel, self.key.name(), signal, self.door.settings().max_record_bytes)
    }

    fn checked(&self, fields: Fields) -> Result<Fields> {
        fields.check(self.door.settings().max_record_bytes).map_err(|error| error.about(&*self.key))?;
        Ok(fields)
    }

    /// The longest that a call of the client's waits.
    pub(super) fn timeout(&self) -> Duration {
        self.door.settings().timeout
    }
}

impl<D: Door> fmt::Debug for Stream<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.key).finish()
    }
}
