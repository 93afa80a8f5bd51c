//! Entry ids: where a record stands in its stream.
//!
//! An `EVT` id and an entry id are two spellings of one snowflake, and both sort the same way, so a stream's order
//! *is* the order in which its ids were minted (`docs/protocol.md` §1).

use crate::clock::Timestamp;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::snowflake::{EPOCH_MS, MAX_TAIL, MAX_TIMESTAMP, Snowflake};
use std::fmt;
use std::str::FromStr;

/// The most bytes that an entry id has as text: two numbers of twenty digits and a dash.
const LENGTH: usize = 41;

/// An entry id as text.
#[derive(Clone, Copy)]
pub(crate) struct Text {
    bytes: [u8; LENGTH],
    length: usize,
}

impl Text {
    fn push(&mut self, part: &[u8]) {
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len();
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    pub(crate) fn as_str(&self) -> &str {
        // It holds digits and a dash.
        str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// The server's own id of an entry, `<ms>-<seq>`.
///
/// Any stream entry has one, also an entry that this bus did not write.
///
/// ```
/// use echomq::{EntryId, EventId};
///
/// let entry_id: EntryId = "1780512970164-28714".parse()?;
/// assert_eq!(EventId::try_from(entry_id)?.as_str(), "EVT0NgWEfAER90");
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    ms: u64,
    seq: u64,
}

impl EntryId {
    /// The smallest position there is.
    pub(crate) const MIN: Self = Self { ms: 0, seq: 0 };

    /// The largest position there is.
    pub(crate) const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The entry id of these two numbers.
    pub const fn new(ms: u64, seq: u64) -> Self {
        Self { ms, seq }
    }

    /// The first position of an instant's millisecond: whatever is minted at or after it stands at or above.
    ///
    /// An instant before 1970 is taken as 0.
    pub const fn floor(instant: Timestamp) -> Self {
        Self { ms: clamp(instant), seq: 0 }
    }

    /// The last position of an instant's millisecond that a record of this bus can have.
    ///
    /// An instant before 1970 is taken as 0.
    pub const fn ceil(instant: Timestamp) -> Self {
        Self { ms: clamp(instant), seq: MAX_TAIL }
    }

    /// Milliseconds since 1970.
    pub const fn ms(self) -> u64 {
        self.ms
    }

    /// The part behind the dash.
    pub const fn seq(self) -> u64 {
        self.seq
    }

    /// The entry id as text, without a place in memory of its own: every append spells one.
    pub(crate) fn text(self) -> Text {
        let mut text = Text { bytes: [0; LENGTH], length: 0 };
        text.push(itoa::Buffer::new().format(self.ms).as_bytes());
        text.push(b"-");
        text.push(itoa::Buffer::new().format(self.seq).as_bytes());
        text
    }

    /// Reads `<ms>-<seq>` as the server writes it. Fails with [`Code::MalformedId`].
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self> {
        let text = text.as_ref();
        let mut parts = text.split(|byte| *byte == b'-').map(number);
        match (parts.next().flatten(), parts.next().flatten(), parts.next()) {
            (Some(ms), Some(seq), None) => Ok(Self { ms, seq }),
            _ => Err(Error::new(
                Code::MalformedId,
                format!("`{}` is no entry id: those read <ms>-<seq>", text.escape_ascii()),
            )),
        }
    }
}

const fn clamp(instant: Timestamp) -> u64 {
    let ms = instant.millis();
    if ms < 0 { 0 } else { ms as u64 }
}

/// Digits alone: no sign, no blank, no leading zero, as the server writes numbers.
fn number(digits: &[u8]) -> Option<u64> {
    match digits {
        [] => None,
        [b'0', _, ..] => None,
        _ if digits.iter().all(u8::is_ascii_digit) => str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    }
}

impl From<EventId> for EntryId {
    fn from(id: EventId) -> Self {
        let snowflake = id.snowflake();
        Self { ms: snowflake.unix_ms(), seq: u64::from(snowflake.tail()) }
    }
}

impl TryFrom<EntryId> for EventId {
    type Error = Error;

    /// The branded id of an entry id. Fails with [`Code::MalformedId`] where no snowflake has that entry id.
    fn try_from(entry_id: EntryId) -> Result<Self> {
        match entry_id.ms.checked_sub(EPOCH_MS) {
            Some(timestamp) if timestamp <= MAX_TIMESTAMP && entry_id.seq <= MAX_TAIL => {
                Ok(EventId::new(Snowflake::from_parts(timestamp, entry_id.seq)))
            }
            _ => {
                Err(Error::new(Code::MalformedId, format!("range: no record id has the entry id {entry_id}")))
            }
        }
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text().as_str())
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EntryId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}
