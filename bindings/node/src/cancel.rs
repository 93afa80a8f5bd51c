//! A token of the core that other processes can trip.

use crate::answer::{IntoJs, Value, value};
use crate::completion::{Queue, Ticket};
use crate::error::make_error;
use echomq::CancelToken;
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// A token. It watches until it is dropped.
#[napi]
pub struct NativeToken {
    token: CancelToken,
    queue: Arc<Queue>,
}

impl NativeToken {
    pub(crate) fn new(token: CancelToken, queue: Arc<Queue>) -> Self {
        Self { token, queue }
    }
}

impl IntoJs for NativeToken {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}

#[napi]
impl NativeToken {
    /// Why it has tripped.
    #[napi(catch_unwind)]
    pub fn reason(&self) -> Option<String> {
        self.token.reason().map(|reason| reason.to_string())
    }

    /// Answers the reason once it has tripped, and undefined where it was dropped before.
    #[napi(catch_unwind)]
    pub fn tripped(&self, slot: u32) {
        let told = Told(Some(Ticket::new(&self.queue, slot)));
        // The token has it, so that this does not keep the token.
        self.token.on_cancel(move |reason| told.answer(reason));
    }

    /// Why nothing is watched any longer.
    #[napi(catch_unwind)]
    pub fn error(&self, env: Env) -> Result<Option<Value>> {
        self.token.watch_error().map(|error| make_error(&env, &error)).transpose()
    }
}

/// Who is to be told of a token's reason.
struct Told(Option<Ticket>);

impl Told {
    fn answer(mut self, reason: &str) {
        if let Some(ticket) = self.0.take() {
            ticket.answer(reason.to_owned());
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(ticket) = self.0.take() {
            ticket.answer(());
        }
    }
}
