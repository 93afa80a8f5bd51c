//! Records: fields to `XADD` arguments and back, and the end of every reply shape (`docs/protocol.md` §3).

pub(crate) mod decoder;
mod fields;
pub(crate) mod packed;
pub(crate) mod reply;

pub use fields::Fields;

use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;

/// The name of the first field, whose value is the branded id.
pub(crate) const ID_FIELD: &[u8] = b"id";

/// One entry of a stream.
///
/// Names and values are bytes, in the order in which they were appended, duplicates kept.
///
/// An entry that this bus did not write is *foreign*: its `id` field is not the first one, is no record id, or
/// disagrees with the entry id. It has no branded id and shows all its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    id: Option<EventId>,
    entry_id: EntryId,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Record {
    /// Tells a record of this bus from a foreign one.
    pub(crate) fn new(entry_id: EntryId, mut fields: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        let id = fields
            .first()
            .filter(|(name, _)| name == ID_FIELD)
            .and_then(|(_, value)| EventId::parse(value).ok())
            .filter(|id| EntryId::from(*id) == entry_id);
        if id.is_some() {
            fields.remove(0);
        }
        Self { id, entry_id, fields }
    }

    /// The branded id; nothing for a foreign entry.
    pub fn id(&self) -> Option<EventId> {
        self.id
    }

    /// The server's id of the entry.
    pub fn entry_id(&self) -> EntryId {
        self.entry_id
    }

    /// Whether this bus did not write the entry.
    pub fn is_foreign(&self) -> bool {
        self.id.is_none()
    }

    /// The fields in order; for a foreign entry all of them, else all behind `id`.
    pub fn fields(&self) -> &[(Vec<u8>, Vec<u8>)] {
        &self.fields
    }

    /// The first value of a field, where there is one.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_slice())
    }

    /// About how many bytes it takes: its names and values, and what the protocol puts around them.
    pub(crate) fn size(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len() + 16);
        64 + fields.sum::<usize>()
    }

    /// The fields in order, without a copy.
    pub fn into_fields(self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(entry_id: &str, fields: &[(&str, &str)]) -> Record {
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect();
        Record::new(entry_id.parse().unwrap(), fields)
    }

    #[test]
    fn a_record_of_the_bus() {
        let record = record("1780512970164-28714", &[("id", "EVT0NgWEfAER90"), ("k", "1"), ("k", "2")]);
        assert_eq!(record.id().unwrap().as_str(), "EVT0NgWEfAER90");
        assert_eq!(record.fields().len(), 2);
        assert_eq!(record.get("k"), Some(&b"1"[..]));
        assert_eq!(record.get("id"), None);
    }

    #[test]
    fn foreign_entries_keep_all_their_fields() {
        for (entry_id, fields) in [
            ("1780512970164-28714", &[][..]),
            ("1780512970164-28714", &[("k", "1")]),
            ("1780512970164-28714", &[("k", "1"), ("id", "EVT0NgWEfAER90")]),
            ("1780512970164-28714", &[("ID", "EVT0NgWEfAER90")]),
            ("1780512970164-28714", &[("id", "JOB0NgWEfAER90")]),
            ("1780512970164-28714", &[("id", "EVT0NgWEfAER9")]),
            ("1780512970164-28715", &[("id", "EVT0NgWEfAER90"), ("k", "1")]),
            ("1-18446744073709551615", &[("id", "EVT0NgWEfAER90")]),
        ] {
            let record = record(entry_id, fields);
            assert!(record.is_foreign());
            assert_eq!(record.entry_id().to_string(), entry_id);
            assert_eq!(record.fields().len(), fields.len());
        }
    }
}
