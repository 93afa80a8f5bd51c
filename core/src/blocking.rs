//! The same client for callers without an asynchronous runtime: every call waits on the caller's own thread.
//!
//! No thread stands between a caller and the server. Threads that call at the same time share pipelines, and the order of
//! a stream is kept among them.
//!
//! ```no_run
//! use echomq::{Options, Range, blocking::Client};
//!
//! let client = Client::open(&Options::new("redis://localhost")?)?;
//! let events = client.stream("codemojex", "events")?;
//! events.append([("kind", "guessed")])?;
//! for record in events.read(Range::all()) {
//!     println!("{:?}", record?.id());
//! }
//! # Ok::<(), echomq::Error>(())
//! ```

use crate::connection::local::Local;

pub use crate::connection::local::Interrupt;

/// A client whose calls wait on the caller's thread. See [`crate::Client`].
pub type Client = crate::client::Client<Local>;

/// A stream whose calls wait on the caller's thread. See [`crate::Stream`].
pub type Stream = crate::client::Stream<Local>;

/// An iterator over the records of a range. See [`crate::Reader`].
pub type Reader = crate::client::Reader<Local>;

/// A queue's events, with calls that wait on the caller's thread. See [`crate::Events`].
pub type Events = crate::client::Events<Local>;
