//! Writing to a stream, and trimming it.

use crate::argument::{bytes, number};
use crate::batch::{Batch, is_large};
use crate::client::{Connection, stream};
use crate::error::{Refusal, call};
use crate::fields::{Parts, Record};
use crate::reply::{answer, answer_from_thread};
use crate::term::IntoTerm;
use echomq::{EventId, Fields, Pending, Timestamp, Trim};
use rustler::{Env, NifResult, ResourceArc, Term};

#[rustler::nif]
fn append<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    record: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        match Parts::default().record(record)? {
            Record::Read(fields) => answer(env, tag, stream.append(fields)),
            large => answer_from_thread(env, tag, move || stream.append(large.into_fields())),
        }
    })
}

#[rustler::nif]
fn append_id<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    id: Term<'a>,
    record: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        let id = EventId::parse(bytes(id, "the id")?)?;
        match Parts::default().record(record)? {
            Record::Read(fields) => answer(env, tag, stream.append_id(id, fields)),
            large => answer_from_thread(env, tag, move || stream.append_id(id, large.into_fields())),
        }
    })
}

#[rustler::nif]
fn append_sequenced<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    record: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        match Parts::default().record(record)? {
            Record::Read(fields) => answer(env, tag, stream.append_sequenced(fields)),
            large => answer_from_thread(env, tag, move || stream.append_sequenced(large.into_fields())),
        }
    })
}

#[rustler::nif]
fn append_batch<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    batch: ResourceArc<Batch>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        submit(env, tag, batch.take(), move |records| stream.append_batch(records))
    })
}

#[rustler::nif]
fn append_batch_atomic<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    batch: ResourceArc<Batch>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        submit(env, tag, batch.take(), move |records| stream.append_batch_atomic(records))
    })
}

#[rustler::nif]
fn append_batch_sequenced<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    batch: ResourceArc<Batch>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        submit(env, tag, batch.take(), move |records| stream.append_batch_sequenced(records))
    })
}

/// Appends the records of a batch, by whichever of the three ways.
fn submit<'a, T, C>(env: Env<'a>, tag: Term<'a>, records: Vec<Record>, append: C) -> Result<Term<'a>, Refusal>
where
    T: IntoTerm + Send + 'static,
    C: FnOnce(Vec<Fields>) -> Pending<T> + Send + 'static,
{
    let large = is_large(&records);
    let append = move || append(records.into_iter().map(Record::into_fields).collect());
    if large { answer_from_thread(env, tag, append) } else { answer(env, tag, append()) }
}

#[rustler::nif]
fn trim_max_len<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    records: Term<'a>,
    exact: bool,
) -> NifResult<Term<'a>> {
    call(env, || {
        let trim = Trim::max_len(number(records, "the number of records to keep")?);
        let stream = stream(&connection, queue, name)?;
        answer(env, tag, stream.trim(if exact { trim.exact() } else { trim }))
    })
}

#[rustler::nif]
fn trim_min_id<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    micros: Term<'a>,
    exact: bool,
) -> NifResult<Term<'a>> {
    call(env, || {
        let trim = Trim::min_id(instant(micros)?);
        let stream = stream(&connection, queue, name)?;
        answer(env, tag, stream.trim(if exact { trim.exact() } else { trim }))
    })
}

/// Puts a dead letter back, and answers the id of the new record.
#[rustler::nif]
fn put_back<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    id: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        answer(env, tag, stream.put_back(EventId::parse(bytes(id, "the id")?)?))
    })
}

/// An instant, of microseconds since 1970.
pub(crate) fn instant(micros: Term<'_>) -> Result<Timestamp, Refusal> {
    let micros =
        micros.decode().map_err(|_| Refusal::argument("an instant must be microseconds since 1970"))?;
    Ok(Timestamp::from_micros(micros))
}
