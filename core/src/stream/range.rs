//! What part of a stream to read.

use crate::clock::Timestamp;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use std::ops::Bound;

/// A part of a stream, from the oldest record in it to the newest (`docs/protocol.md` §5).
///
/// ```
/// use echomq::{EventId, Range, Timestamp};
///
/// let id = EventId::parse("EVT0NgWEfAER90")?;
/// let after = Range::all().after(id);
/// let day = Range::window(Timestamp::from_millis(1_780_444_800_000), Timestamp::from_millis(1_780_531_199_999))?;
/// assert_eq!(Range::parse("(EVT0NgWEfAER90", "+")?, after);
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    from: Bound<EntryId>,
    to: Bound<EntryId>,
}

impl Range {
    /// The whole stream.
    pub const fn all() -> Self {
        Self { from: Bound::Included(EntryId::MIN), to: Bound::Included(EntryId::MAX) }
    }

    /// From that record on, itself included.
    pub fn from(self, id: EventId) -> Self {
        Self { from: Bound::Included(id.into()), ..self }
    }

    /// From the record behind that one on.
    pub fn after(self, id: EventId) -> Self {
        Self { from: Bound::Excluded(id.into()), ..self }
    }

    /// Up to that record, itself included.
    pub fn to(self, id: EventId) -> Self {
        Self { to: Bound::Included(id.into()), ..self }
    }

    /// Up to the record before that one.
    pub fn before(self, id: EventId) -> Self {
        Self { to: Bound::Excluded(id.into()), ..self }
    }

    /// What was minted in the closed interval of two instants.
    ///
    /// Fails with [`Code::InvalidWindow`] when the second is before the first.
    pub fn window(first: Timestamp, last: Timestamp) -> Result<Self> {
        if last < first {
            return Err(Error::new(
                Code::InvalidWindow,
                format!("the window ends at {} ms, before it starts at {} ms", last.millis(), first.millis()),
            ));
        }
        Ok(Self { from: Bound::Included(EntryId::floor(first)), to: Bound::Included(EntryId::ceil(last)) })
    }

    /// What was minted at or after an instant.
    pub fn since(first: Timestamp) -> Self {
        Self { from: Bound::Included(EntryId::floor(first)), ..Self::all() }
    }

    /// Reads two bounds as text: `-` and `+` for the ends of the stream, an id, or `(` and an id for what lies behind
    /// or before it.
    ///
    /// Fails with [`Code::MalformedId`] or [`Code::Kind`] as [`EventId::parse`] does.
    pub fn parse(from: &str, to: &str) -> Result<Self> {
        Ok(Self { from: bound(from)?, to: bound(to)? })
    }

    pub(crate) fn bounds(&self) -> (Bound<EntryId>, Bound<EntryId>) {
        (self.from, self.to)
    }
}

/// `-` and `+` stand for the smallest and the largest position, at either end, as they do on the wire.
fn bound(text: &str) -> Result<Bound<EntryId>> {
    Ok(match (text, text.strip_prefix('(')) {
        ("-", _) => Bound::Included(EntryId::MIN),
        ("+", _) => Bound::Included(EntryId::MAX),
        (_, Some(id)) => Bound::Excluded(EventId::parse(id)?.into()),
        (id, None) => Bound::Included(EventId::parse(id)?.into()),
    })
}
