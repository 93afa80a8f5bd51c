//! What JavaScript gives this module: the functions that make an environment's errors and arrays, and a completion queue for
//! each copy of the package.
//!
//! The main thread and every worker are environments of their own; each loads the module and installs itself. A test runner
//! loads the package's JavaScript several times into one environment, and the native module once.

use crate::completion::Queue;
use napi::bindgen_prelude::{FnArgs, Function, FunctionRef, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// Code, message, subject, id, top, whether asking again can help, and the error that led to it.
pub(crate) type ErrorParts = FnArgs<(
    &'static str,
    String,
    Option<String>,
    Option<String>,
    Option<String>,
    bool,
    Option<Unknown<'static>>,
)>;

/// An installed environment. The copy of the package that was installed last makes its errors and arrays.
pub(crate) struct Host {
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

/// A copy of the package, whose calls are answered to it.
#[napi]
pub struct NativeCopy {
    pub(crate) queue: Arc<Queue>,
}

/// Prepares an environment for a copy of the package: `settle` is called with the answers that have come, as slot, answer, slot, answer …;
/// `make_error` makes an error of its parts, and `make_array` an array of its arguments.
#[napi(catch_unwind)]
pub fn install(
    env: Env,
    settle: Function<'_, (), ()>,
    make_error: Function<'_, ErrorParts, Unknown<'static>>,
    make_array: Function<'_, (), Unknown<'static>>,
) -> Result<NativeCopy> {
    let queue = Arc::new(Queue::new(&settle)?);
    let host = Host { make_error: make_error.create_ref()?, make_array: make_array.create_ref()? };
    env.set_instance_data(host, (), |_| ())?;
    Ok(NativeCopy { queue })
}
