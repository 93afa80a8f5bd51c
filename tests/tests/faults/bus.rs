//! A server, and two ways to it that do not fail: a plain client, and a client of the core that appends.

use echomq::blocking::{Client, Stream};
use echomq::{EntryId, EventId, Options};
use echomq_tests::{Kind, Plain, Server, wait_until};
use redis::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU16, Ordering};
use tempfile::TempDir;

/// The stream that tests use which need only one.
pub const STREAM: &str = "events";

/// A server with the queue `codemojex`, and a folder for what programs write.
pub struct Bus {
    pub server: Server,
    pub plain: Plain,
    pub folder: TempDir,
    client: Client,
}

impl Bus {
    pub fn start(kind: Kind) -> Self {
        Self::of(Server::start(kind))
    }

    pub fn of(server: Server) -> Self {
        let plain = Plain::connect(&server);
        let options = Options::new(&server.url()).unwrap().node_id(next_node());
        let client = Client::open(&options).unwrap();
        Self { server, plain, folder: TempDir::new().unwrap(), client }
    }

    pub fn stream(&self, name: &str) -> Stream {
        self.client.stream("codemojex", name).unwrap()
    }

    /// Appends records with the field `n`, the number in their batch.
    pub fn append(&self, count: usize) -> Vec<EventId> {
        let records = (0..count).map(|n| [("n", n.to_string())]);
        self.stream(STREAM).append_batch_atomic(records).unwrap()
    }

    /// Has the plain client connect again, after the server was started again.
    pub fn reconnect(&mut self) {
        self.plain = Plain::connect(&self.server);
    }

    /// The ids of all records that the stream holds.
    pub fn ids(&mut self, stream: &str) -> Vec<EventId> {
        let entries: Vec<(String, Vec<Vec<u8>>)> = self.plain.query(["XRANGE", &key(stream), "-", "+"]);
        let id = |fields: Vec<Vec<u8>>| std::str::from_utf8(&fields[1]).unwrap().parse().unwrap();
        entries.into_iter().map(|(_, fields)| id(fields)).collect()
    }

    /// How many entries of a group wait for a verdict.
    pub fn pending(&mut self, group: &str) -> usize {
        let (pending, ..): (usize, Value, Value, Value) = self.plain.query(["XPENDING", &key(STREAM), group]);
        pending
    }

    /// Waits until these groups were given all of these records, and have a verdict on each.
    pub fn wait_for_no_pending_after<'a>(
        &mut self,
        ids: &[EventId],
        groups: impl IntoIterator<Item = &'a str>,
    ) {
        let last = ids.last().map(|id| EntryId::from(*id).to_string());
        for group in groups {
            wait_until(&format!("the last verdicts in {group}"), || {
                let given: Vec<BTreeMap<String, Value>> = self.plain.query(["XINFO", "GROUPS", &key(STREAM)]);
                let own = given.iter().find(|of| text(&of["name"]).as_deref() == Some(group));
                own.is_some_and(|of| text(&of["last-delivered-id"]) == last) && self.pending(group) == 0
            });
        }
    }

    /// Waits until every entry of these groups has its verdict.
    pub fn wait_for_no_pending<'a>(&mut self, groups: impl IntoIterator<Item = &'a str>) {
        for group in groups {
            wait_until(&format!("the last verdicts in {group}"), || self.pending(group) == 0);
        }
    }
}

pub fn key(stream: &str) -> String {
    format!("emq:{{codemojex}}:stream:{stream}")
}

fn text(value: &Value) -> Option<String> {
    redis::from_redis_value(value.clone()).ok()
}

/// A node that no other program of this run uses.
pub fn next_node() -> u16 {
    static NODES: AtomicU16 = AtomicU16::new(1);
    NODES.fetch_add(1, Ordering::Relaxed) % 1_023
}

/// Ids in order, without repeats.
pub fn set(ids: impl IntoIterator<Item = EventId>) -> BTreeSet<EventId> {
    ids.into_iter().collect()
}
