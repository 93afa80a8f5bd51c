//! Who holds a node.

use super::ask::text;
use crate::keyspace::node_owner;
use crate::record::packed::Packed;
use crate::record::reply::Members;
use redis::Value;
use std::fmt;
use std::time::Duration;

/// Asks who the owner of a lease is.
pub(crate) fn ask_owner(member: &str, commands: &mut Packed) {
    let owner = member.split_once(':').map_or(member, |(_, owner)| owner);
    commands.command(2).arg("HGETALL").arg(node_owner(owner));
}

/// The lease of a node, and who holds it. See [`Client::nodes`](crate::Client::nodes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLease {
    /// The node.
    pub node: u16,
    /// The token that it is held under, a ULID.
    pub owner: String,
    /// How much longer it holds unless it is renewed, by the server's clock.
    pub left: Duration,
    /// The host of the process.
    pub host: String,
    /// The number of the process on its host.
    pub process: String,
    /// The client's name; empty where it has none.
    pub client_name: String,
}

impl NodeLease {
    /// Reads what [`ask_owner`] asked for; nothing where the entry is no lease's.
    pub(crate) fn read(member: &str, reply: Value) -> Option<Self> {
        let (node, owner) = member.split_once(':')?;
        let node = node.parse().ok()?;
        // Who it is may be gone already, or hidden from this user.
        let mut members = Members::read(reply).ok();
        let mut part = |name: &str| {
            let value = members.as_mut().map_or(Value::Nil, |members| members.take(name));
            text(Some(value)).unwrap_or_default()
        };
        let (host, process, client_name) = (part("host"), part("process"), part("client_name"));
        Some(Self { node, owner: owner.to_owned(), left: Duration::ZERO, host, process, client_name })
    }
}

impl fmt::Display for NodeLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} by process {} on host {}", self.node, self.process, self.host)?;
        if self.client_name.is_empty() { Ok(()) } else { write!(f, ", client {}", self.client_name) }
    }
}
