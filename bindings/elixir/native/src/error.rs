//! Errors: the core's become `EchoMQ.Error`, arguments of a wrong type raise `ArgumentError`.

use crate::atoms;
use crate::term::{IntoTerm, word};
use echomq::Code;
use rustler::{Atom, Encoder, Env, NifException, NifResult, Term};

/// `EchoMQ.Error`.
#[derive(NifException)]
#[module = "EchoMQ.Error"]
struct Exception<'a> {
    code: Atom,
    message: String,
    subject: Option<String>,
    id: Option<String>,
    top: Option<String>,
    retryable: bool,
    cause: Option<Term<'a>>,
}

/// The exception of an error, with that of its cause.
fn exception<'a>(env: Env<'a>, error: &echomq::Error) -> Term<'a> {
    let text = |part: Option<&str>| part.map(str::to_owned);
    Exception {
        code: word(env, error.code().as_str()),
        message: error.message().to_owned(),
        subject: text(error.subject()),
        id: text(error.id()),
        top: text(error.top()),
        retryable: error.is_retryable(),
        cause: error.cause().map(|cause| exception(env, cause)),
    }
    .encode(env)
}

/// `ArgumentError`.
#[derive(NifException)]
#[module = "ArgumentError"]
struct ArgumentError {
    message: String,
}

/// Why a call ends before it has begun.
pub(crate) enum Refusal {
    /// The core refused it: `{:error, error}`.
    Core(echomq::Error),
    /// An argument has a type that makes no sense: an exception.
    Argument(String),
}

impl Refusal {
    pub(crate) fn argument(why: impl Into<String>) -> Self {
        Self::Argument(why.into())
    }
}

impl From<echomq::Error> for Refusal {
    fn from(error: echomq::Error) -> Self {
        Self::Core(error)
    }
}

/// Runs the body of a function and answers what Elixir gets.
pub(crate) fn call<'a>(
    env: Env<'a>,
    body: impl FnOnce() -> Result<Term<'a>, Refusal>,
) -> NifResult<Term<'a>> {
    match body() {
        Ok(answer) => Ok(answer),
        Err(Refusal::Core(error)) => Ok(refused(env, error)),
        Err(Refusal::Argument(message)) => {
            Err(rustler::Error::RaiseTerm(Box::new(ArgumentError { message })))
        }
    }
}

/// `{:error, error}`.
pub(crate) fn refused(env: Env<'_>, error: echomq::Error) -> Term<'_> {
    (atoms::error(), error.into_term(env)).encode(env)
}

/// What a second verdict on a delivery is answered with.
pub(crate) fn settled_already(env: Env<'_>) -> Term<'_> {
    let error = Exception {
        code: word(env, Code::State.as_str()),
        message: "a delivery has one verdict, and this one has had it or was given back".to_owned(),
        subject: None,
        id: None,
        top: None,
        retryable: false,
        cause: None,
    };
    (atoms::error(), error).encode(env)
}

impl IntoTerm for echomq::Error {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        exception(env, &self)
    }
}

/// The word of every code, in the core's order.
#[rustler::nif]
fn codes() -> Vec<&'static str> {
    Code::ALL.iter().map(|code| code.as_str()).collect()
}
