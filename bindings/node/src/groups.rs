//! The consumers, tails, groups and dead letters of a stream.

use crate::answer::{IntoJs, Value, value};
use crate::consumer::NativeConsumer;
use crate::error::or_throw;
use crate::reader::NativeReader;
use crate::stream::{NativeStream, range};
use crate::tail::NativeTail;
use crate::time::duration;
use echomq::{ConsumerOptions, EventId, GroupInfo, Start, TailOptions};
use napi::bindgen_prelude::{Either, Null};
use napi::{Env, Result};
use napi_derive::napi;

#[napi]
impl NativeStream {
    /// Starts a consumer, with options by name and text; answers it.
    #[napi(catch_unwind)]
    pub fn consumer(&self, env: Env, slot: u32, names: Vec<String>, values: Vec<String>) -> Result<()> {
        let pairs = names.iter().map(String::as_str).zip(values.iter().map(String::as_str));
        let options = or_throw(&env, ConsumerOptions::parse(pairs))?;
        let pending = self.stream.consumer(options);
        let (ticket, queue) = (self.ticket(slot), self.queue.clone());
        pending.on_complete(move |answer| {
            ticket.answer(answer.map(|consumer| NativeConsumer::new(consumer, queue)));
        });
        Ok(())
    }

    /// Follows the stream; answers a tail.
    #[napi(catch_unwind)]
    pub fn tail(&self, env: Env, slot: u32, start: String, page_bytes: Option<f64>) -> Result<()> {
        let mut options = TailOptions::new(or_throw(&env, Start::parse(&start))?);
        if let Some(bytes) = page_bytes {
            or_throw(&env, options.set("page_bytes", &(bytes as u64).to_string()))?;
        }
        let pending = self.stream.tail(options);
        let (ticket, queue) = (self.ticket(slot), self.queue.clone());
        pending.on_complete(move |answer| ticket.answer(answer.map(|tail| NativeTail::new(tail, queue))));
        Ok(())
    }

    /// Makes a group; answers whether it was not there.
    #[napi(catch_unwind)]
    pub fn create_group(&self, env: Env, slot: u32, group: String, start: String) -> Result<()> {
        let start = or_throw(&env, Start::parse(&start))?;
        let pending = self.stream.create_group(&group, start);
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Answers all groups.
    #[napi(catch_unwind)]
    pub fn groups(&self, slot: u32) {
        let pending = self.stream.groups();
        self.ticket(slot).answer_with(pending);
    }

    /// Answers one group.
    #[napi(catch_unwind)]
    pub fn group(&self, slot: u32, group: String) {
        let pending = self.stream.group(&group);
        self.ticket(slot).answer_with(pending);
    }

    /// Moves a group.
    #[napi(catch_unwind)]
    pub fn seek(&self, env: Env, slot: u32, group: String, start: String) -> Result<()> {
        let start = or_throw(&env, Start::parse(&start))?;
        let pending = self.stream.seek(&group, start);
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Removes a consumer for which nothing is pending.
    #[napi(catch_unwind)]
    pub fn remove_consumer(&self, slot: u32, group: String, consumer: String) {
        let pending = self.stream.remove_consumer(&group, &consumer);
        self.ticket(slot).answer_with(pending);
    }

    /// Removes the consumers that hold nothing and last asked more than that many milliseconds ago; answers their names.
    #[napi(catch_unwind)]
    pub fn sweep_consumers(&self, slot: u32, group: String, idle: f64) -> Result<()> {
        let pending = self.stream.sweep_consumers(&group, duration(idle)?);
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Removes a group; answers whether it was there.
    #[napi(catch_unwind)]
    pub fn remove_group(&self, slot: u32, group: String) {
        let pending = self.stream.remove_group(&group);
        self.ticket(slot).answer_with(pending);
    }

    /// A reader of the dead letters between two bounds.
    #[napi(catch_unwind)]
    pub fn dead_letters(
        &self,
        env: Env,
        from: Option<String>,
        to: Option<String>,
        limit: Option<f64>,
        page_size: Option<f64>,
        page_bytes: Option<f64>,
    ) -> Result<NativeReader> {
        Ok(self.reader(self.stream.dead_letters(range(&env, from, to)?), limit, page_size, page_bytes))
    }

    /// Puts a dead letter back; answers the id of the record that it becomes.
    #[napi(catch_unwind)]
    pub fn put_back(&self, env: Env, slot: u32, id: String) -> Result<()> {
        let id = or_throw(&env, EventId::parse(id))?;
        let pending = self.stream.put_back(id);
        self.ticket(slot).answer_with(pending);
        Ok(())
    }
}

/// A group.
#[napi(object)]
pub struct GroupParts {
    /// Its name.
    pub name: String,
    /// How many entries are delivered and not acknowledged.
    pub pending: f64,
    /// How many records are ahead of it; null where that is not known.
    pub lag: Either<f64, Null>,
    /// The entry id of the last entry delivered.
    pub last_delivered: String,
    /// Its consumers.
    pub consumers: Vec<ConsumerParts>,
}

/// A consumer of a group.
#[napi(object)]
pub struct ConsumerParts {
    /// Its name.
    pub name: String,
    /// How many entries are pending for it.
    pub pending: f64,
    /// How many milliseconds ago it last asked.
    pub idle: f64,
}

impl IntoJs for GroupInfo {
    fn into_js(self, env: &Env) -> Result<Value> {
        let consumers = self.consumers().iter().map(|consumer| ConsumerParts {
            name: consumer.name().to_owned(),
            pending: consumer.pending() as f64,
            idle: consumer.idle().as_millis() as f64,
        });
        let parts = GroupParts {
            name: self.name().to_owned(),
            pending: self.pending() as f64,
            lag: self.lag().map_or(Either::B(Null), |lag| Either::A(lag as f64)),
            last_delivered: self.last_delivered().to_string(),
            consumers: consumers.collect(),
        };
        value(env, parts)
    }
}
