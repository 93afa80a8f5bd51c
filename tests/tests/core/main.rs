//! The core against real servers: Valkey and Redis, a plain client reading the keys, and a network that fails.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets the unexpected has failed")]

mod append;
mod batch;
mod breaks;
mod cancel;
mod cancelled;
mod connection;
mod consumer;
mod consumer_faults;
mod dead_letters;
mod demotion;
mod doors;
mod events;
mod faults;
mod group_lag;
mod groups;
mod listener;
mod listener_faults;
mod lost_answers;
mod nodes;
mod pages;
mod progress;
mod read;
mod sequenced;
mod sequencer_law;
mod setup;
mod tail;
mod tls_rotation;
mod trim;
mod unavailable;
mod writers;

use echomq::{Client, Options, Stream};
use echomq_tests::{Kind, Plain, Server};
use std::future::Future;
use std::sync::atomic::{AtomicU16, Ordering};

const KEY: &str = "emq:{codemojex}:stream:events";

/// A server with a client and the stream `events` of the queue `codemojex`.
struct Bus {
    server: Server,
    plain: Plain,
    client: Client,
    stream: Stream,
}

/// Options with a node that no other test of this process uses, so that sequences start at 0.
fn options(url: &str) -> Options {
    static NODES: AtomicU16 = AtomicU16::new(0);
    Options::new(url).unwrap().node_id(NODES.fetch_add(1, Ordering::Relaxed))
}

impl Bus {
    async fn start(kind: Kind) -> Self {
        Self::with(Server::start(kind), |options| options).await
    }

    async fn with(server: Server, change: impl FnOnce(Options) -> Options) -> Self {
        let plain = Plain::connect(&server);
        let client = Client::connect(&change(options(&server.url()))).await.unwrap();
        let stream = client.stream("codemojex", "events").unwrap();
        Self { server, plain, client, stream }
    }
}

/// Runs a test against each kind of server.
async fn each<F: Future<Output = ()>>(test: impl Fn(Kind) -> F) {
    for kind in Kind::ALL {
        test(kind).await;
    }
}
