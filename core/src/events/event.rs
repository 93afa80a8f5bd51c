//! An event as a listener hears it.

use super::members::{About, Members, Text, string};
use crate::id::branded::BrandedId;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The name of what is no event of this bus.
const UNKNOWN: &str = "unknown";

/// An event that was heard. Clones share it.
///
/// It is read as JSON, whatever the order of its members, when it is first asked for one. What is no JSON object, or has
/// no text `event`, is given all the same: its name is `unknown`, and [`Event::payload`] has its bytes
/// (`docs/protocol.md` §7).
#[derive(Clone)]
pub struct Event(Arc<Heard>);

struct Heard {
    payload: Vec<u8>,
    about: OnceLock<About>,
    members: OnceLock<Option<Vec<(String, String)>>>,
}

impl Event {
    /// The event that a listener hears when these bytes are published.
    ///
    /// ```
    /// let event = echomq::Event::new(br#"{"event":"failed","job":"JOB000xY9Wvvcd","attempts":"3"}"#.to_vec());
    /// assert_eq!((event.name(), event.get("attempts")), ("failed", Some("3")));
    /// ```
    pub fn new(payload: Vec<u8>) -> Self {
        Self(Arc::new(Heard { payload, about: OnceLock::new(), members: OnceLock::new() }))
    }

    /// The event's name; `unknown` for what is no JSON object or has none.
    pub fn name(&self) -> &str {
        self.about().name.as_deref().unwrap_or(UNKNOWN)
    }

    /// The job that it is about, where the payload has a well-formed one.
    pub fn job(&self) -> Option<BrandedId> {
        self.about().job
    }

    /// The value of a member; of one that is there twice, which this bus does not write, the last. A value that is no string,
    /// which it does not write either, is given as its JSON text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.members().iter().rfind(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// All members in their order, `event` and `job` among them; none for what is no JSON object. See [`Event::get`].
    pub fn members(&self) -> &[(String, String)] {
        self.object().unwrap_or_default()
    }

    /// Whether the payload is a JSON object, be it an empty one.
    pub fn is_object(&self) -> bool {
        self.object().is_some()
    }

    /// The bytes as they came.
    pub fn payload(&self) -> &[u8] {
        &self.0.payload
    }

    fn object(&self) -> Option<&[(String, String)]> {
        let members = self.0.members.get_or_init(|| {
            let text = |value| string(value).map_or_else(|| value.get().to_owned(), Cow::into_owned);
            let Members(members) = self.text().and_then(|text| serde_json::from_str(text).ok())?;
            let members = members.into_iter().map(|(Text(name), value)| (name.into_owned(), text(value)));
            Some(members.collect())
        });
        members.as_deref()
    }

    fn about(&self) -> &About {
        let read = || self.text().and_then(|text| serde_json::from_str(text).ok());
        self.0.about.get_or_init(|| read().unwrap_or_default())
    }

    /// JSON is UTF-8. Looked at as a whole, which is faster than each of its strings.
    fn text(&self) -> Option<&str> {
        str::from_utf8(self.payload()).ok()
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.payload() == other.payload()
    }
}

impl Eq for Event {}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({})", self.payload().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heard(payload: &[u8]) -> Event {
        Event::new(payload.to_vec())
    }

    #[test]
    fn members_are_read_in_any_order_and_form() {
        let event = heard(br#" {"progress" : "5\/10", "job":"JOB000xY9Wvvcd","event":"progress"}"#);
        assert_eq!(event.name(), "progress");
        assert_eq!(event.job().unwrap().as_str(), "JOB000xY9Wvvcd");
        assert_eq!(event.get("progress"), Some("5/10"));
        assert_eq!(event.get("reason"), None);
        let names: Vec<&str> = event.members().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["progress", "job", "event"]);
    }

    #[test]
    fn values_that_are_no_strings_are_given_as_their_json() {
        let event =
            heard(br#"{"event":"x","n":50,"f":1.50,"b":true,"z":null,"l":[1, "a"],"o":{"k":"v"},"e":1E+400,"job":7}"#);
        let texts =
            [("n", "50"), ("f", "1.50"), ("b", "true"), ("z", "null"), ("l", r#"[1, "a"]"#), ("e", "1E+400")];
        for (name, text) in texts.into_iter().chain([("o", r#"{"k":"v"}"#), ("job", "7")]) {
            assert_eq!(event.get(name), Some(text), "{name}");
        }
        assert_eq!(event.job(), None);
    }

    #[test]
    fn what_is_no_event_is_given_raw() {
        let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
        for payload in [&b""[..], b"hello", b"\xff\x00", b"[1]", b"\"event\"", b"{\"event\":\"x\"} x", &deep]
        {
            let event = heard(payload);
            assert_eq!(event.name(), "unknown");
            assert_eq!((event.job(), event.members()), (None, &[][..]));
            assert_eq!(event.payload(), payload);
            assert!(!event.is_object());
        }
        let empty = heard(b" {} ");
        assert_eq!((empty.name(), empty.members(), empty.is_object()), ("unknown", &[][..], true));
        let nested = [&br#"{"event":"x","deep":"#[..], &deep, b"}"].concat();
        assert_eq!(heard(&nested).name(), "x");
        let event = heard(br#"{"event":7,"job":"JOB000xY9Wvvcd"}"#);
        assert_eq!((event.name(), event.get("event")), ("unknown", Some("7")));
        assert!(event.job().is_some());
        assert_eq!(heard(br#"{"job":"no id"}"#).job(), None);
    }

    #[test]
    fn of_members_that_are_there_twice_the_last_counts() {
        let event = heard(br#"{"event":"one","job":"JOB000xY9Wvvcd","event":"two","job":7}"#);
        assert_eq!((event.name(), event.job(), event.get("job")), ("two", None, Some("7")));
        assert_eq!(event.members().len(), 4);
        assert_eq!(heard(br#"{"event":"one","event":7}"#).name(), "unknown");
    }

    #[test]
    fn half_a_surrogate_is_given_as_it_is_written() {
        let event = heard(
            br#"{"event":"x","half":"\ud800","whole":"\ud83d\ude00","\u006a\u006Fb":"JOB000xY9Wvvcd"}"#,
        );
        assert_eq!(
            (event.name(), event.get("half"), event.get("whole")),
            ("x", Some(r#""\ud800""#), Some("😀"))
        );
        assert!(event.job().is_some());
    }

    /// Parts of JSON, of which few lists are an object and many nearly one.
    const PARTS: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        " ",
        "7",
        "1e",
        "null",
        "\"event\"",
        "\"job\"",
        "\"x\"",
        "\"\\u0065vent\"",
        "\"\\ud800\"",
        "\"JOB000xY9Wvvcd\"",
        "{\"event\":",
        "{\"event\":\"x\"",
        ",\"job\":\"JOB000xY9Wvvcd\"",
        "\u{0}",
        "☕",
    ];

    proptest! {
        /// What is read first and what is read when it is asked for are one.
        #[test]
        fn name_and_job_are_those_of_the_members(picked in prop::collection::vec(prop::sample::select(PARTS), 0..8)) {
            let event = heard(picked.concat().as_bytes());
            prop_assert!(event.is_object() || (event.name() == "unknown" && event.job().is_none()));
            prop_assert!(event.name() == "unknown" || event.get("event") == Some(event.name()));
            if let Some(job) = event.job() {
                prop_assert_eq!(event.get("job"), Some(job.as_str()));
            }
            for (name, known) in [("event", event.name() != "unknown"), ("job", event.job().is_some())] {
                let is_text = event.get(name).is_some_and(|text| ["x", "JOB000xY9Wvvcd"].contains(&text));
                prop_assert!(known || !is_text || name == "job" && event.get(name) == Some("x"));
            }
        }

        #[test]
        fn any_bytes_are_heard(payload: Vec<u8>) {
            let event = heard(&payload);
            let _ = (event.name(), event.job(), event.members());
            prop_assert_eq!(event.payload(), payload);
        }
    }
}
