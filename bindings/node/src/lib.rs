//! The Node face of echomq: it converts what JavaScript gave, makes one call of the core, and converts the answer.
//!
//! Nothing here is called by users: the package's `lib` folder is the surface, and `lib/native.d.ts` lists what this
//! module gives it. A call that waits is given a *slot*, a number by which JavaScript finds its promise again; its
//! answer travels through the queue of `completion.rs`. A call that does not wait answers or throws.
//!
//! Every function catches panics, so that a defect ends in an exception of its caller.

pub mod answer;
pub mod cancel;
pub mod client;
mod completion;
pub mod consumer;
mod error;
pub mod events;
pub mod groups;
pub mod host;
pub mod id;
pub mod keyspace;
pub mod listener;
pub mod notice;
mod packed;
pub mod password;
pub mod reader;
pub mod stream;
pub mod tail;
mod time;
pub mod trial;

use napi_derive::napi;

/// The version of the core.
#[napi(catch_unwind)]
pub fn version() -> &'static str {
    echomq::VERSION
}

/// Every code that an error can have.
#[napi(catch_unwind)]
pub fn codes() -> Vec<&'static str> {
    echomq::Code::ALL.iter().map(|code| code.as_str()).collect()
}

/// The names of all options of a client.
#[napi(catch_unwind)]
pub fn option_names() -> Vec<&'static str> {
    echomq::Options::NAMES.to_vec()
}

/// The names of all options of a consumer.
#[napi(catch_unwind)]
pub fn consumer_option_names() -> Vec<&'static str> {
    echomq::ConsumerOptions::NAMES.to_vec()
}

/// The names of all options of a subscriber.
#[napi(catch_unwind)]
pub fn subscriber_option_names() -> Vec<&'static str> {
    echomq::SubscriberOptions::NAMES.to_vec()
}

/// Every kind of notice.
#[napi(catch_unwind)]
pub fn notice_kinds() -> Vec<&'static str> {
    echomq::NoticeKind::ALL.iter().map(|kind| kind.as_str()).collect()
}
