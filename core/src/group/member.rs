//! A member of a group: which consumer of which group of which stream.

use crate::record::packed::{Arguments, Packed};
use crate::stream::Key;
use std::fmt;
use std::sync::Arc;

/// One consumer of one group of one stream, its names checked.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) key: Key,
    pub(crate) group: Arc<str>,
    pub(crate) consumer: Arc<str>,
}

impl Member {
    /// `XREADGROUP GROUP <group> <consumer>`, which that many arguments follow.
    ///
    /// `GROUP` always comes first: elsewhere servers can misread it (`docs/protocol.md` §2).
    pub(super) fn read<'a>(&self, more: usize, commands: &'a mut Packed) -> Arguments<'a> {
        let mut command = commands.command(4 + more);
        command.arg("XREADGROUP").arg("GROUP").arg(&*self.group).arg(&*self.consumer);
        command
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} on {}", self.consumer, self.group, &*self.key)
    }
}
