//! Lists of texts or bytes, packed by JavaScript into one value and a table of lengths.
//!
//! Many small values are slow to hand over one by one. So JavaScript gives the parts of all lists end to end: as one
//! string, or as one buffer where any part is bytes. The table has, for each list, the number of its parts and then
//! their lengths: in UTF-16 units of the string, or in bytes of the buffer.

use crate::error::type_error;
use echomq::Fields;
use napi::bindgen_prelude::{JsValue, Unknown};
use napi::{Env, Result, Status, ValueType, check_status, sys};
use std::ptr;
use std::slice;

/// Lists of parts, each part as bytes.
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// The table, all lengths in bytes.
    table: Vec<u32>,
}

impl Packed {
    /// Reads `content` by the first `length` numbers of `table`, a `Uint32Array`.
    ///
    /// Throws a `TypeError` where the border of two parts cuts a character in two: then both were half a surrogate.
    pub(crate) fn read(env: &Env, content: Unknown<'_>, table: Unknown<'_>, length: u32) -> Result<Self> {
        let mut table = numbers(&table, length)?;
        let total = lengths(&mut table).map(|length| *length as usize).sum();
        let bytes = match content.get_type()? {
            ValueType::String => {
                let text = text(&content, total)?;
                if text.len() != total {
                    in_bytes(&text, &mut table)
                        .ok_or_else(|| type_error(env, "a text ends in half a character"))?;
                }
                text.into_bytes()
            }
            _ => bytes(&content)?,
        };
        let packed = Self { bytes, table };
        let whole: usize = packed.lists().map(|list| list.bytes.len()).sum();
        if whole != packed.bytes.len() {
            return Err(napi::Error::new(
                Status::InvalidArg,
                "the table of lengths does not fit its content",
            ));
        }
        Ok(packed)
    }

    /// The lists in order.
    pub(crate) fn lists(&self) -> impl Iterator<Item = List<'_>> {
        let mut table = self.table.as_slice();
        let mut bytes = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (count, rest) = table.split_first()?;
            let (lengths, rest) = rest.split_at_checked(*count as usize)?;
            let (own, others) =
                bytes.split_at_checked(lengths.iter().map(|length| *length as usize).sum())?;
            (table, bytes) = (rest, others);
            Some(List { lengths, bytes: own })
        })
    }

    /// The lists as fields of records.
    pub(crate) fn records(&self) -> impl Iterator<Item = Fields> {
        self.lists().map(List::fields)
    }

    /// The fields of the only record.
    pub(crate) fn record(&self) -> Fields {
        self.records().next().unwrap_or_default()
    }
}

/// The parts of one list.
pub(crate) struct List<'a> {
    lengths: &'a [u32],
    bytes: &'a [u8],
}

impl<'a> List<'a> {
    /// The parts as the fields of a record.
    pub(crate) fn fields(self) -> Fields {
        let mut fields = Fields::with_capacity(self.lengths.len() / 2, self.bytes.len());
        self.pairs().for_each(|(name, value)| fields.push(name, value));
        fields
    }

    /// The parts as names and values.
    pub(crate) fn pairs(mut self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        std::iter::from_fn(move || Some((self.next()?, self.next()?)))
    }
}

impl<'a> Iterator for List<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, lengths) = self.lengths.split_first()?;
        let (part, bytes) = self.bytes.split_at_checked(*length as usize)?;
        (self.lengths, self.bytes) = (lengths, bytes);
        Some(part)
    }
}

/// The lengths in a table, without the counts between them.
fn lengths(table: &mut [u32]) -> impl Iterator<Item = &mut u32> {
    let mut left = 0;
    table.iter_mut().filter(move |number| {
        if left == 0 {
            left = **number;
            return false;
        }
        left -= 1;
        true
    })
}

/// Makes lengths in UTF-16 units lengths in bytes; nothing where a part ends within a character.
fn in_bytes(text: &str, table: &mut [u32]) -> Option<()> {
    let mut characters = text.chars();
    for length in lengths(table) {
        let before = characters.as_str().len();
        let mut units = 0;
        while units < *length {
            units += characters.next()?.len_utf16() as u32;
        }
        if units > *length {
            return None;
        }
        *length = u32::try_from(before - characters.as_str().len()).ok()?;
    }
    Some(())
}

/// The text of a string of that many UTF-16 units.
fn text(string: &Unknown<'_>, units: usize) -> Result<String> {
    // Mostly a unit is a byte, and then this is all of it. If it is not, some byte is not ASCII or is missing.
    let short = utf8(string, units)?;
    let bytes = if short.len() == units && short.is_ascii() { short } else { utf8(string, 3 * units)? };
    String::from_utf8(bytes).map_err(|error| napi::Error::new(Status::InvalidArg, error.to_string()))
}

/// As many whole characters of a string as fit into that many bytes.
fn utf8(string: &Unknown<'_>, capacity: usize) -> Result<Vec<u8>> {
    let string = string.value();
    let mut bytes = Vec::<u8>::with_capacity(capacity + 1);
    let mut written = 0;
    // SAFETY: the string belongs to the environment that runs now, and the vector has room for what is written and
    // the zero behind it.
    unsafe {
        check_status!(sys::napi_get_value_string_utf8(
            string.env,
            string.value,
            bytes.as_mut_ptr().cast(),
            capacity + 1,
            &mut written,
        ))?;
        bytes.set_len(written);
    }
    Ok(bytes)
}

fn numbers(array: &Unknown<'_>, length: u32) -> Result<Vec<u32>> {
    let (kind, data, found) = typed_array(array)?;
    if kind != sys::TypedarrayType::uint32_array || found < length as usize {
        return Err(napi::Error::new(
            Status::InvalidArg,
            "the table of lengths is no Uint32Array of that length",
        ));
    }
    // SAFETY: the environment gave this memory, and nothing of JavaScript's runs before it is copied.
    Ok(unsafe { copy(data.cast(), length as usize) })
}

fn bytes(array: &Unknown<'_>) -> Result<Vec<u8>> {
    let (kind, data, length) = typed_array(array)?;
    if kind != sys::TypedarrayType::uint8_array {
        return Err(napi::Error::new(Status::InvalidArg, "the content is neither string nor Uint8Array"));
    }
    // SAFETY: as in `numbers`.
    Ok(unsafe { copy(data.cast(), length) })
}

/// # Safety
///
/// `data` is null or points to that many values.
unsafe fn copy<T: Clone>(data: *const T, length: usize) -> Vec<T> {
    if length == 0 {
        return Vec::new();
    }
    // SAFETY: as the caller promises; with a length the pointer is not null.
    unsafe { slice::from_raw_parts(data, length) }.to_vec()
}

/// Kind, memory and length of a typed array.
fn typed_array(array: &Unknown<'_>) -> Result<(i32, *mut std::ffi::c_void, usize)> {
    let array = array.value();
    let (mut kind, mut length, mut data) = (0, 0, ptr::null_mut());
    // SAFETY: the value belongs to the environment that runs now; what is not asked for may be null.
    check_status!(unsafe {
        sys::napi_get_typedarray_info(
            array.env,
            array.value,
            &mut kind,
            &mut length,
            &mut data,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    })?;
    Ok((kind, data, length))
}
