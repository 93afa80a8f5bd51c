//! Keys and slots.

use crate::error::or_throw;
use echomq::Keyspace;
use napi::{Env, Result};
use napi_derive::napi;

/// Throws unless the queue has a name that a queue may have.
#[napi(catch_unwind)]
pub fn check_queue(env: Env, queue: String) -> Result<()> {
    or_throw(&env, Keyspace::new(&queue)).map(|_| ())
}

/// The key of any type of a queue.
#[napi(catch_unwind)]
pub fn key(env: Env, queue: String, kind: String) -> Result<String> {
    or_throw(&env, Keyspace::new(&queue).and_then(|keys| keys.key(&kind)))
}

/// The key of a stream of a queue.
#[napi(catch_unwind)]
pub fn stream_key(env: Env, queue: String, name: String) -> Result<String> {
    or_throw(&env, Keyspace::new(&queue).and_then(|keys| keys.stream(&name)))
}

/// The cluster slot of a key.
#[napi(catch_unwind)]
pub fn slot(key: String) -> u32 {
    echomq::slot(&key).into()
}
