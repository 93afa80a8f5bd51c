//! What a door is to the calls that go through it.

use super::outage::is_told;
use super::settings::Settings;
use super::shared::Shared;
use crate::error::{Code, Error, Result};
use crate::operation::Operation;
use crate::operation::minter::Minter;
use crate::process::Origin;
use std::time::Duration;
use tokio::runtime::Handle as Runtime;

/// A way to the server: [`Shared`] or [`Local`](super::local::Local).
///
/// A call is written once for both; the door decides whether its answer is a future or there when the call returns.
pub trait Door: Clone + Send + Sync + 'static {
    /// The answer to a call.
    type Answer<T: Send + 'static>;

    /// Carries an operation out. One that could not even be made is answered with its error.
    fn run<O: Operation>(&self, operation: Result<O>) -> Self::Answer<O::Reply>;

    /// An answer that needs no server.
    fn ready<T: Send + 'static>(answer: Result<T>) -> Self::Answer<T>;

    /// Runs a future that several connections take part in, on the runtime of the client's.
    fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Self::Answer<T>;

    /// The door that tasks of the client's use: itself, or one beside it where its calls wait on threads.
    fn shared(&self) -> impl Future<Output = Result<Shared>> + Send;

    /// The door again, while someone else holds it too.
    fn weak(&self) -> impl Fn() -> Option<Self> + Send + Sync + 'static;

    /// Where tasks of the client's run. Fails with `state` where the system gives no thread for one.
    fn runtime(&self) -> Result<Runtime>;

    /// Carries an operation of the client's own out, from a task.
    fn run_aside<O: Operation>(self, operation: O) -> impl Future<Output = Result<O::Reply>> + Send;

    /// What the client was made with.
    fn settings(&self) -> &Settings;

    /// What makes its ids.
    fn minter(&self) -> &Minter;

    /// The process that made it.
    fn origin(&self) -> Origin;

    /// How the connection stands.
    fn status(&self) -> Status;
}

/// How a client's connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Whether there is a connection, as far as the client has noticed.
    pub connected: bool,
    /// How often the client has connected again.
    pub reconnects: u64,
    /// Why there is no connection.
    pub error: Option<Error>,
}

/// The client was closed.
pub(crate) fn closed() -> Error {
    Error::new(Code::Closed, "the client is closed")
}

/// The server is no primary any more, so the connection to it is closed and its address looked up anew.
pub(crate) fn demoted(settings: &Settings) -> Error {
    Error::new(Code::Disconnected, "the server is no primary any more; its address is looked up anew")
        .about(settings.endpoint.to_string())
}

/// The connection was given up.
pub(crate) fn silent(settings: &Settings, silence: Duration) -> Error {
    Error::new(Code::Disconnected, format!("the server was silent for {} ms", silence.as_millis()))
        .about(settings.endpoint.to_string())
}

/// Nothing was heard in time; `cause` is why there is no connection, if there is none.
pub(crate) fn too_late(cause: Option<&Error>) -> Error {
    cause.map_or_else(|| Error::new(Code::Timeout, "no answer came in time"), no_connection)
}

/// What a call fails with for want of a connection: one code for one cause.
pub(crate) fn no_connection(cause: &Error) -> Error {
    let code = if is_told(cause.code()) { cause.code() } else { Code::Disconnected };
    let error = Error::new(code, cause.message()).because(cause.clone());
    match cause.subject() {
        Some(subject) => error.about(subject),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_code_for_one_cause() {
        for (cause, code) in [
            (Code::Disconnected, Code::Disconnected),
            (Code::Server, Code::Disconnected),
            (Code::Timeout, Code::Disconnected),
            (Code::Auth, Code::Auth),
            (Code::Tls, Code::Tls),
            (Code::VersionFence, Code::VersionFence),
            (Code::UnsupportedServer, Code::UnsupportedServer),
            (Code::Unavailable, Code::Unavailable),
        ] {
            let cause = Error::new(cause, "because of that").about("h:6379");
            let error = too_late(Some(&cause));
            assert_eq!((error.code(), error.cause()), (code, Some(&cause)));
            assert_eq!((error.message(), error.subject()), ("because of that", Some("h:6379")));
        }
        assert_eq!(too_late(None).code(), Code::Timeout);
    }
}
