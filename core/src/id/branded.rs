//! Branded ids: a namespace of three letters and a snowflake in base62, fourteen bytes in all
//! (`docs/protocol.md` §1).

use crate::error::{Code, Error, Result};
use crate::id::base62::{self, DIGITS, Refusal};
use crate::id::snowflake::Snowflake;
use std::fmt;
use std::str::FromStr;

/// How many bytes a branded id has.
pub const LENGTH: usize = 14;

const NAMESPACE: usize = 3;

/// An id of any namespace, for example of a job.
///
/// Within one namespace, ids sort as bytes in the order in which they were minted.
///
/// ```
/// use echomq::{BrandedId, Snowflake};
///
/// let id = BrandedId::parse("USR0KHTOWnGLuC")?;
/// assert_eq!(id.namespace(), "USR");
/// assert_eq!(id.snowflake().number(), 274_557_032_793_636_864);
/// assert_eq!(BrandedId::new("USR", id.snowflake())?, id);
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrandedId([u8; LENGTH]);

impl BrandedId {
    /// The id of a snowflake in a namespace.
    ///
    /// Fails with [`Code::MalformedId`] unless the namespace is three letters `A` to `Z`.
    pub fn new(namespace: &str, snowflake: Snowflake) -> Result<Self> {
        match <[u8; NAMESPACE]>::try_from(namespace.as_bytes()) {
            Ok(letters) if letters.iter().all(u8::is_ascii_uppercase) => {
                Ok(Self::from_parts(letters, snowflake))
            }
            _ => Err(refusal("namespace", namespace.as_bytes(), "is not three letters A to Z")),
        }
    }

    const fn letters(&self) -> [u8; NAMESPACE] {
        [self.0[0], self.0[1], self.0[2]]
    }

    fn from_parts(letters: [u8; NAMESPACE], snowflake: Snowflake) -> Self {
        let mut digits = [0; DIGITS];
        base62::encode(snowflake.number(), &mut digits);
        let mut bytes = [0; LENGTH];
        bytes[..NAMESPACE].copy_from_slice(&letters);
        bytes[NAMESPACE..].copy_from_slice(&digits);
        Self(bytes)
    }

    /// Reads an id.
    ///
    /// Length, namespace, charset and range are checked in this order. Fails with [`Code::MalformedId`], whose
    /// message begins with the name of the first check that failed.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self> {
        let text = text.as_ref();
        let Ok(bytes) = <[u8; LENGTH]>::try_from(text) else {
            return Err(refusal("length", text, &format!("has {} bytes, an id has {LENGTH}", text.len())));
        };
        if !bytes[..NAMESPACE].iter().all(u8::is_ascii_uppercase) {
            return Err(refusal("namespace", text, "does not begin with three letters A to Z"));
        }
        let mut digits = [0; DIGITS];
        digits.copy_from_slice(&bytes[NAMESPACE..]);
        match base62::decode(&digits) {
            Ok(_) => Ok(Self(bytes)),
            Err(Refusal::Charset) => {
                Err(refusal("charset", text, "has a character outside 0-9, A-Z and a-z"))
            }
            Err(Refusal::Range) => Err(refusal("range", text, "is above AzL8n0Y58m7, the largest payload")),
        }
    }

    /// The three letters of the namespace.
    pub fn namespace(&self) -> &str {
        &self.as_str()[..NAMESPACE]
    }

    /// The snowflake.
    pub fn snowflake(&self) -> Snowflake {
        let mut digits = [0; DIGITS];
        digits.copy_from_slice(&self.0[NAMESPACE..]);
        // Every way to make an id checks its digits.
        base62::decode(&digits).ok().and_then(Snowflake::new).unwrap_or(Snowflake::ZERO)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        // Every way to make an id checks that it is ASCII.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The id as its fourteen bytes.
    pub fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }
}

fn refusal(check: &str, text: &[u8], why: &str) -> Error {
    const SHOWN: usize = 40;
    let mut shown = text[..text.len().min(SHOWN)].escape_ascii().to_string();
    if text.len() > SHOWN {
        shown.push('…');
    }
    Error::new(Code::MalformedId, format!("{check}: `{shown}` {why}"))
}

/// The id of a stream record: a [`BrandedId`] of the namespace `EVT`.
///
/// ```
/// use echomq::{EntryId, EventId};
///
/// let id = EventId::parse("EVT0NgWEfAER90")?;
/// assert_eq!(id.unix_ms(), 1_780_512_970_164);
/// assert_eq!(EntryId::from(id).to_string(), "1780512970164-28714");
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(BrandedId);

impl EventId {
    const LETTERS: [u8; NAMESPACE] = *b"EVT";

    /// The id of a snowflake.
    pub fn new(snowflake: Snowflake) -> Self {
        Self(BrandedId::from_parts(Self::LETTERS, snowflake))
    }

    /// Reads an id.
    ///
    /// Fails with [`Code::MalformedId`] as [`BrandedId::parse`] does, and with [`Code::Kind`] for another namespace.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self> {
        let id = BrandedId::parse(text)?;
        if id.letters() == Self::LETTERS {
            Ok(Self(id))
        } else {
            Err(Error::new(Code::Kind, format!("`{id}` is no id of a stream record: those begin with EVT")))
        }
    }

    /// The snowflake.
    pub fn snowflake(&self) -> Snowflake {
        self.0.snowflake()
    }

    /// The instant of the mint, in milliseconds since 1970.
    pub fn unix_ms(&self) -> u64 {
        self.snowflake().unix_ms()
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The id as its fourteen bytes.
    pub fn as_bytes(&self) -> &[u8; LENGTH] {
        self.0.as_bytes()
    }
}

impl From<EventId> for BrandedId {
    fn from(id: EventId) -> Self {
        id.0
    }
}

macro_rules! text_forms {
    ($($type:ty),*) => {$(
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::parse(text)
            }
        }

        impl From<$type> for String {
            fn from(id: $type) -> Self {
                id.as_str().to_owned()
            }
        }

        impl AsRef<[u8]> for $type {
            fn as_ref(&self) -> &[u8] {
                self.as_bytes()
            }
        }
    )*};
}

text_forms!(BrandedId, EventId);
