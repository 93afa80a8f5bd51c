//! Errors: the core's become errors of JavaScript's, and so do panics.

use crate::answer::{Value, value};
use crate::host::Host;
use napi::bindgen_prelude::{FnArgs, Unknown, panic_to_error};
use napi::{Env, Result, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Makes an error of JavaScript's, by the function that the environment was installed with.
pub(crate) fn make_error(env: &Env, error: &echomq::Error) -> Result<Value> {
    value(env, unknown(env, error)?)
}

fn unknown(env: &Env, error: &echomq::Error) -> Result<Unknown<'static>> {
    let make = Host::of(env)?.make_error.borrow_back(env)?;
    let text = |text: Option<&str>| text.map(str::to_owned);
    let parts = (
        error.code().as_str(),
        error.message().to_owned(),
        text(error.subject()),
        text(error.id()),
        text(error.top()),
        error.is_retryable(),
        error.cause().map(|cause| unknown(env, cause)).transpose()?,
    );
    make.call(FnArgs::from(parts))
}

/// The value, or an exception that is thrown when the call returns.
pub(crate) fn or_throw<T>(env: &Env, result: echomq::Result<T>) -> Result<T> {
    result.map_err(|error| match make_error(env, &error).and_then(|error| env.throw(error)) {
        Ok(()) => napi::Error::from_status(Status::PendingException),
        Err(error) => error,
    })
}

/// A `TypeError` that is thrown when the call returns.
pub(crate) fn type_error(env: &Env, sentence: &str) -> napi::Error {
    match env.throw_type_error(sentence, None) {
        Ok(()) => napi::Error::from_status(Status::PendingException),
        Err(error) => error,
    }
}

/// Runs what may panic, and makes a panic an error.
pub(crate) fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).map_err(panic_to_error).flatten()
}
