//! The events of a queue: publishing them.

use crate::argument::{bytes, text};
use crate::client::{Connection, stream};
use crate::error::{Refusal, call};
use crate::fields::{Parts, Record, members};
use crate::reply::{answer, answer_later};
use crate::term::IntoTerm;
use crate::worker;
use echomq::{Announced, Events, Fields, Pending, Signal, runtime};
use rustler::{Encoder, Env, NifResult, NifStruct, Resource, ResourceArc, Term};
use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind, resume_unwind};
use tokio::sync::oneshot;

/// The events of a queue.
pub(crate) fn events(connection: &Connection, queue: Term<'_>) -> Result<Events, Refusal> {
    Ok(connection.0.events(&text(queue, "the queue")?)?)
}

/// An event to publish, whose further members may be many bytes that are still the VM's.
struct Draft {
    signal: Signal,
    members: Record,
}

impl Draft {
    /// Reads name, job and further members.
    fn read((event, job, extra): (Term<'_>, Term<'_>, Term<'_>)) -> Result<Self, Refusal> {
        let signal = Signal::new(bytes(event, "the event")?, bytes(job, "the job")?)?;
        Ok(Self { signal, members: members(extra)? })
    }

    fn is_large(&self) -> bool {
        matches!(self.members, Record::Large(_))
    }

    /// The event. For a large one on a thread of its own.
    fn finish(self) -> echomq::Result<Signal> {
        self.signal.with_all(self.members.into_fields().iter())
    }
}

/// A record to append and an event to publish.
struct Announcement {
    record: Record,
    draft: Draft,
}

impl Announcement {
    fn read(record: Term<'_>, event: (Term<'_>, Term<'_>, Term<'_>)) -> Result<Self, Refusal> {
        let draft = Draft::read(event)?;
        Ok(Self { record: Parts::default().record(record)?, draft })
    }

    fn is_large(&self) -> bool {
        self.draft.is_large() || matches!(self.record, Record::Large(_))
    }

    /// The fields and the event. For large ones on the worker's thread.
    fn finish(self) -> echomq::Result<(Fields, Signal)> {
        Ok((self.record.into_fields(), self.draft.finish()?))
    }
}

/// Does what takes long on the worker's thread.
async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> echomq::Result<T> + Send + 'static,
) -> echomq::Result<T> {
    let (done, outcome) = oneshot::channel();
    let work = move || drop(done.send(catch_unwind(AssertUnwindSafe(work))));
    worker::run(runtime()?, Box::new(work));
    match outcome.await {
        Ok(Ok(done)) => done,
        Ok(Err(panicked)) => resume_unwind(panicked),
        // It was dropped undone, which only a panic does.
        Err(undone) => resume_unwind(Box::new(undone)),
    }
}

/// Makes a call, on a thread of its own where it has much to read, and has its answer sent.
fn submit<'a, T, C>(env: Env<'a>, tag: Term<'a>, large: bool, call: C) -> Result<Term<'a>, Refusal>
where
    T: IntoTerm + Send + 'static,
    C: FnOnce() -> echomq::Result<Pending<T>> + Send + 'static,
{
    if large {
        answer_later(env, tag, async move { on_thread(call).await?.await })
    } else {
        answer(env, tag, call()?)
    }
}

/// Publishes and answers how many listened.
#[rustler::nif]
fn publish<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    event: (Term<'a>, Term<'a>, Term<'a>),
) -> NifResult<Term<'a>> {
    call(env, || {
        let (events, draft) = (events(&connection, queue)?, Draft::read(event)?);
        submit(env, tag, draft.is_large(), move || Ok(events.publish(draft.finish()?)))
    })
}

/// Writes a job's progress, publishes it, and answers how many listened.
#[rustler::nif]
fn update_progress<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    job: Term<'a>,
    progress: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let (job, progress) = (bytes(job, "the job")?, bytes(progress, "the progress")?);
        answer(env, tag, events(&connection, queue)?.update_progress(job, progress))
    })
}

/// Appends to a stream, as its writers say, and then publishes.
#[rustler::nif]
fn append_and_publish<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    record: Term<'a>,
    event: (Term<'a>, Term<'a>, Term<'a>),
) -> NifResult<Term<'a>> {
    call(env, || {
        let (stream, announcement) = (stream(&connection, queue, name)?, Announcement::read(record, event)?);
        submit(env, tag, announcement.is_large(), move || {
            let (fields, signal) = announcement.finish()?;
            Ok(stream.append_and_publish(fields, signal))
        })
    })
}

/// `EchoMQ.Events.Announced`.
#[derive(NifStruct)]
#[module = "EchoMQ.Events.Announced"]
struct Told<'a> {
    id: Term<'a>,
    published: Term<'a>,
}

impl IntoTerm for Announced {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        Told { id: self.id.into_term(env), published: self.published.into_term(env) }.encode(env)
    }
}

/// An event that was checked, to be published later.
struct Checked {
    events: Events,
    signal: Signal,
}

impl RefUnwindSafe for Checked {}

#[rustler::resource_impl]
impl Resource for Checked {}

impl IntoTerm for Checked {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        ResourceArc::new(self).encode(env)
    }
}

/// Checks an event, and answers it for [`publish_checked`].
#[rustler::nif]
fn check_event<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    event: (Term<'a>, Term<'a>, Term<'a>),
) -> NifResult<Term<'a>> {
    call(env, || {
        let (events, draft) = (events(&connection, queue)?, Draft::read(event)?);
        let large = draft.is_large();
        let check = move || draft.finish().map(|signal| Checked { events, signal });
        if large { answer_later(env, tag, on_thread(check)) } else { Ok(check().into_term(env)) }
    })
}

#[rustler::nif]
fn publish_checked<'a>(env: Env<'a>, tag: Term<'a>, checked: ResourceArc<Checked>) -> NifResult<Term<'a>> {
    call(env, || answer(env, tag, checked.events.publish(checked.signal.clone())))
}
