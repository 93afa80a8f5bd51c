//! Fields, records and commands, from what a Python user writes to what the core takes.

use crate::text::{Text, borrowed, text};
use crate::{error, instant, text};
use echomq::{Code, EventId, Fields, Range, Signal, Start, TailOptions, Timestamp, Trim};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDateTime, PyDict, PyInt, PyList, PyString, PyTuple};
use std::borrow::Cow;
use std::time::Duration;

/// As long as it takes: every call has a deadline of its own.
pub(crate) const UNBOUNDED: Duration = Duration::MAX;

/// Room for fields of this size is made at once.
const USUAL_FIELD: usize = 64;

/// The fields of one record: a mapping, or pairs of name and value.
pub(crate) fn fields(value: &Bound<'_, PyAny>) -> PyResult<Fields> {
    if let Ok(dict) = value.cast_exact::<PyDict>()
        && let Some(fields) = simple_dict(dict)
    {
        return Ok(fields);
    }
    let mut fields = Fields::new();
    each_pair(value, &FIELD, |name, value| fields.push(name, value))?;
    Ok(fields)
}

/// What a pair of a name and a value is called.
struct Called {
    one: &'static str,
    many: &'static str,
}

const FIELD: Called = Called { one: "a field", many: "fields" };
const MEMBER: Called = Called { one: "a member", many: "members" };

/// Hands on each pair of a mapping, or of an iterable of pairs.
fn each_pair(
    value: &Bound<'_, PyAny>,
    called: &Called,
    mut take: impl FnMut(Text<'_, '_>, Text<'_, '_>),
) -> PyResult<()> {
    // A mapping of another class knows its own order, which its storage need not have.
    let pairs = match value.getattr_opt(intern!(value.py(), "items"))? {
        Some(items) => items.call0()?,
        None => value.clone(),
    };
    let what = format!("the name or value of {}", called.one);
    for pair in pairs.try_iter().map_err(|_| no_pairs(value, called))? {
        let (name, value) = self::pair(&pair?, called)?;
        take(text(&name, &what)?, text(&value, &what)?);
    }
    Ok(())
}

/// An event to publish: its name, its job, and its further members, a mapping or pairs.
pub(crate) fn signal(
    event: &Bound<'_, PyString>,
    job: &Bound<'_, PyString>,
    extra: Option<&Bound<'_, PyAny>>,
) -> PyResult<Signal> {
    let signal = Signal::new(text(event, "an event")?, text(job, "a job")?);
    let mut members: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    if let Some(extra) = extra {
        each_pair(extra, &MEMBER, |name, value| {
            members.push((name.as_ref().to_vec(), value.as_ref().to_vec()));
        })?;
    }
    signal.and_then(|signal| signal.with_all(members)).map_err(|error| error::raise(event.py(), &error))
}

/// A record to append and an event to publish: the name of the stream, the fields, and the event.
pub(crate) fn announcement<'a>(
    stream: &'a Bound<'_, PyString>,
    fields: &Bound<'_, PyAny>,
    event: &Bound<'_, PyString>,
    job: &Bound<'_, PyString>,
    extra: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Cow<'a, str>, Fields, Signal)> {
    Ok((text::name(stream)?, self::fields(fields)?, signal(event, job, extra)?))
}

/// How far a job is: a text, or a number as text.
pub(crate) fn progress(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>() {
        return Ok(value.str()?.to_str()?.as_bytes().to_vec());
    }
    Ok(text(value, "progress")?.as_ref().to_vec())
}

/// The fields of a dictionary whose names and values are all plain; no code of Python runs meanwhile.
fn simple_dict(dict: &Bound<'_, PyDict>) -> Option<Fields> {
    let mut fields = Fields::with_capacity(dict.len(), dict.len() * USUAL_FIELD);
    for (name, value) in dict {
        fields.push(borrowed(&name)?, borrowed(&value)?);
    }
    Some(fields)
}

fn pair<'py>(pair: &Bound<'py, PyAny>, called: &Called) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let of_list = || pair.cast::<PyList>().ok().map(|list| list.to_tuple());
    let tuple = pair.cast::<PyTuple>().ok().cloned().or_else(of_list);
    match tuple {
        Some(tuple) if tuple.len() == 2 => Ok((tuple.get_item(0)?, tuple.get_item(1)?)),
        _ => Err(PyTypeError::new_err(format!("{} is a pair of a name and a value", called.one))),
    }
}

fn no_pairs(value: &Bound<'_, PyAny>, called: &Called) -> PyErr {
    let found = value.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{} are a mapping or pairs of name and value, not {found}", called.many))
}

/// The records of a batch.
pub(crate) fn records(value: &Bound<'_, PyAny>) -> PyResult<Vec<Fields>> {
    value.try_iter()?.map(|record| fields(&record?)).collect()
}

/// The name and arguments of a command.
pub(crate) fn command(value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    let argument = |value: Bound<'_, PyAny>| Ok(text(&value, "a part of a command")?.as_ref().to_vec());
    value.try_iter()?.map(|part| argument(part?)).collect()
}

/// The commands of a pipeline.
pub(crate) fn commands(value: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<Vec<u8>>>> {
    value.try_iter()?.map(|parts| command(&parts?)).collect()
}

/// A number that counts something.
pub(crate) fn count(value: &Bound<'_, PyAny>, what: &str) -> PyResult<u64> {
    let py = value.py();
    let number = value
        .call_method0(intern!(py, "__index__"))
        .map_err(|_| PyTypeError::new_err(format!("{what} is an int")))?;
    number.extract().map_err(|_| {
        error::refuse(py, Code::InvalidOption, "it is no number from 0 to 2**64 - 1", Some(what))
    })
}

/// How long to wait at most: a `timedelta`, or as long as it takes.
pub(crate) fn within(value: Option<&Bound<'_, PyAny>>) -> PyResult<Duration> {
    value.map_or(Ok(UNBOUNDED), |value| duration(value, "within"))
}

/// How long a stop waits for what is in hand: a `timedelta`, or not at all.
pub(crate) fn grace(value: Option<&Bound<'_, PyAny>>) -> PyResult<Duration> {
    value.map_or(Ok(Duration::ZERO), |value| duration(value, "within"))
}

/// A time that is no option: a `timedelta`, not negative.
pub(crate) fn duration(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Duration> {
    value.extract::<Duration>().map_err(|failure| {
        if failure.is_instance_of::<PyTypeError>(value.py()) {
            return PyTypeError::new_err(format!("{what} is a timedelta"));
        }
        error::refuse(value.py(), Code::InvalidOption, "a time is not negative", Some(what))
    })
}

/// The range of two bounds as text; one that is not given is the end of the stream.
pub(crate) fn range(
    py: Python<'_>,
    first: Option<&Bound<'_, PyString>>,
    last: Option<&Bound<'_, PyString>>,
) -> PyResult<Range> {
    let first = first.map_or(Ok(Cow::Borrowed("-")), text::name)?;
    let last = last.map_or(Ok(Cow::Borrowed("+")), text::name)?;
    Range::parse(&first, &last).map_err(|error| error::raise(py, &error))
}

/// The two instants of a window.
pub(crate) fn window(first: &Bound<'_, PyAny>, last: &Bound<'_, PyAny>) -> PyResult<(Timestamp, Timestamp)> {
    Ok((instant::timestamp(first, "first")?, instant::timestamp(last, "last")?))
}

/// How much to keep: exactly one of the two is given.
pub(crate) fn trim(
    max_len: Option<&Bound<'_, PyAny>>,
    min_id: Option<&Bound<'_, PyAny>>,
    exact: bool,
) -> PyResult<Trim> {
    let trim = match (max_len, min_id) {
        (Some(max_len), None) => Trim::max_len(count(max_len, "max_len")?),
        (None, Some(min_id)) => Trim::min_id(instant::timestamp(min_id, "min_id")?),
        _ => return Err(PyTypeError::new_err("trim takes max_len or min_id")),
    };
    Ok(if exact { trim.exact() } else { trim })
}

/// The id that a caller brings.
pub(crate) fn event_id(id: &Bound<'_, PyString>) -> PyResult<EventId> {
    EventId::parse(text::text(id, "an id")?).map_err(|error| error::raise(id.py(), &error))
}

/// Where a group or a tail begins: an instant, or a text for the core to read.
pub(crate) fn start(value: &Bound<'_, PyAny>) -> PyResult<Start> {
    if value.is_instance_of::<PyDateTime>() {
        return Ok(Start::At(instant::timestamp(value, "start")?));
    }
    let text = value.cast::<PyString>().map_err(|_| PyTypeError::new_err("start is a str or a datetime"))?;
    Start::parse(&text::name(text)?).map_err(|error| error::raise(value.py(), &error))
}

/// How a tail reads: where it begins, and about how many bytes at once.
pub(crate) fn tail_options(
    place: &Bound<'_, PyAny>,
    page_bytes: Option<&Bound<'_, PyAny>>,
) -> PyResult<TailOptions> {
    let mut options = TailOptions::new(start(place)?);
    if let Some(bytes) = page_bytes {
        let set = options.set("page_bytes", &count(bytes, "page_bytes")?.to_string());
        set.map_err(|error| error::raise(bytes.py(), &error))?;
    }
    Ok(options)
}
