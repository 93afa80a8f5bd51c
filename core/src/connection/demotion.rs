//! What one connection learns about the server, for all connections of its client: that it is no primary any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often a connection of a client was refused with `READONLY`. Clones are of the same client.
#[derive(Clone, Default)]
pub(crate) struct Demotions(Arc<AtomicU64>);

/// What had been known when a connection was opened.
pub(crate) struct Opened {
    demotions: Demotions,
    at: u64,
}

impl Demotions {
    /// To be called before the address is looked up.
    pub(crate) fn opening(&self) -> Opened {
        Opened { demotions: self.clone(), at: self.0.load(Ordering::Acquire) }
    }
}

impl Opened {
    /// Whether no connection has found the server demoted since: else it is to be closed, and its address looked up anew.
    pub(crate) fn is_current(&self) -> bool {
        self.demotions.0.load(Ordering::Acquire) == self.at
    }

    /// This connection was refused with `READONLY`. What was opened before is not current any longer.
    pub(crate) fn demoted(&self) {
        // Where another connection was first, all are told already.
        let _ = self.demotions.0.compare_exchange(self.at, self.at + 1, Ordering::AcqRel, Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_demotion_is_told_to_all_connections_that_were_open_and_to_none_opened_later() {
        let demotions = Demotions::default();
        let (one, other) = (demotions.opening(), demotions.clone().opening());
        one.demoted();
        other.demoted();
        assert!(!one.is_current() && !other.is_current());
        let later = demotions.opening();
        assert!(later.is_current());
        other.demoted();
        assert!(later.is_current(), "what an old connection hears is of the old server");
    }
}
