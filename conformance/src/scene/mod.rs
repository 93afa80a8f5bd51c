//! Scenes: cases with several parts, each played by a driver of some language, one step after the other.
//!
//! What a case of one language cannot show is shown here: a group whose members are of different languages, a peer that is
//! killed, a stream that several write. A scene with one part is played by every language; with two parts by every ordered
//! pair; with more by each language and those that follow it.

mod channel;
mod format;
mod generated;
mod interrupt;
mod leases;
mod outcome;
mod stage;
mod troupe;
mod writers;

pub use format::{Part, Scene, load};
pub use troupe::run;
