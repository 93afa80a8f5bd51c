//! Arguments: terms as what the core takes.

use crate::error::Refusal;
use rustler::{Binary, Term};
use std::borrow::Cow;
use std::time::Duration;

/// The bytes of a binary.
pub(crate) fn bytes<'a>(term: Term<'a>, what: &str) -> Result<&'a [u8], Refusal> {
    match Binary::from_term(term) {
        Ok(binary) => Ok(binary.as_slice()),
        Err(_) => Err(Refusal::argument(format!("{what} must be a binary"))),
    }
}

/// A binary as text. What is no UTF-8 is shown to the core with replacement characters, which no name may have.
pub(crate) fn text<'a>(term: Term<'a>, what: &str) -> Result<Cow<'a, str>, Refusal> {
    bytes(term, what).map(String::from_utf8_lossy)
}

/// The bytes of iodata.
pub(crate) fn iodata<'a>(term: Term<'a>) -> Option<&'a [u8]> {
    if let Ok(binary) = Binary::from_term(term) {
        return Some(binary.as_slice());
    }
    Binary::from_iolist(term).ok().map(|binary| binary.as_slice())
}

/// How many records to give at most; nothing where Elixir says `:all`.
pub(crate) fn count(term: Term<'_>) -> Result<Option<u64>, Refusal> {
    if is_word(term, "all") {
        return Ok(None);
    }
    number(term, "a count")
        .map(Some)
        .map_err(|_| Refusal::argument("a count must be a number from 0 or :all"))
}

/// Whether it is that atom.
pub(crate) fn is_word(term: Term<'_>, word: &str) -> bool {
    term.is_atom() && term.atom_to_string().is_ok_and(|atom| atom == word)
}

/// A number from 0.
pub(crate) fn number(term: Term<'_>, what: &str) -> Result<u64, Refusal> {
    term.decode().map_err(|_| Refusal::argument(format!("{what} must be a whole number from 0")))
}

/// A time in milliseconds; nothing where Elixir says `:infinity`.
pub(crate) fn time(term: Term<'_>, what: &str) -> Result<Option<Duration>, Refusal> {
    if is_word(term, "infinity") {
        return Ok(None);
    }
    let ms = number(term, what)
        .map_err(|_| Refusal::argument(format!("{what} must be milliseconds from 0 or :infinity")))?;
    Ok(Some(Duration::from_millis(ms)))
}

/// A list of names and texts.
pub(crate) fn named_texts(term: Term<'_>) -> Result<Vec<(String, String)>, Refusal> {
    let named = elements(term, "the options")?.map(|option| {
        let (name, value): (Term<'_>, Term<'_>) =
            option?.decode().map_err(|_| Refusal::argument("an option must be a name and a value"))?;
        let name = text(name, "the name of an option")?.into_owned();
        let value = text(value, &format!("the option {name}"))?.into_owned();
        Ok((name, value))
    });
    named.collect()
}

/// The elements of a list, and whether it ended as a list does.
pub(crate) fn elements<'a>(
    term: Term<'a>,
    what: &str,
) -> Result<impl Iterator<Item = Result<Term<'a>, Refusal>>, Refusal> {
    if !term.is_list() {
        return Err(Refusal::argument(format!("{what} must be a list")));
    }
    let what = what.to_owned();
    let mut rest = Some(term);
    Ok(std::iter::from_fn(move || match rest?.list_get_cell() {
        Ok((head, tail)) => {
            rest = Some(tail);
            Some(Ok(head))
        }
        Err(_) if rest.take()?.is_empty_list() => None,
        Err(_) => Some(Err(Refusal::argument(format!("{what} must be a proper list")))),
    }))
}
