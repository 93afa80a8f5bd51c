//! Minting for appends: the client's node, bounded by its lease and by the server's clock (`docs/protocol.md` §4).

use crate::clock::{Clock, Wall, boot_ns};
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::mint::{Mint, MintCell, Refusal};
use crate::operation::server_clock::ServerClock;
use crate::process::Origin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Makes the ids of appends while the client holds its node, and refuses while this host's clock is too far ahead of the
/// server's.
///
/// A mint reads one clock: the one that nobody sets and that counts suspends. The deadline of the lease is an instant on
/// it, and the wall clock is told from it.
#[derive(Debug)]
pub struct Minter {
    clock: Clock,
    wall: Wall,
    cell: MintCell,
    /// Whether its node is leased, and not given by the user.
    leases: bool,
    origin: Origin,
    /// Until when, on the clock of [`boot_ns`], the node may be minted with; 0 without a lease.
    deadline: AtomicU64,
    /// The last instant, in Unix milliseconds, that may be minted.
    limit: AtomicU64,
    max_ahead_ms: Option<u64>,
    server: Arc<ServerClock>,
    /// Who asks: the client, in whatever process and on whatever connection.
    owner: String,
    /// How many wait in the line for an id of their own.
    waiting: Arc<AtomicUsize>,
}

/// The place of one who waits in the line for an id of its own. Until it is given up, nobody is served before it.
#[derive(Debug)]
pub(crate) struct Turn(Arc<AtomicUsize>);

impl Drop for Turn {
    fn drop(&mut self) {
        // Whoever sees that nobody waits sees the ids that were made for them too.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Minter {
    /// One that needs no lease: it mints with the mint's node for ever, or never without one.
    #[cfg(test)]
    pub(crate) fn new(clock: Clock, mint: Option<Mint>, max_ahead: Option<Duration>) -> Self {
        let cell = mint.as_ref().map(Mint::cell);
        let minter = Self::with(clock, cell.unwrap_or_else(|| MintCell::own(0)), max_ahead);
        if mint.is_some() {
            minter.permit(None, None, None);
        }
        minter
    }

    /// One that mints with a node that it is given, or is still to be given, once it is permitted to.
    pub(crate) fn leased(clock: Clock, node: Option<Mint>, max_ahead: Option<Duration>) -> Self {
        let leases = node.is_none();
        let cell = match (node, clock.standing_at()) {
            (Some(node), None) => node.cell(),
            (Some(node), Some(ms)) => MintCell::standing(node.node(), ms),
            (None, _) => MintCell::own(0),
        };
        Self { leases, ..Self::with(clock, cell, max_ahead) }
    }

    fn with(clock: Clock, cell: MintCell, max_ahead: Option<Duration>) -> Self {
        Self {
            clock,
            wall: Wall::default(),
            cell,
            leases: false,
            origin: Origin::here(),
            deadline: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            max_ahead_ms: max_ahead.map(|ahead| ahead.as_millis() as u64),
            server: Arc::new(ServerClock::new()),
            owner: ulid::Ulid::generate().to_string(),
            waiting: Arc::default(),
        }
    }

    /// Makes one id without the line, where nobody waits there: ids come in the order in which they were asked for.
    /// Otherwise answers the place to wait with.
    #[inline]
    pub(crate) fn mint_or_wait(&self) -> Result<Result<EventId>, Turn> {
        if self.waiting.load(Ordering::Acquire) == 0 {
            match self.try_mint() {
                Err(Refusal::NoLease | Refusal::Ahead(_)) => {}
                minted => return Ok(minted.map_err(|refusal| self.explain(refusal))),
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Err(Turn(self.waiting.clone()))
    }

    /// The client's own token, a ULID: no two clients have the same one.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether it mints with a node that the user gave.
    pub(crate) fn has_given_node(&self) -> bool {
        !self.leases
    }

    /// Whether its node is leased, so that no other process mints with it.
    pub(crate) fn is_leased(&self) -> bool {
        self.leases && self.deadline.load(Ordering::Relaxed) != 0
    }

    /// Takes the server's time, in Unix milliseconds, as it was at `at`.
    pub(crate) fn set_server_time(&self, ms: u64, at: Instant) {
        self.server.set(ms, at);
    }

    /// The server's clock, by which ids that are ahead are refused.
    pub(crate) fn server_clock(&self) -> &Arc<ServerClock> {
        &self.server
    }

    /// The server's time at an instant of [`boot_ns`], with the last instant that may be minted then.
    #[inline]
    fn bound(&self, boot_ns: u64) -> Option<(u64, u64)> {
        let bound = self.max_ahead_ms?;
        let server = self.server.at(boot_ns)?;
        Some((server, server.saturating_add(bound)))
    }

    /// Makes one id. Fails with `clock_ahead` while the id's instant would be ahead of the server's clock by more than the
    /// bound, and as [`Mint::mint`] does; without a lease the code is `node_lease_lost`.
    #[inline]
    pub(crate) fn mint(&self) -> Result<EventId> {
        self.try_mint().map_err(|refusal| self.explain(refusal))
    }

    /// Makes one id, or says why not at little cost.
    #[inline]
    pub(crate) fn try_mint(&self) -> Result<EventId, Refusal> {
        if !self.origin.is_here() {
            return Err(Refusal::Forked);
        }
        let boot = boot_ns();
        let now = self.clock.standing_at().unwrap_or_else(|| self.wall.at(boot));
        let ahead = self.bound(boot).map_or(u64::MAX, |(_, limit)| limit);
        // In this order, and behind the look at the cell: a node that changes takes both along.
        let limit = || {
            let limit = self.limit.load(Ordering::Acquire);
            (boot < self.deadline.load(Ordering::Acquire)).then_some(limit.min(ahead))
        };
        self.cell.mint_before(now, limit).map_err(|instant| self.refusal(instant, boot, ahead))
    }

    #[cold]
    fn refusal(&self, instant: u64, boot: u64, ahead: u64) -> Refusal {
        match Refusal::past(instant) {
            Refusal::Exhausted => Refusal::Exhausted,
            _ if boot >= self.deadline.load(Ordering::Acquire) || instant <= ahead => Refusal::NoLease,
            refusal => refusal,
        }
    }

    #[cold]
    pub(crate) fn explain(&self, refusal: Refusal) -> Error {
        match (refusal, self.bound(boot_ns()), self.max_ahead_ms) {
            (Refusal::Ahead(instant), Some((server, _)), Some(bound)) => Error::new(
                Code::ClockAhead,
                format!(
                    "the next id would be of the instant {instant} ms, which is more than {bound} ms ahead of the \
                     server's clock, {server} ms; this host's clock shows {} ms",
                    self.clock.now()
                ),
            ),
            (refusal, ..) => refusal.error(),
        }
    }

    /// This host's time, in Unix milliseconds.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// How far ahead of the server's clock an id may be, in milliseconds.
    pub(crate) fn max_ahead_ms(&self) -> Option<u64> {
        self.max_ahead_ms
    }

    /// The least instant that the next id may have, in Unix milliseconds; nothing where the clock stands still, which leaves no floor to whoever has the node next.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.clock.standing_at().is_none().then(|| self.clock.now().max(self.cell.last_ms()))
    }

    /// Mints with the node of its cell until the deadline, instants up to the limit; without one, without an end.
    pub(crate) fn permit(&self, from: Option<(u16, u64)>, limit_ms: Option<u64>, deadline: Option<u64>) {
        if let Some((node, above_ms)) = from {
            self.forbid();
            self.limit.store(limit_ms.unwrap_or(u64::MAX), Ordering::Release);
            self.cell.begin(node, above_ms);
        }
        self.limit.store(limit_ms.unwrap_or(u64::MAX), Ordering::Release);
        self.deadline.store(deadline.unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Mints nothing until it is permitted again.
    pub(crate) fn forbid(&self) {
        self.deadline.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_735_689_600_000;

    fn minter(node: u16, clock: u64, max_ahead: Option<u64>) -> Minter {
        Minter::new(
            Clock::standing(clock),
            Some(Mint::new(node).unwrap()),
            max_ahead.map(Duration::from_millis),
        )
    }

    #[test]
    fn a_clock_ahead_of_the_server_by_more_than_the_bound_is_refused() {
        let ahead = minter(990, T + 3_600_000, Some(60_000));
        assert!(ahead.mint().is_ok(), "the server's clock is not known yet");
        ahead.set_server_time(T, Instant::now());
        let error = ahead.mint().unwrap_err();
        assert_eq!(error.code(), Code::ClockAhead);
        assert!(error.message().contains(&(T + 3_600_000).to_string()), "{error}");
        assert!(error.message().contains(&T.to_string()[..9]), "{error}");
    }

    #[test]
    fn a_clock_within_the_bound_or_without_one_mints() {
        for (node, bound) in [(991, Some(3_600_000)), (992, None)] {
            let minter = minter(node, T + 3_600_000, bound);
            minter.set_server_time(T, Instant::now());
            assert_eq!(minter.mint().unwrap().unix_ms(), T + 3_600_000);
        }
        let behind = minter(993, T, Some(60_000));
        behind.set_server_time(T + 3_600_000, Instant::now());
        assert_eq!(behind.mint().unwrap().unix_ms(), T);
    }

    #[test]
    fn a_clock_that_stands_is_heeded_whatever_else_was_minted_with_the_node() {
        let mint = || Some(Mint::new(994).unwrap());
        let running = Minter::leased(Clock::system(), mint(), None);
        running.permit(None, None, None);
        assert!(running.mint().unwrap().unix_ms() > T);
        let standing = Minter::leased(Clock::standing(T), mint(), None);
        standing.permit(Some((994, 0)), None, None);
        let ids = [(); 2].map(|()| standing.mint().unwrap().snowflake());
        assert_eq!(ids.map(|id| (id.unix_ms(), id.node(), id.sequence())), [(T, 994, 0), (T, 994, 1)]);
        assert!(running.mint().unwrap().unix_ms() > T, "nor does it move the others");
    }

    #[test]
    fn nothing_is_minted_past_the_deadline_or_the_limit() {
        let minter = minter(995, T, None);
        let now = boot_ns();
        for (limit, deadline, mints) in [
            (None, Some(now), false),
            (None, Some(0), false),
            (Some(T - 1), Some(u64::MAX), false),
            (Some(T), Some(u64::MAX), true),
            (None, None, true),
        ] {
            minter.permit(None, limit, deadline);
            let expected = if mints { Ok(()) } else { Err(Refusal::NoLease) };
            assert_eq!(minter.try_mint().map(|_| ()), expected, "{limit:?} {deadline:?}");
        }
        minter.forbid();
        assert_eq!(minter.try_mint(), Err(Refusal::NoLease));
    }

    #[test]
    fn without_a_lease_there_is_no_id() {
        let minter = Minter::new(Clock::system(), None, None);
        assert_eq!(minter.mint().unwrap_err().code(), Code::NodeLeaseLost);
    }
}
