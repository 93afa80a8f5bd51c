//! Tails: following a stream.

use crate::argument::{count, number, text, time};
use crate::atoms;
use crate::client::{Connection, stream};
use crate::error::{Refusal, call};
use crate::reply::{Question, answer_later, wake};
use crate::term::{IntoTerm, PART};
use echomq::{Start, Tail, TailOptions, Tailed};
use rustler::schedule::consume_timeslice;
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, NifResult, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;
use std::time::Duration;

/// A tail that ends with the process it was opened for.
struct Following {
    tail: Tail,
    owner: LocalPid,
    asked: Question,
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
        answer_later(env, tag, async move {
            opened.await.map(|tail| Following { tail, owner, asked: Question::default() })
        })
    })
}

/// Waits until there is something to take, at most that long, and has `:ready` or `:timeout` sent.
#[rustler::nif]
fn await_tail<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    following: ResourceArc<Following>,
    within: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        check_owner(env, &following)?;
        let (tail, within) = (following.tail.clone(), time(within, "the time to wait")?);
        wake(env, tag, within, async move { tail.ready().await })
    })
}

/// Has `:ready` sent once there is something to take. The next question takes the place of this one.
#[rustler::nif]
fn ask_tail<'a>(env: Env<'a>, tag: Term<'a>, following: ResourceArc<Following>) -> NifResult<Term<'a>> {
    call(env, || {
        check_owner(env, &following)?;
        let tail = following.tail.clone();
        following.asked.ask(env, tag, async move { tail.ready().await })
    })
}

/// Takes the question back; false where its answer is there, or on its way.
#[rustler::nif]
fn take_back_tail(following: ResourceArc<Following>) -> bool {
    following.asked.take_back()
}

/// The next entries that are there, up to that many and to what one call makes into terms: none where there is none, nil at
/// the end.
#[rustler::nif]
fn take_tail<'a>(env: Env<'a>, following: ResourceArc<Following>, max: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        check_owner(env, &following)?;
        let max = number(max, "how many records to take")?;
        if max == 0 {
            return Err(Refusal::argument("how many records to take must be a whole number from 1"));
        }
        let max = usize::try_from(max).unwrap_or(usize::MAX).min(MOST);
        let Some(mut entries) = following.tail.wait_take(max, Duration::ZERO)? else {
            return Ok((atoms::ok(), Term::list_new_empty(env)).encode(env));
        };
        if entries.is_empty() {
            return Ok((atoms::ok(), atoms::nil()).encode(env));
        }
        let (mut cost, mut fits) = (0, 0);
        while cost < SLICE && fits < entries.len() {
            cost += entries[fits].cost();
            fits += 1;
        }
        let rest = entries.split_off(fits);
        if !rest.is_empty() {
            following.tail.give_back(rest);
        }
        consume_timeslice(env, (25 * cost / SLICE).clamp(1, 100) as i32);
        Ok((atoms::ok(), entries.into_term(env)).encode(env))
    })
}

/// How much one call makes into terms, as costs are counted: about a quarter of what the VM gives a process at a time.
const SLICE: usize = 128 * 1024;

/// How many entries one call takes at most: a slice has no more of the shortest.
const MOST: usize = 512;

fn check_owner(env: Env<'_>, following: &Following) -> Result<(), Refusal> {
    if env.pid() == following.owner {
        return Ok(());
    }
    Err(Refusal::argument("only the process that opened the tail takes from it"))
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

    fn cost(&self) -> usize {
        match self {
            Self::Record(record) => record.cost(),
            Self::Gap(_) => PART,
        }
    }
}

#[rustler::nif]
fn close_tail(following: ResourceArc<Following>) -> Atom {
    following.tail.close();
    atoms::ok()
}
