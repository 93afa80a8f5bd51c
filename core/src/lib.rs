//! echomq: an event bus for applications written in several languages, on Valkey or Redis Streams.
//!
//! A *stream* is an append-only log whose records carry a 14-byte branded id made by the writer, so that stream order, id
//! order and the order of making are one. It is written by [`Stream::append`] and its kin and read by id or by wall-clock
//! instant. What every byte on the wire means is in the project's `docs/protocol.md`; the section behind a rule is named
//! where the rule stands.
//!
//! Start with [`Client`] inside a tokio runtime, or with [`blocking::Client`] without one.

mod cancel;
mod client;
mod clock;
mod connection;
mod error;
mod events;
mod group;
mod id;
mod keyspace;
mod node;
mod notice;
mod operation;
mod process;
mod record;
mod script;
mod stream;

pub mod blocking;

pub use cancel::token::{CancelToken, Cancelled};
pub use client::{Client, Decided, Events, Reader, Stream};
pub use clock::{Clock, Timestamp};
pub use connection::door::Status;
pub use connection::lane::Lane;
pub use connection::local::Local;
pub use connection::options::Options;
pub use connection::settings::Connect;
pub use connection::shared::Shared;
pub use error::{Code, Error, Result};
pub use events::announce::Announced;
pub use events::event::Event;
pub use events::listener::{Listener, ListenerStatus};
pub use events::mailbox::{EventGap, Heard};
pub use events::options::SubscriberOptions;
pub use events::reduction::Reduction;
pub use events::signal::Signal;
pub use events::subscriber::Subscriber;
pub use group::admin::info::{ConsumerInfo, GroupInfo};
pub use group::consumer::Consumer;
pub use group::delivery::{Delivery, Message};
pub use group::options::{ConsumerOptions, OnForeign};
pub use group::run::Worker;
pub use group::verdict::Failure;
pub use id::branded::{BrandedId, EventId};
pub use id::entry_id::EntryId;
pub use id::mint::Mint;
pub use id::snowflake::{EPOCH_MS, MAX_NODE, Snowflake};
pub use keyspace::{Keyspace, VERSION_KEY, slot};
pub use notice::{Notice, NoticeKind, Notices};
pub use operation::command::Reply;
pub use operation::lease::{NodeLease, OnNodeConflict};
pub use operation::pending::Pending;
pub use process::runtime;
pub use record::{Fields, Record};
pub use stream::range::Range;
pub use stream::start::Start;
pub use stream::tail::options::TailOptions;
pub use stream::tail::{Gap, Tail, Tailed};
pub use stream::trim::Trim;
pub use stream::writers::Writers;

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
