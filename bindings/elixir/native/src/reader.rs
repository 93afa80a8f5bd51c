//! Reading a stream, page by page.

use crate::argument::{count, number, text};
use crate::atoms;
use crate::client::{Connection, stream};
use crate::error::{Refusal, call};
use crate::reply::answer_later;
use crate::stream::instant;
use echomq::{Range, Reader};
use rustler::{Encoder, Env, NifResult, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;
use std::sync::{Mutex, PoisonError};

/// A reader; nothing while a page is under way.
struct Pages(Mutex<Option<Reader>>);

impl RefUnwindSafe for Pages {}

#[rustler::resource_impl]
impl Resource for Pages {}

impl Pages {
    fn take(&self) -> Option<Reader> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, reader: Reader) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
    }
}

/// How many records and how many bytes a page has, each of them where it is given.
type Page<'a> = (Term<'a>, Term<'a>);

/// `{:ok, reader}`, bounded by a count and with pages of a size, where they are given.
fn open<'a>(env: Env<'a>, reader: Reader, limit: Term<'a>, page: Page<'a>) -> Result<Term<'a>, Refusal> {
    let reader = match count(limit)? {
        Some(records) => reader.limit(records),
        None => reader,
    };
    let (records, bytes) = page;
    let reader = match count(records)? {
        Some(records) => reader.page_size(records),
        None => reader,
    };
    let reader = match count(bytes)? {
        Some(bytes) => reader.page_bytes(bytes),
        None => reader,
    };
    Ok((atoms::ok(), ResourceArc::new(Pages(Mutex::new(Some(reader))))).encode(env))
}

#[rustler::nif]
fn read<'a>(
    env: Env<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    (from, to): (Term<'a>, Term<'a>),
    limit: Term<'a>,
    page: Page<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        let range = Range::parse(&text(from, "the start of the range")?, &text(to, "the end of the range")?)?;
        open(env, stream.read(range), limit, page)
    })
}

#[rustler::nif]
fn read_dead_letters<'a>(
    env: Env<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    (from, to): (Term<'a>, Term<'a>),
    limit: Term<'a>,
    page: Page<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        let range = Range::parse(&text(from, "the start of the range")?, &text(to, "the end of the range")?)?;
        open(env, stream.dead_letters(range), limit, page)
    })
}

#[rustler::nif]
fn read_window<'a>(
    env: Env<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    (first, last): (Term<'a>, Term<'a>),
    limit: Term<'a>,
    page: Page<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let stream = stream(&connection, queue, name)?;
        open(env, stream.read_window(instant(first)?, instant(last)?)?, limit, page)
    })
}

#[rustler::nif]
fn read_since<'a>(
    env: Env<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    first: Term<'a>,
    limit: Term<'a>,
    page: Page<'a>,
) -> NifResult<Term<'a>> {
    call(env, || open(env, stream(&connection, queue, name)?.read_since(instant(first)?), limit, page))
}

#[rustler::nif]
fn read_last<'a>(
    env: Env<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    records: Term<'a>,
    page: Page<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let newest = number(records, "the number of records")?;
        open(env, stream(&connection, queue, name)?.read_last(newest), records, page)
    })
}

/// The next page; nothing at the end.
#[rustler::nif]
fn next_page<'a>(env: Env<'a>, tag: Term<'a>, pages: ResourceArc<Pages>) -> NifResult<Term<'a>> {
    call(env, || {
        let busy = || Refusal::argument("a page of this reader is under way already");
        let mut reader = pages.take().ok_or_else(busy)?;
        answer_later(env, tag, async move {
            let page = reader.next_page().await;
            pages.put(reader);
            page
        })
    })
}
