//! Minting for appends: the node's mint, bounded by the server's clock (`docs/protocol.md` §4).

use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::mint::{Mint, Refusal};
use crate::operation::server_clock::ServerClock;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Makes the ids of appends and refuses while this host's clock is too far ahead of the server's.
#[derive(Debug)]
pub struct Minter {
    clock: Clock,
    mint: Option<Mint>,
    max_ahead: Option<Duration>,
    server: Arc<ServerClock>,
    /// Who asks: the client, in whatever process and on whatever connection.
    owner: String,
}

impl Minter {
    pub(crate) fn new(clock: Clock, mint: Option<Mint>, max_ahead: Option<Duration>) -> Self {
        Self {
            clock,
            mint,
            max_ahead,
            server: Arc::new(ServerClock::new()),
            owner: ulid::Ulid::generate().to_string(),
        }
    }

    /// The client's own token, a ULID: no two clients have the same one.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether its node is leased, so that no other process mints with it.
    pub(crate) fn is_leased(&self) -> bool {
        false
    }

    /// Takes the server's time, in Unix milliseconds, as it was at `at`.
    pub(crate) fn set_server_time(&self, ms: u64, at: Instant) {
        self.server.set(ms, at);
    }

    /// The server's clock, by which ids that are ahead are refused.
    pub(crate) fn server_clock(&self) -> &Arc<ServerClock> {
        &self.server
    }

    /// Makes one id.
    ///
    /// Fails with `invalid_option` without a node id, with `clock_ahead` while the id's instant would be ahead of the
    /// server's clock by more than the bound, and as [`Mint::mint`] does.
    #[inline]
    pub(crate) fn mint(&self) -> Result<EventId> {
        let mint = self.mint.as_ref().ok_or_else(without_node)?;
        let now = self.clock.now();
        let server_now = self.max_ahead.and_then(|bound| Some((self.server.now()?, bound)));
        let limit =
            server_now.map_or(u64::MAX, |(server, bound)| server.saturating_add(bound.as_millis() as u64));
        mint.mint_before(now, limit).map_err(|refusal| match (refusal, server_now) {
            (Refusal::Ahead(instant), Some((server, bound))) => Error::new(
                Code::ClockAhead,
                format!(
                    "the next id would be of the instant {instant} ms, which is more than {} ms ahead of the \
                     server's clock, {server} ms; this host's clock shows {now} ms",
                    bound.as_millis()
                ),
            ),
            (refusal, _) => refusal.error(),
        })
    }

    /// This host's time, in Unix milliseconds.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Fails with `invalid_option` without a node id.
    pub(crate) fn check(&self) -> Result<()> {
        self.mint.as_ref().map(|_| ()).ok_or_else(without_node)
    }
}

fn without_node() -> Error {
    Error::new(
        Code::InvalidOption,
        "making ids needs a node id of this process's own: give `node_id`, or set ECHOMQ_NODE_ID, to a number from \
         0 to 1022",
    )
    .about("node_id")
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
    fn without_a_node_there_is_no_id() {
        let minter = Minter::new(Clock::system(), None, None);
        assert_eq!(minter.mint().unwrap_err().code(), Code::InvalidOption);
        assert_eq!(minter.check().unwrap_err().code(), Code::InvalidOption);
    }
}
