//! The client of a connector.

use crate::argument::{elements, is_word, text, time};
use crate::atoms;
use crate::error::{Refusal, call};
use crate::notice::Telling;
use crate::reply::{answer, answer_later};
use crate::term::IntoTerm;
use echomq::{Client, NodeLease, Options, Writers, runtime};
use rustler::{
    Atom, Encoder, Env, LocalPid, Monitor, NifMap, NifResult, OwnedEnv, Resource, ResourceArc, Term,
};
use std::panic::RefUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

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

/// The options with a password that a process is asked for, by the message `{:emq_password, question}`, whenever a connection is
/// opened.
#[rustler::nif]
fn ask_password(settings: ResourceArc<Settings>, process: LocalPid) -> ResourceArc<Settings> {
    ResourceArc::new(Settings(settings.0.clone().password_from(move || ask(process))))
}

/// Who waits for a password.
struct PasswordQuestion(Mutex<Option<oneshot::Sender<Option<String>>>>);

impl RefUnwindSafe for PasswordQuestion {}

#[rustler::resource_impl]
impl Resource for PasswordQuestion {}

mod words {
    rustler::atoms! { emq_password }
}

async fn ask(process: LocalPid) -> Result<String, &'static str> {
    let (sender, password) = oneshot::channel();
    let question = ResourceArc::new(PasswordQuestion(Mutex::new(Some(sender))));
    // Where the process is gone, the question is dropped, and with it the sender.
    let _gone = OwnedEnv::new().send_and_clear(&process, |env| (words::emq_password(), question).encode(env));
    match password.await {
        Ok(Some(password)) => Ok(password),
        Ok(None) => Err("it gave no text"),
        Err(_) => Err("its process has ended"),
    }
}

/// Answers a question for a password; nil where there is none.
#[rustler::nif]
fn answer_password(question: ResourceArc<PasswordQuestion>, password: Option<String>) -> Atom {
    let sender = question.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(sender) = sender {
        let _given_up = sender.send(password);
    }
    atoms::ok()
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

/// Whether there is a connection, how often it was made again, and why there is none.
#[rustler::nif]
fn status(env: Env<'_>, connection: ResourceArc<Connection>) -> Term<'_> {
    let status = connection.0.status();
    (status.connected, status.reconnects, status.error.into_term(env)).encode(env)
}

/// What a client tells.
#[rustler::nif]
fn client_notices(connection: ResourceArc<Connection>) -> ResourceArc<Telling> {
    ResourceArc::new(Telling(connection.0.notices()))
}

/// Makes one id, once the client has a node.
#[rustler::nif]
fn mint<'a>(env: Env<'a>, tag: Term<'a>, connection: ResourceArc<Connection>) -> NifResult<Term<'a>> {
    call(env, || answer(env, tag, connection.0.mint()))
}

/// Who holds which node.
#[rustler::nif]
fn nodes<'a>(env: Env<'a>, tag: Term<'a>, connection: ResourceArc<Connection>) -> NifResult<Term<'a>> {
    call(env, || answer(env, tag, connection.0.nodes()))
}

#[derive(NifMap)]
struct Lease {
    node: u16,
    owner: String,
    left: u64,
    host: String,
    process: String,
    client_name: String,
}

impl IntoTerm for NodeLease {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        let Self { node, owner, left, host, process, client_name, .. } = self;
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Lease { node, owner, left, host, process, client_name }.encode(env)
    }
}

/// The version of the core.
#[rustler::nif]
fn core_version() -> &'static str {
    echomq::VERSION
}

/// The stream of a queue: its name, or the name and who writes it, `{name, :one}` or `{name, :many}`.
pub(crate) fn stream(
    connection: &Connection,
    queue: Term<'_>,
    name: Term<'_>,
) -> Result<echomq::Stream, Refusal> {
    let (name, writers) = match name.decode::<(Term<'_>, Term<'_>)>() {
        Ok((name, writers)) if is_word(writers, "many") => (name, Writers::Many),
        Ok((name, writers)) if is_word(writers, "one") => (name, Writers::One),
        _ => (name, Writers::One),
    };
    let stream = connection.0.stream(&text(queue, "the queue")?, &text(name, "the stream")?)?;
    Ok(stream.writers(writers))
}
