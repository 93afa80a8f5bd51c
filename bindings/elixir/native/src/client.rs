//! The client of a connector.

use crate::argument::{elements, text, time};
use crate::atoms;
use crate::error::{Refusal, call};
use crate::reply::{answer, answer_later};
use crate::term::IntoTerm;
use echomq::{Client, Options, runtime};
use rustler::{Encoder, Env, LocalPid, Monitor, NifResult, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;
use std::time::Duration;

/// What a client is to be made with. It shows nothing of it, so that no secret gets into a log.
struct Settings(Options);

impl RefUnwindSafe for Settings {}

#[rustler::resource_impl]
impl Resource for Settings {}

/// A client that ends with the process it was made for.
pub(crate) struct Connection(pub(crate) Client);

impl RefUnwindSafe for Connection {}

#[rustler::resource_impl]
impl Resource for Connection {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _: Env<'a>, _: LocalPid, _: Monitor) {
        if let Ok(runtime) = runtime() {
            let client = self.0.clone();
            runtime.spawn(async move { client.close(Duration::ZERO).await });
        }
    }
}

/// Reads a URL and a list of options, names and values as text.
#[rustler::nif]
fn options<'a>(env: Env<'a>, url: Term<'a>, named: Term<'a>) -> NifResult<Term<'a>> {
    call(env, || {
        let mut options = Options::new(&text(url, "the option url")?)?;
        for option in elements(named, "the options")? {
            let (name, value): (Term<'_>, Term<'_>) =
                option?.decode().map_err(|_| Refusal::argument("an option must be a name and a value"))?;
            let name = text(name, "the name of an option")?;
            options.set(&name, &text(value, &format!("the option {name}"))?)?;
        }
        Ok((atoms::ok(), ResourceArc::new(Settings(options))).encode(env))
    })
}

/// The names of all options.
#[rustler::nif]
fn option_names() -> Vec<&'static str> {
    Options::NAMES.to_vec()
}

/// Connects, for the calling process.
#[rustler::nif]
fn connect<'a>(env: Env<'a>, tag: Term<'a>, settings: ResourceArc<Settings>) -> NifResult<Term<'a>> {
    call(env, || {
        let owner = env.pid();
        answer_later(env, tag, async move {
            <Client>::connect(&settings.0).await.map(|client| Owned { client, owner })
        })
    })
}

/// A client and the process it is for.
struct Owned {
    client: Client,
    owner: LocalPid,
}

impl IntoTerm for Owned {
    /// Made on the runtime, where a monitor needs no calling process. An owner that is gone already gets no monitor and
    /// no message, so that the connection is dropped with the last reference to it.
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        let connection = ResourceArc::new(Connection(self.client));
        connection.monitor(None, &self.owner);
        connection.encode(env)
    }
}

/// Closes and answers how many calls were given up.
#[rustler::nif]
fn close<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    within: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let within = time(within, "the time to close within")?.unwrap_or(Duration::MAX);
        let client = connection.0.clone();
        answer_later(env, tag, async move { client.close(within).await })
    })
}

/// Whether there is a connection, and how often it was made again.
#[rustler::nif]
fn status(connection: ResourceArc<Connection>) -> (bool, u64) {
    let status = connection.0.status();
    (status.connected, status.reconnects)
}

/// Makes one id.
#[rustler::nif]
fn mint<'a>(env: Env<'a>, tag: Term<'a>, connection: ResourceArc<Connection>) -> NifResult<Term<'a>> {
    call(env, || Ok(answer(env, tag, connection.0.mint())))
}

/// The version of the core.
#[rustler::nif]
fn core_version() -> &'static str {
    echomq::VERSION
}

/// The stream of a queue.
pub(crate) fn stream(
    connection: &Connection,
    queue: Term<'_>,
    name: Term<'_>,
) -> Result<echomq::Stream, Refusal> {
    Ok(connection.0.stream(&text(queue, "the queue")?, &text(name, "the stream")?)?)
}
