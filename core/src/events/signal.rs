//! An event to publish, and its bytes.

use crate::error::{Code, Error, Result};
use crate::id::branded::BrandedId;

/// The members that every event has.
pub(super) const EVENT: &str = "event";
pub(super) const JOB: &str = "job";

/// An event to publish: its name, the job it is about, and further members.
///
/// It is one JSON object on the wire, without spaces, whose values are all strings: `event`, `job`, and then the further
/// members in the order in which they were given (`docs/protocol.md` §7).
///
/// ```
/// use echomq::Signal;
///
/// let signal = Signal::new("failed", "JOB000xY9Wvvcd")?.with("attempts", "3")?;
/// assert_eq!(signal.payload(), br#"{"event":"failed","job":"JOB000xY9Wvvcd","attempts":"3"}"#);
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    event: String,
    job: BrandedId,
    members: Vec<(String, String)>,
}

impl Signal {
    /// An event about a job. Any name is carried.
    ///
    /// Fails with [`Code::InvalidName`] for a name that is empty, [`Code::MalformedId`] for a job that is no branded id, and
    /// [`Code::InvalidOption`] for a name that is no UTF-8.
    pub fn new(event: impl AsRef<[u8]>, job: impl AsRef<[u8]>) -> Result<Self> {
        let event = text("the event's name", event.as_ref())?;
        if event.is_empty() {
            return Err(Error::new(Code::InvalidName, "an event has a name, and this one is empty"));
        }
        let job = BrandedId::parse(job).map_err(|error| error.about(JOB))?;
        Ok(Self { event, job, members: Vec::new() })
    }

    /// Adds a member behind the others.
    ///
    /// Fails with [`Code::ReservedField`] for `event` and `job`, and with [`Code::InvalidOption`] for a name that is there
    /// already, since readers of JSON keep only one of them, and for what is no UTF-8.
    pub fn with(mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Self> {
        let name = text("the name of a member", name.as_ref())?;
        if name == EVENT || name == JOB {
            let message = "the event itself has this member; give another name";
            return Err(Error::new(Code::ReservedField, message).about(name));
        }
        if self.members.iter().any(|(other, _)| *other == name) {
            return Err(Error::new(Code::InvalidOption, "a member is given twice").about(name));
        }
        let value = text("the value of a member", value.as_ref()).map_err(|error| error.about(&*name))?;
        self.members.push((name, value));
        Ok(self)
    }

    /// Adds many members, in their order. Fails as [`Signal::with`] does.
    pub fn with_all<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        self,
        members: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self> {
        members.into_iter().try_fold(self, |signal, (name, value)| signal.with(name, value))
    }

    /// The bytes on the wire.
    pub fn payload(&self) -> Vec<u8> {
        let members = self.members.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all = [(EVENT, self.event.as_str()), (JOB, self.job.as_str())].into_iter().chain(members);
        let mut payload = Vec::with_capacity(128);
        for (place, (name, value)) in all.enumerate() {
            payload.push(if place == 0 { b'{' } else { b',' });
            string(name, &mut payload);
            payload.push(b':');
            string(value, &mut payload);
        }
        payload.push(b'}');
        payload
    }

    /// Fails with `too_large` for a payload of more bytes than the bound.
    pub(crate) fn checked_payload(&self, max_bytes: usize) -> Result<Vec<u8>> {
        let payload = self.payload();
        if payload.len() <= max_bytes {
            return Ok(payload);
        }
        let message = format!("the event has {} bytes, and the bound is {max_bytes}", payload.len());
        Err(Error::new(Code::TooLarge, message).about(&*self.event))
    }

    /// The same with two members in front of the further ones, which say where the record is.
    pub(crate) fn of_record(&self, stream: &str, id: &str) -> Self {
        let record =
            [("stream", stream), ("id", id)].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { members: record.into_iter().chain(self.members.iter().cloned()).collect(), ..self.clone() }
    }

    /// Fails with `reserved_field` where a member has a name that says where the record is.
    pub(crate) fn check_record_members(&self) -> Result<()> {
        match self.members.iter().find(|(name, _)| name == "stream" || name == "id") {
            None => Ok(()),
            Some((name, _)) => {
                let message = "this member says where the record is; give another name";
                Err(Error::new(Code::ReservedField, message).about(&**name))
            }
        }
    }
}

fn text(what: &str, bytes: &[u8]) -> Result<String> {
    match str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::new(Code::InvalidOption, format!("{what} is no UTF-8, which JSON needs"))),
    }
}

fn string(text: &str, payload: &mut Vec<u8>) {
    // Writing into memory fails for no text.
    let _ = serde_json::to_writer(payload, text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    const A_JOB: &str = "JOB000xY9Wvvcd";

    #[test]
    fn every_payload_of_the_vectors() {
        let vectors: Value = serde_json::from_str(include_str!("../../../conformance/vectors.json")).unwrap();
        let events = vectors["events"].as_array().unwrap();
        assert!(!events.is_empty());
        for fact in events {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let extra = fact["extra"].as_array().unwrap().iter().map(|pair| (text(&pair[0]), text(&pair[1])));
            let signal = Signal::new(text(&fact["event"]), text(&fact["job"])).unwrap();
            let payload = signal.with_all(extra).unwrap().payload();
            assert_eq!(String::from_utf8(payload).unwrap(), text(&fact["payload"]));
        }
    }

    #[test]
    fn what_cannot_be_published_is_refused() {
        let signal = || Signal::new("completed", A_JOB).unwrap();
        for (refused, code, subject) in [
            (Signal::new("", A_JOB), Code::InvalidName, None),
            (Signal::new(b"\xff", A_JOB.as_bytes()), Code::InvalidOption, None),
            (Signal::new("completed", "JOB1"), Code::MalformedId, Some("job")),
            (Signal::new("completed", "job000xY9Wvvcd"), Code::MalformedId, Some("job")),
            (signal().with("event", "x"), Code::ReservedField, Some("event")),
            (signal().with("job", "x"), Code::ReservedField, Some("job")),
            (signal().with("a", "1").unwrap().with("a", "2"), Code::InvalidOption, Some("a")),
            (signal().with(b"\xff", b"x"), Code::InvalidOption, None),
            (signal().with(b"a".as_slice(), b"\xff".as_slice()), Code::InvalidOption, Some("a")),
        ] {
            let error = refused.unwrap_err();
            assert_eq!((error.code(), error.subject()), (code, subject), "{error}");
        }
        assert_eq!(signal().checked_payload(43).unwrap_err().code(), Code::TooLarge);
        assert_eq!(signal().checked_payload(44).unwrap().len(), 44);
    }

    #[test]
    fn where_the_record_is_stands_before_the_further_members() {
        let signal = Signal::new("completed", A_JOB).unwrap().with("n", "1").unwrap();
        assert!(signal.check_record_members().is_ok());
        assert_eq!(
            String::from_utf8(signal.of_record("games", "EVT0NgWEfAER90").payload()).unwrap(),
            format!(
                r#"{{"event":"completed","job":"{A_JOB}","stream":"games","id":"EVT0NgWEfAER90","n":"1"}}"#
            )
        );
        for name in ["stream", "id"] {
            let refused = signal.clone().with(name, "x").unwrap().check_record_members().unwrap_err();
            assert_eq!((refused.code(), refused.subject()), (Code::ReservedField, Some(name)));
        }
    }

    proptest! {
        #[test]
        fn a_reader_of_json_reads_what_was_given(event in ".+", members in prop::collection::vec(("[a-c]\\PC*", ".*"), 0..4)) {
            let signal = members.iter().try_fold(Signal::new(&event, A_JOB).unwrap(), |signal, (name, value)| {
                signal.with(name, value)
            });
            prop_assume!(signal.is_ok());
            let read: Vec<(String, String)> = serde_json::from_slice::<serde_json::Map<String, Value>>(&signal.unwrap().payload())
                .unwrap()
                .into_iter()
                .map(|(name, value)| (name, value.as_str().unwrap().to_owned()))
                .collect();
            let given = [("event".to_owned(), event), ("job".to_owned(), A_JOB.to_owned())];
            prop_assert_eq!(read, given.into_iter().chain(members).collect::<Vec<_>>());
        }
    }
}
