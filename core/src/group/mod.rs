//! Consumer groups (`docs/protocol.md` §6).

mod acknowledgements;
pub(crate) mod admin;
pub(crate) mod consumer;
pub(crate) mod dead_letter;
pub(crate) mod delivery;
mod door;
mod drain;
mod engine;
mod member;
pub(crate) mod options;
mod page;
mod read;
mod reclaim;
pub(crate) mod run;
mod scan;
mod settle;
mod state;
mod suspects;
pub(crate) mod verdict;
