//! Batches: many records, read in slices so that a large list keeps no scheduler for long.

use crate::argument::number;
use crate::error::{Refusal, call};
use crate::fields::{Parts, Record};
use crate::reply::MANY;
use rustler::schedule::consume_timeslice;
use rustler::{Encoder, Env, NifResult, Resource, ResourceArc, Term};
use std::mem;
use std::panic::RefUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How much one call reads, as [`Record::cost`] has it.
const SLICE: usize = 128 * 1024;

/// The records read so far.
pub(crate) struct Batch(Mutex<Vec<Record>>);

impl RefUnwindSafe for Batch {}

#[rustler::resource_impl]
impl Resource for Batch {}

impl Batch {
    fn records(&self) -> MutexGuard<'_, Vec<Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records, of which none is left behind.
    pub(crate) fn take(&self) -> Vec<Record> {
        mem::take(&mut *self.records())
    }
}

/// Whether so many or such records are to be given to the core elsewhere than on a scheduler.
pub(crate) fn is_large(records: &[Record]) -> bool {
    records.len() > MANY || records.iter().any(|record| matches!(record, Record::Large(_)))
}

/// A batch with room for that many records.
#[rustler::nif]
fn batch<'a>(env: Env<'a>, records: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let records = number(records, "the number of records")?;
        // Growing would copy all of it, in one go.
        let room = Vec::with_capacity(records.min(1 << 20) as usize);
        Ok(ResourceArc::new(Batch(Mutex::new(room))).encode(env))
    })
}

/// Reads records off a list and returns what is left of it.
#[rustler::nif]
fn batch_add<'a>(env: Env<'a>, batch: ResourceArc<Batch>, records: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let mut batch = batch.records();
        let (mut left, mut cost, mut parts) = (records, 0, Parts::default());
        while cost < SLICE {
            let Ok((record, rest)) = left.list_get_cell() else { break };
            let record = parts.record(record).map_err(|refusal| numbered(refusal, batch.len() + 1))?;
            cost += record.cost();
            batch.push(record);
            left = rest;
        }
        // A slice takes about a quarter of what the VM gives a process at a time.
        consume_timeslice(env, (25 * cost / SLICE).clamp(1, 100) as i32);
        Ok(left)
    })
}

fn numbered(refusal: Refusal, record: usize) -> Refusal {
    match refusal {
        Refusal::Argument(why) => Refusal::Argument(format!("record {record} of the batch: {why}")),
        refusal => refusal,
    }
}
