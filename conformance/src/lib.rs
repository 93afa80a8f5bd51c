//! The judge of the bus: one suite for every implementation.
//!
//! A driver is a small program in the implementation's language that does what a line tells it. The judge holds the
//! cases, starts the server, tells the drivers what to do, reads the keys with a plain client of its own and compares:
//! each reply with the expected one, each stream with the expected records, and the languages with each other.
//!
//! It knows nothing of the crate `echomq`: what it expects comes from the law and from `vectors.json`.

pub mod case;
pub mod driver;
pub mod generated;
pub mod item;
pub mod judgement;
pub mod lane;
pub mod observation;
pub mod operation;
pub mod pairs;
pub mod protocol;
pub mod report;
pub mod run;
pub mod scene;
pub mod slot;
pub mod snowflake;
pub mod suite;
pub mod vectors;

use std::path::PathBuf;

/// The root of the project: the folder that holds `conformance/`.
pub fn root() -> PathBuf {
    let mut folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.pop();
    folder
}
