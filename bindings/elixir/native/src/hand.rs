//! What was handed out to Elixir and has no verdict yet.

use crate::argument::{bytes, elements, is_word, number, time};
use crate::atoms;
use crate::consumer::Consuming;
use crate::error::{Refusal, call, settled_already};
use crate::message::Message;
use crate::reply::{Question, wake};
use crate::term::{IntoTerm, fields_cost};
use echomq::{Delivery, Failure, Worker};
use rustler::schedule::consume_timeslice;
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, NifResult, Resource, ResourceArc, Term};
use std::collections::BTreeMap;
use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How much of what was taken one call makes into messages, as costs are counted.
const SLICE: usize = 128 * 1024;

/// Entries in the hands of one who takes them, until their verdicts.
///
/// Whoever dies gives no verdict, so that a hand is told: by its own monitor when the consumer's owner ends, and by the
/// owner when a worker ends ([`leave`]).
pub(crate) struct Hand {
    consuming: ResourceArc<Consuming>,
    taker: Taker,
    held: Mutex<Held>,
    asked: Question,
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
    /// Deliveries up to this number were made into messages.
    shown: u64,
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

    /// Waits until there is something to take, or the end.
    async fn ready(&self) {
        match &self.taker {
            Taker::Owner => self.consuming.consumer.ready().await,
            Taker::Each(worker) => worker.ready().await,
            Taker::Batch(worker) => worker.batch_ready().await,
        }
    }

    /// What is there; nothing where there is nothing, an empty list at the end.
    fn take(&self, max: usize) -> echomq::Result<Option<Vec<Delivery>>> {
        match &self.taker {
            Taker::Owner => self.consuming.consumer.wait_next(max, Duration::ZERO),
            Taker::Each(worker) => worker.wait_take(max, Duration::ZERO),
            Taker::Batch(worker) => worker.ready_batch(),
        }
    }

    /// Keeps what was taken until its verdict; false where nobody can give one any longer.
    fn keep(&self, deliveries: Vec<Delivery>) -> bool {
        let mut held = self.held();
        if held.left {
            drop(held);
            Delivery::give_back_all(deliveries);
            return false;
        }
        let first = held.last + 1;
        held.last += deliveries.len() as u64;
        held.deliveries.extend((first..).zip(deliveries));
        true
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

/// The owner alone takes from its hand. A worker's hand is known to that worker only.
fn check_taker(env: Env<'_>, hand: &Hand) -> Result<(), Refusal> {
    match &hand.taker {
        Taker::Owner if env.pid() != hand.consuming.owner => {
            Err(Refusal::argument("only the process that started the consumer takes from it"))
        }
        _ => Ok(()),
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
        let hand =
            ResourceArc::new(Hand { consuming, taker, held: Mutex::default(), asked: Question::default() });
        hand.monitor(Some(env), &owner);
        Ok((atoms::ok(), hand).encode(env))
    })
}

/// Waits until there is something to take, at most that long, and has `:ready` or `:timeout` sent.
#[rustler::nif]
fn await_entry<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    hand: ResourceArc<Hand>,
    within: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        check_taker(env, &hand)?;
        let within = time(within, "the time to wait")?;
        wake(env, tag, within, async move { hand.ready().await })
    })
}

/// Has `:ready` sent once there is something to take. The next question takes the place of this one.
#[rustler::nif]
fn ask_entry<'a>(env: Env<'a>, tag: Term<'a>, hand: ResourceArc<Hand>) -> NifResult<Term<'a>> {
    call(env, || {
        check_taker(env, &hand)?;
        let asked = hand.clone();
        hand.asked.ask(env, tag, async move { asked.ready().await })
    })
}

/// Takes the question back; false where its answer is there, or on its way.
#[rustler::nif]
fn take_back_entry(hand: ResourceArc<Hand>) -> bool {
    hand.asked.take_back()
}

/// Takes up to that many entries of those that are there: messages, and whether [`take_more`] has more of them. None where
/// there was none, nil at the end.
#[rustler::nif]
fn take<'a>(env: Env<'a>, hand: ResourceArc<Hand>, max: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        check_taker(env, &hand)?;
        let max = number(max, "how many entries to take")?;
        if max == 0 {
            return Err(Refusal::argument("how many entries to take must be a whole number from 1"));
        }
        let Some(deliveries) = hand.take(usize::try_from(max).unwrap_or(usize::MAX))? else {
            return Ok((atoms::ok(), Term::list_new_empty(env), false).encode(env));
        };
        if deliveries.is_empty() || !hand.keep(deliveries) {
            return Ok((atoms::ok(), atoms::nil(), false).encode(env));
        }
        Ok(show(env, &hand))
    })
}

/// More of what [`take`] has taken, and whether there is more still.
#[rustler::nif]
fn take_more(env: Env<'_>, hand: ResourceArc<Hand>) -> Term<'_> {
    show(env, &hand)
}

/// A slice of what was taken and not shown yet, so that much of it keeps no scheduler for long.
fn show<'a>(env: Env<'a>, hand: &ResourceArc<Hand>) -> Term<'a> {
    let term = hand.encode(env);
    let mut held = hand.held();
    let (mut messages, mut cost, mut shown, mut group) = (Vec::new(), 0, held.shown, None);
    for (number, delivery) in held.deliveries.range(shown + 1..) {
        let group = *group.get_or_insert_with(|| delivery.group().to_owned().into_term(env));
        messages.push(Message { delivery, number: *number, hand: term, group }.into_term(env));
        shown = *number;
        cost += fields_cost(delivery.record().fields());
        if cost >= SLICE {
            break;
        }
    }
    held.shown = shown;
    let more = held.deliveries.range(shown + 1..).next().is_some();
    if matches!(hand.taker, Taker::Owner) && !more {
        held.begun = shown;
    }
    drop(held);
    // A slice takes about a quarter of what the VM gives a process at a time.
    consume_timeslice(env, (25 * cost / SLICE).clamp(1, 100) as i32);
    (atoms::ok(), messages, more).encode(env)
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
