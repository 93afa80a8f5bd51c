//! Snowflakes: 41 bits of milliseconds, 10 of node, 12 of sequence (`docs/protocol.md` §1).

use crate::error::{Code, Error, Result};

/// 2024-01-01T00:00:00Z in milliseconds since 1970: the instant of timestamp 0.
pub const EPOCH_MS: u64 = 1_704_067_200_000;

/// The largest node that a host mints with; 1023 is the sequencer's.
pub const MAX_NODE: u16 = 1022;

pub(crate) const MAX_TIMESTAMP: u64 = (1 << 41) - 1;
pub(crate) const SEQUENCE_BITS: u32 = 12;
pub(crate) const TAIL_BITS: u32 = 22;
pub(crate) const MAX_TAIL: u64 = (1 << TAIL_BITS) - 1;

/// A 63-bit number that names an instant, the node that minted, and a sequence within the millisecond.
///
/// ```
/// let snowflake = echomq::EventId::parse("EVT0NgWEfAER90")?.snowflake();
/// assert_eq!((snowflake.unix_ms(), snowflake.node(), snowflake.sequence()), (1_780_512_970_164, 7, 42));
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Snowflake(u64);

impl Snowflake {
    pub(crate) const ZERO: Self = Self(0);

    /// The snowflake of that number, or nothing above 2^63 − 1.
    pub const fn new(number: u64) -> Option<Self> {
        if number <= i64::MAX as u64 { Some(Self(number)) } else { None }
    }

    /// Reads a snowflake from decimal digits, whatever their number.
    ///
    /// Fails with [`Code::MalformedId`] for what is no number, and for one above 2^63 − 1.
    pub fn parse(digits: &str) -> Result<Self> {
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::new(Code::MalformedId, "charset: a snowflake is written in decimal digits"));
        }
        digits.parse().ok().and_then(Self::new).ok_or_else(|| above_range(digits))
    }

    pub(crate) const fn from_parts(timestamp: u64, tail: u64) -> Self {
        Self(timestamp << TAIL_BITS | tail)
    }

    /// The number itself.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The instant of the mint, in milliseconds since 1970.
    pub const fn unix_ms(self) -> u64 {
        (self.0 >> TAIL_BITS) + EPOCH_MS
    }

    /// The node that minted: 0 to 1022 for a host, 1023 for the sequencer.
    pub const fn node(self) -> u16 {
        (self.0 >> SEQUENCE_BITS & 0x3FF) as u16
    }

    /// The sequence within the millisecond: 0 to 4095.
    pub const fn sequence(self) -> u16 {
        (self.0 & 0xFFF) as u16
    }

    /// Node and sequence together: the low 22 bits.
    pub const fn tail(self) -> u32 {
        (self.0 & MAX_TAIL) as u32
    }
}

impl TryFrom<u64> for Snowflake {
    type Error = Error;

    /// The snowflake of that number. Fails with [`Code::MalformedId`] above 2^63 − 1.
    fn try_from(number: u64) -> Result<Self> {
        Self::new(number).ok_or_else(|| above_range(&number.to_string()))
    }
}

fn above_range(digits: &str) -> Error {
    Error::new(Code::MalformedId, format!("range: {digits} is above 2^63 − 1, the largest snowflake"))
}
