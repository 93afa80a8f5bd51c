//! Consumers of groups: starting, pausing, stopping them, and their notices.

use crate::argument::{elements, text, time};
use crate::atoms;
use crate::client::{Connection, stream};
use crate::error::{Refusal, call};
use crate::reply::answer_later;
use crate::term::{Done, IntoTerm, word};
use echomq::{Consumer, ConsumerOptions, Notice, NoticeKind};
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, NifResult, NifStruct, Resource, ResourceArc, Term};
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
        let mut options = Vec::new();
        for option in elements(named, "the options")? {
            let (name, value): (Term<'_>, Term<'_>) =
                option?.decode().map_err(|_| Refusal::argument("an option must be a name and a value"))?;
            let name = text(name, "the name of an option")?;
            let value = text(value, &format!("the option {name}"))?;
            options.push((name, value));
        }
        let options = ConsumerOptions::parse(options.iter().map(|(name, value)| (&**name, &**value)))?;
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

/// The next notice; nothing once the consumer has ended.
#[rustler::nif]
fn next_notice<'a>(env: Env<'a>, tag: Term<'a>, consuming: ResourceArc<Consuming>) -> NifResult<Term<'a>> {
    call(env, || {
        let notices = consuming.consumer.notices();
        answer_later(env, tag, async move { notices.next().await })
    })
}

/// The words of all kinds of notices.
#[rustler::nif]
fn notice_kinds() -> Vec<&'static str> {
    NoticeKind::ALL.iter().map(|kind| kind.as_str()).collect()
}

/// `EchoMQ.Notice`.
#[derive(NifStruct)]
#[module = "EchoMQ.Notice"]
struct Told {
    kind: Atom,
    message: String,
    entry_id: Option<String>,
    id: Option<String>,
    attempts: Option<u64>,
    code: Option<Atom>,
}

impl IntoTerm for Notice {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        Told {
            kind: word(env, self.kind().as_str()),
            message: self.message().to_owned(),
            entry_id: self.entry_id().map(|entry_id| entry_id.to_string()),
            id: self.id().map(|id| id.as_str().to_owned()),
            attempts: self.attempts(),
            code: self.code().map(|code| word(env, code.as_str())),
        }
        .encode(env)
    }
}
