//! Entries as `EchoMQ.Message`.

use crate::term::{IntoTerm, binary};
use echomq::Delivery;
use rustler::{Encoder, Env, Term};

/// An entry that was handed out, with what Elixir knows it by.
pub(crate) struct Message<'d, 'a> {
    pub(crate) delivery: &'d Delivery,
    pub(crate) number: u64,
    pub(crate) hand: Term<'a>,
    pub(crate) group: Term<'a>,
}

mod keys {
    rustler::atoms! {
        __struct__, message = "Elixir.EchoMQ.Message", id, payload, attempts, group, entry_id, fields, handle,
    }
}

impl<'a> Message<'_, 'a> {
    pub(crate) fn into_term(self, env: Env<'a>) -> Term<'a> {
        let record = self.delivery.record();
        let (mut names, mut values) = (Vec::new(), Vec::new());
        for (name, value) in record.fields() {
            names.push(binary(env, name));
            values.push(binary(env, value));
        }
        let pairs: Vec<_> = names.iter().zip(&values).map(|(name, value)| (*name, *value)).collect();
        let members = [
            (keys::__struct__(), keys::message().encode(env)),
            (keys::id(), record.id().into_term(env)),
            (keys::payload(), map(env, &names, &values)),
            (keys::attempts(), self.delivery.attempts().encode(env)),
            (keys::group(), self.group),
            (keys::entry_id(), record.entry_id().into_term(env)),
            (keys::fields(), pairs.encode(env)),
            (keys::handle(), (self.hand, self.number).encode(env)),
        ];
        map(env, &members.map(|(key, _)| key.encode(env)), &members.map(|(_, value)| value))
    }
}

/// A map; of several values of a key it has the last one.
pub(crate) fn map<'a>(env: Env<'a>, keys: &[Term<'a>], values: &[Term<'a>]) -> Term<'a> {
    let put = |map: Term<'a>, (key, value): (&Term<'a>, &Term<'a>)| map.map_put(*key, *value).unwrap_or(map);
    // Refused where a key is there more than once.
    Term::map_from_term_arrays(env, keys, values)
        .unwrap_or_else(|_| keys.iter().zip(values).fold(Term::map_new(env), put))
}
