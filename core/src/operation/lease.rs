//! The lease of a node: which one the client mints with, and until when (`docs/protocol.md` §4, `lua/node_lease.lua`).
//!
//! The state knows no connection and no clock but what it is told. [`Hold`] asks for the lease or renews it, [`Release`]
//! gives it back; the line sends the first where an id is to be minted and there is no lease, and the client's keeper at a
//! third of the lease's time.

use super::minter::Minter;
use super::{Operation, Step};
use crate::clock::boot_ns;
use crate::error::{Code, Error, Result};
use crate::keyspace::{NODE_FLOORS_KEY, NODES_KEY, node_owner};
use crate::process::{Origin, host_name};
use crate::record::packed::{Arguments, Packed};
use crate::record::reply::{self, Members};
use crate::script::{self, Form, NODE_LEASE};
use redis::Value;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// What follows where another live owner holds the node id that the user gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnNodeConflict {
    /// A notice, and both show in [`Client::nodes`](crate::Client::nodes); minting goes on, since a process that was killed
    /// and started again has its own old lease before it.
    Warn,
    /// Calls that mint wait until the node is free, then fail with [`Code::NodeConflict`].
    Wait,
    /// Calls that mint fail with [`Code::NodeConflict`].
    Refuse,
}

/// How a client comes by its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The node id that the user gave.
    pub(crate) node: Option<u16>,
    pub(crate) time: Duration,
    pub(crate) on_conflict: OnNodeConflict,
}

/// What happens to a lease that is told as a notice.
#[derive(Debug)]
pub(crate) enum Told {
    /// It has run out, or is gone.
    Lost(Error),
    /// Another process mints with the node, or nobody can know.
    Conflict(Error),
}

type Teller = Box<dyn Fn(Told) + Send + Sync>;
type Starter = Box<dyn Fn() -> bool + Send + Sync>;

/// The lease of one client.
pub(crate) struct Lease {
    minter: Arc<Minter>,
    terms: Terms,
    owner: String,
    key: String,
    client_name: String,
    tell: Teller,
    state: Mutex<State>,
    /// Starts what renews it, and says whether that went well.
    keeper: OnceLock<Starter>,
    kept: AtomicBool,
    /// Among those that hold the node for the process.
    counted: AtomicBool,
}

/// What is known of the lease.
#[derive(Debug, Default, PartialEq, Eq)]
struct State {
    /// The node that was leased last, as long as the server has not said that it is gone.
    node: Option<u16>,
    /// The node may be minted with although it could not be registered.
    unregistered: bool,
    /// Until when it holds, on the clock of [`boot_ns`].
    until: u64,
    renew_at: u64,
    /// The loss was told.
    told_lost: bool,
    /// The conflict that was told.
    told_conflict: Option<String>,
    /// It was given back, for good.
    released: bool,
    /// Why there is none yet, where the answer is waited for.
    refusal: Option<Error>,
}

/// How many clients of the process hold each node that their users gave.
static HOLDERS: [AtomicU32; 1023] = [const { AtomicU32::new(0) }; 1023];

impl Lease {
    pub(crate) fn new(minter: Arc<Minter>, terms: Terms, client_name: &str, tell: Teller) -> Self {
        // Clients of one process with one node share its state (`id/mint.rs`), so they are one holder.
        let owner = match terms.node {
            Some(node) if minter.next_ms().is_some() => owner_in_process(node),
            _ => minter.owner().to_owned(),
        };
        Self {
            key: node_owner(&owner),
            owner,
            minter,
            terms,
            client_name: client_name.to_owned(),
            tell,
            state: Mutex::default(),
            keeper: OnceLock::new(),
            kept: AtomicBool::new(false),
            counted: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the lease kept, from when there is one on.
    pub(crate) fn kept_by(&self, starter: Starter) {
        // A connection beside the client's finds the client's keeper here.
        let _ = self.keeper.set(starter);
    }

    /// The keeper has ended.
    pub(crate) fn no_longer_kept(&self) {
        self.kept.store(false, Ordering::Release);
    }

    fn keep(&self) {
        if let Some(start) = self.keeper.get()
            && !self.kept.swap(true, Ordering::AcqRel)
            && !start()
        {
            self.kept.store(false, Ordering::Release);
        }
    }

    /// Whether it was given back.
    pub(crate) fn is_released(&self) -> bool {
        self.state().released
    }

    /// Why there is none yet, where it is waited for.
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.state().refusal.clone()
    }

    fn waits_for(&self, refusal: Option<Error>) {
        self.state().refusal = refusal;
    }

    /// How long until there is something to do for who keeps it.
    pub(crate) fn next_look(&self) -> Duration {
        let now = boot_ns();
        let state = self.state();
        let mut at = state.renew_at;
        if state.node.is_some() && !state.told_lost {
            at = at.min(state.until);
        }
        Duration::from_nanos(at.saturating_sub(now))
    }

    /// Tells of a lease that has run out, and says whether it is to be renewed now.
    pub(crate) fn look(&self) -> bool {
        let now = boot_ns();
        let (due, lost) = {
            let mut state = self.state();
            let due = now >= state.renew_at && !state.released;
            if due {
                state.renew_at = now + self.retry_after();
            }
            let lost = state.node.is_some() && now >= state.until && !state.told_lost && !state.released;
            state.told_lost |= lost;
            (due, lost)
        };
        if lost {
            (self.tell)(Told::Lost(lost_error("its deadline has passed without an answer of the server's")));
        }
        due
    }

    fn retry_after(&self) -> u64 {
        self.terms.time.as_nanos() as u64 / 6
    }

    /// Whether a node was ever leased or asked for, and not given back.
    pub(crate) fn is_held(&self) -> bool {
        let state = self.state();
        !state.released && (state.node.is_some() || state.unregistered)
    }

    /// The connection is another one: the lease is renewed before anything is minted.
    pub(crate) fn suspend(&self) {
        if self.is_held() {
            self.minter.forbid();
        }
    }

    /// The lease's time, in milliseconds.
    pub(crate) fn time(&self) -> Duration {
        self.terms.time
    }

    fn held(&self, asked: Asked, sent: u64, answer: Held) {
        let until = sent + self.terms.time.as_nanos() as u64;
        {
            let mut state = self.state();
            if state.released {
                return;
            }
            // An answer that came later than another one's may be of an earlier question.
            if asked == Asked::Renew(answer.node) && state.node == Some(answer.node) && until < state.until {
                return;
            }
            let new = state.node != Some(answer.node);
            *state = State {
                node: Some(answer.node),
                unregistered: false,
                until,
                renew_at: sent + self.terms.time.as_nanos() as u64 / 3,
                told_lost: false,
                told_conflict: state.told_conflict.take(),
                ..State::default()
            };
            let from = new.then_some((answer.node, answer.from));
            self.minter.permit(from, answer.limit, Some(until));
        }
        self.count();
        self.keep();
    }

    /// The user's node is minted with, though it could not be registered; tried again later.
    fn unregistered(&self, why: &Error) {
        let error = Error::new(
            Code::NodeConflict,
            format!(
                "the node id {} could not be registered, so nobody would notice another process that mints with it: {}",
                self.terms.node.unwrap_or_default(),
                why.message()
            ),
        )
        .because(why.clone());
        {
            let mut state = self.state();
            if state.released {
                return;
            }
            state.node = None;
            state.unregistered = true;
            state.renew_at = boot_ns() + self.terms.time.as_nanos() as u64 / 3;
            self.minter.permit(None, None, None);
        }
        self.keep();
        self.conflict(Some(why.message()), error);
    }

    /// Tells of a conflict once; nothing where there is none any longer.
    fn conflict(&self, with: Option<&str>, error: Error) {
        let news = {
            let mut state = self.state();
            let news = with.is_some() && state.told_conflict.as_deref() != with;
            state.told_conflict = with.map(str::to_owned);
            news
        };
        if news {
            (self.tell)(Told::Conflict(error));
        }
    }

    fn gone(&self) {
        let told = {
            let mut state = self.state();
            state.node = None;
            self.minter.forbid();
            std::mem::replace(&mut state.told_lost, true)
        };
        if !told {
            (self.tell)(Told::Lost(lost_error("the server does not know it any longer")));
        }
    }

    /// Counts the client among the process's holders of a node that its users gave.
    fn count(&self) {
        if let Some(holders) = self.holders()
            && !self.counted.swap(true, Ordering::AcqRel)
        {
            holders.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Leaves them, and says whether no other is left.
    fn uncount(&self) -> bool {
        match self.holders() {
            Some(holders) if self.counted.swap(false, Ordering::AcqRel) => {
                holders.fetch_sub(1, Ordering::AcqRel) == 1
            }
            Some(holders) => holders.load(Ordering::Acquire) == 0,
            None => true,
        }
    }

    fn holders(&self) -> Option<&'static AtomicU32> {
        let node = self.terms.node.filter(|_| self.minter.next_ms().is_some())?;
        HOLDERS.get(usize::from(node))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.uncount();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("owner", &self.owner)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

fn lost_error(why: &str) -> Error {
    Error::new(
        Code::NodeLeaseLost,
        format!(
            "the client's lease of its node id is lost: {why}; nothing is minted until there is one again"
        ),
    )
    .about(NODES_KEY)
}

/// The token under which all clients of this process hold a node that their users gave: a ULID.
fn owner_in_process(node: u16) -> String {
    static BASE: AtomicPtr<(Origin, u128)> = AtomicPtr::new(std::ptr::null_mut());
    let current = BASE.load(Ordering::Acquire);
    // SAFETY: a pointer that was stored here came from `Box::leak` and is never freed; a forked child makes its own.
    let known = unsafe { current.as_ref() }.filter(|(origin, _)| origin.is_here()).map(|(_, base)| *base);
    let base = known.unwrap_or_else(|| {
        let made = Box::into_raw(Box::new((Origin::here(), u128::from(ulid::Ulid::generate()) & !0xFFFF)));
        match BASE.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above.
            Ok(_) => unsafe { (*made).1 },
            // SAFETY: `made` was never shared, and the winner's is as above.
            Err(winner) => unsafe {
                drop(Box::from_raw(made));
                (*winner).1
            },
        }
    });
    ulid::Ulid::from(base | u128::from(node)).to_string()
}

/// What is asked of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Acquire,
    Renew(u16),
}

/// A lease that the server gave or renewed.
struct Held {
    node: u16,
    /// Nothing at or before this instant may be minted.
    from: u64,
    /// Nothing after it.
    limit: Option<u64>,
    /// Another live owner's entry.
    other: Option<String>,
}

/// Has the client hold its node: renews the lease, or asks for one where there is none.
pub(crate) struct Hold {
    lease: Arc<Lease>,
    asked: Asked,
    form: Form,
    /// When it was sent, on the clock of [`boot_ns`].
    sent: u64,
    /// Why the client gets no node, while it is asked who has it.
    refused: Option<Refused>,
}

struct Refused {
    why: Why,
    members: Vec<String>,
}

enum Why {
    /// Other owners have all of them.
    Full,
    /// Another owner has the one that the user gave.
    Taken,
    /// Another owner mints with it beside this client.
    Beside,
}

impl Hold {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self { lease, asked: Asked::Acquire, form: Form::Hash, sent: 0, refused: None }
    }

    fn command(&self, commands: &mut Packed) {
        let (lease, terms) = (&*self.lease, &self.lease.terms);
        let keys = [NODES_KEY, &*lease.key, NODE_FLOORS_KEY];
        let mut command = NODE_LEASE.call(self.form, &keys, 10, commands);
        let node = match self.asked {
            Asked::Renew(node) => Some(node),
            Asked::Acquire => terms.node,
        };
        command.arg(if self.asked == Asked::Acquire { "acquire" } else { "renew" }).arg(&*lease.owner);
        optional(node.map(u64::from), &mut command);
        command.number(terms.time.as_millis() as u64);
        optional(lease.minter.next_ms(), &mut command);
        optional(lease.minter.max_ahead_ms(), &mut command);
        command.number(u64::from(terms.on_conflict == OnNodeConflict::Warn));
        command.arg(&host_name()).arg(&std::process::id().to_string()).arg(&*lease.client_name);
    }

    fn leased(&mut self, reply: Value) -> Step<()> {
        match reply {
            Value::ServerError(error) if script::is_unknown(&error) => {
                self.form = Form::Source;
                Step::Again
            }
            reply => match read(reply) {
                Ok(Answer::Held(held)) => {
                    let other = held.other.clone();
                    self.lease.held(self.asked, self.sent, held);
                    match other {
                        Some(member) => self.ask_who(Why::Beside, vec![member]),
                        None => {
                            self.lease.conflict(None, lost_error(""));
                            Step::Done(Ok(()))
                        }
                    }
                }
                Ok(Answer::Gone) => {
                    self.lease.gone();
                    Step::Again
                }
                Ok(Answer::Taken(member)) => self.ask_who(Why::Taken, vec![member]),
                Ok(Answer::Full(members)) => self.ask_who(Why::Full, members),
                Err(error) => self.failed(error),
            },
        }
    }

    fn failed(&self, error: Error) -> Step<()> {
        let terms = &self.lease.terms;
        if error.code() == Code::Auth && terms.node.is_some() && terms.on_conflict == OnNodeConflict::Warn {
            self.lease.unregistered(&error);
            return Step::Done(Ok(()));
        }
        let code = error.code();
        Step::Done(Err(Error::new(
            code,
            format!(
                "{}; making ids needs the lease of a node id, and so the right to write {{emq}}:nodes*: or give `node_id` \
                 of this process's own",
                error.message()
            ),
        )
        .about(NODES_KEY)))
    }

    fn ask_who(&mut self, why: Why, members: Vec<String>) -> Step<()> {
        self.refused = Some(Refused { why, members });
        Step::Again
    }

    fn who(&mut self, refused: Refused, replies: Vec<Value>) -> Step<()> {
        let holders = refused.members.iter().zip(replies).map(|(member, reply)| {
            let lease = NodeLease::read(member, reply);
            lease.map_or_else(|| member.clone(), |lease| lease.to_string())
        });
        let holders: Vec<String> = holders.collect();
        let holders = holders.join("; ");
        let terms = &self.lease.terms;
        let node = terms.node.or(self.lease.state().node).unwrap_or_default();
        match refused.why {
            Why::Full => Step::Done(Err(Error::new(
                Code::NodeLeaseLost,
                format!(
                    "all 1023 node ids are leased, the first of them: {holders}; `nodes()` lists all. Close clients that are \
                     not needed, or share one among the threads of a process; a lease of a process that was killed ends \
                     by itself within its time"
                ),
            )
            .about(NODES_KEY))),
            Why::Taken => {
                let error = Error::new(
                    Code::NodeConflict,
                    format!(
                        "another process mints with the node id {node} that was given: {holders}; give each process its \
                         own, or none, so that each leases one"
                    ),
                )
                .about("node_id");
                match terms.on_conflict {
                    OnNodeConflict::Wait => {
                        self.lease.waits_for(Some(error.clone()));
                        Step::Later(error)
                    }
                    _ => Step::Done(Err(error)),
                }
            }
            Why::Beside => {
                let error = Error::new(
                    Code::NodeConflict,
                    format!(
                        "another process mints with the node id {node} too: {holders}; if it is this one before it was \
                         killed, that ends by itself"
                    ),
                )
                .about("node_id");
                self.lease.conflict(refused.members.first().map(String::as_str), error);
                Step::Done(Ok(()))
            }
        }
    }
}

impl Operation for Hold {
    type Reply = ();

    /// It is the line's own, and counts for none of its bounds.
    fn weight(&self) -> usize {
        0
    }

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        let node = {
            let state = self.lease.state();
            if state.released {
                return Err(Error::new(Code::Closed, "the client is closed"));
            }
            state.node
        };
        if self.refused.is_none() {
            self.asked = node.map_or(Asked::Acquire, Asked::Renew);
            self.sent = boot_ns();
        }
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        match &self.refused {
            None => self.command(commands),
            Some(refused) => refused.members.iter().for_each(|member| ask_owner(member, commands)),
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<()> {
        match self.refused.take() {
            None => self.leased(replies.into_iter().next().unwrap_or(Value::Nil)),
            Some(refused) => self.who(refused, replies),
        }
    }

    fn lost(&mut self) -> Step<()> {
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        self.refused = None;
        self.lease.waits_for(None);
        Step::Again
    }

    fn abandon(&mut self, why: Error) -> Result<()> {
        Err(why)
    }
}

/// Gives the node back.
pub(crate) struct Release {
    lease: Arc<Lease>,
    node: Option<u16>,
    form: Form,
}

impl Release {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self { lease, node: None, form: Form::Hash }
    }
}

impl Operation for Release {
    type Reply = ();

    /// It is the line's own, and counts for none of its bounds.
    fn weight(&self) -> usize {
        0
    }

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        if self.node.is_none() {
            self.lease.minter.forbid();
            let mut state = self.lease.state();
            state.released = true;
            self.node = state.node.take();
        }
        let released = || Error::new(Code::State, "there is no lease to give back");
        if self.node.is_none() || !self.lease.uncount() {
            return Err(released());
        }
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        let lease = &*self.lease;
        let keys = [NODES_KEY, &*lease.key, NODE_FLOORS_KEY];
        let mut command = NODE_LEASE.call(self.form, &keys, 5, commands);
        command.arg("release").arg(&*lease.owner);
        optional(self.node.map(u64::from), &mut command);
        command.number(lease.terms.time.as_millis() as u64);
        // A thread that was minting while this began makes an id of the last instant's next at most.
        optional(lease.minter.next_ms().map(|ms| ms + 1), &mut command);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<()> {
        if let Some(Value::ServerError(error)) = replies.first()
            && script::is_unknown(error)
            && self.form == Form::Hash
        {
            self.form = Form::Source;
            return Step::Again;
        }
        // What could not be given back ends by itself.
        Step::Done(Ok(()))
    }

    fn unavailable(&mut self, _: Vec<Value>, _: Error) -> Step<()> {
        Step::Done(Ok(()))
    }

    fn lost(&mut self) -> Step<()> {
        Step::Done(Ok(()))
    }
}

fn optional(value: Option<u64>, command: &mut Arguments<'_>) {
    match value {
        Some(value) => command.number(value),
        None => command.arg(""),
    };
}

/// What the script answers to a question for a lease.
enum Answer {
    Held(Held),
    Gone,
    Taken(String),
    Full(Vec<String>),
}

fn read(reply: Value) -> Result<Answer> {
    let mut parts = reply::list(reply::accepted(reply)?)?.into_iter();
    let word = text(parts.next())?;
    let number = |text: String| text.parse::<u64>().ok();
    Ok(match word.as_str() {
        "held" => {
            let node = reply::count(parts.next().unwrap_or(Value::Nil))? as u16;
            let (from, limit, other) = (text(parts.next())?, text(parts.next())?, text(parts.next())?);
            let other = (!other.is_empty()).then_some(other);
            Answer::Held(Held { node, from: number(from).unwrap_or(0), limit: number(limit), other })
        }
        "gone" => Answer::Gone,
        "taken" => Answer::Taken(text(parts.next())?),
        "full" => Answer::Full(parts.map(|part| text(Some(part))).collect::<Result<_>>()?),
        other => {
            return Err(Error::new(Code::Server, format!("the script of node leases answered `{other}`")));
        }
    })
}

fn text(reply: Option<Value>) -> Result<String> {
    reply::bytes(reply.unwrap_or(Value::Nil)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Asks who the owner of a lease is.
pub(crate) fn ask_owner(member: &str, commands: &mut Packed) {
    let owner = member.split_once(':').map_or(member, |(_, owner)| owner);
    commands.command(2).arg("HGETALL").arg(&node_owner(owner));
}

/// The lease of a node, and who holds it. See [`Client::nodes`](crate::Client::nodes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLease {
    /// The node.
    pub node: u16,
    /// The token that it is held under, a ULID.
    pub owner: String,
    /// How much longer it holds unless it is renewed, by the server's clock.
    pub left: Duration,
    /// The host of the process.
    pub host: String,
    /// The number of the process on its host.
    pub process: String,
    /// The client's name; empty where it has none.
    pub client_name: String,
}

impl NodeLease {
    /// Reads what [`ask_owner`] asked for; nothing where the entry is no lease's.
    pub(crate) fn read(member: &str, reply: Value) -> Option<Self> {
        let (node, owner) = member.split_once(':')?;
        let node = node.parse().ok()?;
        // Who it is may be gone already, or hidden from this user.
        let mut members = Members::read(reply).ok();
        let mut part = |name: &str| {
            let value = members.as_mut().map_or(Value::Nil, |members| members.take(name));
            text(Some(value)).unwrap_or_default()
        };
        let (host, process, client_name) = (part("host"), part("process"), part("client_name"));
        Some(Self { node, owner: owner.to_owned(), left: Duration::ZERO, host, process, client_name })
    }
}

impl fmt::Display for NodeLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} by process {} on host {}", self.node, self.process, self.host)?;
        if self.client_name.is_empty() { Ok(()) } else { write!(f, ", client {}", self.client_name) }
    }
}
