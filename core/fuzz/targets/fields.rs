//! Any field of the conformance suite's lines is read or refused, and any bytes survive being written and read.

#![no_main]

use echomq_driver_rust::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let field = encode(bytes);
    assert!(field.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|'));
    assert_eq!(decode(field.as_bytes()).as_deref(), Some(bytes));
    if let Some(decoded) = decode(bytes) {
        assert_eq!(decode(encode(&decoded).as_bytes()), Some(decoded));
    }
});
