//! Defects on purpose. Only the tests call them, to see that a panic ends in an exception and harms nothing else.

use crate::answer::{IntoJs, Value};
use crate::completion::Ticket;
use crate::host::NativeCopy;
use napi::{Env, Result};
use napi_derive::napi;

/// Panics on the caller's thread.
#[napi(catch_unwind)]
pub fn panic_in_call() {
    defect();
}

/// Answers with something that panics when it is made into a value.
#[napi(catch_unwind)]
pub fn panic_in_answer(copy: &NativeCopy, slot: u32) {
    Ticket::new(&copy.queue, slot).answer(Defect);
}

/// Panics on a thread of the runtime's, before there is an answer.
#[napi(catch_unwind)]
pub fn panic_in_task(copy: &NativeCopy, slot: u32) {
    Ticket::new(&copy.queue, slot).answer_from(async {
        defect();
        Ok(0_u64)
    });
}

struct Defect;

impl IntoJs for Defect {
    fn into_js(self, _: &Env) -> Result<Value> {
        defect();
        Ok(std::ptr::null_mut())
    }
}

#[allow(clippy::panic)]
fn defect() {
    panic!("a defect on purpose");
}
