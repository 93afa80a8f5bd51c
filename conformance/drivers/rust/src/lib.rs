//! The Rust driver of the conformance suite.
//!
//! It takes orders from the judge, a line each, carries them out as a user of the crate `echomq` would, and answers
//! with a line. It judges nothing.

mod answer;
mod arguments;
mod driver;
mod field;
mod readers;
mod records;

pub use answer::{Answer, Refusal};
pub use driver::Driver;
pub use field::{decode, encode};
