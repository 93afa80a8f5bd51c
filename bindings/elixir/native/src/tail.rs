//! Tails: following a stream.

use crate::argument::{count, number, text, time};
use crate::atoms;
use crate::client::{Connection, stream};
use crate::error::{Refusal, call, refused};
use crate::reply::answer_later;
use crate::term::IntoTerm;
use echomq::{Start, Tail, TailOptions, Tailed};
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, NifResult, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;
use tokio::time::timeout;

/// A tail that ends with the process it was opened for.
struct Following {
    tail: Tail,
    owner: LocalPid,
}

impl RefUnwindSafe for Following {}

#[rustler::resource_impl]
impl Resource for Following {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _: Env<'a>, _: LocalPid, _: Monitor) {
        self.tail.close();
    }
}

impl IntoTerm for Following {
    /// See [`Consuming`](crate::consumer::Consuming).
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        let owner = self.owner;
        let following = ResourceArc::new(self);
        following.monitor(None, &owner);
        following.encode(env)
    }
}

/// Opens a tail for the calling process.
#[rustler::nif]
fn tail<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
    name: Term<'a>,
    start: Term<'a>,
    page_bytes: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let mut options = TailOptions::new(Start::parse(&text(start, "the start")?)?);
        if let Some(bytes) = count(page_bytes)? {
            options.set("page_bytes", &bytes.to_string())?;
        }
        let opened = stream(&connection, queue, name)?.tail(options);
        let owner = env.pid();
        answer_later(env, tag, async move { opened.await.map(|tail| Following { tail, owner }) })
    })
}

/// The next entries, up to that many, waiting for the first within that time: none where there was none, nil at the end.
#[rustler::nif]
fn take_tail<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    following: ResourceArc<Following>,
    max: Term<'a>,
    within: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        if env.pid() != following.owner {
            return Err(Refusal::argument("only the process that opened the tail takes from it"));
        }
        let max = number(max, "how many records to take")?;
        if max == 0 {
            return Err(Refusal::argument("how many records to take must be a whole number from 1"));
        }
        let within = time(within, "the time to wait")?;
        let tail = following.tail.clone();
        answer_later(env, tag, async move {
            let taken = tail.take(usize::try_from(max).unwrap_or(usize::MAX));
            Followed(match within {
                None => taken.await.map(Some),
                Some(within) => timeout(within, taken).await.ok().transpose(),
            })
        })
    })
}

/// What a tail gave, on its way to Elixir.
struct Followed(echomq::Result<Option<Vec<Tailed>>>);

impl IntoTerm for Followed {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        match self.0 {
            Err(error) => refused(env, error),
            Ok(None) => (atoms::ok(), Term::list_new_empty(env)).encode(env),
            Ok(Some(entries)) if entries.is_empty() => (atoms::ok(), atoms::nil()).encode(env),
            Ok(Some(entries)) => (atoms::ok(), entries.into_term(env)).encode(env),
        }
    }
}

mod words {
    rustler::atoms! { gap }
}

impl IntoTerm for Tailed {
    /// A record, or `{:gap, from, to}`.
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        match self {
            Self::Record(record) => record.into_term(env),
            Self::Gap(gap) => (words::gap(), gap.from().into_term(env), gap.to().into_term(env)).encode(env),
        }
    }
}

#[rustler::nif]
fn close_tail(following: ResourceArc<Following>) -> Atom {
    following.tail.close();
    atoms::ok()
}
