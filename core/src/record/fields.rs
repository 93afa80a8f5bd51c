//! The fields of a record to append.

use super::packed::{Arguments, Packed};
use super::{ID_FIELD, Record};
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::entry_id::EntryId;

/// Names and values in order, byte for byte; duplicates and empty ones are kept.
///
/// Made from anything that gives pairs:
///
/// ```
/// use echomq::Fields;
///
/// let fields = Fields::from([("kind", "guessed"), ("kind", "again")]);
/// let same: Fields = vec![("kind", b"guessed".to_vec()), ("kind", b"again".to_vec())].into_iter().collect();
/// assert_eq!(fields, same);
/// assert_eq!(fields.size(), 4 + 7 + 4 + 5);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// All names and values, end to end.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl Fields {
    /// No fields yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// No fields yet, with room for that many fields of that many bytes in all.
    pub fn with_capacity(fields: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(2 * fields) }
    }

    fn copied<N: AsRef<[u8]>, V: AsRef<[u8]>>(pairs: &[(N, V)]) -> Self {
        let bytes = pairs.iter().map(|(name, value)| name.as_ref().len() + value.as_ref().len()).sum();
        let mut fields = Self::with_capacity(pairs.len(), bytes);
        pairs.iter().for_each(|(name, value)| fields.push(name, value));
        fields
    }

    /// Adds a field behind the others.
    pub fn push(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        for part in [name.as_ref(), value.as_ref()] {
            self.bytes.extend_from_slice(part);
            self.ends.push(self.bytes.len());
        }
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all names and values together: what a client's `max_record_bytes` bounds.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut parts = self.parts();
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }

    /// Refuses a field named `id` and a record over the bound.
    pub(crate) fn check(&self, max_bytes: usize) -> Result<()> {
        if self.iter().any(|(name, _)| name == ID_FIELD) {
            return Err(Error::new(
                Code::ReservedField,
                "a field is named `id`, which the record's own id uses",
            ));
        }
        if self.size() > max_bytes {
            let size = self.size();
            return Err(Error::new(
                Code::TooLarge,
                format!("the record has {size} bytes of names and values, the client's bound is {max_bytes}"),
            ));
        }
        Ok(())
    }

    /// `XADD key <entry id> id <branded> <field> <value> …`
    pub(crate) fn append_command(&self, key: &str, id: EventId, commands: &mut Packed) {
        let mut command = commands.command(5 + self.ends.len());
        command.arg("XADD").arg(key).arg(EntryId::from(id).text().as_bytes());
        self.write(id, &mut command);
    }

    /// The record's own arguments: `id <branded> <field> <value> …`
    pub(crate) fn write(&self, id: EventId, command: &mut Arguments<'_>) {
        command.arg(ID_FIELD).arg(id.as_bytes());
        self.write_own(command);
    }

    /// The fields alone: `<field> <value> …`
    pub(crate) fn write_own(&self, command: &mut Arguments<'_>) {
        for part in self.parts() {
            command.arg(part);
        }
    }
}

/// The same names and values in the same order.
impl PartialEq<Record> for Fields {
    fn eq(&self, record: &Record) -> bool {
        let fields = record.fields().iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        self.len() == record.fields().len() && self.iter().eq(fields)
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(N, V)> for Fields {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, pairs: I) {
        pairs.into_iter().for_each(|(name, value)| self.push(name, value));
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter();
        // How long names and values are is not known yet; what is reserved here spares the usual record a second move.
        let mut fields = Self::with_capacity(pairs.size_hint().0, 64 * pairs.size_hint().0.min(64));
        fields.extend(pairs);
        fields
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>, const K: usize> From<[(N, V); K]> for Fields {
    fn from(pairs: [(N, V); K]) -> Self {
        Self::copied(&pairs)
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> From<Vec<(N, V)>> for Fields {
    fn from(pairs: Vec<(N, V)>) -> Self {
        Self::copied(&pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn bytes(hex: &Value) -> Vec<u8> {
        let hex = hex.as_str().unwrap();
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn every_record_of_the_vectors() {
        let vectors: Value = serde_json::from_str(include_str!("../../../conformance/vectors.json")).unwrap();
        for fact in vectors["records"].as_array().unwrap() {
            let fields: Fields = fact["fields_hex"]
                .as_array()
                .unwrap()
                .iter()
                .map(|pair| (bytes(&pair[0]), bytes(&pair[1])))
                .collect();
            let id = EventId::parse(fact["evt"].as_str().unwrap()).unwrap();
            let mut commands = Packed::default();
            fields.append_command("emq:{codemojex}:stream:events", id, &mut commands);
            assert_eq!(commands.bytes(), bytes(&fact["command_hex"]));
        }
    }

    proptest! {
        #[test]
        fn pairs_come_back_as_given(pairs: Vec<(Vec<u8>, Vec<u8>)>) {
            let fields: Fields = pairs.clone().into();
            let back: Vec<_> = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
            prop_assert_eq!(fields.len(), pairs.len());
            prop_assert_eq!(fields.size(), pairs.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>());
            prop_assert_eq!(back, pairs);
        }
    }

    #[test]
    fn the_bound_is_the_last_size_allowed() {
        let fields = Fields::from([("k", "12345")]);
        assert!(fields.check(6).is_ok());
        assert_eq!(fields.check(5).unwrap_err().code(), Code::TooLarge);
    }

    #[test]
    fn only_the_exact_name_id_is_reserved() {
        let code =
            |name: &str| Fields::from([("k", ""), (name, "")]).check(100).map_err(|error| error.code());
        assert_eq!(code("id"), Err(Code::ReservedField));
        assert_eq!(code("ID"), Ok(()));
        assert_eq!(code("id "), Ok(()));
        assert_eq!(code(""), Ok(()));
    }
}
