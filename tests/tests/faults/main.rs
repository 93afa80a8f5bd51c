//! Real programs in all four languages, on servers and networks that fail, killed and stopped at any instant.
//!
//! Run by `scripts/test-faults`, which builds what is started here. With `ECHOMQ_FAULTS=long` everything is done as often as
//! it takes to meet rare instants, otherwise a few times. `ECHOMQ_FAULTS_SEED` fixes the random choices.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected has failed")]

mod bus;
mod consumer;
mod entries;
mod events;
mod fork;
mod kills;
mod network;
mod nodes;
mod one_group;
mod poison;
mod restarts;
mod sequenced;
mod sequenced_restarts;
mod stream_writer;

use echomq_tests::Kind;

/// Runs a test against each kind of server.
fn each(test: impl Fn(Kind)) {
    Kind::ALL.into_iter().for_each(test);
}

/// How often something is done.
fn times(short: usize, long: usize) -> usize {
    if std::env::var("ECHOMQ_FAULTS").is_ok_and(|faults| faults == "long") { long } else { short }
}

/// What the random choices begin with.
fn seed() -> u64 {
    let given = std::env::var("ECHOMQ_FAULTS_SEED").ok();
    given.map_or_else(|| fastrand::u64(..), |seed| seed.parse().unwrap())
}
