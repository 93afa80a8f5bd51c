//! A consumer of the core, and the entries that it handed out.

use crate::answer::{IntoJs, Value, array, row, value};
use crate::completion::{Queue, Ticket};
use crate::error::or_throw;
use crate::notice::NativeNotices;
use crate::time::{duration, patience};
use echomq::{Consumer, Delivery, Failure, Worker};
use napi::{Env, Result};
use napi_derive::napi;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// A consumer.
#[napi]
pub struct NativeConsumer {
    consumer: Consumer,
    workers: Vec<Arc<Worker>>,
    queue: Arc<Queue>,
}

/// Whoever waits for its entries has a share of it too, and would wait for ever once it is forgotten.
impl Drop for NativeConsumer {
    fn drop(&mut self) {
        // It fails only in a forked child, where nothing is to be stopped.
        let _ = self.consumer.begin_stop(Duration::ZERO);
    }
}

impl NativeConsumer {
    pub(crate) fn new(consumer: Consumer, queue: Arc<Queue>) -> Self {
        let workers = (0..).map_while(|number| consumer.worker(number).ok().map(Arc::new)).collect();
        Self { consumer, workers, queue }
    }

    fn ticket(&self, slot: u32) -> Ticket {
        Ticket::new(&self.queue, slot)
    }

    fn worker(&self, env: &Env, number: u32) -> Result<Arc<Worker>> {
        match self.workers.get(number as usize) {
            Some(worker) => Ok(worker.clone()),
            None => or_throw(env, self.consumer.worker(number as usize).map(Arc::new)),
        }
    }
}

impl IntoJs for NativeConsumer {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}

#[napi]
impl NativeConsumer {
    /// The group's name.
    #[napi(catch_unwind)]
    pub fn group(&self) -> String {
        self.consumer.group().to_owned()
    }

    /// The consumer's own name.
    #[napi(catch_unwind)]
    pub fn name(&self) -> String {
        self.consumer.name().to_owned()
    }

    /// How many workers there are.
    #[napi(catch_unwind)]
    pub fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    /// Takes what there is for a worker, to be handled one by one; answers deliveries, or undefined at the end.
    #[napi(catch_unwind)]
    pub fn take(&self, env: Env, slot: u32, worker: u32) -> Result<()> {
        let worker = self.worker(&env, worker)?;
        self.ticket(slot).answer_from(async move { worker.take(usize::MAX).await.map(Taken) });
        Ok(())
    }

    /// Takes a batch for a worker, to be handled at once; answers deliveries, or undefined at the end.
    #[napi(catch_unwind)]
    pub fn take_batch(&self, env: Env, slot: u32, worker: u32) -> Result<()> {
        let worker = self.worker(&env, worker)?;
        self.ticket(slot).answer_from(async move { worker.next_batch().await.map(Taken) });
        Ok(())
    }

    /// Hands out nothing more until it is resumed.
    #[napi(catch_unwind)]
    pub fn pause(&self) {
        self.consumer.pause();
    }

    /// Goes on.
    #[napi(catch_unwind)]
    pub fn resume(&self) {
        self.consumer.resume();
    }

    /// Answers once every verdict given so far is on the server.
    #[napi(catch_unwind)]
    pub fn flush(&self, slot: u32) {
        let consumer = self.consumer.clone();
        self.ticket(slot).answer_from(async move { consumer.flush().await });
    }

    /// Answers once nothing more is handed out.
    #[napi(catch_unwind)]
    pub fn stopping(&self, slot: u32) {
        let consumer = self.consumer.clone();
        self.ticket(slot).answer_from(async move {
            consumer.stopping().await;
            Ok(())
        });
    }

    /// Stops, within that many milliseconds or however long it takes; answers how many entries have no verdict on the
    /// server.
    #[napi(catch_unwind)]
    pub fn stop(&self, env: Env, slot: u32, within: Option<f64>) -> Result<()> {
        let within = patience(within)?;
        or_throw(&env, self.consumer.begin_stop(within))?;
        let consumer = self.consumer.clone();
        self.ticket(slot).answer_from(async move { Ok(consumer.stop(within).await) });
        Ok(())
    }

    /// What it tells beside its deliveries.
    #[napi(catch_unwind)]
    pub fn notices(&self) -> NativeNotices {
        NativeNotices::new(self.consumer.notices(), self.queue.clone())
    }
}

/// Deliveries that were taken together: an array of the attempts and the record of each, then their [`NativeDeliveries`].
/// Undefined where there are none.
struct Taken(Vec<Delivery>);

impl IntoJs for Taken {
    fn into_js(self, env: &Env) -> Result<Value> {
        if self.0.is_empty() {
            return value(env, ());
        }
        let mut items = Vec::with_capacity(2 * self.0.len() + 1);
        for delivery in &self.0 {
            items.push(value(env, delivery.attempts() as f64));
            items.push(row(env, delivery.record()));
        }
        items.push(value(env, NativeDeliveries::new(self.0)));
        array(env, items.into_iter())
    }
}

/// Deliveries that were taken together, each until its verdict, by its number among them.
///
/// When nobody in JavaScript holds them any longer, what has no verdict then is dropped.
#[napi]
pub struct NativeDeliveries {
    deliveries: Vec<Option<Delivery>>,
    /// How many have no verdict.
    open: usize,
}

impl NativeDeliveries {
    fn new(deliveries: Vec<Delivery>) -> Self {
        Self { open: deliveries.len(), deliveries: deliveries.into_iter().map(Some).collect() }
    }

    fn remove(&mut self, number: u32) -> Option<Delivery> {
        let delivery = self.deliveries.get_mut(number as usize)?.take()?;
        self.open -= 1;
        if self.open == 0 {
            // The engine may keep this long after its use, and does not know its size.
            mem::take(&mut self.deliveries);
        }
        Some(delivery)
    }
}

#[napi]
impl NativeDeliveries {
    /// They were handled.
    #[napi(catch_unwind)]
    pub fn ack(&mut self, numbers: Vec<u32>) {
        Delivery::ack_all(numbers.into_iter().filter_map(|number| self.remove(number)));
    }

    /// One was not handled, for that reason, and is to come back after that many milliseconds if they are given.
    #[napi(catch_unwind)]
    pub fn fail(&mut self, number: u32, reason: String, delay: Option<f64>) -> Result<()> {
        let delay = delay.map(duration).transpose()?;
        if let Some(delivery) = self.remove(number) {
            let failure = Failure::new(reason);
            delivery.fail(match delay {
                Some(delay) => failure.after(delay),
                None => failure,
            });
        }
        Ok(())
    }

    /// Shows a sign of life for one.
    #[napi(catch_unwind)]
    pub fn extend(&self, number: u32) {
        if let Some(Some(delivery)) = self.deliveries.get(number as usize) {
            delivery.extend();
        }
    }

    /// Gives them back as if they had not been handed out.
    #[napi(catch_unwind)]
    pub fn give_back(&mut self, numbers: Vec<u32>) {
        Delivery::give_back_all(numbers.into_iter().filter_map(|number| self.remove(number)));
    }
}
