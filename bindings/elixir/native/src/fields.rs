//! Fields of a record: a map, a keyword list or a list of pairs.

use crate::argument::{elements, iodata};
use crate::error::Refusal;
use echomq::Fields;
use rustler::env::SavedTerm;
use rustler::{MapIterator, OwnedEnv, Term};
use std::borrow::Cow;

/// From how many bytes on a record is copied elsewhere than on a scheduler.
const LARGE: usize = 128 * 1024;

/// The fields of one record.
pub(crate) enum Record {
    Read(Fields),
    Large(Large),
}

/// A record whose bytes are still the VM's; they are shared, and kept for as long as this is.
pub(crate) struct Large {
    env: OwnedEnv,
    record: SavedTerm,
}

impl Record {
    /// What reading it has cost, in bytes, with a share for each field.
    pub(crate) fn cost(&self) -> usize {
        const FIELD: usize = 64;
        match self {
            Self::Read(fields) => FIELD * (1 + fields.len()) + fields.size(),
            Self::Large(_) => LARGE,
        }
    }

    /// The fields. For a large record on a thread of its own.
    pub(crate) fn into_fields(self) -> Fields {
        match self {
            Self::Read(fields) => fields,
            Self::Large(Large { env, record }) => env.run(|env| {
                let mut parts = Parts::default();
                // It was read before without a refusal, and terms do not change.
                parts.read(record.load(env)).map_or_else(|_| Fields::new(), |()| parts.copy())
            }),
        }
    }
}

/// Names and values as they lie in the VM. Reading many records, its memory is used again.
#[derive(Default)]
pub(crate) struct Parts<'a>(Vec<Cow<'a, [u8]>>);

/// The further members of an event, which are given as the fields of a record are.
pub(crate) fn members(extra: Term<'_>) -> Result<Record, Refusal> {
    Parts::default().record(extra).map_err(|refusal| match refusal {
        Refusal::Argument(why) => {
            Refusal::Argument(format!("the further members, as fields of a record: {why}"))
        }
        refusal => refusal,
    })
}

impl<'a> Parts<'a> {
    /// Reads the fields of one record. Names are iodata or atoms, values iodata; a map gives them in its own order.
    pub(crate) fn record(&mut self, record: Term<'a>) -> Result<Record, Refusal> {
        self.read(record)?;
        if self.size() < LARGE {
            return Ok(Record::Read(self.copy()));
        }
        let env = OwnedEnv::new();
        let record = env.save(record);
        Ok(Record::Large(Large { env, record }))
    }

    fn read(&mut self, record: Term<'a>) -> Result<(), Refusal> {
        self.0.clear();
        if let Some(members) = MapIterator::new(record) {
            for (name, value) in members {
                self.push(name, value)?;
            }
            return Ok(());
        }
        for pair in elements(record, "a record")? {
            let pair = pair?.decode::<(Term<'a>, Term<'a>)>();
            let (name, value) = pair.map_err(|_| self.wrong("must be a pair of name and value"))?;
            self.push(name, value)?;
        }
        Ok(())
    }

    fn push(&mut self, name: Term<'a>, value: Term<'a>) -> Result<(), Refusal> {
        let name = match (iodata(name), name.is_atom()) {
            (Some(name), _) => Cow::Borrowed(name),
            (None, true) => Cow::Owned(name.atom_to_string().map_or_else(|_| Vec::new(), String::into_bytes)),
            (None, false) => return Err(self.wrong("must have a name of iodata or an atom")),
        };
        let value = iodata(value).ok_or_else(|| self.wrong("must have a value of iodata"))?;
        self.0.extend([name, Cow::Borrowed(value)]);
        Ok(())
    }

    fn wrong(&self, why: &str) -> Refusal {
        Refusal::argument(format!("field {} of the record {why}", self.0.len() / 2 + 1))
    }

    fn size(&self) -> usize {
        self.0.iter().map(|part| part.len()).sum()
    }

    fn copy(&self) -> Fields {
        let mut fields = Fields::with_capacity(self.0.len() / 2, self.size());
        for [name, value] in self.0.as_chunks::<2>().0 {
            fields.push(name, value);
        }
        fields
    }
}
