//! Ids.

use crate::error::or_throw;
use echomq::{BrandedId, EntryId, EventId, Result as CoreResult, Snowflake};
use napi::bindgen_prelude::BigInt;
use napi::{Env, Result};
use napi_derive::napi;

/// What a branded id says.
#[napi(object)]
pub struct IdParts {
    /// Its three letters.
    pub namespace: String,
    /// Its number.
    pub snowflake: BigInt,
    /// The instant of the mint, in milliseconds since 1970.
    pub unix_ms: f64,
    /// The node that minted.
    pub node: u32,
    /// The sequence within the millisecond.
    pub sequence: u32,
    /// Where a record of that id stands in its stream; nothing where no record can have it.
    pub entry_id: Option<String>,
}

/// What an entry id says.
#[napi(object)]
pub struct EntryIdParts {
    /// Milliseconds since 1970.
    pub ms: BigInt,
    /// The part behind the dash.
    pub seq: BigInt,
}

/// Reads an id of any namespace.
#[napi(catch_unwind)]
pub fn parse_branded_id(env: Env, text: String) -> Result<IdParts> {
    or_throw(&env, BrandedId::parse(text)).map(parts)
}

/// Reads an id of a stream record.
#[napi(catch_unwind)]
pub fn parse_event_id(env: Env, text: String) -> Result<IdParts> {
    or_throw(&env, EventId::parse(text)).map(|id| parts(id.into()))
}

/// The id of a snowflake in a namespace.
#[napi(catch_unwind)]
pub fn encode_branded_id(env: Env, namespace: String, snowflake: BigInt) -> Result<String> {
    or_throw(&env, encode(&namespace, &snowflake)).map(String::from)
}

/// The id of the record with that entry id.
#[napi(catch_unwind)]
pub fn event_id_of_entry(env: Env, entry_id: String) -> Result<String> {
    or_throw(&env, EntryId::parse(entry_id).and_then(EventId::try_from)).map(String::from)
}

/// Reads an entry id.
#[napi(catch_unwind)]
pub fn parse_entry_id(env: Env, text: String) -> Result<EntryIdParts> {
    let id = or_throw(&env, EntryId::parse(text))?;
    Ok(EntryIdParts { ms: id.ms().into(), seq: id.seq().into() })
}

fn encode(namespace: &str, snowflake: &BigInt) -> CoreResult<BrandedId> {
    // What does not fit 64 bits does not fit the 63 of a snowflake either.
    let number = match snowflake.get_u64() {
        (_, number, true) => number,
        _ => u64::MAX,
    };
    BrandedId::new(namespace, Snowflake::try_from(number)?)
}

fn parts(id: BrandedId) -> IdParts {
    let snowflake = id.snowflake();
    IdParts {
        namespace: id.namespace().to_owned(),
        snowflake: snowflake.number().into(),
        unix_ms: snowflake.unix_ms() as f64,
        node: snowflake.node().into(),
        sequence: snowflake.sequence().into(),
        entry_id: EventId::parse(id).ok().map(|id| EntryId::from(id).to_string()),
    }
}
