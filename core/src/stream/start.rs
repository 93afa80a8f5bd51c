//! Where a reader begins.

use crate::clock::Timestamp;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;

/// Where a consumer group or a tail begins (`docs/protocol.md` §5, §6).
///
/// There is no default: whether history is read is for its reader to say.
///
/// ```
/// use echomq::{EventId, Start, Timestamp};
///
/// assert_eq!(Start::parse("head")?, Start::Head);
/// assert_eq!(Start::parse("EVT0NgWEfAER90")?, Start::After(EventId::parse("EVT0NgWEfAER90")?));
/// assert_eq!(Start::parse("@1780512970164")?, Start::At(Timestamp::from_millis(1_780_512_970_164)));
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// What is appended from now on.
    New,
    /// The oldest record there is.
    Head,
    /// The record behind that one.
    After(EventId),
    /// What was minted at or after an instant. An instant before 1970 is taken as 0.
    At(Timestamp),
}

impl Start {
    /// Reads a start as text: `new`, `head`, an id for what follows it, or `@` and milliseconds since 1970 for what was
    /// minted from that instant on.
    ///
    /// Fails with [`Code::InvalidOption`] when `@` is followed by anything but a whole number, and for any other text with
    /// [`Code::MalformedId`] or [`Code::Kind`] as [`EventId::parse`] does.
    pub fn parse(text: &str) -> Result<Self> {
        match (text, text.strip_prefix('@')) {
            ("new", _) => Ok(Self::New),
            ("head", _) => Ok(Self::Head),
            (_, Some(ms)) => instant(ms).map(Self::At).ok_or_else(|| {
                let shown: String = text.escape_debug().take(40).collect();
                refusal(Code::InvalidOption, &format!("`{shown}` names no instant"))
            }),
            (id, None) => {
                EventId::parse(id).map(Self::After).map_err(|error| refusal(error.code(), error.message()))
            }
        }
    }

    /// The position behind which it begins; nothing for [`Start::New`], since only the server knows its stream's end.
    pub(crate) fn position(&self) -> Option<EntryId> {
        match *self {
            Self::New => None,
            Self::Head => Some(EntryId::MIN),
            Self::After(id) => Some(id.into()),
            Self::At(instant) => {
                let before = EntryId::floor(instant).ms().checked_sub(1);
                Some(before.map_or(EntryId::MIN, |ms| EntryId::new(ms, u64::MAX)))
            }
        }
    }

    /// The position as the server's commands take it: `$` for the end of the stream, `0` for its head.
    pub(crate) fn entry_id_text(&self) -> String {
        match self.position() {
            None => "$".to_owned(),
            Some(EntryId::MIN) => "0".to_owned(),
            Some(position) => position.to_string(),
        }
    }
}

/// A whole number of milliseconds, without a plus sign.
fn instant(digits: &str) -> Option<Timestamp> {
    if digits.starts_with('+') {
        return None;
    }
    digits.parse().ok().map(Timestamp::from_millis)
}

fn refusal(code: Code, why: &str) -> Error {
    Error::new(
        code,
        format!("{why}; a start is `new`, `head`, an EVT id, or `@` and milliseconds since 1970"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_start_and_its_position() {
        for (text, position) in [
            ("new", "$"),
            ("head", "0"),
            ("EVT0NgWEfAER90", "1780512970164-28714"),
            ("@1780512970164", "1780512970163-18446744073709551615"),
            ("@1", "0-18446744073709551615"),
            ("@0", "0"),
            ("@-1", "0"),
            ("@9223372036854775807", "9223372036854775806-18446744073709551615"),
        ] {
            assert_eq!(Start::parse(text).unwrap().entry_id_text(), position, "{text}");
        }
    }

    #[test]
    fn what_is_no_start_is_refused_with_the_choices() {
        for (text, code) in [
            ("", Code::MalformedId),
            ("$", Code::MalformedId),
            ("0", Code::MalformedId),
            ("New", Code::MalformedId),
            ("EVT0NgWEfAER9", Code::MalformedId),
            ("1780512970164-28714", Code::MalformedId),
            ("JOB0NgWEfAER90", Code::Kind),
            ("@", Code::InvalidOption),
            ("@+1", Code::InvalidOption),
            ("@1.5", Code::InvalidOption),
            ("@ 1", Code::InvalidOption),
            ("@9223372036854775808", Code::InvalidOption),
        ] {
            let error = Start::parse(text).unwrap_err();
            assert_eq!(error.code(), code, "{text:?}");
            assert!(error.message().contains("`new`, `head`"), "{error}");
        }
    }
}
