//! How a subscriber hears.

use crate::error::{Code, Error, Result};

/// How many events wait for a subscriber that does not say otherwise.
const BUFFER: usize = 1_024;

/// How a subscriber hears. Each option has a method; [`SubscriberOptions::set`] takes it by name and text.
///
/// | name | what | default |
/// |---|---|---|
/// | `buffer` | events that wait for the subscriber; what does not fit is counted and told by a gap | 1 024 |
///
/// ```
/// let options = echomq::SubscriberOptions::new().buffer(100);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriberOptions {
    buffer: usize,
}

impl SubscriberOptions {
    /// The names that [`SubscriberOptions::set`] knows.
    pub const NAMES: &'static [&'static str] = &["buffer"];

    /// The defaults.
    pub const fn new() -> Self {
        Self { buffer: BUFFER }
    }

    /// How many events wait for the subscriber.
    pub const fn buffer(self, events: usize) -> Self {
        Self { buffer: events }
    }

    /// Sets one option by its name. Fails with [`Code::InvalidOption`], naming it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "buffer" => {
                let refused = || refusal(name, &format!("`{}` is no number that fits", value.escape_debug()));
                self.buffer = value.parse().map_err(|_| refused())?;
                Ok(())
            }
            _ => Err(refusal(name, "a subscriber has no such option; it has `buffer`")),
        }
    }

    /// The bound, checked.
    pub(super) fn capacity(self) -> Result<usize> {
        match self.buffer {
            0 => Err(refusal("buffer", "without room for an event nothing could be heard")),
            capacity => Ok(capacity),
        }
    }
}

impl Default for SubscriberOptions {
    fn default() -> Self {
        Self::new()
    }
}

fn refusal(name: &str, why: &str) -> Error {
    Error::new(Code::InvalidOption, why).about(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_by_its_name() {
        let mut options = SubscriberOptions::new();
        for name in SubscriberOptions::NAMES {
            options.set(name, "7").unwrap();
        }
        assert_eq!(options, SubscriberOptions::new().buffer(7));
        for (name, value) in [("buffer", "-1"), ("buffer", "x"), ("bufer", "7")] {
            let error = options.set(name, value).unwrap_err();
            assert_eq!((error.code(), error.subject()), (Code::InvalidOption, Some(name)));
        }
        assert_eq!(SubscriberOptions::new().capacity().unwrap(), 1_024);
        assert_eq!(options.buffer(0).capacity().unwrap_err().code(), Code::InvalidOption);
    }
}
