//! What a reader tells beside its records.

use crate::error::{Code, Error};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;
use std::collections::VecDeque;
use std::fmt;

/// How many notices wait for whoever takes them.
const KEPT: usize = 1_024;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What a [`Notice`] is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum NoticeKind {
            $($(#[$doc])* $variant,)*
        }

        impl NoticeKind {
            /// Every kind.
            pub const ALL: &'static [NoticeKind] = &[$(NoticeKind::$variant,)*];

            /// The kind's word, as every language shows it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(NoticeKind::$variant => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// The group had vanished, with what was pending in it, and was made again.
    GroupRecreated = "group_recreated",
    /// The data of a pending entry was trimmed away; the entry was acknowledged and is not handed out.
    Lost = "lost",
    /// An entry that this bus did not write was skipped or failed, as `on_foreign` says.
    Foreign = "foreign",
    /// An entry's handler failed; the entry comes back.
    Failed = "failed",
    /// An entry failed its last attempt and is a dead letter now.
    DeadLetter = "dead_letter",
    /// The group could not be told or asked; it is tried again.
    Trouble = "trouble",
    /// The connection that reads is gone; it is opened again.
    Disconnected = "disconnected",
    /// The connection that reads is open again.
    Reconnected = "reconnected",
    /// So many notices were not taken in time and are gone.
    Missed = "missed",
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that a consumer tells beside its deliveries (`docs/protocol.md` §6).
#[derive(Clone, PartialEq, Eq)]
pub struct Notice {
    kind: NoticeKind,
    message: String,
    entry_id: Option<EntryId>,
    id: Option<EventId>,
    attempts: Option<u64>,
    code: Option<Code>,
}

impl Notice {
    pub(crate) fn new(kind: NoticeKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), entry_id: None, id: None, attempts: None, code: None }
    }

    pub(crate) fn of_error(kind: NoticeKind, error: &Error) -> Self {
        Self { code: Some(error.code()), ..Self::new(kind, error.to_string()) }
    }

    pub(crate) fn of_entry(kind: NoticeKind, entry_id: EntryId, message: impl Into<String>) -> Self {
        Self { entry_id: Some(entry_id), id: EventId::try_from(entry_id).ok(), ..Self::new(kind, message) }
    }

    pub(crate) fn with_attempts(self, attempts: u64) -> Self {
        Self { attempts: Some(attempts), ..self }
    }

    /// What it is about.
    pub fn kind(&self) -> NoticeKind {
        self.kind
    }

    /// A sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The entry concerned.
    pub fn entry_id(&self) -> Option<EntryId> {
        self.entry_id
    }

    /// The branded id that belongs to the entry's place, where there is one.
    pub fn id(&self) -> Option<EventId> {
        self.id
    }

    /// How often the entry was delivered.
    pub fn attempts(&self) -> Option<u64> {
        self.attempts
    }

    /// The cause of a trouble.
    pub fn code(&self) -> Option<Code> {
        self.code
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)?;
        match &self.entry_id {
            Some(entry_id) => write!(f, " ({entry_id})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notice({self})")
    }
}

/// Notices that wait to be taken, a bounded number.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    notices: VecDeque<Notice>,
    missed: u64,
}

impl Waiting {
    pub(super) fn push(&mut self, notice: Notice) {
        if self.notices.len() == KEPT {
            self.notices.pop_front();
            self.missed += 1;
        }
        self.notices.push_back(notice);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.notices.is_empty() && self.missed == 0
    }

    pub(super) fn pop(&mut self) -> Option<Notice> {
        if self.missed > 0 {
            let missed = std::mem::take(&mut self.missed);
            return Some(Notice::new(
                NoticeKind::Missed,
                format!("{missed} older notices were not taken in time"),
            ));
        }
        self.notices.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut waiting = Waiting::default();
        for entry in 0..KEPT as u64 + 3 {
            waiting.push(Notice::of_entry(NoticeKind::Lost, EntryId::new(entry, 0), "gone"));
        }
        assert!(waiting.pop().unwrap().message().starts_with("3 "));
        assert_eq!(waiting.pop().unwrap().entry_id(), Some(EntryId::new(3, 0)));
        assert_eq!(std::iter::from_fn(|| waiting.pop()).count(), KEPT - 1);
    }

    #[test]
    fn every_kind_has_its_own_word() {
        let words: std::collections::BTreeSet<_> = NoticeKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(words.len(), NoticeKind::ALL.len());
    }
}
