//! A listener of the core, its subscribers, and what they hear.

use crate::answer::{IntoJs, Value, array, array_of, text_or_bytes, value};
use crate::completion::{Queue, Ticket};
use crate::error::{make_error, or_throw};
use crate::notice::NativeNotices;
use echomq::{Event, EventGap, Heard, Listener, Subscriber, SubscriberOptions};
use napi::bindgen_prelude::{Either, Null, Uint8Array};
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// A listener.
#[napi]
pub struct NativeListener {
    listener: Listener,
    queue: Arc<Queue>,
}

impl NativeListener {
    pub(crate) fn new(listener: Listener, queue: Arc<Queue>) -> Self {
        Self { listener, queue }
    }
}

impl IntoJs for NativeListener {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}

#[napi]
impl NativeListener {
    /// The queue.
    #[napi(catch_unwind)]
    pub fn queue(&self) -> String {
        self.listener.queue().to_owned()
    }

    /// The channel on the server.
    #[napi(catch_unwind)]
    pub fn channel(&self) -> String {
        self.listener.channel().to_owned()
    }

    /// A subscriber, with options by name and text.
    #[napi(catch_unwind)]
    pub fn subscribe(&self, env: Env, names: Vec<String>, values: Vec<String>) -> Result<NativeSubscriber> {
        let subscribe = || {
            let mut options = SubscriberOptions::new();
            for (name, value) in names.iter().zip(&values) {
                options.set(name, value)?;
            }
            self.listener.subscribe(options)
        };
        let subscriber = or_throw(&env, subscribe())?;
        Ok(NativeSubscriber { subscriber, queue: self.queue.clone() })
    }

    /// How the subscription stands: whether there is a connection, how often there was a new one, and why there is none.
    #[napi(catch_unwind)]
    pub fn status(&self, env: Env) -> Result<Value> {
        let status = self.listener.status();
        let error = match &status.error {
            Some(error) => make_error(&env, error),
            None => value(&env, ()),
        };
        let parts = [value(&env, status.connected), value(&env, status.resubscriptions as f64), error];
        array(&env, parts.into_iter())
    }

    /// What it tells beside its events.
    #[napi(catch_unwind)]
    pub fn notices(&self) -> NativeNotices {
        NativeNotices::new(self.listener.notices(), self.queue.clone())
    }

    /// Ends it.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.listener.close();
    }
}

/// A subscriber.
#[napi]
pub struct NativeSubscriber {
    subscriber: Subscriber,
    queue: Arc<Queue>,
}

/// Whoever waits for its events has a share of it too, and would wait for ever once it is forgotten.
impl Drop for NativeSubscriber {
    fn drop(&mut self) {
        self.subscriber.close();
    }
}

#[napi]
impl NativeSubscriber {
    /// Takes what there is, up to a bound; answers events and gaps, or undefined at the end.
    #[napi(catch_unwind)]
    pub fn take(&self, slot: u32) {
        let subscriber = self.subscriber.clone();
        Ticket::new(&self.queue, slot).answer_from(async move {
            let taken = subscriber.take(AT_ONCE).await?;
            Ok(Some(Taken::new(&taken)).filter(|taken| !taken.rows.is_empty()))
        });
    }

    /// Ends it.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.subscriber.close();
    }
}

/// How much is handed over at once: enough that the crossing costs little, and little beside a subscriber's buffer.
const AT_ONCE: usize = 256;

/// What was heard, made ready on the runtime's thread, end to end: JavaScript's thread has to make values of it alone.
struct Taken {
    content: Vec<u8>,
    rows: Vec<Row>,
}

/// An event, by the lengths of its parts in the content, or a gap.
enum Row {
    Event { name: usize, job: usize, payload: usize },
    Gap(EventGap),
}

impl Taken {
    fn new(heard: &[Heard]) -> Self {
        let mut taken = Self { content: Vec::new(), rows: Vec::with_capacity(heard.len()) };
        for heard in heard {
            let row = match heard {
                Heard::Event(event) => taken.event(event),
                Heard::Gap(gap) => Row::Gap(*gap),
            };
            taken.rows.push(row);
        }
        taken
    }

    fn event(&mut self, event: &Event) -> Row {
        let job = event.job();
        let [name, job, payload] = [
            event.name().as_bytes(),
            job.as_ref().map(|job| job.as_str().as_bytes()).unwrap_or_default(),
            event.payload(),
        ]
        .map(|part| {
            self.content.extend_from_slice(part);
            part.len()
        });
        Row::Event { name, job, payload }
    }
}

/// One array of three values each. Of an event its name, its job or null, and its payload, as a string where that is valid
/// UTF-8 and else as a buffer; of a gap undefined, how many events did not fit, and whether the connection was lost.
impl IntoJs for Taken {
    fn into_js(self, env: &Env) -> Result<Value> {
        let mut values = Vec::with_capacity(3 * self.rows.len());
        let mut content = self.content.as_slice();
        let mut part = |length: usize| content.split_off(..length).unwrap_or_default();
        // Names come again and again.
        let mut last: Option<(&[u8], Value)> = None;
        for row in &self.rows {
            values.extend(match *row {
                Row::Event { name, job, payload } => {
                    let name = part(name);
                    let made = match last {
                        Some((last, made)) if last == name => made,
                        _ => text_or_bytes(env, name)?,
                    };
                    last = Some((name, made));
                    let job = match part(job) {
                        b"" => value(env, Null)?,
                        job => text_or_bytes(env, job)?,
                    };
                    [made, job, text_or_bytes(env, part(payload))?]
                }
                Row::Gap(gap) => {
                    [value(env, ())?, value(env, gap.missed() as f64)?, value(env, gap.reconnected())?]
                }
            });
        }
        array_of(env, &values)
    }
}

/// The members of an event: names and values in turn.
#[napi(catch_unwind)]
pub fn event_members(env: Env, payload: Either<String, Uint8Array>) -> Result<Value> {
    let event = Event::new(match payload {
        Either::A(text) => text.into_bytes(),
        Either::B(bytes) => bytes.to_vec(),
    });
    let members: Vec<&String> = event.members().iter().flat_map(|(name, value)| [name, value]).collect();
    array(&env, members.into_iter().map(|part| value(&env, part.as_str())))
}
