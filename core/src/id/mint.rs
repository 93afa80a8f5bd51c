//! The mint: ids that only ever increase, however many threads ask (`docs/protocol.md` §1).
//!
//! One lock-free cell per process and node holds the last timestamp and sequence. A clock that stands still or steps
//! back is overtaken by counting on, and a burst of more than 4096 in a millisecond borrows from the next.

use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::snowflake::{EPOCH_MS, MAX_NODE, MAX_TIMESTAMP, SEQUENCE_BITS, Snowflake};
use crate::process::Origin;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const NODES: usize = MAX_NODE as usize + 1;

/// One cell per node, shared by every mint of the process.
static CELLS: [Cell; NODES] = {
    let mut cells = [const { Cell::of(0) }; NODES];
    let mut node = 0;
    while node < NODES {
        cells[node] = Cell::of(node as u16);
        node += 1;
    }
    cells
};

/// Makes branded ids of the namespace `EVT` with one node.
///
/// Mints of one process and one node share their state, so their ids never repeat. Two processes must not mint with
/// one node: giving each its own is the user's part. A client needs no mint of the user's: it leases its node.
///
/// ```
/// use echomq::{Clock, Mint};
///
/// let mint = Mint::new(7)?;
/// let (first, second) = (mint.mint(&Clock::system())?, mint.mint(&Clock::system())?);
/// assert!(first < second);
/// assert_eq!(first.snowflake().node(), 7);
/// # Ok::<(), echomq::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mint {
    node: u16,
    cell: &'static Cell,
    origin: Origin,
}

impl Mint {
    /// A mint of the node, 0 to [`MAX_NODE`].
    ///
    /// Fails with [`Code::InvalidOption`] for any other node; 1023 is the sequencer's.
    pub fn new(node: u16) -> Result<Self> {
        match CELLS.get(usize::from(node)) {
            Some(cell) => Ok(Self { node, cell, origin: Origin::here() }),
            None => Err(Error::new(
                Code::InvalidOption,
                format!("a node id is a number from 0 to {MAX_NODE}, not {node}"),
            )
            .about("node_id")),
        }
    }

    /// The node.
    pub fn node(&self) -> u16 {
        self.node
    }

    /// Makes one id, greater than every id that this process made with this node before.
    ///
    /// Never waits. Fails with [`Code::MintExhausted`] when the timestamp needs more than 41 bits (in the year
    /// 2093), and with [`Code::NodeLeaseLost`] in a process forked from the one that made the mint; a failed call
    /// leaves the sequence as it was.
    #[inline]
    pub fn mint(&self, clock: &Clock) -> Result<EventId> {
        if !self.origin.is_here() {
            return Err(Refusal::Forked.error());
        }
        let minted = self.cell.mint_before(clock.now(), || Some(u64::MAX));
        minted.map_err(|instant| Refusal::past(instant).error())
    }

    /// The state that all mints of this node share.
    pub(crate) fn cell(&self) -> MintCell {
        MintCell::OfProcess(self.cell)
    }
}

/// Where a client's mint keeps its node and its last id.
#[derive(Debug)]
pub(crate) enum MintCell {
    /// All mints of the process with this node share it.
    OfProcess(&'static Cell),
    /// The client's own.
    Own(Cell),
    /// All clients of the process with this node whose clocks stand at the same instant share it.
    Standing(Arc<Cell>),
}

/// The cells of clocks that stand still, by node and instant. They stay, so that no client repeats the ids of one before it.
static STANDING: Mutex<BTreeMap<(u16, u64), Arc<Cell>>> = Mutex::new(BTreeMap::new());

impl MintCell {
    /// One that nobody else uses.
    pub(crate) fn own(node: u16) -> Self {
        Self::Own(Cell::of(node))
    }

    /// The one of a clock that stands at an instant. It pins ids, so no other clock moves it on.
    pub(crate) fn standing(node: u16, ms: u64) -> Self {
        let mut cells = STANDING.lock().unwrap_or_else(PoisonError::into_inner);
        Self::Standing(cells.entry((node, ms)).or_insert_with(|| Arc::new(Cell::of(node))).clone())
    }
}

impl std::ops::Deref for MintCell {
    type Target = Cell;

    #[inline]
    fn deref(&self) -> &Cell {
        match self {
            Self::OfProcess(cell) => cell,
            Self::Own(cell) => cell,
            Self::Standing(cell) => cell,
        }
    }
}

/// A node in the upper 10 bits; below, in 54, timestamp and sequence of the last id.
///
/// They stand in one word, so that no id is made with a node that was changed meanwhile.
#[derive(Debug)]
pub(crate) struct Cell(AtomicU64);

const VALUE_BITS: u32 = 54;
const VALUE: u64 = (1 << VALUE_BITS) - 1;

/// The value of a cell that has never minted: the next after it is 0.
const EMPTY: u64 = VALUE;

impl Cell {
    const fn of(node: u16) -> Self {
        Self(AtomicU64::new((node as u64) << VALUE_BITS | EMPTY))
    }

    /// Makes one id whose instant, in Unix milliseconds, is not after the limit, which is asked for once the cell was read;
    /// where there is none, no id is made. Answers the instant that was refused.
    #[inline]
    pub(crate) fn mint_before(
        &self,
        now_ms: u64,
        limit_ms: impl Fn() -> Option<u64>,
    ) -> Result<EventId, u64> {
        let limit = || limit_ms().map(|ms| ms.saturating_sub(EPOCH_MS).min(MAX_TIMESTAMP));
        match advance(&self.0, now_ms.saturating_sub(EPOCH_MS), limit) {
            Ok(word) => Ok(EventId::new(unpack(word))),
            Err(timestamp) => Err(timestamp + EPOCH_MS),
        }
    }

    /// The instant of the last id, in Unix milliseconds; 0 before the first.
    pub(crate) fn last_ms(&self) -> u64 {
        match self.0.load(Ordering::Acquire) & VALUE {
            EMPTY => 0,
            value => (value >> SEQUENCE_BITS) + EPOCH_MS,
        }
    }

    /// Goes on with the node, above everything up to and with that instant, and above its own ids with it.
    pub(crate) fn begin(&self, node: u16, above_ms: u64) {
        let floor = match above_ms.checked_sub(EPOCH_MS) {
            Some(timestamp) => (timestamp << SEQUENCE_BITS | ((1 << SEQUENCE_BITS) - 1)).min(EMPTY - 1),
            None => EMPTY,
        };
        let mut last = self.0.load(Ordering::Acquire);
        loop {
            let value = last & VALUE;
            let same = last >> VALUE_BITS == u64::from(node);
            let next = match (same, value) {
                (true, EMPTY) | (false, _) => floor,
                (true, value) if floor == EMPTY => value,
                (true, value) => value.max(floor),
            };
            let word = u64::from(node) << VALUE_BITS | next;
            match self.0.compare_exchange_weak(last, word, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(current) => last = current,
            }
        }
    }
}

#[inline]
fn unpack(word: u64) -> Snowflake {
    let value = word & VALUE;
    let (timestamp, sequence) = (value >> SEQUENCE_BITS, value & ((1 << SEQUENCE_BITS) - 1));
    Snowflake::from_parts(timestamp, (word >> VALUE_BITS) << SEQUENCE_BITS | sequence)
}

/// Why no id was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The timestamp needs more than 41 bits.
    Exhausted,
    /// The id's instant, in Unix milliseconds, would be after the limit.
    Ahead(u64),
    /// The mint belongs to the process that forked this one.
    Forked,
    /// There is no lease of a node now.
    NoLease,
}

impl Refusal {
    pub(crate) fn past(instant: u64) -> Self {
        if instant > MAX_TIMESTAMP + EPOCH_MS { Self::Exhausted } else { Self::Ahead(instant) }
    }

    pub(crate) fn error(self) -> Error {
        match self {
            Self::Exhausted => Error::new(
                Code::MintExhausted,
                "the 41 bits of an id's timestamp are used up at this instant",
            ),
            Self::Ahead(ms) => {
                Error::new(Code::ClockAhead, format!("the next id would be of the instant {ms} ms"))
            }
            Self::Forked => Error::new(
                Code::NodeLeaseLost,
                "the node id belongs to the process that forked this one; make a new client in the child",
            ),
            Self::NoLease => {
                Error::new(Code::NodeLeaseLost, "the client has no lease of a node id to make ids with")
            }
        }
    }
}

/// What the algorithm needs of an atomic; loom's implements it too.
trait Register {
    fn load(&self) -> u64;
    fn replace(&self, current: u64, new: u64) -> Result<u64, u64>;
}

impl Register for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        // What was made known before the node was changed is seen by whoever sees the change.
        AtomicU64::load(self, Ordering::Acquire)
    }

    #[inline]
    fn replace(&self, current: u64, new: u64) -> Result<u64, u64> {
        // Uniqueness needs only that changes of this one cell are ordered, which every ordering gives.
        self.compare_exchange_weak(current, new, Ordering::Relaxed, Ordering::Relaxed)
    }
}

/// Moves the cell to the greater of the clock and the next value. Where that timestamp is above the limit, or there is
/// none, answers it and leaves the cell alone.
#[inline]
fn advance(cell: &impl Register, now: u64, limit: impl Fn() -> Option<u64>) -> Result<u64, u64> {
    if now > MAX_TIMESTAMP {
        return Err(now);
    }
    loop {
        let last = cell.load();
        let next = (now << SEQUENCE_BITS).max((last & VALUE).wrapping_add(1) & VALUE);
        if limit().is_none_or(|limit| next >> SEQUENCE_BITS > limit) {
            return Err(next >> SEQUENCE_BITS);
        }
        let word = last & !VALUE | next;
        if cell.replace(last, word).is_ok() {
            return Ok(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const T: u64 = 1_735_689_600_000;

    fn mint_at(mint: &Mint, now: u64) -> EventId {
        mint.mint(&Clock::standing(now)).unwrap()
    }

    impl Register for loom::sync::atomic::AtomicU64 {
        fn load(&self) -> u64 {
            self.load(Ordering::Relaxed)
        }

        fn replace(&self, current: u64, new: u64) -> Result<u64, u64> {
            self.compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed)
        }
    }

    #[test]
    fn no_interleaving_of_threads_repeats_a_value() {
        loom::model(|| {
            let cell = loom::sync::Arc::new(loom::sync::atomic::AtomicU64::new(EMPTY));
            let other = {
                let cell = cell.clone();
                // The other thread's clock is a millisecond behind.
                loom::thread::spawn(move || {
                    [(); 2].map(|()| advance(&*cell, 4, || Some(MAX_TIMESTAMP)).unwrap())
                })
            };
            let mine = [(); 2].map(|()| advance(&*cell, 5, || Some(MAX_TIMESTAMP)).unwrap());
            let theirs = other.join().unwrap();
            assert!(mine[0] < mine[1] && theirs[0] < theirs[1]);
            let all: HashSet<u64> = mine.into_iter().chain(theirs).collect();
            assert_eq!(all.len(), 4);
        });
    }

    #[test]
    fn the_first_id_of_a_node_has_sequence_0() {
        let id = mint_at(&Mint::new(1000).unwrap(), T);
        assert_eq!((id.unix_ms(), id.snowflake().node(), id.snowflake().sequence()), (T, 1000, 0));
    }

    #[test]
    fn a_clock_that_steps_back_is_overtaken() {
        let mint = Mint::new(1001).unwrap();
        let ids: Vec<EventId> = [T, T - 5, T]
            .into_iter()
            .flat_map(|now| (0..50).map(|_| mint_at(&mint, now)).collect::<Vec<_>>())
            .collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(
            ids.iter().map(|id| id.snowflake().sequence()).collect::<Vec<_>>(),
            (0..150).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_burst_borrows_from_the_next_milliseconds() {
        let mint = Mint::new(1002).unwrap();
        let ids: Vec<EventId> = (0..3 * 4096 + 1).map(|_| mint_at(&mint, T)).collect();
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert_eq!(ids[4096].unix_ms(), T + 1);
        assert_eq!(ids.last().unwrap().unix_ms(), T + 3);
    }

    #[test]
    fn mints_of_one_node_share_their_cell() {
        let ids: HashSet<EventId> = (0..10).map(|_| mint_at(&Mint::new(1003).unwrap(), T)).collect();
        assert_eq!(ids.len(), 10);
    }

    #[test]
    fn sixteen_threads_never_repeat_an_id() {
        let mint = Mint::new(1004).unwrap();
        let all: HashSet<EventId> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        let ids: Vec<EventId> =
                            (0..6_250).map(|_| mint.mint(&Clock::system()).unwrap()).collect();
                        assert!(ids.is_sorted_by(|a, b| a < b));
                        ids
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(all.len(), 100_000);
    }

    #[test]
    fn a_refused_mint_leaves_the_sequence_untouched() {
        let mint = Mint::new(1005).unwrap();
        let last = EPOCH_MS + MAX_TIMESTAMP;
        assert_eq!(mint_at(&mint, T).snowflake().sequence(), 0);
        assert_eq!(mint.cell().mint_before(T + 100, || Some(T + 99)), Err(T + 100));
        assert_eq!(mint.cell().mint_before(T + 100, || None), Err(T + 100));
        assert_eq!(mint.mint(&Clock::standing(last + 1)).unwrap_err().code(), Code::MintExhausted);
        assert_eq!(mint_at(&mint, T).snowflake().sequence(), 1);
        assert_eq!(mint_at(&mint, last).unix_ms(), last);
    }

    #[test]
    fn the_last_millisecond_of_41_bits_can_be_used_up() {
        let mint = Mint::new(1006).unwrap();
        let last = Clock::standing(EPOCH_MS + MAX_TIMESTAMP);
        let ids: Vec<EventId> = (0..4096).map(|_| mint.mint(&last).unwrap()).collect();
        assert_eq!(ids[4095].snowflake().sequence(), 4095);
        assert_eq!(mint.mint(&last).unwrap_err().code(), Code::MintExhausted);
    }

    #[test]
    fn a_cell_that_changes_its_node_begins_above_the_floor_of_the_new_one() {
        let cell = MintCell::own(3);
        let mint = |now| cell.mint_before(now, || Some(u64::MAX)).unwrap();
        assert_eq!((mint(T).snowflake().node(), cell.last_ms()), (3, T));
        cell.begin(5, T + 40_000);
        let id = mint(T);
        assert_eq!((id.snowflake().node(), id.unix_ms(), id.snowflake().sequence()), (5, T + 40_001, 0));
        // Beginning again with the same node never goes back.
        for floor in [0, T, T + 40_000] {
            cell.begin(5, floor);
            assert_eq!(cell.last_ms(), T + 40_001, "{floor}");
        }
        cell.begin(7, 0);
        assert_eq!((cell.last_ms(), mint(T).unix_ms()), (0, T));
    }

    #[test]
    fn clocks_that_stand_at_one_instant_share_a_cell_and_no_other_clock_moves_it() {
        let sequence =
            |cell: &MintCell, now| cell.mint_before(now, || Some(u64::MAX)).unwrap().snowflake().sequence();
        let (one, two, later) =
            (MintCell::standing(1007, T), MintCell::standing(1007, T), MintCell::standing(1007, T + 9));
        assert_eq!([sequence(&one, T), sequence(&later, T + 9), sequence(&two, T)], [0, 0, 1]);
        drop((one, two));
        assert_eq!(sequence(&MintCell::standing(1007, T), T), 2, "it goes on where the last one stood");
    }

    #[test]
    fn a_node_is_at_most_1022() {
        assert!(Mint::new(1022).is_ok());
        assert_eq!(Mint::new(1023).unwrap_err().code(), Code::InvalidOption);
    }
}
