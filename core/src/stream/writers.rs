//! How many writers a stream has (`docs/protocol.md` §4).

use crate::error::{Code, Error, Result};
use std::fmt;
use std::str::FromStr;

/// How many writers a stream has: said once of its handle, it decides how the handle's appends get their ids.
///
/// ```
/// use echomq::Writers;
///
/// assert_eq!(Writers::parse("many")?, Writers::Many);
/// assert_eq!(Writers::One.as_str(), "one");
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Writers {
    /// One client appends. It makes each id itself, and a record that is not above the stream's top is refused with
    /// [`Code::NonMonotonic`].
    #[default]
    One,
    /// Several clients append. Each append is one call of a script, in which the server decides on the id.
    Many,
}

impl Writers {
    /// Every value.
    pub const ALL: &'static [Self] = &[Self::One, Self::Many];

    /// The word for it: `one` or `many`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Many => "many",
        }
    }

    /// Reads the word. Fails with [`Code::InvalidOption`] for any other.
    pub fn parse(word: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|writers| writers.as_str() == word).ok_or_else(|| {
            let shown: String = word.escape_debug().take(64).collect();
            Error::new(Code::InvalidOption, format!("a stream has `one` or `many` writers, not `{shown}`"))
                .about("writers")
        })
    }
}

impl FromStr for Writers {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self> {
        Self::parse(word)
    }
}

impl fmt::Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_words_and_no_other() {
        for writers in Writers::ALL {
            assert_eq!(writers.to_string().parse::<Writers>().unwrap(), *writers);
        }
        for word in ["", "Many", "many ", "two", &"x".repeat(100_000)] {
            let error = Writers::parse(word).unwrap_err();
            assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some("writers")));
            assert!(error.message().len() < 200);
        }
    }
}
