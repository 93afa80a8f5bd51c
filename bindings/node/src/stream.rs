//! A stream of the core.

use crate::completion::{Queue, Ticket};
use crate::error::or_throw;
use crate::events::announcement;
use crate::packed::Packed;
use crate::reader::NativeReader;
use crate::time::instant;
use echomq::{EventId, Range, Reader, Stream, Trim};
use napi::bindgen_prelude::Unknown;
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// A stream.
#[napi]
pub struct NativeStream {
    pub(crate) stream: Stream,
    pub(crate) queue: Arc<Queue>,
}

impl NativeStream {
    pub(crate) fn new(stream: Stream, queue: Arc<Queue>) -> Self {
        Self { stream, queue }
    }

    /// To be taken only when the call can no longer throw: the caller frees the slot of a call that threw.
    pub(crate) fn ticket(&self, slot: u32) -> Ticket {
        Ticket::new(&self.queue, slot)
    }
}

#[napi]
impl NativeStream {
    /// The stream's key on the server.
    #[napi(catch_unwind)]
    pub fn key(&self) -> String {
        self.stream.key().to_owned()
    }

    /// Appends one record; answers its id.
    #[napi(catch_unwind)]
    pub fn append(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let pending = self.stream.append(packed.record());
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Appends a record and publishes an event, of lists as for the queue's events; answers its id, and how many listened
    /// or why it was not published.
    #[napi(catch_unwind)]
    pub fn append_and_publish(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let (fields, signal) = or_throw(&env, announcement(&packed))?;
        self.ticket(slot).answer_with(self.stream.append_and_publish(fields, signal));
        Ok(())
    }

    /// Appends one record under an id; answers the id.
    #[napi(catch_unwind)]
    pub fn append_id(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
        id: String,
    ) -> Result<()> {
        let id = or_throw(&env, EventId::parse(id))?;
        let packed = Packed::read(&env, content, table, length)?;
        let pending = self.stream.append_id(id, packed.record());
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Appends many records; answers an id or an error for each.
    #[napi(catch_unwind)]
    pub fn append_batch(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let pending = self.stream.append_batch(packed.records());
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Appends all records or none; answers their ids.
    #[napi(catch_unwind)]
    pub fn append_batch_atomic(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let pending = self.stream.append_batch_atomic(packed.records());
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Appends one record with an id of the sequencer's where its own would be late; answers the id.
    #[napi(catch_unwind)]
    pub fn append_sequenced(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let pending = self.stream.append_sequenced(packed.record());
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Appends all records or none, with ids of the sequencer's where their own would be late; answers the ids.
    #[napi(catch_unwind)]
    pub fn append_batch_sequenced(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let pending = self.stream.append_batch_sequenced(packed.records());
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// A reader of what lies between two bounds.
    #[napi(catch_unwind)]
    pub fn read(
        &self,
        env: Env,
        from: Option<String>,
        to: Option<String>,
        limit: Option<f64>,
        page_size: Option<f64>,
        page_bytes: Option<f64>,
    ) -> Result<NativeReader> {
        Ok(self.reader(self.stream.read(range(&env, from, to)?), limit, page_size, page_bytes))
    }

    /// A reader of what was minted between two instants, in milliseconds since 1970.
    #[napi(catch_unwind)]
    pub fn read_window(
        &self,
        env: Env,
        first: f64,
        last: f64,
        limit: Option<f64>,
        page_size: Option<f64>,
        page_bytes: Option<f64>,
    ) -> Result<NativeReader> {
        let reader = instant(first).and_then(|first| self.stream.read_window(first, instant(last)?));
        Ok(self.reader(or_throw(&env, reader)?, limit, page_size, page_bytes))
    }

    /// A reader of what was minted at or after an instant.
    #[napi(catch_unwind)]
    pub fn read_since(
        &self,
        env: Env,
        first: f64,
        limit: Option<f64>,
        page_size: Option<f64>,
        page_bytes: Option<f64>,
    ) -> Result<NativeReader> {
        let first = or_throw(&env, instant(first))?;
        Ok(self.reader(self.stream.read_since(first), limit, page_size, page_bytes))
    }

    /// A reader of the newest records, newest first.
    #[napi(catch_unwind)]
    pub fn read_last(&self, records: f64, page_size: Option<f64>, page_bytes: Option<f64>) -> NativeReader {
        self.reader(self.stream.read_last(records as u64), None, page_size, page_bytes)
    }

    pub(crate) fn reader(
        &self,
        mut reader: Reader,
        limit: Option<f64>,
        page_size: Option<f64>,
        page_bytes: Option<f64>,
    ) -> NativeReader {
        if let Some(records) = limit {
            reader = reader.limit(records as u64);
        }
        if let Some(records) = page_size {
            reader = reader.page_size(records as u64);
        }
        if let Some(bytes) = page_bytes {
            reader = reader.page_bytes(bytes as u64);
        }
        NativeReader::new(reader, self.queue.clone())
    }

    /// Keeps that many of the newest records; answers how many went.
    #[napi(catch_unwind)]
    pub fn trim_max_len(&self, slot: u32, records: f64, exact: bool) {
        self.trim(slot, Trim::max_len(records as u64), exact);
    }

    /// Keeps what was minted at or after an instant; answers how many went.
    #[napi(catch_unwind)]
    pub fn trim_min_id(&self, env: Env, slot: u32, first: f64, exact: bool) -> Result<()> {
        let first = or_throw(&env, instant(first))?;
        self.trim(slot, Trim::min_id(first), exact);
        Ok(())
    }

    fn trim(&self, slot: u32, trim: Trim, exact: bool) {
        let trim = if exact { trim.exact() } else { trim };
        let pending = self.stream.trim(trim);
        self.ticket(slot).answer_with(pending);
    }
}

/// A range; a bound that was not given is an end of the stream.
pub(crate) fn range(env: &Env, from: Option<String>, to: Option<String>) -> Result<Range> {
    or_throw(env, Range::parse(from.as_deref().unwrap_or("-"), to.as_deref().unwrap_or("+")))
}
