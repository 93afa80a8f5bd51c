//! Any text is taken as a URL or as an option, or refused; no error shows a password.

#![no_main]

use echomq::{Code, ConsumerOptions, Options, Start};
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "correct-horse-battery";

fuzz_target!(|text: &str| {
    for url in
        [text.to_owned(), format!("redis://user:{SECRET}@{text}"), format!("unix:///s?pass={SECRET}&{text}")]
    {
        match Options::new(&url) {
            Ok(options) => assert!(!format!("{options:?}").contains(SECRET)),
            Err(error) => {
                assert_eq!(error.code(), Code::InvalidOption);
                assert!(!error.to_string().contains(SECRET), "{error}");
            }
        }
    }
    let mut options = Options::new("redis://localhost").unwrap();
    for name in Options::NAMES.iter().copied().chain([text]) {
        if let Err(error) = options.set(name, text) {
            assert_eq!(error.code(), Code::InvalidOption);
        }
    }
    if let Err(error) = Start::parse(text) {
        assert!(matches!(error.code(), Code::InvalidOption | Code::MalformedId | Code::Kind));
    }
    let mut options = ConsumerOptions::new("g", Start::New).unwrap();
    for name in ConsumerOptions::NAMES.iter().copied().chain([text]) {
        if let Err(error) = options.set(name, text) {
            assert!(matches!(
                error.code(),
                Code::InvalidOption | Code::InvalidName | Code::MalformedId | Code::Kind
            ));
        }
    }
});
