//! Consumers of groups: starting, pausing and stopping them.

use crate::argument::{named_texts, time};
use crate::atoms;
use crate::client::{Connection, stream};
use crate::error::call;
use crate::notice::Telling;
use crate::reply::answer_later;
use crate::term::{Done, IntoTerm};
use echomq::{Consumer, ConsumerOptions};
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, NifResult, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How a consumer is to work.
struct Settings(ConsumerOptions);

impl RefUnwindSafe for Settings {}

#[rustler::resource_impl]
impl Resource for Settings {}

/// A consumer that stops with the process it was started for.
pub(crate) struct Consuming {
    pub(crate) consumer: Consumer,
    pub(crate) owner: LocalPid,
    paused: AtomicBool,
}

impl RefUnwindSafe for Consuming {}

impl Consuming {
    /// Whether what was taken may be begun: it is neither paused nor stopped.
    pub(crate) fn hands_out(&self) -> bool {
        !self.paused.load(Ordering::Relaxed) && self.consumer.is_running()
    }
}

#[rustler::resource_impl]
impl Resource for Consuming {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _: Env<'a>, _: LocalPid, _: Monitor) {
        // It can only fail in a forked child, which has no consumer.
        let _ = self.consumer.begin_stop(Duration::ZERO);
    }
}

/// Reads a list of options, names and values as text.
#[rustler::nif]
fn consumer_options<'a>(env: Env<'a>, named: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let options = named_texts(named)?;
        let options = ConsumerOptions::parse(options.iter().map(|(name, value)| (&**name, &**value)))?;
        options.check()?;
        Ok((atoms::ok(), ResourceArc::new(Settings(options))).encode(env))
    })
}

/// The names of all options.
#[rustler::nif]
fn consumer_option_names() -> Vec<&'static str> {
    ConsumerOptions::NAMES.to_vec()
}

/// Starts a consumer for the calling process.
#[rustler::nif]
fn consumer<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    settings: ResourceArc<Settings>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let started = stream(&connection, queue, name)?.consumer(settings.0.clone());
        let owner = env.pid();
        answer_later(env, tag, async move {
            started.await.map(|consumer| Consuming { consumer, owner, paused: AtomicBool::new(false) })
        })
    })
}

impl IntoTerm for Consuming {
    /// Made on the runtime, where a monitor needs no calling process. An owner that is gone already gets no monitor and no
    /// message, so that the consumer stops with the last reference to it.
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        let owner = self.owner;
        let consuming = ResourceArc::new(self);
        consuming.monitor(None, &owner);
        consuming.encode(env)
    }
}

/// The group's name, the consumer's own, and how many workers it has.
#[rustler::nif]
fn consumer_info(consuming: ResourceArc<Consuming>) -> (String, String, usize) {
    let consumer = &consuming.consumer;
    let workers = (0..).take_while(|worker| consumer.worker(*worker).is_ok()).count();
    (consumer.group().to_owned(), consumer.name().to_owned(), workers)
}

/// Whether it hands out entries, or will when it is resumed.
#[rustler::nif(name = "running?")]
fn is_running(consuming: ResourceArc<Consuming>) -> bool {
    consuming.consumer.is_running()
}

#[rustler::nif]
fn pause(consuming: ResourceArc<Consuming>) -> Atom {
    consuming.paused.store(true, Ordering::Relaxed);
    consuming.consumer.pause();
    atoms::ok()
}

#[rustler::nif]
fn resume(consuming: ResourceArc<Consuming>) -> Atom {
    consuming.paused.store(false, Ordering::Relaxed);
    consuming.consumer.resume();
    atoms::ok()
}

/// Waits until every verdict given so far is on the server.
#[rustler::nif]
fn flush<'a>(env: Env<'a>, tag: Term<'a>, consuming: ResourceArc<Consuming>) -> NifResult<Term<'a>> {
    call(env, || {
        let consumer = consuming.consumer.clone();
        answer_later(env, tag, async move { Done(consumer.flush().await) })
    })
}

/// Stops and answers how many entries are left without a verdict on the server.
#[rustler::nif]
fn stop<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    consuming: ResourceArc<Consuming>,
    within: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let within = time(within, "the time to stop within")?.unwrap_or(Duration::MAX);
        // It hands nothing out from here on, not only once the task runs.
        consuming.consumer.begin_stop(within)?;
        let consumer = consuming.consumer.clone();
        answer_later(env, tag, async move { consumer.stop(within).await })
    })
}

/// What a consumer tells beside its deliveries.
#[rustler::nif]
fn consumer_notices(consuming: ResourceArc<Consuming>) -> ResourceArc<Telling> {
    ResourceArc::new(Telling(consuming.consumer.notices()))
}
