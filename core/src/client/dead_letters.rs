//! The dead letters of a stream.

use super::{Reader, Stream};
use crate::connection::door::Door;
#[cfg(doc)]
use crate::error::Code;
use crate::group::dead_letter::PutBack;
use crate::id::branded::EventId;
use crate::stream::range::Range;
use crate::stream::read::Cursor;

impl<D: Door> Stream<D> {
    /// Reads the stream's dead letters, oldest first: what consumer groups gave up after its last attempt.
    ///
    /// A dead letter is a record with an id of its own and the fields `origin` (the id that it had; the entry id where it
    /// had none), `group`, `attempts`, `error` and `at` (Unix milliseconds), and behind them its own fields as they were.
    ///
    /// ```no_run
    /// # fn example(stream: &echomq::blocking::Stream) -> echomq::Result<()> {
    /// for letter in stream.dead_letters(echomq::Range::all()) {
    ///     let letter = letter?;
    ///     println!("{:?} {:?}", letter.id(), letter.get("error").map(String::from_utf8_lossy));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn dead_letters(&self, range: Range) -> Reader<D> {
        Reader::new(self.door.clone(), Cursor::new(self.key.dead_letters(), range, false))
    }

    /// Puts a dead letter back: its own fields become a new record of the stream, whose id is answered, and it is gone from
    /// the dead letters, in one step. The new record is appended as by [`Stream::append_sequenced`], for every group to see.
    ///
    /// Needs no node id; without one, the id comes from the queue's sequencer.
    ///
    /// Fails with [`Code::Gone`] where there is no such dead letter, with [`Code::State`] where the entry of that id is no
    /// dead letter, with [`Code::TooLarge`] for more fields than a script can pass on, with [`Code::StreamAhead`] and
    /// [`Code::ClockAhead`], and then nothing changed; and with [`Code::UnknownOutcome`], with the id that the record may have,
    /// when nobody could say by the deadline. Putting it back again does no harm: it fails with [`Code::Gone`], or it was still
    /// there.
    ///
    /// # Cancel safety
    ///
    /// Dropping the answer does not take it back.
    ///
    /// ```no_run
    /// # async fn example(stream: echomq::Stream) -> echomq::Result<()> {
    /// for letter in stream.dead_letters(echomq::Range::all()).all().await? {
    ///     if let Some(id) = letter.id() {
    ///         stream.put_back(id).await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn put_back(&self, id: EventId) -> D::Answer<EventId> {
        self.door.run(Ok(PutBack::new(self.key.clone(), id, self.timeout())))
    }
}
