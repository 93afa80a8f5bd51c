//! Listeners on the events of a queue, and those who hear off them.

use crate::argument::{count, named_texts, number};
use crate::atoms;
use crate::client::Connection;
use crate::error::call;
use crate::event::{Taken, cost, end, message};
use crate::events::events;
use crate::notice::Telling;
use crate::reply::{LARGE, answer_later};
use crate::term::{Done, IntoTerm};
use crate::worker;
use echomq::{Heard, Listener, Subscriber, SubscriberOptions, runtime};
use rustler::{Atom, Encoder, Env, LocalPid, Monitor, NifResult, OwnedEnv, Resource, ResourceArc, Term};
use std::panic::RefUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// How many events are handed over before other work of the runtime gets its turn.
const SLICE: u64 = 64;

/// A listener that ends with the process it was made for.
struct Listening {
    listener: Listener,
    owner: LocalPid,
}

impl RefUnwindSafe for Listening {}

/// Those who hear would keep the subscription: the VM may drop a resource with its process before it tells that one's end.
impl Drop for Listening {
    fn drop(&mut self) {
        self.listener.close();
    }
}

#[rustler::resource_impl]
impl Resource for Listening {
    const IMPLEMENTS_DOWN: bool = true;

    fn down<'a>(&'a self, _: Env<'a>, _: LocalPid, _: Monitor) {
        self.listener.close();
    }
}

impl IntoTerm for Listening {
    /// See [`Consuming`](crate::consumer::Consuming).
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        let owner = self.owner;
        let listening = ResourceArc::new(self);
        listening.monitor(None, &owner);
        listening.encode(env)
    }
}

/// Listens for the calling process, once the server has confirmed it.
#[rustler::nif]
fn listen<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    connection: ResourceArc<Connection>,
    queue: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let listening = events(&connection, queue)?.listen();
        let owner = env.pid();
        answer_later(env, tag, async move { listening.await.map(|listener| Listening { listener, owner }) })
    })
}

/// The channel, whether the server sends events, how often it was subscribed to again, and why there is no connection.
#[rustler::nif]
fn listener_status<'a>(env: Env<'a>, listening: ResourceArc<Listening>) -> Term<'a> {
    let status = listening.listener.status();
    let error = status.error.into_term(env);
    (listening.listener.channel(), status.connected, status.resubscriptions, error).encode(env)
}

/// What a listener tells beside its events.
#[rustler::nif]
fn listener_notices(listening: ResourceArc<Listening>) -> ResourceArc<Telling> {
    ResourceArc::new(Telling(listening.listener.notices()))
}

/// Waits for the end of a listener: `:ok` where it was wanted, else the error.
#[rustler::nif]
fn until_listener_ends<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    listening: ResourceArc<Listening>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let listener = listening.listener.clone();
        answer_later(env, tag, async move { Done(listener.ended().await.map_or(Ok(()), Err)) })
    })
}

/// One who hears off a listener.
struct Hearing {
    subscriber: Subscriber,
    /// Whether payloads are given as their bytes.
    raw: bool,
    /// Whether nothing more is to be handed over.
    left: AtomicBool,
}

impl RefUnwindSafe for Hearing {}

#[rustler::resource_impl]
impl Resource for Hearing {}

/// Hears from now on: what, and for how many events there is room.
#[rustler::nif]
fn subscribe<'a>(
    env: Env<'a>,
    listening: ResourceArc<Listening>,
    named: Term<'a>,
    raw: bool,
) -> NifResult<Term<'a>> {
    call(env, || {
        let mut options = SubscriberOptions::new();
        for (name, value) in named_texts(named)? {
            options.set(&name, &value)?;
        }
        let subscriber = listening.listener.subscribe(options)?;
        let room = subscriber.buffer();
        let hearing = Hearing { subscriber, raw, left: AtomicBool::new(false) };
        Ok((atoms::ok(), (ResourceArc::new(hearing), room)).encode(env))
    })
}

/// The names of all options of one who hears.
#[rustler::nif]
fn subscriber_option_names() -> Vec<&'static str> {
    SubscriberOptions::NAMES.to_vec()
}

/// Hands nothing more over. What is being handed over at this moment still is.
#[rustler::nif]
fn unsubscribe(hearing: ResourceArc<Hearing>) -> Atom {
    hearing.left.store(true, Ordering::Relaxed);
    hearing.subscriber.close();
    atoms::ok()
}

/// Takes up to that many events, waiting for the first: nil at the end.
#[rustler::nif]
fn take_events<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    hearing: ResourceArc<Hearing>,
    max: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let max = usize::try_from(number(max, "how many events to take")?).unwrap_or(usize::MAX);
        answer_later(env, tag, async move {
            Taken { answer: hearing.subscriber.take(max).await, raw: hearing.raw }
        })
    })
}

/// How handing over came to its end.
enum Fed {
    /// As many messages were sent as there was room for.
    Spent,
    /// Nothing more is to be sent.
    Ended,
}

mod words {
    rustler::atoms! { spent, ended }
}

impl IntoTerm for Fed {
    fn into_term(self, env: Env<'_>) -> Term<'_> {
        match self {
            Self::Spent => words::spent().encode(env),
            Self::Ended => words::ended().encode(env),
        }
    }
}

/// Sends a process what is heard, that many messages or all, and then how hearing has ended.
#[rustler::nif]
fn feed<'a>(
    env: Env<'a>,
    tag: Term<'a>,
    hearing: ResourceArc<Hearing>,
    process: LocalPid,
    room: Term<'a>,
) -> NifResult<Term<'a>> {
    call(env, || {
        let room = count(room)?.unwrap_or(u64::MAX);
        answer_later(env, tag, async move { hearing.feed(process, room).await })
    })
}

impl Hearing {
    async fn feed(&self, process: LocalPid, room: u64) -> Fed {
        let mut left = room;
        while left > 0 {
            let taken = self.subscriber.take(left.min(SLICE) as usize).await;
            if self.left.load(Ordering::Relaxed) {
                return Fed::Ended;
            }
            let heard = match taken {
                Ok(heard) if !heard.is_empty() => heard,
                last => {
                    // A process that is gone is no fault.
                    let _gone = OwnedEnv::new().send_and_clear(&process, |env| end(env, last.err()));
                    return Fed::Ended;
                }
            };
            left -= heard.len() as u64;
            if !hand_over(heard, process, self.raw).await {
                self.subscriber.close();
                return Fed::Ended;
            }
            yield_now().await;
        }
        Fed::Spent
    }
}

/// Sends what was heard, and answers whether the process is there.
async fn hand_over(heard: Vec<Heard>, process: LocalPid, raw: bool) -> bool {
    let large = cost(&heard) > LARGE;
    let send = move || {
        let mut env = OwnedEnv::new();
        heard.iter().all(|heard| env.send_and_clear(&process, |env| message(env, heard, raw)).is_ok())
    };
    match runtime() {
        Ok(runtime) if large => {
            let (sent, there) = oneshot::channel();
            worker::run(
                runtime,
                Box::new(move || {
                    let _given_up = sent.send(send());
                }),
            );
            there.await.unwrap_or_default()
        }
        _ => send(),
    }
}
