//! A consumer in each language behind a network that fails, and on a server that drops connections and data.

use crate::bus::Bus;
use crate::consumer::Consumer;
use crate::each;
use echomq_tests::{Direction, Kind, Language, Proxy};

/// A consumer in each language, each behind a proxy of its own.
struct Behind {
    bus: Bus,
    consumers: Vec<(Proxy, Consumer)>,
}

impl Behind {
    /// Starts them and has each handle something.
    fn start(kind: Kind) -> Self {
        let bus = Bus::start(kind);
        let start = |language: Language| {
            let proxy = Proxy::start(bus.server.address());
            let options = [("timeout", "1000")];
            let consumer = Consumer::start_at(&proxy.url(), &bus, language, language.name(), &options);
            (proxy, consumer)
        };
        let consumers = Language::ALL.map(start).into();
        let mut behind = Self { bus, consumers };
        behind.handle_more();
        behind
    }

    fn fail(&self, failure: impl Fn(&Proxy)) {
        self.consumers.iter().for_each(|(proxy, _)| failure(proxy));
    }

    fn wait_for_notice(&mut self, kind: &str) {
        self.consumers.iter_mut().for_each(|(_, consumer)| consumer.wait_for_notice(kind));
    }

    /// Appends records and waits until each has handled them.
    fn handle_more(&mut self) {
        let ids = self.bus.append(20);
        self.consumers.iter_mut().for_each(|(_, consumer)| consumer.wait_until_handled(&ids));
    }

    /// Each goes on, and ends cleanly.
    fn end(mut self) {
        self.handle_more();
        self.bus.wait_for_no_pending(Language::ALL.map(Language::name));
        for (_, consumer) in &mut self.consumers {
            assert_eq!(consumer.stop(), 0);
        }
    }
}

#[test]
fn a_half_open_connection_is_noticed_and_replaced() {
    each(|kind| {
        let mut behind = Behind::start(kind);
        behind.fail(Proxy::black_hole_existing);
        behind.handle_more();
        behind.wait_for_notice("disconnected");
        behind.wait_for_notice("reconnected");
        behind.end();
    });
}

#[test]
fn a_lane_whose_answers_vanish_is_given_up_and_opened_again() {
    each(|kind| {
        let mut behind = Behind::start(kind);
        behind.fail(|proxy| proxy.black_hole(Direction::Replies));
        let ids = behind.bus.append(20);
        behind.wait_for_notice("disconnected");
        behind.fail(Proxy::heal);
        behind.consumers.iter_mut().for_each(|(_, consumer)| consumer.wait_until_handled(&ids));
        behind.wait_for_notice("reconnected");
        behind.end();
    });
}

#[test]
fn killed_connections_are_opened_again() {
    each(|kind| {
        let mut behind = Behind::start(kind);
        for _ in 0..3 {
            behind.bus.plain.command(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
            behind.handle_more();
        }
        behind.wait_for_notice("reconnected");
        behind.end();
    });
}

#[test]
fn a_server_that_was_emptied_is_read_on() {
    each(|kind| {
        let mut behind = Behind::start(kind);
        for _ in 0..3 {
            behind.bus.plain.command(["FLUSHALL"]);
            behind.handle_more();
        }
        behind.wait_for_notice("group_recreated");
        behind.end();
    });
}
