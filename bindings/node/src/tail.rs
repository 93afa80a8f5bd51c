//! A tail of the core.

use crate::answer::{IntoJs, Value, array, row, value};
use crate::completion::{Queue, Ticket};
use echomq::{Tail, Tailed};
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// A tail.
#[napi]
pub struct NativeTail {
    tail: Tail,
    queue: Arc<Queue>,
}

/// Whoever waits for its records has a share of it too, and would wait for ever once it is forgotten.
impl Drop for NativeTail {
    fn drop(&mut self) {
        self.tail.close();
    }
}

impl NativeTail {
    pub(crate) fn new(tail: Tail, queue: Arc<Queue>) -> Self {
        Self { tail, queue }
    }
}

impl IntoJs for NativeTail {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}

#[napi]
impl NativeTail {
    /// Takes what there is; answers records and gaps, or undefined at the end.
    #[napi(catch_unwind)]
    pub fn take(&self, slot: u32) {
        let tail = self.tail.clone();
        Ticket::new(&self.queue, slot).answer_from(async move {
            let taken = tail.take(usize::MAX).await?;
            Ok(Some(taken).filter(|taken| !taken.is_empty()))
        });
    }

    /// Ends it.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.tail.close();
    }
}

/// A record as every record; a gap as undefined, then the entry ids at its ends.
impl IntoJs for Tailed {
    fn into_js(self, env: &Env) -> Result<Value> {
        match self {
            Tailed::Record(record) => row(env, &record),
            Tailed::Gap(gap) => {
                let ends = [gap.from(), gap.to()].map(|entry_id| value(env, entry_id.to_string()));
                array(env, [value(env, ())].into_iter().chain(ends))
            }
        }
    }
}
