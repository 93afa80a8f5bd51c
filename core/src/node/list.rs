//! Who holds which node.

use crate::error::Result;
use crate::keyspace::NODES_KEY;
use crate::operation::lease::{NodeLease, ask_owner};
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::time::Duration;

/// Lists the leases that have not run out, by node.
#[derive(Default)]
pub(crate) struct Nodes {
    /// Members, and how much longer they hold.
    found: Vec<(String, Duration)>,
}

impl Nodes {
    fn found(&mut self, mut replies: Vec<Value>) -> Result<()> {
        let time = reply::server_time(replies.pop().unwrap_or(Value::Nil))?;
        let members = reply::accepted(replies.pop().unwrap_or(Value::Nil))?;
        for (member, deadline) in reply::scores(members)? {
            let left = deadline.saturating_sub(time);
            if left > 0 {
                self.found.push((String::from_utf8_lossy(&member).into_owned(), Duration::from_millis(left)));
            }
        }
        Ok(())
    }
}

impl Operation for Nodes {
    type Reply = Vec<NodeLease>;

    fn commands(&self, commands: &mut Packed) {
        if self.found.is_empty() {
            commands.command(5).arg("ZRANGE").arg(NODES_KEY).arg("0").arg("-1").arg("WITHSCORES");
            commands.command(1).arg("TIME");
        }
        self.found.iter().for_each(|(member, _)| ask_owner(member, commands));
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        if self.found.is_empty() {
            return match self.found(replies) {
                Ok(()) if self.found.is_empty() => Step::Done(Ok(Vec::new())),
                Ok(()) => Step::Again,
                Err(error) => Step::Done(Err(error.about(NODES_KEY))),
            };
        }
        let found = std::mem::take(&mut self.found);
        let leases = found.into_iter().zip(replies);
        let mut leases: Vec<NodeLease> = leases
            .filter_map(|((member, left), reply)| {
                Some(NodeLease { left, ..NodeLease::read(&member, reply)? })
            })
            .collect();
        leases.sort_by_key(|lease| lease.node);
        Step::Done(Ok(leases))
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        self.found.clear();
        Step::Again
    }
}
