//! The arguments of an order.

use crate::answer::Refusal;
use crate::field::decode;
use echomq::Fields;
use std::slice;
use std::str::FromStr;

/// The arguments that are left to be read, as they stand in the line.
pub(crate) struct Arguments<'a>(slice::Iter<'a, &'a [u8]>);

impl<'a> Arguments<'a> {
    pub(crate) fn new(fields: &'a [&'a [u8]]) -> Self {
        Self(fields.iter())
    }

    /// The next one.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Refusal> {
        read(self.0.next().ok_or_else(|| Refusal::senseless("an argument is missing"))?)
    }

    /// The next one as text. What is no UTF-8 is shown to the bus with replacement characters, since its interface
    /// for Rust takes nothing else.
    pub(crate) fn text(&mut self) -> Result<String, Refusal> {
        self.bytes().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The next one as a number.
    pub(crate) fn number<N: FromStr>(&mut self) -> Result<N, Refusal> {
        let text = self.text()?;
        text.parse().map_err(|_| Refusal::senseless(format!("`{text}` is no number that fits")))
    }

    /// The rest, of the form `key=value`.
    pub(crate) fn options(self) -> Result<Vec<(String, String)>, Refusal> {
        let option = |field: &&[u8]| {
            let text = String::from_utf8_lossy(&read(field)?).into_owned();
            let option = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            option.ok_or_else(|| Refusal::senseless(format!("`{text}` is not key=value")))
        };
        self.0.map(option).collect()
    }

    /// The rest as one record.
    pub(crate) fn record(self) -> Result<Fields, Refusal> {
        record(self.0.as_slice())
    }

    /// The rest as records: one more than there are bars.
    pub(crate) fn records(self) -> Result<Vec<Fields>, Refusal> {
        self.0.as_slice().split(|field| *field == b"|").map(record).collect()
    }

    /// Refuses an order with arguments that nothing reads.
    pub(crate) fn end(mut self) -> Result<(), Refusal> {
        match self.0.next() {
            None => Ok(()),
            Some(_) => Err(Refusal::senseless("there are more arguments than the op takes")),
        }
    }
}

fn read(field: &[u8]) -> Result<Vec<u8>, Refusal> {
    decode(field).ok_or_else(|| Refusal::senseless(format!("`{}` is no field", field.escape_ascii())))
}

fn record(fields: &[&[u8]]) -> Result<Fields, Refusal> {
    let mut record = Fields::new();
    let (pairs, rest) = fields.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Refusal::senseless("a field has no value"));
    }
    for [name, value] in pairs {
        record.push(read(name)?, read(value)?);
    }
    Ok(record)
}
