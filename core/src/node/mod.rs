//! Node ids from the client's side: who holds them, and what keeps the client's own (`docs/protocol.md` §4).

mod keeper;
mod list;
mod single;

pub(crate) use keeper::keep;
pub(crate) use list::Nodes;
pub(crate) use single::Minted;
