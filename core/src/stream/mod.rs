//! The log: append, read, trim (`docs/protocol.md` §4, §5, §8).

pub(crate) mod append;
pub(crate) mod batch;
pub(crate) mod batch_atomic;
pub(crate) mod range;
pub(crate) mod read;
pub(crate) mod trim;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The key of a stream, checked and spelled once.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<str>);

impl Key {
    pub(crate) fn new(key: String) -> Self {
        Self(key.into())
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests;
