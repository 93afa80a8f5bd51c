//! Whatever a server sends, it is read or refused.
//!
//! What reads replies stands low in the core and is compiled into this target as it is, since no user can reach it.

#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../src/clock.rs"]
mod clock;
#[path = "../../src/error.rs"]
mod error;
#[path = "../../src/id/mod.rs"]
mod id;
#[path = "../../src/process.rs"]
mod process;
#[path = "../../src/record/mod.rs"]
mod record;

use libfuzzer_sys::fuzz_target;
use record::decoder::Decoder;
use record::reply;
use redis::Value;

/// The first reply in bytes that come in by parts, where it is whole and a reply.
fn first(bytes: &[u8], part: usize) -> Option<Value> {
    let mut decoder = Decoder::new();
    for part in bytes.chunks(part) {
        decoder.room()[..part.len()].copy_from_slice(part);
        decoder.filled(part.len());
        if let Some(value) = decoder.next().ok()? {
            return Some(value);
        }
    }
    None
}

fuzz_target!(|bytes: &[u8]| {
    let Some(value) = first(bytes, bytes.len().max(1)) else { return };
    // Compared by what they show, since a number that is none is not equal to itself.
    let shown = format!("{value:?}");
    assert_eq!(redis::parse_redis_value(bytes).ok().map(|value| format!("{value:?}")).as_ref(), Some(&shown));
    for part in [1, 7, 64] {
        assert_eq!(first(bytes, part).map(|value| format!("{value:?}")).as_ref(), Some(&shown));
    }
    if let Ok(records) = reply::records(value.clone()) {
        for record in records {
            assert_eq!(record.is_foreign(), record.id().is_none());
            if let Some(id) = record.id() {
                assert_eq!(id::entry_id::EntryId::from(id), record.entry_id());
            }
        }
    }
    let _read_or_refused = reply::count(value.clone());
    let _read_or_refused = reply::optional_bytes(value.clone());
    let _read_or_refused = reply::member(value, "last-generated-id");
});
