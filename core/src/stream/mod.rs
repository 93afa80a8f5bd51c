//! The log: append, read, trim (`docs/protocol.md` §4, §5, §8).

pub(crate) mod append;
pub(crate) mod append_sequenced;
pub(crate) mod batch;
pub(crate) mod batch_atomic;
pub(crate) mod batch_sequenced;
pub(crate) mod info;
pub(crate) mod page_size;
pub(crate) mod range;
pub(crate) mod read;
pub(crate) mod start;
pub(crate) mod tail;
pub(crate) mod trim;
pub(crate) mod writers;

use crate::error::Result;
use crate::id::branded::EventId;
use crate::keyspace::Keyspace;
use info::Seen;
use page_size::Learnt;
use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// The key of a stream or of its dead letters, checked and spelled once, with the keys that belong to it.
#[derive(Clone)]
pub struct Key {
    spelled: Arc<Spelled>,
    /// What readers of the stream, and of its dead letters, have learnt of the sizes of entries.
    sizes: Arc<[Learnt; 2]>,
    /// How many entries the stream had got when this client last knew.
    seen: Arc<Seen>,
    dead: bool,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (&self.spelled, self.dead) == (&other.spelled, other.dead)
    }
}

impl Eq for Key {}

#[derive(PartialEq, Eq)]
struct Spelled {
    keys: Keyspace,
    name: String,
    stream: String,
    dead: String,
    sequencer: String,
}

impl Key {
    /// Fails with `invalid_name`.
    pub(crate) fn new(keys: &Keyspace, name: &str) -> Result<Self> {
        let spelled = Spelled {
            keys: keys.clone(),
            name: name.to_owned(),
            stream: keys.stream(name)?,
            dead: keys.dead_letters(name)?,
            sequencer: keys.sequencer(),
        };
        Ok(Self {
            spelled: Arc::new(spelled),
            sizes: Arc::default(),
            seen: Arc::new(Seen::never()),
            dead: false,
        })
    }

    /// The stream's dead letters.
    pub(crate) fn dead_letters(&self) -> Self {
        Self { dead: true, ..self.clone() }
    }

    /// What earlier readers have learnt of the sizes of entries.
    pub(crate) fn sizes(&self) -> &Learnt {
        let [stream, dead] = &*self.sizes;
        if self.dead { dead } else { stream }
    }

    /// How many entries the stream had got when this client last knew.
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// The key of what was answered to questions with this candidate. Without one there are no such answers, and any key
    /// will do.
    pub(crate) fn asked(&self, candidate: Option<EventId>) -> String {
        self.spelled.keys.asked(candidate.map_or(0, |id| id.unix_ms()))
    }

    /// The keys of the stream's queue.
    pub(crate) fn keys(&self) -> &Keyspace {
        &self.spelled.keys
    }

    /// The stream's name.
    pub(crate) fn name(&self) -> &str {
        &self.spelled.name
    }

    /// The queue's sequencer.
    pub(crate) fn sequencer(&self) -> &str {
        &self.spelled.sequencer
    }
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        if self.dead { &self.spelled.dead } else { &self.spelled.stream }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// The keys of the streams that a client has opened. What is known of a stream is so of all its handles.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<HashMap<String, Key>>>);

/// How many keys without a handle are kept.
const KEPT: usize = 1_024;

impl Keys {
    /// Fails with `invalid_name`.
    pub(crate) fn get(&self, keys: &Keyspace, name: &str) -> Result<Key> {
        let spelled = keys.stream(name)?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known.get(&spelled) {
            return Ok(key.clone());
        }
        if known.len() >= KEPT {
            known.retain(|_, key| Arc::strong_count(&key.seen) > 1);
        }
        let key = Key::new(keys, name)?;
        known.insert(spelled, key.clone());
        Ok(key)
    }
}

#[cfg(test)]
mod break_tests;
#[cfg(test)]
mod tests;
