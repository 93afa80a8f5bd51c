//! What a tail is told when it starts.

use crate::error::{Code, Error, Result};
use crate::stream::page_size::{self, PAGE_BYTES};
use crate::stream::start::Start;

/// How a tail reads (`docs/protocol.md` §5). A [`Start`] alone is enough where the defaults fit.
///
/// | option | text | default |
/// |---|---|---|
/// | `start` | what the tail begins behind: `new`, `head`, an id, `@` and Unix milliseconds | given |
/// | `page_bytes` | about how many bytes are read at once, and held ahead of whoever takes them at most | 4194304 |
///
/// ```
/// use echomq::{Start, TailOptions};
///
/// let options = TailOptions::new(Start::Head).page_bytes(1 << 20);
/// let mut same = TailOptions::from(Start::parse("head")?);
/// same.set("page_bytes", "1048576")?;
/// assert_eq!(options, same);
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailOptions {
    pub(super) start: Start,
    page_bytes: usize,
}

impl TailOptions {
    /// The names that [`TailOptions::set`] knows, in the order of the table above.
    pub const NAMES: &'static [&'static str] = &["start", "page_bytes"];

    /// The defaults for a tail that begins there.
    pub fn new(start: Start) -> Self {
        Self { start, page_bytes: PAGE_BYTES }
    }

    /// About how many bytes are read at once, and held ahead of whoever takes them at most; a record that is larger is read
    /// alone.
    ///
    /// A server counts records and not bytes, so how many are read at once is learnt from the sizes seen, and a page that is
    /// cut on its way is asked for again with half as many.
    pub fn page_bytes(self, bytes: usize) -> Self {
        Self { page_bytes: bytes, ..self }
    }

    /// Sets one option by its name.
    ///
    /// Fails with [`Code::InvalidOption`], naming it, and for `start` as [`Start::parse`] does.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "start" => self.start = Start::parse(value)?,
            "page_bytes" => self.page_bytes = page_size::parse_bytes(name, value)?,
            _ => return Err(Error::new(Code::InvalidOption, "there is no option of that name").about(name)),
        }
        Ok(())
    }

    pub(super) fn checked_page_bytes(&self) -> Result<usize> {
        page_size::check_bytes("page_bytes", self.page_bytes)
    }
}

impl From<Start> for TailOptions {
    fn from(start: Start) -> Self {
        Self::new(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_its_name_in_the_table_and_what_makes_no_sense_is_refused() {
        let documented: Vec<&str> = include_str!("options.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("/// | `")?.split('`').next())
            .collect();
        assert_eq!(documented, TailOptions::NAMES);
        for value in ["", "-1", "4 MiB", "99999999999999999999"] {
            let error = TailOptions::new(Start::New).set("page_bytes", value).unwrap_err();
            assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some("page_bytes")));
        }
        let error = TailOptions::new(Start::New).page_bytes(0).checked_page_bytes().unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some("page_bytes")));
        assert_eq!(TailOptions::new(Start::New).set("page", "1").unwrap_err().code(), Code::InvalidOption);
    }
}
