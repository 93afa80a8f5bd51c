//! The events of a queue.

use crate::answer::{IntoJs, Value, array, value};
use crate::cancel::NativeToken;
use crate::completion::{Queue, Ticket};
use crate::error::or_throw;
use crate::listener::NativeListener;
use crate::packed::{List, Packed};
use crate::time::duration;
use echomq::{Announced, Events, Fields, Signal};
use napi::bindgen_prelude::Unknown;
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// A queue's events.
#[napi]
pub struct NativeEvents {
    events: Events,
    queue: Arc<Queue>,
}

impl NativeEvents {
    pub(crate) fn new(events: Events, queue: Arc<Queue>) -> Self {
        Self { events, queue }
    }

    fn ticket(&self, slot: u32) -> Ticket {
        Ticket::new(&self.queue, slot)
    }
}

/// An event to publish, checked.
#[napi]
pub struct NativeSignal(Signal);

#[napi]
impl NativeEvents {
    /// The channel on the server.
    #[napi(catch_unwind)]
    pub fn channel(&self) -> String {
        self.events.channel().to_owned()
    }

    /// Publishes an event, of a list of its name and its job and a list of its members; answers how many listened.
    #[napi(catch_unwind)]
    pub fn publish(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let signal = or_throw(&env, signal(&mut packed.lists()))?;
        let pending = self.events.publish(signal);
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// An event to publish later, of the same lists.
    #[napi(catch_unwind)]
    pub fn signal(
        &self,
        env: Env,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<NativeSignal> {
        let packed = Packed::read(&env, content, table, length)?;
        or_throw(&env, signal(&mut packed.lists())).map(NativeSignal)
    }

    /// Publishes a checked event; answers how many listened.
    #[napi(catch_unwind)]
    pub fn publish_signal(&self, slot: u32, signal: &NativeSignal) {
        let pending = self.events.publish(signal.0.clone());
        self.ticket(slot).answer_with(pending);
    }

    /// Writes the progress of a job, of a list of both; answers how many listened.
    #[napi(catch_unwind)]
    pub fn update_progress(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let [job, progress] = two(&mut packed.lists());
        let pending = self.events.update_progress(job, progress);
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Appends a record, whose fields are a third list, and publishes the event; answers its id, and how many listened or
    /// why it was not published.
    #[napi(catch_unwind)]
    pub fn append_and_publish(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
        stream: String,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let (fields, signal) = or_throw(&env, announcement(&packed))?;
        self.ticket(slot).answer_with(self.events.append_and_publish(&stream, fields, signal));
        Ok(())
    }

    /// The same for a stream of several writers.
    #[napi(catch_unwind)]
    pub fn append_sequenced_and_publish(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
        stream: String,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let (fields, signal) = or_throw(&env, announcement(&packed))?;
        self.ticket(slot).answer_with(self.events.append_sequenced_and_publish(&stream, fields, signal));
        Ok(())
    }

    /// Listens; answers a listener.
    #[napi(catch_unwind)]
    pub fn listen(&self, slot: u32) {
        let (ticket, queue) = (self.ticket(slot), self.queue.clone());
        self.events.listen().on_complete(move |answer| {
            ticket.answer(answer.map(|listener| NativeListener::new(listener, queue)));
        });
    }

    /// Cancels a job, of a list of it and the reason, with a mark that lives that many milliseconds if they are given; answers
    /// how many listened.
    #[napi(catch_unwind)]
    pub fn cancel(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
        time_to_live: Option<f64>,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let [job, reason] = two(&mut packed.lists());
        let time_to_live = time_to_live.map(duration).transpose()?;
        let pending = self.events.cancel(job, reason, time_to_live);
        self.ticket(slot).answer_with(pending);
        Ok(())
    }

    /// Watches a job; answers a token.
    #[napi(catch_unwind)]
    pub fn watch(&self, slot: u32, job: String) {
        let (ticket, queue) = (self.ticket(slot), self.queue.clone());
        self.events.watch(job).on_complete(move |answer| {
            ticket.answer(answer.map(|token| NativeToken::new(token, queue)));
        });
    }
}

/// The event of two lists: its name and its job, and its members.
fn signal<'a>(lists: &mut impl Iterator<Item = List<'a>>) -> echomq::Result<Signal> {
    let [event, job] = two(lists);
    Signal::new(event, job)?.with_all(lists.next().into_iter().flat_map(List::pairs))
}

/// The fields of a record and its event, of three lists: the event's name and job, its members, and the fields.
pub(crate) fn announcement(packed: &Packed) -> echomq::Result<(Fields, Signal)> {
    let mut lists = packed.lists();
    let signal = signal(&mut lists)?;
    Ok((lists.next().map(List::fields).unwrap_or_default(), signal))
}

/// The two parts of a list.
fn two<'a>(lists: &mut impl Iterator<Item = List<'a>>) -> [&'a [u8]; 2] {
    let mut parts = lists.next().into_iter().flatten();
    [(); 2].map(|()| parts.next().unwrap_or_default())
}

/// The id of the record, and how many listened or an error.
impl IntoJs for Announced {
    fn into_js(self, env: &Env) -> Result<Value> {
        array(env, [value(env, self.id.as_str()), self.published.into_js(env)].into_iter())
    }
}
