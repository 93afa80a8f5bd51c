//! What the core answers, made into values of JavaScript's.

use crate::error::make_error;
use crate::host::Host;
use echomq::{EventId, Record, Reply};
use napi::bindgen_prelude::{BigInt, BufferSlice, Null, ToNapiValue};
use napi::{Env, Result, check_status, sys};
use std::ops::RangeInclusive;
use std::ptr;

/// A value of JavaScript's, good until the present call of JavaScript's ends.
pub(crate) type Value = sys::napi_value;

/// What the core answers.
pub(crate) trait IntoJs: Send + 'static {
    /// Makes it a value of the environment that runs now.
    fn into_js(self, env: &Env) -> Result<Value>;
}

/// Makes a value of what the napi crate knows how to convert.
pub(crate) fn value(env: &Env, from: impl ToNapiValue) -> Result<Value> {
    // SAFETY: who holds an `Env` runs on its thread, within a call of it.
    unsafe { ToNapiValue::to_napi_value(env.raw(), from) }
}

/// How many values are made an array by one call of JavaScript's, which takes about as long as putting three in place. More
/// than the most would be much for its stack.
const BY_CALL: RangeInclusive<usize> = 8..=1_024;

/// Makes values, and an array of them.
pub(crate) fn array(env: &Env, items: impl Iterator<Item = Result<Value>>) -> Result<Value> {
    array_of(env, &items.collect::<Result<Vec<Value>>>()?)
}

/// Makes an array of values.
pub(crate) fn array_of(env: &Env, items: &[Value]) -> Result<Value> {
    if BY_CALL.contains(&items.len()) {
        return array_by_call(env, items);
    }
    let mut array = ptr::null_mut();
    // SAFETY: as in `value`; the items belong to the same environment.
    unsafe {
        check_status!(sys::napi_create_array_with_length(env.raw(), items.len(), &mut array))?;
        for (at, item) in (0..).zip(items) {
            check_status!(sys::napi_set_element(env.raw(), array, at, *item))?;
        }
    }
    Ok(array)
}

fn array_by_call(env: &Env, items: &[Value]) -> Result<Value> {
    let make_array = value(env, Host::of(env)?.make_array.borrow_back(env)?)?;
    let (this, mut array) = (value(env, ())?, ptr::null_mut());
    let (length, items) = (items.len(), items.as_ptr());
    // SAFETY: as in `array_of`; the function is one of the same environment too.
    unsafe {
        check_status!(sys::napi_call_function(env.raw(), this, make_array, length, items, &mut array))?
    };
    Ok(array)
}

/// A string where the bytes are valid UTF-8, and a buffer where they are not, so that no byte is lost.
pub(crate) fn text_or_bytes(env: &Env, bytes: &[u8]) -> Result<Value> {
    if bytes.is_ascii() {
        return ascii(env, bytes);
    }
    match str::from_utf8(bytes) {
        Ok(text) => value(env, text),
        Err(_) => buffer(env, bytes),
    }
}

/// A string of bytes that are all ASCII, which needs no decoding.
fn ascii(env: &Env, bytes: &[u8]) -> Result<Value> {
    let mut string = ptr::null_mut();
    let length = isize::try_from(bytes.len()).unwrap_or(isize::MAX);
    // SAFETY: as in `value`; the pointer is good for that many bytes.
    unsafe {
        let made = sys::napi_create_string_latin1(env.raw(), bytes.as_ptr().cast(), length, &mut string);
        check_status!(made)?;
    }
    Ok(string)
}

fn buffer(env: &Env, bytes: &[u8]) -> Result<Value> {
    value(env, &BufferSlice::copy_from(env, bytes)?)
}

impl<T: IntoJs> IntoJs for echomq::Result<T> {
    fn into_js(self, env: &Env) -> Result<Value> {
        match self {
            Ok(value) => value.into_js(env),
            Err(error) => make_error(env, &error),
        }
    }
}

impl<T: IntoJs> IntoJs for Option<T> {
    fn into_js(self, env: &Env) -> Result<Value> {
        match self {
            Some(value) => value.into_js(env),
            None => value(env, ()),
        }
    }
}

impl<T: IntoJs> IntoJs for Vec<T> {
    fn into_js(self, env: &Env) -> Result<Value> {
        array(env, self.into_iter().map(|item| item.into_js(env)))
    }
}

impl IntoJs for EventId {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self.as_str())
    }
}

impl IntoJs for () {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}

impl IntoJs for bool {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}

impl IntoJs for String {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}

/// Counts stay far below 2^53, up to which JavaScript's numbers are exact.
impl IntoJs for u64 {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self as f64)
    }
}

impl IntoJs for usize {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self as f64)
    }
}

impl IntoJs for Record {
    fn into_js(self, env: &Env) -> Result<Value> {
        row(env, &self)
    }
}

/// A record as one array: branded id or null, entry id, then names and values, as strings where they are valid UTF-8 and
/// as buffers where they are not, so that no byte is lost.
pub(crate) fn row(env: &Env, record: &Record) -> Result<Value> {
    let mut row = vec![
        match record.id() {
            Some(id) => id.into_js(env)?,
            None => value(env, Null)?,
        },
        value(env, record.entry_id().to_string())?,
    ];
    for part in record.fields().iter().flat_map(|(name, value)| [name, value]) {
        row.push(text_or_bytes(env, part)?);
    }
    array_of(env, &row)
}

/// A reply, with all its texts as bytes or all of them as strings.
pub(crate) struct Spoken {
    pub(crate) reply: Reply,
    pub(crate) raw: bool,
}

impl IntoJs for Spoken {
    fn into_js(self, env: &Env) -> Result<Value> {
        spoken(env, self.reply, self.raw)
    }
}

fn spoken(env: &Env, reply: Reply, raw: bool) -> Result<Value> {
    match reply {
        Reply::Nil => value(env, Null),
        Reply::Int(number) if number.unsigned_abs() < 1 << 53 => value(env, number),
        Reply::Int(number) => value(env, BigInt::from(number)),
        Reply::Double(number) => value(env, number),
        Reply::Boolean(truth) => value(env, truth),
        Reply::Bytes(bytes) if raw => buffer(env, &bytes),
        Reply::Bytes(bytes) => value(env, &*String::from_utf8_lossy(&bytes)),
        Reply::List(items) => array(env, items.into_iter().map(|item| spoken(env, item, raw))),
        Reply::Map(members) => array(
            env,
            members.into_iter().map(|(name, value)| {
                array(env, [name, value].into_iter().map(|part| spoken(env, part, raw)))
            }),
        ),
        // Reached only by a kind of reply that the core learned of and this face did not.
        _ => Err(napi::Error::from_reason("the reply is of a kind that has no form in JavaScript")),
    }
}
