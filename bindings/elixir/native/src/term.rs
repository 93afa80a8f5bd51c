//! Terms of what the core answers.

use crate::atoms;
use echomq::{BrandedId, EntryId, EventId, Reply};
use rustler::{Atom, Encoder, Env, NewBinary, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;

/// The share of a part, which takes its time however short it is.
pub(crate) const PART: usize = 64;

/// From how many bytes on a value is handed over as it is, not copied.
const SHARED: usize = 64 * 1024;

/// What becomes a term. Unlike rustler's `Encoder` it may be taken apart for that.
pub(crate) trait IntoTerm {
    fn into_term(self, env: Env<'_>) -> Term<'_>;

    /// How many bytes are copied for that, with a share for each part.
    fn cost(&self) -> usize {
        PART
    }
}

/// An atom of one of the core's words, which are short and plain.
pub(crate) fn word(env: Env<'_>, word: &str) -> Atom {
    Atom::from_str(env, word).unwrap_or_else(|_| atoms::error())
}

/// `:ok`, or the error.
pub(crate) struct Done(pub(crate) echomq::Result<()>);

impl IntoTerm for Done {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        match self.0 {
            Ok(()) => atoms::ok().encode(env),
            Err(error) => crate::error::refused(env, error),
        }
    }
}

/// A binary with a copy of the bytes.
pub(crate) fn binary<'a>(env: Env<'a>, bytes: &[u8]) -> Term<'a> {
    let mut binary = NewBinary::new(env, bytes.len());
    binary.as_mut_slice().copy_from_slice(bytes);
    binary.into()
}

/// What it costs to copy the fields of a record.
pub(crate) fn fields_cost(fields: &[(Vec<u8>, Vec<u8>)]) -> usize {
    fields.iter().map(|(name, value)| 2 * PART + name.len() + value.len()).sum::<usize>() + 2 * PART
}

pub(crate) fn list<T: IntoTerm>(env: Env<'_>, items: impl IntoIterator<Item = T>) -> Term<'_> {
    items.into_iter().map(|item| item.into_term(env)).collect::<Vec<_>>().encode(env)
}

impl<T: IntoTerm> IntoTerm for echomq::Result<T> {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        match self {
            Ok(value) => (atoms::ok(), value.into_term(env)).encode(env),
            Err(error) => crate::error::refused(env, error),
        }
    }

    fn cost(&self) -> usize {
        self.as_ref().map_or(PART, T::cost)
    }
}

impl<T: IntoTerm> IntoTerm for Vec<T> {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        list(env, self)
    }

    fn cost(&self) -> usize {
        PART + self.iter().map(T::cost).sum::<usize>()
    }
}

impl<T: IntoTerm> IntoTerm for Option<T> {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        self.map_or_else(|| atoms::nil().to_term(env), |value| value.into_term(env))
    }

    fn cost(&self) -> usize {
        self.as_ref().map_or(PART, T::cost)
    }
}

impl<T: IntoTerm, U: IntoTerm> IntoTerm for (T, U) {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        (self.0.into_term(env), self.1.into_term(env)).encode(env)
    }

    fn cost(&self) -> usize {
        self.0.cost() + self.1.cost()
    }
}

/// Bytes that a binary of the VM's shows without a copy, for as long as it has it.
struct Shared(Vec<u8>);

impl RefUnwindSafe for Shared {}

#[rustler::resource_impl]
impl Resource for Shared {}

impl IntoTerm for Vec<u8> {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        if self.len() < SHARED {
            return binary(env, &self);
        }
        ResourceArc::new(Shared(self)).make_binary(env, |shared| &shared.0).to_term(env)
    }

    fn cost(&self) -> usize {
        PART + if self.len() < SHARED { self.len() } else { 0 }
    }
}

impl IntoTerm for String {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        binary(env, self.as_bytes())
    }

    fn cost(&self) -> usize {
        PART + self.len()
    }
}

impl IntoTerm for EventId {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        binary(env, self.as_bytes())
    }
}

impl IntoTerm for BrandedId {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        binary(env, self.as_bytes())
    }
}

impl IntoTerm for EntryId {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        self.to_string().into_term(env)
    }
}

impl IntoTerm for u64 {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        self.encode(env)
    }
}

impl IntoTerm for bool {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        self.encode(env)
    }
}

impl IntoTerm for usize {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        self.encode(env)
    }
}

impl IntoTerm for Atom {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        self.to_term(env)
    }
}

mod numbers {
    rustler::atoms! { infinity, negative_infinity, nan }
}

impl IntoTerm for Reply {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        match self {
            Self::Nil => atoms::nil().to_term(env),
            Self::Int(number) => number.encode(env),
            Self::Double(number) if number.is_finite() => number.encode(env),
            // Erlang's floats are finite.
            Self::Double(number) if number.is_nan() => numbers::nan().to_term(env),
            Self::Double(number) if number > 0.0 => numbers::infinity().to_term(env),
            Self::Double(_) => numbers::negative_infinity().to_term(env),
            Self::Boolean(value) => value.encode(env),
            Self::Bytes(bytes) => bytes.into_term(env),
            Self::List(items) => list(env, items),
            Self::Map(members) => list(env, members),
            // The core may learn further kinds of replies; none of them is lost in silence.
            other => format!("{other:?}").into_term(env),
        }
    }

    fn cost(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.cost(),
            Self::List(items) => items.cost(),
            Self::Map(members) => members.cost(),
            _ => PART,
        }
    }
}
