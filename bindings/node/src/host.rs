//! What one JavaScript environment has: its completion queue, and the functions that make its errors and arrays.
//!
//! The main thread and every worker are environments of their own; each loads the module and installs itself.

use crate::completion::Queue;
use napi::bindgen_prelude::{FnArgs, Function, FunctionRef, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// Code, message, subject, id and top of an error.
type ErrorParts = FnArgs<(&'static str, String, Option<String>, Option<String>, Option<String>)>;

/// An installed environment.
pub(crate) struct Host {
    pub(crate) queue: Arc<Queue>,
    pub(crate) make_error: FunctionRef<ErrorParts, Unknown<'static>>,
    pub(crate) make_array: FunctionRef<(), Unknown<'static>>,
}

impl Host {
    /// The host of an environment; fails before [`install`].
    pub(crate) fn of(env: &Env) -> Result<&'static Self> {
        match env.get_instance_data::<Self>()? {
            Some(host) => Ok(host),
            None => Err(napi::Error::from_reason("the native module of echomq is not installed")),
        }
    }
}

/// Prepares an environment: `settle` is called with the answers that have come, as slot, answer, slot, answer …;
/// `make_error` makes an error of code, message, subject, id and top, and `make_array` an array of its arguments.
#[napi(catch_unwind)]
pub fn install(
    env: Env,
    settle: Function<'_, (), ()>,
    make_error: Function<'_, ErrorParts, Unknown<'static>>,
    make_array: Function<'_, (), Unknown<'static>>,
) -> Result<()> {
    let queue = Arc::new(Queue::new(&settle)?);
    let host = Host { queue, make_error: make_error.create_ref()?, make_array: make_array.create_ref()? };
    env.set_instance_data(host, (), |_| ())
}
