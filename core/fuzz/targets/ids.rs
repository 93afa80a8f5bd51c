//! Any bytes are read as an id, or refused with a code; what was read is spelled as it was given.

#![no_main]

use echomq::{BrandedId, Code, EntryId, EventId, Range};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match BrandedId::parse(bytes) {
        Ok(id) => {
            assert_eq!(id.as_bytes(), bytes);
            assert_eq!(BrandedId::new(id.namespace(), id.snowflake()), Ok(id));
        }
        Err(error) => assert_eq!(error.code(), Code::MalformedId),
    }
    match EventId::parse(bytes) {
        Ok(id) => {
            let entry_id = EntryId::from(id);
            assert_eq!(EventId::try_from(entry_id), Ok(id));
            assert_eq!(EntryId::parse(entry_id.to_string()), Ok(entry_id));
            assert_eq!(entry_id.ms(), id.unix_ms());
        }
        Err(error) => assert!(matches!(error.code(), Code::MalformedId | Code::Kind)),
    }
    match EntryId::parse(bytes) {
        Ok(entry_id) => {
            assert_eq!(entry_id.to_string().as_bytes(), bytes);
            if let Ok(id) = EventId::try_from(entry_id) {
                assert_eq!(EntryId::from(id), entry_id);
            }
        }
        Err(error) => assert_eq!(error.code(), Code::MalformedId),
    }
    if let Ok(text) = str::from_utf8(bytes) {
        let _read_or_refused = Range::parse(text, "+");
        let _read_or_refused = Range::parse("-", text);
    }
});
