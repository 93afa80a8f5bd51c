use super::*;
use crate::stream::start::Start;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

fn state(change: impl FnOnce(ConsumerOptions) -> ConsumerOptions) -> State {
    State::new(&change(ConsumerOptions::new("g", Start::Head).unwrap()))
}

fn entry(seq: u64, value: &str) -> (Record, u64) {
    (Record::new(EntryId::new(1, seq), vec![(b"k".to_vec(), value.as_bytes().to_vec())]), 1)
}

fn take(state: &mut State, taker: Taker, max: usize) -> Vec<u64> {
    match state.take(taker, max) {
        Some((Taken::Entries(entries), _)) => {
            entries.iter().map(|entry| entry.record.entry_id().seq()).collect()
        }
        Some((Taken::End(_), _)) => panic!("the end"),
        None => Vec::new(),
    }
}

fn ids(seqs: &[u64]) -> Vec<EntryId> {
    seqs.iter().map(|seq| EntryId::new(1, *seq)).collect()
}

#[test]
fn no_more_than_count_entries_are_held_ahead() {
    let mut state = state(|options| options.count(10));
    assert_eq!(state.room(), 10);
    state.put((0..10).map(|seq| entry(seq, "")));
    assert_eq!(state.room(), 0);
    assert!(!state.take(Taker::Anyone, 4).unwrap().1);
    assert_eq!(state.begin_read(), None, "more than half of them are still ahead");
    assert!(state.take(Taker::Anyone, 1).unwrap().1, "the engine is told that there is room again");
    assert_eq!(state.room(), 5);
    // What a worker took and has not begun is still ahead of its handler; the first of it is begun.
    assert_eq!(take(&mut state, Taker::Worker(0), 5).len(), 5);
    assert_eq!(state.room(), 6);
    state.settle(&ids(&[5]), true, Instant::now());
    assert_eq!(state.room(), 7);
    // A batch is begun as a whole.
    state.put((10..17).map(|seq| entry(seq, "")));
    assert_eq!(take(&mut state, Taker::Batch(0), 7).len(), 7);
    assert_eq!(state.room(), 7);
}

#[test]
fn two_reads_of_half_the_count_are_on_their_way_and_one_place_is_left() {
    let mut state = state(|options| options.count(10));
    assert_eq!((state.begin_read(), state.begin_read(), state.begin_read()), (Some(5), Some(4), None));
    assert_eq!(state.begin_scan(Instant::now(), true), Some((EntryId::MIN, 1)), "the place of the scan");
    state.scan_ended(Some((EntryId::MIN, 0, 10)));
    // The first was answered in full: there is room again when enough of it was taken.
    state.end_read(5);
    state.put((0..5).map(|seq| entry(seq, "")));
    assert_eq!(state.begin_read(), None);
    take(&mut state, Taker::Anyone, 3);
    assert_eq!(state.begin_read(), None);
    take(&mut state, Taker::Anyone, 1);
    assert_eq!(state.begin_read(), Some(4));
    for (count, sizes) in [(1, [Some(1), None]), (2, [Some(1), None]), (3, [Some(2), None])] {
        let mut state = self::state(|options| options.count(count));
        assert_eq!([state.begin_read(), state.begin_read()], sizes, "{count}");
    }
}

#[test]
fn one_place_is_shared_by_reads_and_scans() {
    let mut state = state(|options| options.count(1));
    assert_eq!(state.begin_read(), Some(1));
    assert_eq!(state.begin_scan(Instant::now(), true), Some((EntryId::MIN, 1)));
}

#[test]
fn a_batch_that_waits_for_more_gets_room() {
    let mut state = state(|options| options.count(10));
    state.put((0..9).map(|seq| entry(seq, "")));
    assert_eq!(state.begin_read(), None);
    state.want(10);
    assert_eq!(state.begin_read(), Some(1));
}

#[test]
fn a_taker_that_makes_room_for_a_read_alone_wakes_the_engine() {
    for wanted in [0, 2] {
        let mut state = state(|options| options.count(2));
        state.want(wanted);
        state.take_attention();
        let size = state.begin_read().unwrap();
        state.end_read(size);
        state.put([entry(0, "")]);
        if wanted > 0 {
            // The batch that waits for two has room for the second.
            assert_eq!(state.begin_read(), Some(1));
            state.end_read(1);
            state.put([entry(1, "")]);
        }
        assert_eq!(state.begin_read(), None, "{wanted}");
        let wakes = state.take(Taker::Anyone, 1).unwrap().1;
        assert!(wakes && state.take_attention(), "{wanted}");
        assert_eq!(state.begin_read(), Some(1), "{wanted}");
    }
}

/// An entry of about so many bytes.
fn large(seq: u64, bytes: usize) -> (Record, u64) {
    entry(seq, &"x".repeat(bytes))
}

#[test]
fn no_more_bytes_are_held_ahead_than_a_page_has() {
    let mut state = state(|options| options.count(100).page_bytes(40_000));
    assert_eq!((state.begin_read(), state.begin_read()), (Some(8), Some(7)), "nothing is known yet");
    state.end_read(8);
    state.page_came(8, 8 * 10_000);
    state.put((0..8).map(|seq| large(seq, 10_000 - 81)));
    assert_eq!((state.room(), state.begin_read()), (0, None));
    assert_eq!(state.begin_scan(Instant::now(), true), None);
    state.end_read(7);
    state.page_came(7, 7 * 10_000);
    assert_eq!(take(&mut state, Taker::Anyone, 5).len(), 5);
    assert_eq!(state.begin_read(), None, "three of the four that fit are still ahead");
    assert_eq!(take(&mut state, Taker::Anyone, 1).len(), 1);
    // One place is left to the scan.
    assert_eq!((state.begin_read(), state.begin_read()), (Some(1), None));
    assert_eq!(state.begin_scan(Instant::now(), true), Some((EntryId::MIN, 1)));
    state.scan_ended(None);
    state.end_read(1);
    // What was given back to the front is still ahead, and what was let go is not.
    assert!(state.return_unused(vec![large(5, 10_000 - 81), large(4, 10_000 - 81)]));
    assert_eq!((state.bytes, state.room()), (40_000, 0));
    assert_eq!(state.take_unused().len(), 4);
    assert_eq!((state.bytes, state.room()), (0, 4));
    // An entry that is larger than a page comes alone.
    state.page_came(1, 90_000);
    assert_eq!((state.room(), state.begin_read(), state.begin_read()), (1, Some(1), None));
    assert_eq!(state.begin_scan(Instant::now(), true), Some((EntryId::MIN, 1)));
}

#[test]
fn a_page_that_is_cut_is_fetched_in_parts_and_small_entries_fill_the_count_again() {
    let mut state = state(|options| options.count(100));
    state.page_cut(15);
    assert_eq!((state.begin_read(), state.begin_read()), (Some(4), None));
    state.end_read(4);
    state.page_cut(4);
    assert_eq!(state.room(), 2);
    for entries in [2, 8, 32] {
        state.page_came(entries, entries * 100);
    }
    assert_eq!(state.room(), 100);
}

#[test]
fn a_batch_that_cannot_grow_is_whole() {
    let mut state = state(|options| options.count(100).page_bytes(40_000).batch(100, Duration::from_secs(9)));
    state.want(100);
    state.page_came(4, 4 * 10_000);
    let read = state.begin_read().unwrap();
    assert!(!state.batch_is_due(100), "a read is on its way");
    state.end_read(read);
    state.put((0..3).map(|seq| large(seq, 10_000 - 81)));
    assert!(!state.batch_is_due(100), "one more fits");
    assert_eq!(state.begin_read(), Some(1));
    state.end_read(1);
    state.put([large(3, 10_000 - 81)]);
    assert!(state.batch_is_due(100));
    // Small entries fill it.
    let mut state = self::state(|options| options.count(20).batch(20, Duration::from_secs(9)));
    state.want(20);
    for seq in 0..20 {
        assert!(!state.batch_is_due(20), "{seq}");
        let read = state.begin_read().unwrap();
        state.end_read(read);
        state.page_came(1, 100);
        state.put([entry(seq, "")]);
    }
    assert!(state.batch_is_due(20));
}

#[test]
fn acknowledgements_leave_when_the_batch_is_done_or_5_ms_have_passed() {
    let mut state = state(|options| options.count(10));
    let now = Instant::now();
    state.put((0..3).map(|seq| entry(seq, "")));
    take(&mut state, Taker::Anyone, 3);
    let first = state.settle(&ids(&[1]), true, now);
    assert_eq!(first, Settled { acknowledge: vec![], wake: true });
    assert_eq!(state.times().0, Some(now + Duration::from_millis(5)));
    assert!(state.take_attention());
    let second = state.settle(&ids(&[0]), true, now + Duration::from_millis(3));
    assert_eq!(second, Settled::default());
    let third = state.settle(&ids(&[2]), false, now);
    assert_eq!(third.acknowledge, ids(&[1, 0]));
    assert_eq!(state.times().0, None);
    assert_eq!(state.verdicts_arrived(), None);
    state.acknowledged(ids(&[1, 0]), Ok(()), now);
    assert_eq!(state.verdicts_arrived(), Some(Ok(())));
    // A page full of them does not wait for the rest.
    state.put((10..30).map(|seq| entry(seq, "")));
    take(&mut state, Taker::Anyone, 20);
    let settled: Vec<Settled> = (10..20).map(|seq| state.settle(&ids(&[seq]), true, now)).collect();
    assert!(settled[..9].iter().all(|settled| settled.acknowledge.is_empty()));
    assert_eq!(settled[9].acknowledge.len(), 10);
}

#[test]
fn a_verdict_counts_once() {
    let mut state = state(|options| options);
    state.put([entry(0, "")]);
    take(&mut state, Taker::Anyone, 1);
    assert_eq!(state.settle(&ids(&[0]), true, Instant::now()).acknowledge, ids(&[0]));
    assert_eq!(state.settle(&ids(&[0]), true, Instant::now()).acknowledge, []);
}

#[test]
fn an_acknowledgement_that_did_not_arrive_is_sent_again_and_then_forgotten() {
    let mut state = state(|options| options);
    let now = Instant::now();
    state.put([entry(0, "")]);
    take(&mut state, Taker::Anyone, 1);
    let sent = state.settle(&ids(&[0]), true, now).acknowledge;
    let late = Error::new(crate::error::Code::Timeout, "late");
    state.acknowledged(sent, Err(late.clone()), now);
    assert_eq!((state.unfinished(), state.verdicts_arrived()), (1, Some(Err(late))));
    assert!(state.known().contains(&EntryId::new(1, 0)), "it is not handed out once more");
    let again = state.take_acknowledgements();
    assert_eq!(again, ids(&[0]));
    state.acknowledged(again, Ok(()), now);
    assert_eq!((state.unfinished(), state.verdicts_arrived()), (0, Some(Ok(()))));
}

#[test]
fn what_was_delivered_before_is_handled_one_at_a_time_where_deliveries_are_counted() {
    let again = |seq: u64| (entry(seq, "").0, 2);
    let now = Instant::now();
    let mut state = state(|options| options.concurrency(4).max_attempts(3));
    assert_eq!((state.redelivery_room(), state.room()), (1, 16));
    state.put([again(0)]);
    assert_eq!((state.redelivery_room(), state.room()), (0, 15), "new ones come all the same");
    assert_eq!(take(&mut state, Taker::Worker(0), 9), [0]);
    assert_eq!(state.begin_scan(now, true), None);
    // Its acknowledgement leaves at once, and the next is fetched when it has arrived.
    state.put([entry(50, "")]);
    let sent = state.settle(&ids(&[0]), true, now).acknowledge;
    assert_eq!(sent, ids(&[0]));
    assert_eq!(state.redelivery_room(), 0);
    state.acknowledged(sent, Ok(()), now);
    assert_eq!(state.redelivery_room(), 1);
    // One that is dropped without a verdict is over too.
    state.put([again(1)]);
    take(&mut state, Taker::Worker(0), 9);
    take(&mut state, Taker::Worker(0), 9);
    assert!(state.settle(&ids(&[1]), false, now).wake);
    assert_eq!(state.redelivery_room(), 1);
    // What failed here killed nothing.
    state.failed(EntryId::new(1, 2));
    state.put([again(2)]);
    assert_eq!(state.redelivery_room(), 1);
}

#[test]
fn whoever_pulls_and_keeps_gets_the_next_one() {
    let mut state = state(|options| options.max_attempts(3));
    state.put([(entry(0, "").0, 2)]);
    assert!(!state.ask(Taker::Anyone), "there is one");
    assert_eq!(take(&mut state, Taker::Anyone, 9), [0]);
    assert_eq!(state.redelivery_room(), 0);
    assert!(state.ask(Taker::Anyone) && state.take_attention());
    assert_eq!(state.redelivery_room(), 1);
    state.put([(entry(1, "").0, 2)]);
    assert_eq!(take(&mut state, Taker::Anyone, 9), [1]);
    assert_eq!(state.redelivery_room(), 0);
    assert!(!state.ask(Taker::Worker(0)), "a worker waits for the others");
}

#[test]
fn a_failing_head_does_not_starve_the_scan() {
    let mut state = state(|options| options.count(10));
    let now = Instant::now();
    assert_eq!(state.begin_scan(now, false), None);
    assert_eq!(state.begin_scan(now, true), Some((EntryId::MIN, 10)));
    assert_eq!(state.begin_scan(now, true), None, "one is under way");
    assert_eq!(state.room(), 0, "and may bring as many as there is room for");
    state.scan_ended(Some((EntryId::new(7, 7), 10, 10)));
    // It brought all it asked for, so the next follows without a beat, and from there.
    assert_eq!(state.begin_scan(now, false), Some((EntryId::new(7, 7), 10)));
    state.scan_ended(Some((EntryId::MIN, 0, 10)));
    assert_eq!(state.begin_scan(now, false), None);
    // Entries that are to come back are looked for from the lowest of them.
    state.call_back(EntryId::new(5, 0), now);
    state.call_back(EntryId::new(3, 0), now - Duration::from_millis(1));
    state.call_back(EntryId::new(1, 0), now + Duration::from_millis(1));
    assert_eq!(state.begin_scan(now, false), Some((EntryId::new(3, 0), 10)));
    assert_eq!(state.times().1, Some(now + Duration::from_millis(1)));
}

#[test]
fn what_is_to_come_back_waits_for_room_and_not_for_a_time() {
    for taker in [Taker::Anyone, Taker::Worker(0), Taker::Batch(0)] {
        let mut state = state(|options| options.count(10));
        let now = Instant::now();
        assert_eq!((state.begin_read(), state.begin_read()), (Some(5), Some(4)));
        for seq in 1..=3 {
            state.call_back(EntryId::new(1, seq), now);
        }
        assert!(state.take_attention());
        for seq in 1..=3 {
            assert_eq!(
                state.begin_scan(now, false),
                Some((EntryId::new(1, seq), 1)),
                "the reads leave one place"
            );
            state.put([entry(seq, "")]);
            state.scan_ended(Some((EntryId::new(1, seq + 1), 1, 1)));
            assert!(state.take_attention());
            assert_eq!(state.begin_scan(now, false), None, "it has the place until it is taken");
            let (_, wake) = state.take(taker, 1).unwrap();
            assert!(wake && state.take_attention(), "the engine is told that there is room again");
        }
    }
}

#[test]
fn a_place_that_a_handler_frees_is_one_for_what_is_to_come_back() {
    let mut state = state(|options| options.count(10));
    let now = Instant::now();
    state.put([entry(0, ""), entry(1, "")]);
    assert_eq!(take(&mut state, Taker::Worker(0), 2), [0, 1]);
    assert_eq!(state.begin_read(), Some(5));
    state.put((2..6).map(|seq| entry(seq, "")));
    state.call_back(EntryId::new(1, 7), now);
    assert!(state.take_attention());
    assert_eq!(state.begin_scan(now, false), None);
    assert!(state.settle(&ids(&[0]), false, now).wake && state.take_attention());
    assert_eq!(state.begin_scan(now, false), Some((EntryId::new(1, 7), 1)));
}

#[test]
fn a_stop_hands_nothing_out_and_waits_for_what_is_in_hand() {
    let mut state = state(|options| options);
    let by = Instant::now() + Duration::from_secs(1);
    state.put((0..3).map(|seq| entry(seq, "")));
    take(&mut state, Taker::Anyone, 1);
    state.stop(by);
    state.stop(by + Duration::from_secs(9));
    assert_eq!(state.stopping(), Some(by), "a stop is only brought forward");
    assert!(matches!(state.take(Taker::Anyone, 1), Some((Taken::End(None), _))));
    assert_eq!(state.take_unused(), ids(&[1, 2]));
    assert!(!state.is_idle());
    assert_eq!(state.settle(&ids(&[0]), true, Instant::now()).acknowledge, ids(&[0]));
    assert!(state.is_idle());
}

#[test]
fn no_worker_has_all_values_to_itself() {
    let mut state = state(|options| options.concurrency(2).order_by("k"));
    state.put([entry(0, "a"), entry(1, "b"), entry(2, "a"), entry(3, "b")]);
    assert_eq!(take(&mut state, Taker::Worker(0), 9), [0, 2]);
    assert_eq!(take(&mut state, Taker::Worker(1), 9), [1]);
}

#[test]
fn what_was_not_begun_goes_back_to_the_front() {
    let mut state = state(|options| options.concurrency(2).order_by("k"));
    state.put([entry(0, "a"), entry(1, "a"), entry(2, "b")]);
    assert_eq!(take(&mut state, Taker::Batch(0), 2), [0, 1]);
    assert!(state.return_unused(vec![entry(1, "a")]));
    assert_eq!(take(&mut state, Taker::Batch(1), 9), [2], "its value is in the hands of the other worker");
    assert_eq!(take(&mut state, Taker::Batch(0), 9), [1]);
    state.stop(Instant::now());
    assert!(!state.return_unused(vec![entry(1, "a")]), "it goes back to the group instead");
}

/// For each that waits on a state, whether it would go on: a read, a drain, a scan, and whoever takes.
fn would_go_on(state: &State) -> Vec<bool> {
    let takers = [Taker::Anyone, Taker::Worker(0), Taker::Worker(1)].map(|taker| state.is_ready(taker));
    let engine =
        [state.read_size() > 0, state.redelivery_room() > 0, state.scan.waits() && state.scan_room() > 0];
    engine.into_iter().chain(takers).collect()
}

proptest! {
    /// Whatever is fetched, taken and settled in whatever order: a step by which somebody who waits would go on, and which
    /// does not wake everyone in any case, says that they are to be woken.
    #[test]
    fn whoever_could_go_on_is_woken(
        (count, page_bytes) in (1..8_usize, 1..5_usize),
        (counted, ordered) in any::<(bool, bool)>(),
        steps in prop::collection::vec((0..11_u8, 0..3_usize, 1..4_usize), 1..200),
    ) {
        let mut state = state(|options| {
            let options = options.count(count).page_bytes(page_bytes * 200).concurrency(2);
            let options = if counted { options.max_attempts(3) } else { options };
            if ordered { options.order_by("k") } else { options }
        });
        let (mut reads, mut next, now) = (VecDeque::new(), 0, Instant::now());
        let mut hands: Vec<u64> = Vec::new();
        for (step, which, many) in steps {
            let (before, taker) = (would_go_on(&state), [Taker::Anyone, Taker::Worker(0), Taker::Worker(1)][which]);
            state.take_attention();
            let mut came = |state: &mut State, entries: usize, attempts| {
                let first = next;
                next += entries as u64;
                state.page_came(entries, entries * 100);
                state.put((first..next).map(|seq| (entry(seq, &(seq % 3).to_string()).0, attempts)));
            };
            let woken = match step {
                0 => {
                    reads.extend(state.begin_read());
                    true
                }
                1 => {
                    if let Some(read) = reads.pop_front() {
                        state.end_read(read);
                        came(&mut state, many.min(read), 1);
                    }
                    true
                }
                2 => {
                    let room = state.redelivery_room();
                    came(&mut state, many.min(room), 2);
                    true
                }
                3 => {
                    if let Some((cursor, room)) = state.begin_scan(now, which == 0) {
                        came(&mut state, many.min(room), 2);
                        state.scan_ended(Some((cursor, many.min(room), room)));
                    }
                    true
                }
                4 => {
                    state.want(if which == 0 { 0 } else { many });
                    true
                }
                5 => {
                    state.call_back(EntryId::new(1, next), now);
                    true
                }
                6 => {
                    let sent = state.take_acknowledgements();
                    if !sent.is_empty() {
                        state.acknowledged(sent, Ok(()), now);
                    }
                    true
                }
                7 => {
                    state.ask(taker);
                    state.take_attention()
                }
                8 | 9 => match state.take(taker, many) {
                    Some((Taken::Entries(entries), wake)) => {
                        hands.extend(entries.iter().map(|entry| entry.record.entry_id().seq()));
                        wake
                    }
                    _ => false,
                },
                _ if hands.is_empty() => false,
                _ => {
                    let seq = hands.swap_remove(which % hands.len());
                    let settled = state.settle(&ids(&[seq]), many > 1, now);
                    if !settled.acknowledge.is_empty() {
                        state.acknowledged(settled.acknowledge, Ok(()), now);
                        // Its answer wakes everyone.
                        continue;
                    }
                    settled.wake
                }
            };
            let after = would_go_on(&state);
            let goes_on = before.iter().zip(&after).any(|(before, after)| *after && !before);
            prop_assert!(woken || !goes_on, "step {step}: {before:?}, then {after:?}");
        }
    }

    /// Workers take and settle in any order: the entries of one value are begun in their order, and by one worker at a
    /// time; nothing is handed out twice, and nothing is forgotten.
    #[test]
    fn the_order_of_a_value_is_kept_among_workers(
        values in prop::collection::vec(0..5_u8, 1..60),
        steps in prop::collection::vec((0..3_usize, 1..4_usize, any::<bool>()), 1..400),
    ) {
        let mut state = state(|options| options.count(100).concurrency(3).order_by("k"));
        let value_of: BTreeMap<u64, u8> = (0..).zip(values.iter().copied()).collect();
        state.put(value_of.iter().map(|(seq, value)| entry(*seq, &value.to_string())));
        let mut hands: [VecDeque<u64>; 3] = Default::default();
        let mut begun: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
        let end = (0..3 * values.len()).map(|step| (step % 3, 100, step % 2 == 0));
        for (worker, max, takes) in steps.into_iter().chain(end) {
            if takes && hands[worker].is_empty() {
                hands[worker].extend(take(&mut state, Taker::Worker(worker), max));
            }
            for (other, hand) in hands.iter().enumerate() {
                let shared = |seq: &u64| other != worker && hands[worker].iter().any(|own| value_of[own] == value_of[seq]);
                prop_assert!(!hand.iter().any(shared), "{hands:?}");
            }
            if let Some(seq) = hands[worker].pop_front() {
                begun.entry(value_of[&seq]).or_default().push(seq);
                state.settle(&ids(&[seq]), true, Instant::now());
            }
        }
        for (worker, hand) in hands.iter_mut().enumerate() {
            for seq in hand.drain(..) {
                begun.entry(value_of[&seq]).or_default().push(seq);
                state.settle(&ids(&[seq]), true, Instant::now());
            }
            prop_assert!(worker < 3);
        }
        let expected: BTreeMap<u8, Vec<u64>> = value_of.iter().fold(BTreeMap::new(), |mut all, (seq, value)| {
            all.entry(*value).or_insert_with(Vec::new).push(*seq);
            all
        });
        prop_assert_eq!(begun, expected);
        prop_assert!(state.busy.is_empty() && state.is_idle());
    }
}
