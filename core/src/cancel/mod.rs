//! Cancelling a job: a token that its handler looks at, in this process or in any (`docs/protocol.md` §7).

pub(crate) mod mark;
pub(crate) mod token;
pub(crate) mod watch;
