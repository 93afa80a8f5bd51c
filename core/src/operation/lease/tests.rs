//! The lease without a server: a model of what the script gives, and answers by hand.

use super::*;
use crate::clock::Clock;
use crate::id::branded::EventId;
use crate::id::mint::MintCell;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use proptest::prelude::*;
use redis::Value;
use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;

const T: u64 = 1_735_689_600_000;
const TTL: u64 = 30_000;

/// What the script does with a floor (`lua/node_lease.lua`): from where a new holder begins, and its limit.
fn hold(floor: &mut u64, instant: u64) -> (u64, u64) {
    let from = *floor;
    *floor = (instant.max(from) + TTL).max(*floor);
    (from, *floor)
}

proptest! {
    /// Whatever the clocks of successive holders show, and however many ids each makes until it stops without a word.
    #[test]
    fn successive_holders_of_one_node_never_repeat_an_id(
        holders in prop::collection::vec((-90_000_i64..90_000, prop::collection::vec(0_u64..40_000, 1..40)), 1..8),
    ) {
        let (mut floor, mut all, mut count) = (0, HashSet::new(), 0);
        for (offset, steps) in holders {
            let cell = MintCell::own(0);
            let mut now = (T as i64 + offset) as u64;
            let (from, mut limit) = hold(&mut floor, now);
            cell.begin(3, from);
            for (turn, step) in steps.into_iter().enumerate() {
                now = (now + step).saturating_sub(if turn % 7 == 6 { 50_000 } else { 0 });
                if turn % 3 == 2 {
                    limit = hold(&mut floor, now.max(cell.last_ms())).1;
                }
                if let Ok(id) = cell.mint_before(now, || Some(limit)) {
                    prop_assert!(id.unix_ms() <= floor && id.unix_ms() > from);
                    all.insert(id);
                    count += 1;
                }
            }
        }
        prop_assert_eq!(all.len(), count);
    }
}

struct Bench {
    minter: Arc<Minter>,
    lease: Arc<Lease>,
    lost: Arc<AtomicUsize>,
    conflicts: Arc<AtomicUsize>,
}

impl Bench {
    fn new(node: Option<u16>, on_conflict: OnNodeConflict, clock: Clock) -> Self {
        let mint = node.map(|node| crate::Mint::new(node).unwrap());
        let minter = Arc::new(Minter::leased(clock, mint, None));
        let (lost, conflicts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (losses, others) = (lost.clone(), conflicts.clone());
        let tell = move |told| {
            match told {
                Told::Lost(_) => losses.fetch_add(1, Ordering::Relaxed),
                Told::Conflict(_) => others.fetch_add(1, Ordering::Relaxed),
            };
        };
        let terms = Terms { node, time: Duration::from_secs(30), on_conflict };
        let lease = Arc::new(Lease::new(minter.clone(), terms, "", Box::new(tell)));
        Self { minter, lease, lost, conflicts }
    }

    fn ask(&self) -> Hold {
        Hold::new(self.lease.clone())
    }

    /// Sends, and takes the answers.
    fn answer(&self, question: &mut Hold, replies: &[&str]) -> Step<()> {
        question.prepare(&self.minter).unwrap();
        question.answered(values(replies))
    }

    fn word(&self, question: &mut Hold) -> String {
        let mut commands = Packed::default();
        question.prepare(&self.minter).unwrap();
        question.commands(&mut commands);
        commands.texts().remove(0).split(' ').nth(6).unwrap().to_owned()
    }

    fn mint(&self) -> Option<EventId> {
        self.minter.try_mint().ok()
    }
}

fn values(replies: &[&str]) -> Vec<Value> {
    replies.iter().map(|reply| redis::parse_redis_value(reply.as_bytes()).unwrap()).collect()
}

/// What the script answers, as the protocol has it.
fn held(node: u16, from: u64, limit: &str, other: &str) -> String {
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    format!("*5\r\n{}:{node}\r\n{}{}{}", text("held"), text(&from.to_string()), text(limit), text(other))
}

#[test]
fn a_lease_is_asked_for_then_renewed_then_asked_for_again() {
    let bench = Bench::new(None, OnNodeConflict::Warn, Clock::system());
    let mut question = bench.ask();
    assert_eq!((bench.word(&mut question), bench.mint()), ("acquire".to_owned(), None));
    let limit = (Clock::system().now() + TTL).to_string();
    assert!(matches!(bench.answer(&mut question, &[&held(5, 0, &limit, "")]), Step::Done(Ok(()))));
    assert_eq!(bench.mint().unwrap().snowflake().node(), 5);
    let mut question = bench.ask();
    assert_eq!(bench.word(&mut question), "renew");
    assert!(matches!(bench.answer(&mut question, &["*1\r\n$4\r\ngone\r\n"]), Step::Again));
    assert_eq!((bench.mint(), bench.lost.load(Ordering::Relaxed)), (None, 1));
    assert_eq!(bench.word(&mut question), "acquire");
    // The node is another one, and its last holder was ahead.
    let from: u64 = limit.parse().unwrap();
    let limit = (from + TTL).to_string();
    assert!(matches!(bench.answer(&mut question, &[&held(6, from, &limit, "")]), Step::Done(Ok(()))));
    let id = bench.mint().unwrap();
    assert_eq!((id.snowflake().node(), id.unix_ms()), (6, from + 1));
    assert_eq!(bench.lost.load(Ordering::Relaxed), 1);
}

#[test]
fn after_a_reconnect_nothing_is_minted_before_the_renewal() {
    let bench = Bench::new(None, OnNodeConflict::Warn, Clock::system());
    bench.lease.suspend();
    assert!(!bench.lease.is_held());
    let limit = (Clock::system().now() + TTL).to_string();
    let reply = held(5, 0, &limit, "");
    assert!(matches!(bench.answer(&mut bench.ask(), &[&reply]), Step::Done(Ok(()))));
    bench.lease.suspend();
    assert_eq!(bench.mint(), None);
    assert!(matches!(bench.answer(&mut bench.ask(), &[&reply]), Step::Done(Ok(()))));
    assert!(bench.mint().is_some());
}

#[test]
fn the_limit_holds_back_a_clock_that_runs_ahead_of_it() {
    let bench = Bench::new(None, OnNodeConflict::Warn, Clock::system());
    let limit = (Clock::system().now() - 1).to_string();
    assert!(matches!(bench.answer(&mut bench.ask(), &[&held(5, 0, &limit, "")]), Step::Done(Ok(()))));
    assert_eq!(bench.mint(), None);
}

#[test]
fn a_standing_clock_asks_for_no_floor_and_keeps_to_none() {
    let bench = Bench::new(Some(3), OnNodeConflict::Warn, Clock::standing(T));
    assert!(matches!(bench.answer(&mut bench.ask(), &[&held(3, T + TTL, "", "")]), Step::Done(Ok(()))));
    let snowflake = bench.mint().unwrap().snowflake();
    assert_eq!((snowflake.unix_ms(), snowflake.node(), snowflake.sequence()), (T, 3, 0));
}

#[test]
fn a_conflict_is_told_once_and_minting_goes_on_where_the_option_says_so() {
    let bench = Bench::new(Some(881), OnNodeConflict::Warn, Clock::system());
    let limit = (Clock::system().now() + TTL).to_string();
    let who = "*4\r\n$4\r\nhost\r\n$1\r\nh\r\n$7\r\nprocess\r\n$1\r\n7\r\n";
    for _ in 0..2 {
        let mut question = bench.ask();
        assert!(matches!(bench.answer(&mut question, &[&held(881, 0, &limit, "881:X")]), Step::Again));
        assert!(bench.mint().is_some());
        assert!(matches!(bench.answer(&mut question, &[who]), Step::Done(Ok(()))));
    }
    assert_eq!(bench.conflicts.load(Ordering::Relaxed), 1);
    let taken = "*2\r\n$5\r\ntaken\r\n$5\r\n882:X\r\n";
    for (option, waits) in [(OnNodeConflict::Refuse, false), (OnNodeConflict::Wait, true)] {
        let bench = Bench::new(Some(882), option, Clock::system());
        let mut question = bench.ask();
        assert!(matches!(bench.answer(&mut question, &[taken]), Step::Again));
        match bench.answer(&mut question, &[who]) {
            Step::Wait(error) if waits => assert_eq!(bench.lease.refusal(), Some(error)),
            Step::Done(Err(error)) if !waits => assert_eq!(error.code(), Code::NodeConflict),
            other => panic!("{other:?}"),
        }
        assert_eq!(bench.mint(), None);
    }
}

#[test]
fn without_the_right_to_write_only_a_given_node_is_minted_with() {
    let denied = "-NOPERM no permissions to access a key\r\n";
    let given = Bench::new(Some(883), OnNodeConflict::Warn, Clock::system());
    assert!(matches!(given.answer(&mut given.ask(), &[denied]), Step::Done(Ok(()))));
    assert!(given.mint().is_some());
    assert_eq!(given.conflicts.load(Ordering::Relaxed), 1);
    for bench in [
        Bench::new(None, OnNodeConflict::Warn, Clock::system()),
        Bench::new(Some(884), OnNodeConflict::Refuse, Clock::system()),
    ] {
        let Step::Done(Err(error)) = bench.answer(&mut bench.ask(), &[denied]) else { panic!() };
        assert_eq!((error.code(), bench.mint()), (Code::Auth, None));
    }
}

#[test]
fn what_was_given_back_is_not_minted_with_again() {
    let bench = Bench::new(None, OnNodeConflict::Warn, Clock::system());
    let limit = (Clock::system().now() + TTL).to_string();
    let reply = held(5, 0, &limit, "");
    let mut late = bench.ask();
    assert!(matches!(bench.answer(&mut bench.ask(), &[&reply]), Step::Done(Ok(()))));
    late.prepare(&bench.minter).unwrap();
    let mut release = Release::new(bench.lease.clone());
    release.prepare(&bench.minter).unwrap();
    assert_eq!(bench.mint(), None);
    // An answer that was on its way gives no right any longer.
    assert!(matches!(late.answered(values(&[&reply])), Step::Done(Ok(()))));
    assert_eq!(bench.mint(), None);
    assert_eq!(bench.ask().prepare(&bench.minter).unwrap_err().code(), Code::Closed);
    assert!(bench.lease.is_released() && !bench.lease.look());
}

#[test]
fn clients_of_one_process_hold_a_given_node_under_one_token() {
    let lease = |node, clock| Bench::new(node, OnNodeConflict::Warn, clock).lease.owner.clone();
    let first = lease(Some(885), Clock::system());
    assert_eq!((first.len(), &first), (26, &lease(Some(885), Clock::system())));
    for other in [
        lease(Some(886), Clock::system()),
        lease(None, Clock::system()),
        lease(None, Clock::system()),
        lease(Some(885), Clock::standing(T)),
    ] {
        assert_ne!(first, other);
    }
}

#[test]
fn where_no_node_is_free_and_none_is_held_the_question_ends_at_once() {
    let bench = Bench::new(None, OnNodeConflict::Warn, Clock::system());
    let mut question = bench.ask();
    question.prepare(&bench.minter).unwrap();
    let Step::Done(Err(error)) = bench.answer(&mut question, &["*1\r\n$4\r\nfull\r\n"]) else {
        panic!("nothing more is to be asked")
    };
    assert_eq!(error.code(), Code::NodeLeaseLost);
    assert!(error.message().contains("max_clock_ahead"), "{error}");
}
