//! Keys and slots.

use crate::argument::{bytes, text};
use crate::error::{Refusal, call};
use crate::term::IntoTerm;
use echomq::{Keyspace, VERSION_KEY};
use rustler::{Encoder, Env, NifResult, Term};

#[rustler::nif]
fn key<'a>(env: Env<'a>, queue: Term<'a>, kind: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let keys = Keyspace::new(&text(queue, "the queue")?)?;
        Ok(keys.key(&text(kind, "the type")?).into_term(env))
    })
}

#[rustler::nif]
fn stream_key<'a>(env: Env<'a>, queue: Term<'a>, name: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let keys = Keyspace::new(&text(queue, "the queue")?)?;
        Ok(keys.stream(&text(name, "the stream")?).into_term(env))
    })
}

#[rustler::nif]
fn slot<'a>(env: Env<'a>, key: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || match str::from_utf8(bytes(key, "the key")?) {
        Ok(key) => Ok(echomq::slot(key).encode(env)),
        Err(_) => Err(Refusal::argument("the key must be UTF-8 text")),
    })
}

#[rustler::nif]
fn version_key() -> &'static str {
    VERSION_KEY
}
