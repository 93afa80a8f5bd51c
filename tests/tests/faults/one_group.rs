//! Two programs of different languages in one group: one follows the other, or both use one name.

use crate::bus::{Bus, STREAM, set};
use crate::consumer::Consumer;
use crate::each;
use echomq_tests::{Kind, Language, wait_until};

/// Each language with the next one.
fn pairs() -> impl Iterator<Item = (Language, Language)> {
    let following = Language::ALL.into_iter().cycle().skip(1);
    Language::ALL.into_iter().zip(following)
}

#[test]
fn a_stop_during_a_full_batch_gives_back_what_was_not_begun() {
    each(stop_during_a_full_batch);
}

fn stop_during_a_full_batch(kind: Kind) {
    let mut bus = Bus::start(kind);
    let records = (0..60).map(|n: usize| [("n", n.to_string()), ("pause", "40".to_owned())]);
    let ids = bus.stream(STREAM).append_batch_atomic(records).unwrap();
    // Nobody takes what was not given back.
    let an_hour = [("min_idle", "3600000")];
    let start = |language, group: Language| Consumer::start(&bus, language, group.name(), &an_hour);
    let mut stopping: Vec<Consumer> = pairs().map(|(language, _)| start(language, language)).collect();
    let mut at_work: Vec<&mut Consumer> = stopping.iter_mut().collect();
    wait_until("a few handled in each language", || {
        at_work.retain_mut(|consumer| {
            consumer.look();
            let stop = consumer.handled.len() >= 5;
            if stop {
                consumer.program.terminate();
            }
            !stop
        });
        at_work.is_empty()
    });
    for consumer in &mut stopping {
        assert_eq!(consumer.stop(), 0);
        assert!(consumer.handled.len() < ids.len(), "it stopped before it was done");
        assert_eq!(consumer.begun.len(), consumer.handled.len(), "what it began it finished");
    }
    let following: Vec<Consumer> = pairs().map(|(language, next)| start(next, language)).collect();
    for ((stopped, mut following), (language, next)) in stopping.iter().zip(following).zip(pairs()) {
        let rest: Vec<_> = ids.iter().copied().filter(|id| !stopped.handled.contains_key(id)).collect();
        following.wait_until_handled(&rest);
        bus.wait_for_no_pending([language.name()]);
        assert_eq!(following.stop(), 0);
        assert_eq!(following.distinct(), set(rest), "none twice: {} and {}", language.name(), next.name());
        assert!(stopped.handled.values().chain(following.handled.values()).all(|times| *times == 1));
    }
}

#[test]
fn two_consumers_of_one_name_lose_nothing() {
    each(|kind| {
        let mut bus = Bus::start(kind);
        let start = |(first, second): (Language, Language)| {
            let group = first.name();
            [first, second].map(|language| Consumer::start(&bus, language, group, &[("consumer", "c")]))
        };
        // Some are there before they start, so that both find them pending for their name.
        let mut ids = bus.append(50);
        let mut consumers: Vec<_> = pairs().map(start).collect();
        consumers.iter_mut().flatten().for_each(Consumer::wait_until_ready);
        for _ in 0..20 {
            ids.extend(bus.append(20));
        }
        bus.wait_for_no_pending_after(&ids, pairs().map(|(first, _)| first.name()));
        for pair in &mut consumers {
            pair.iter_mut().for_each(|consumer| assert_eq!(consumer.stop(), 0));
            let handled = pair.iter().flat_map(|consumer| consumer.handled.keys().copied());
            assert_eq!(set(handled), set(ids.iter().copied()));
        }
    });
}
