//! The native half of the Elixir face: it converts arguments, calls the core, converts the answer.
//!
//! No function here waits, and none is dirty. What has to wait for the server is submitted; its answer is sent to the
//! caller as the message `{tag, answer}` from a thread of the core's runtime. See `reply.rs`.

mod argument;
mod batch;
mod cancel;
mod client;
mod command;
mod consumer;
mod error;
mod event;
mod events;
mod fault;
mod fields;
mod group;
mod hand;
mod id;
mod keyspace;
mod listener;
mod message;
mod notice;
mod reader;
mod record;
mod reply;
mod stream;
mod tail;
mod term;
mod worker;

/// Atoms that more than one module needs.
mod atoms {
    rustler::atoms! { ok, error, pending, nil }
}

rustler::init!("Elixir.EchoMQ.Native");
