//! Entries that are gone, and handlers that take long, in each language.

use crate::bus::{Bus, STREAM, key, set};
use crate::consumer::Consumer;
use crate::each;
use echomq_tests::Language;

#[test]
fn trimmed_pending_entries_are_lost_with_a_notice() {
    each(|kind| {
        let mut bus = Bus::start(kind);
        let (ids, key) = (bus.append(6), key(STREAM));
        // In each group, three are pending for a consumer that is gone, and three for the one that is about to start.
        for group in Language::ALL.map(Language::name) {
            bus.plain.command(["XGROUP", "CREATE", &key, group, "0"]);
            for consumer in ["gone", "own"] {
                bus.plain.command([
                    "XREADGROUP",
                    "GROUP",
                    group,
                    consumer,
                    "COUNT",
                    "3",
                    "STREAMS",
                    &key,
                    ">",
                ]);
            }
        }
        bus.plain.command(["XTRIM", &key, "MAXLEN", "=", "1"]);
        let mut consumers = Consumer::start_each(&bus, &[("consumer", "own"), ("min_idle", "100")]);
        bus.wait_for_no_pending(Language::ALL.map(Language::name));
        for consumer in &mut consumers {
            consumer.wait_until_handled(&ids[5..]);
            assert_eq!(consumer.stop(), 0);
            assert_eq!(consumer.distinct(), set(ids[5..].iter().copied()));
            // Redis tells of an entry of a peer that is gone by leaving it out and forgets it itself.
            let told = consumer.notices.iter().filter(|(kind, _)| kind == "lost").filter_map(|(_, id)| *id);
            assert_eq!(set(told), set(ids[..5].iter().copied()), "{}", consumer.program.language().name());
        }
    });
}

#[test]
fn a_handler_longer_than_min_idle_keeps_its_entry() {
    each(|kind| {
        let mut bus = Bus::start(kind);
        // Both halves of a pair get long entries, and each language is in a pair.
        let [rust, elixir, python, node] = Language::ALL;
        let pairs = [("first", [rust, python]), ("second", [elixir, node])];
        let options = [("min_idle", "2000"), ("count", "4")];
        let start = |(group, languages): (&'static str, [Language; 2])| {
            languages.map(|language| Consumer::start(&bus, language, group, &options))
        };
        let mut consumers: Vec<_> = pairs.into_iter().flat_map(start).collect();
        consumers.iter_mut().for_each(Consumer::wait_until_ready);
        let record = |n: usize| {
            let pause = if n.is_multiple_of(10) { "3000" } else { "20" };
            [("n", n.to_string()), ("pause", pause.to_owned())]
        };
        let ids = bus.stream(STREAM).append_batch_atomic((0..20).map(record)).unwrap();
        bus.wait_for_no_pending_after(&ids, pairs.map(|(group, _)| group));
        for pair in consumers.chunks_mut(2) {
            pair.iter_mut().for_each(|consumer| assert_eq!(consumer.stop(), 0));
            let begun = pair.iter().flat_map(|consumer| consumer.begun.iter());
            assert!(begun.clone().all(|(_, attempts)| *attempts == 1));
            assert_eq!(begun.count(), ids.len(), "none was given to both");
            let handled = pair.iter().flat_map(|consumer| consumer.handled.keys().copied());
            assert_eq!(set(handled), set(ids.iter().copied()));
        }
    });
}
