//! Records as `{id, entry_id, fields}`: the id is nil for a foreign entry, the fields are pairs in order.

use crate::term::{IntoTerm, PART};
use echomq::Record;
use rustler::{Encoder, Env, Term};

impl IntoTerm for Record {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        let id = self.id().into_term(env);
        let entry_id = self.entry_id().into_term(env);
        (id, entry_id, self.into_fields().into_term(env)).encode(env)
    }

    fn cost(&self) -> usize {
        let fields = self.fields().iter();
        2 * PART + fields.map(|(name, value)| name.cost() + value.cost()).sum::<usize>()
    }
}
