//! Any text is taken as a name, or refused; the keys of one queue share a slot.

#![no_main]

use echomq::{Code, Keyspace, slot};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _any_text_has_a_slot = slot(text);
    match Keyspace::new(text) {
        Ok(keys) => {
            assert_eq!(keys.queue(), text);
            assert_eq!(keys.key("seq").map(|key| slot(&key)), Ok(slot(text)));
        }
        Err(error) => assert_eq!(error.code(), Code::InvalidName),
    }
    let keys = Keyspace::new("q").unwrap();
    for key in [keys.stream(text), keys.key(text)] {
        match key {
            Ok(key) => assert!(key.starts_with("emq:{q}:") && slot(&key) == slot("q")),
            Err(error) => assert_eq!(error.code(), Code::InvalidName),
        }
    }
});
