//! What the tests of echomq stand on: real servers, a plain client, and a network that can be made to fail.
//!
//! Nothing here depends on the crate under test, so what is found through this crate is found independently of it:
//!
//! - [`server`] starts Valkey and Redis on free ports, stops, kills, pauses and restarts them, changes
//!   their role and sets their clock;
//! - [`plain`] reads keys and hears channels with clients of its own, and gives the raw bytes of a reply;
//! - [`program`] starts programs of all four languages, signals them and reads what they say;
//! - [`given`] is what such a program in Rust reads its arguments and writes its lines with;
//! - [`proxy`] stands between a client and a server, records what is sent, and delays, slows, cuts or swallows it;
//! - [`resp`] finds the ends of replies and commands in captured bytes;
//! - [`wait`] waits for a condition.
//!
//! A test has no use for a harness that half works: functions that are not named `try_…` panic with one sentence when
//! the harness itself fails.

pub mod certificates;
pub mod given;
pub mod plain;
pub mod program;
pub mod proxy;
pub mod resp;
pub mod server;
pub mod wait;

pub use certificates::Certificates;
pub use given::{Given, Log, Terminated};
pub use plain::{Ear, Plain};
pub use program::{Language, Program};
pub use proxy::{Direction, Ending, Moment, Proxy};
pub use resp::Command;
pub use server::{Kind, Server, Tls};
pub use wait::{wait_until, wait_until_async};

/// Ends the test with one sentence: the only place where this crate panics.
#[allow(clippy::panic, reason = "a test whose harness fails has failed")]
#[track_caller]
fn give_up(sentence: impl std::fmt::Display) -> ! {
    panic!("{sentence}")
}
