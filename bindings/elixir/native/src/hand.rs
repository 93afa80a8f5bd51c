//! What was handed out to Elixir and has no verdict yet.

use crate::argument::{bytes, elements, is_word, number, time};
use crate::atoms;
use crate::consumer::Consuming;
use crate::error::{Refusal, call, refused, settled_already};
use crate::message::Message;
use crate::reply::answer_later;
use crate::term::IntoTerm;
use echomq::{Delivery, Failure, Worker};
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, NifResult, Resource, ResourceArc, Term};
use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// From how many bytes on the entries of one answer are made into terms elsewhere than on the thread of the connections.
const LARGE: usize = 1024 * 1024;

/// Entries in the hands of one who takes them, until their verdicts.
///
/// Whoever dies gives no verdict, so that a hand is told: by its own monitor when the consumer's owner ends, and by the
/// owner when a worker ends ([`leave`]).
pub(crate) struct Hand {
    consuming: ResourceArc<Consuming>,
    taker: Taker,
    held: Mutex<Held>,
}

enum Taker {
    /// The owner itself, which begins each entry as soon as it has it.
    Owner,
    /// A worker that handles what it takes one by one.
    Each(Worker),
    /// A worker that handles what it takes at once.
    Batch(Worker),
}

#[derive(Default)]
struct Held {
    /// By the number that Elixir knows it by; numbers go up.
    deliveries: BTreeMap<u64, Delivery>,
    last: u64,
    /// Deliveries up to this number were begun.
    begun: u64,
    left: bool,
}

impl RefUnwindSafe for Hand {}

#[rustler::resource_impl]
impl Resource for Hand {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _: Env<'a>, _: LocalPid, _: Monitor) {
        let (begun, unbegun) = self.end();
        // Without a verdict: nobody knows how far the handler came.
        drop(begun);
        Delivery::give_back_all(unbegun);
    }
}

impl Hand {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self, max: usize, within: Option<Duration>) -> echomq::Result<Option<Vec<Delivery>>> {
        match &self.taker {
            Taker::Owner => in_time(within, self.consuming.consumer.take(max)).await,
            Taker::Each(worker) => in_time(within, worker.take(max)).await,
            Taker::Batch(worker) => in_time(within, worker.next_batch()).await,
        }
    }

    /// Takes out the deliveries of those numbers, and says whether all of them were there.
    fn take_out(&self, numbers: Term<'_>) -> Result<(Vec<Delivery>, bool), Refusal> {
        let numbers = elements(numbers, "the deliveries")?
            .map(|delivery| number(delivery?, "a delivery"))
            .collect::<Result<Vec<u64>, _>>()?;
        let mut held = self.held();
        let deliveries: Vec<_> =
            numbers.iter().filter_map(|delivery| held.deliveries.remove(delivery)).collect();
        let all = deliveries.len() == numbers.len();
        Ok((deliveries, all))
    }

    /// Takes out what was not begun.
    fn take_unbegun(&self) -> Vec<Delivery> {
        let mut held = self.held();
        let behind = held.begun + 1;
        held.deliveries.split_off(&behind).into_values().collect()
    }

    /// Ends it: what was begun, and the rest.
    fn end(&self) -> (Vec<Delivery>, Vec<Delivery>) {
        self.held().left = true;
        let unbegun = self.take_unbegun();
        let begun = mem::take(&mut self.held().deliveries);
        (begun.into_values().collect(), unbegun)
    }
}

/// Nothing where there is no answer in time.
async fn in_time<T>(
    within: Option<Duration>,
    answer: impl Future<Output = echomq::Result<T>>,
) -> echomq::Result<Option<T>> {
    match within {
        None => answer.await.map(Some),
        Some(within) => timeout(within, answer).await.ok().transpose(),
    }
}

/// A hand for `:owner`, `{:each, worker}` or `{:batch, worker}`. For the owner of the consumer to call.
#[rustler::nif]
fn hand<'a>(env: Env<'a>, consuming: ResourceArc<Consuming>, taker: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let taker = match taker.decode::<(Term<'_>, usize)>() {
            Ok((kind, worker)) if is_word(kind, "each") => Taker::Each(consuming.consumer.worker(worker)?),
            Ok((kind, worker)) if is_word(kind, "batch") => Taker::Batch(consuming.consumer.worker(worker)?),
            _ if is_word(taker, "owner") => Taker::Owner,
            _ => return Err(Refusal::argument("a taker is :owner, {:each, worker} or {:batch, worker}")),
        };
        let owner = consuming.owner;
        let hand = ResourceArc::new(Hand { consuming, taker, held: Mutex::default() });
        hand.monitor(Some(env), &owner);
        Ok((atoms::ok(), hand).encode(env))
    })
}

/// Takes up to that many entries, waiting for the first within that time: none where there was none, nil at the end.
#[rustler::nif]
fn take<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    hand: ResourceArc<Hand>,
    max: Term<'a>,
    within: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        if matches!(hand.taker, Taker::Owner) && env.pid() != hand.consuming.owner {
            return Err(Refusal::argument("only the process that started the consumer takes from it"));
        }
        let max = number(max, "how many entries to take")?;
        if max == 0 {
            return Err(Refusal::argument("how many entries to take must be a whole number from 1"));
        }
        let within = time(within, "the time to wait")?;
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        answer_later(env, tag, async move { Taken { answer: hand.take(max, within).await, hand } })
    })
}

/// What was taken, on its way to Elixir.
struct Taken {
    answer: echomq::Result<Option<Vec<Delivery>>>,
    hand: ResourceArc<Hand>,
}

impl IntoTerm for Taken {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        let deliveries = match self.answer {
            Err(error) => return refused(env, error),
            Ok(None) => return (atoms::ok(), Term::list_new_empty(env)).encode(env),
            Ok(Some(deliveries)) if deliveries.is_empty() => return (atoms::ok(), atoms::nil()).encode(env),
            Ok(Some(deliveries)) => deliveries,
        };
        let first = self.hand.held().last + 1;
        let (hand, group) = (self.hand.encode(env), deliveries[0].group().to_owned().into_term(env));
        let message = |(delivery, number)| Message { delivery, number, hand, group }.into_term(env);
        let messages: Vec<_> = deliveries.iter().zip(first..).map(message).collect();
        let mut held = self.hand.held();
        if held.left {
            drop(held);
            Delivery::give_back_all(deliveries);
            return (atoms::ok(), atoms::nil()).encode(env);
        }
        held.last += deliveries.len() as u64;
        if matches!(self.hand.taker, Taker::Owner) {
            held.begun = held.last;
        }
        held.deliveries.extend((first..).zip(deliveries));
        (atoms::ok(), messages).encode(env)
    }

    fn is_large(&self) -> bool {
        let size = |delivery: &Delivery| {
            delivery.record().fields().iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
        };
        match &self.answer {
            Ok(Some(deliveries)) => deliveries.iter().map(size).sum::<usize>() > LARGE,
            _ => false,
        }
    }
}

/// `:ok`, or `:state` where one of them had its verdict already.
fn answer(env: Env<'_>, all: bool) -> Term<'_> {
    if all { atoms::ok().encode(env) } else { settled_already(env) }
}

#[rustler::nif]
fn ack<'a>(env: Env<'a>, hand: ResourceArc<Hand>, numbers: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let (deliveries, all) = hand.take_out(numbers)?;
        Delivery::ack_all(deliveries);
        Ok(answer(env, all))
    })
}

/// Fails them for a reason; they come back after that many milliseconds, or as the consumer's options say for nil.
#[rustler::nif]
fn fail<'a>(
    env: Env<'a>,
    hand: ResourceArc<Hand>,
    numbers: Term<'a>,
    reason: Term<'a>,
    delay: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let failure = Failure::new(bytes(reason, "the reason")?);
        let failure = match is_word(delay, "nil") {
            true => failure,
            false => failure.after(Duration::from_millis(number(delay, "the delay in milliseconds")?)),
        };
        let (deliveries, all) = hand.take_out(numbers)?;
        deliveries.into_iter().for_each(|delivery| delivery.fail(failure.clone()));
        Ok(answer(env, all))
    })
}

#[rustler::nif]
fn give_back<'a>(env: Env<'a>, hand: ResourceArc<Hand>, numbers: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let (deliveries, all) = hand.take_out(numbers)?;
        Delivery::give_back_all(deliveries);
        Ok(answer(env, all))
    })
}

/// Shows a sign of life for one.
#[rustler::nif]
fn extend<'a>(env: Env<'a>, hand: ResourceArc<Hand>, delivery: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let delivery = number(delivery, "a delivery")?;
        let held = hand.held();
        let found = held.deliveries.get(&delivery);
        if let Some(delivery) = found {
            delivery.extend();
        }
        Ok(answer(env, found.is_some()))
    })
}

/// Whether a worker may begin a delivery, or all up to it in a batch: not once the consumer is paused or stopped.
#[rustler::nif]
fn begin(hand: ResourceArc<Hand>, delivery: u64) -> bool {
    let mut held = hand.held();
    let begins = hand.consuming.hands_out() && held.deliveries.contains_key(&delivery);
    if begins {
        held.begun = delivery;
    }
    begins
}

/// Gives back what a worker has not begun.
#[rustler::nif]
fn give_back_unbegun(hand: ResourceArc<Hand>) -> Atom {
    Delivery::give_back_all(hand.take_unbegun());
    atoms::ok()
}

/// Ends a worker's hand: what it had begun failed for that reason, the rest is given back.
#[rustler::nif]
fn leave<'a>(env: Env<'a>, hand: ResourceArc<Hand>, reason: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let failure = Failure::new(bytes(reason, "the reason")?);
        let (begun, unbegun) = hand.end();
        begun.into_iter().for_each(|delivery| delivery.fail(failure.clone()));
        Delivery::give_back_all(unbegun);
        Ok(atoms::ok().encode(env))
    })
}
