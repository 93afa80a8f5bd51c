//! `echomq.aio`: the client for asyncio, and for every loop with asyncio's `add_reader`.

mod bell;
pub(crate) mod client;
pub(crate) mod consumer;
pub(crate) mod events;
mod lazy;
pub(crate) mod listener;
pub(crate) mod notices;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod stream;
pub(crate) mod tail;
pub(crate) mod waiting;
