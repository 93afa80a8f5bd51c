//! A consumer in each language, left running while the server is started again and again.

use crate::bus::{Bus, STREAM, set};
use crate::consumer::Consumer;
use crate::stream_writer::Writer;
use crate::{each, times};
use echomq_tests::{Language, Server, wait_until};
use std::collections::BTreeSet;

/// How many records are appended between two restarts, at least.
const BETWEEN: usize = 50;

#[test]
fn restarts_of_a_server_that_persists_lose_nothing() {
    each(|kind| {
        let mut bus = Bus::of(Server::builder(kind).persistence(true).start());
        let mut consumers = Consumer::start_each(&bus, &[]);
        let writer = Writer::regardless(&bus);
        for _ in 0..times(2, 10) {
            let first = writer.appended();
            wait_until("more records", || writer.appended() >= first + BETWEEN);
            let ids = writer.ids_from(first);
            // Each is at work when it happens.
            for consumer in &mut consumers {
                consumer.wait_for("one of them", |consumer| {
                    ids.iter().any(|id| consumer.handled.contains_key(id))
                });
            }
            bus.server.restart();
            bus.reconnect();
        }
        let first = writer.appended();
        wait_until("more records", || writer.appended() >= first + BETWEEN);
        let appended = set(writer.end());
        let there = bus.ids(STREAM);
        assert!(appended.is_subset(&set(there.iter().copied())), "the server kept what it acknowledged");
        for consumer in &mut consumers {
            consumer.wait_until_handled(&there);
        }
        bus.wait_for_no_pending(Language::ALL.map(Language::name));
        for consumer in &mut consumers {
            assert_eq!(consumer.stop(), 0);
            assert_eq!(consumer.distinct(), set(there.iter().copied()));
            let repeats: usize = consumer.handled.values().map(|times| times - 1).sum();
            let language = consumer.program.language().name();
            println!("{}, {language}: {} records, {repeats} repeats", kind.name(), there.len());
        }
    });
}

#[test]
fn a_server_that_comes_back_empty_is_read_from_its_beginning() {
    each(|kind| {
        let mut bus = Bus::start(kind);
        let mut consumers = Consumer::start_each(&bus, &[]);
        let writer = Writer::regardless(&bus);
        for restarts_left in (0..=times(2, 10)).rev() {
            let first = writer.appended();
            wait_until("more records", || writer.appended() >= first + BETWEEN);
            // All that was appended since the server started.
            let ids = bus.ids(STREAM);
            for consumer in &mut consumers {
                consumer.wait_until_handled(&ids);
            }
            if restarts_left > 0 {
                bus.server.restart_empty();
                bus.reconnect();
            }
        }
        let appended = set(writer.end());
        let there = bus.ids(STREAM);
        for consumer in &mut consumers {
            consumer.wait_until_handled(&there);
        }
        bus.wait_for_no_pending(Language::ALL.map(Language::name));
        for consumer in &mut consumers {
            assert_eq!(consumer.stop(), 0);
            let handled: BTreeSet<_> = consumer.distinct();
            // The server forgot them before they were read: its loss, which a consumer cannot make good.
            let lost = appended.difference(&handled).count();
            let language = consumer.program.language().name();
            println!(
                "{}, {language}: {} records acknowledged, {lost} lost by the server with its memory",
                kind.name(),
                appended.len()
            );
        }
    });
}
