//! Whatever is published, it is heard; and what was said with a signal is read back.
//!
//! What reads events stands inside the core and is compiled into this target as it is, since only a listener makes them.

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
#[path = "../../src/events"]
mod events {
    pub mod event;
    mod members;
    pub mod signal;
}

use events::event::Event;
use events::signal::Signal;
use libfuzzer_sys::fuzz_target;

const JOB: &str = "JOB000xY9Wvvcd";

fuzz_target!(|bytes: &[u8]| {
    let event = Event::new(bytes.to_vec());
    assert_eq!(event.payload(), bytes);
    assert!(event.name() == "unknown" || event.get("event") == Some(event.name()));
    let is_object = matches!(serde_json::from_slice(bytes), Ok(serde_json::Value::Object(_)));
    assert!(is_object || event.members().is_empty());
    assert!(event.is_object() || event.name() == "unknown" && event.job().is_none());

    let (name, value) = bytes.split_at(bytes.len() / 2);
    if let Ok(signal) = Signal::new(value, JOB).and_then(|signal| signal.with(name, value)) {
        let event = Event::new(signal.payload());
        assert_eq!(event.name().as_bytes(), value);
        assert_eq!(event.job().unwrap().as_str(), JOB);
        assert_eq!(event.get(str::from_utf8(name).unwrap()).unwrap().as_bytes(), value);
    }
});
