//! The lease of a node: which one the client mints with, and until when (`docs/protocol.md` §4, `lua/node_lease.lua`).
//!
//! The state knows no connection and no clock but what it is told. [`Hold`] asks for the lease or renews it, [`Release`]
//! gives it back; the line sends the first where an id is to be minted and there is no lease, and the client's keeper at a
//! third of the lease's time.

mod ask;
mod holder;
#[cfg(test)]
mod tests;

pub(crate) use ask::{Hold, Release};
pub use holder::NodeLease;
pub(crate) use holder::ask_owner;

use super::minter::Minter;
use crate::clock::boot_ns;
use crate::error::{Code, Error};
use crate::keyspace::{NODES_KEY, node_owner};
use crate::process::Origin;
use ask::{Asked, Held};
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
    /// It is to be asked for again later.
    later: bool,
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

    /// Whether it is to be asked for again later.
    pub(crate) fn is_later(&self) -> bool {
        self.state().later
    }

    fn waits_for(&self, later: bool, refusal: Option<Error>) {
        let mut state = self.state();
        state.later = later;
        state.refusal = refusal;
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

    /// Whether there is a node to mint with, or was until the lease ran out: neither given back nor gone.
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

    /// How long a lease holds.
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
            // A clock that stands still is to be minted with as it stands.
            let floor = if self.minter.next_ms().is_some() { answer.from } else { 0 };
            let from = new.then_some((answer.node, floor));
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
            (state.later, state.refusal) = (false, None);
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
