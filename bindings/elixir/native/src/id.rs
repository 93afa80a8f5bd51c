//! Ids.

use crate::argument::{bytes, number, text};
use crate::atoms;
use crate::error::call;
use crate::term::{IntoTerm, binary};
use echomq::{BrandedId, EntryId, EventId, Snowflake};
use rustler::{Encoder, Env, NifResult, Term};

#[rustler::nif]
fn id_parse<'a>(env: Env<'a>, id: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || Ok(EventId::parse(bytes(id, "an id")?).into_term(env)))
}

/// Namespace, snowflake, Unix milliseconds, node, sequence, and the entry id of a record's id.
#[rustler::nif]
fn id_decode<'a>(env: Env<'a>, id: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let id = BrandedId::parse(bytes(id, "an id")?)?;
        let snowflake = id.snowflake();
        let entry_id = EventId::parse(id).ok().map(EntryId::from);
        let parts = (
            binary(env, id.namespace().as_bytes()),
            snowflake.number(),
            snowflake.unix_ms(),
            snowflake.node(),
            snowflake.sequence(),
            entry_id.into_term(env),
        );
        Ok((atoms::ok(), parts).encode(env))
    })
}

#[rustler::nif]
fn id_encode<'a>(env: Env<'a>, namespace: Term<'a>, snowflake: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let snowflake = Snowflake::try_from(number(snowflake, "a snowflake")?)?;
        Ok(BrandedId::new(&text(namespace, "a namespace")?, snowflake).into_term(env))
    })
}

#[rustler::nif]
fn id_from_entry<'a>(env: Env<'a>, entry_id: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || Ok(EventId::try_from(EntryId::parse(bytes(entry_id, "an entry id")?)?).into_term(env)))
}

#[rustler::nif]
fn id_to_entry<'a>(env: Env<'a>, id: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || Ok(EventId::parse(bytes(id, "an id")?).map(EntryId::from).into_term(env)))
}
