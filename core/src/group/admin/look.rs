//! Looking at groups: one command that answers all at one instant, and a second one only where a lag has to be counted.

use super::info::{self, GroupInfo, Snapshot};
use super::lag::{Counting, Lag};
use super::no_group;
use crate::error::Result;
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::stream::Key;
use redis::Value;
use std::sync::Arc;

/// All groups of a stream; none where there is no stream.
pub(crate) struct LookAtGroups(Look);

impl LookAtGroups {
    pub(crate) fn new(key: Key) -> Self {
        Self(Look { key, group: None, counting: None })
    }
}

impl Operation for LookAtGroups {
    type Reply = Vec<GroupInfo>;

    fn commands(&self, commands: &mut Packed) {
        self.0.commands(commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        self.0.answered(replies)
    }
}

/// One group of a stream.
pub(crate) struct LookAtGroup {
    look: Look,
    group: Arc<str>,
}

impl LookAtGroup {
    pub(crate) fn new(key: Key, group: Arc<str>) -> Self {
        Self { look: Look { key, group: Some(group.clone()), counting: None }, group }
    }
}

impl Operation for LookAtGroup {
    type Reply = GroupInfo;

    fn commands(&self, commands: &mut Packed) {
        self.look.commands(commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        self.look.answered(replies).then(|groups| {
            Step::Done(groups.and_then(|groups| {
                groups.into_iter().next().ok_or_else(|| no_group(&self.look.key, &self.group))
            }))
        })
    }
}

struct Look {
    key: Key,
    /// The one that is asked for, else all.
    group: Option<Arc<str>>,
    /// What is counted, and for which groups.
    counting: Option<(Counting, Vec<(GroupInfo, Lag)>)>,
}

impl Look {
    fn commands(&self, commands: &mut Packed) {
        match &self.counting {
            None => {
                let mut command = commands.command(6);
                command.arg("XINFO").arg("STREAM").arg(&*self.key).arg("FULL").arg("COUNT").number(1);
                drop(command);
                commands.command(1).arg("TIME");
            }
            Some((counting, _)) => {
                let (from, to, count) = counting.range();
                let mut command = commands.command(6);
                command.arg("XRANGE").arg(&*self.key).arg(from).arg(to).arg("COUNT").number(count);
            }
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Vec<GroupInfo>> {
        let mut replies = replies.into_iter();
        let reply = replies.next().unwrap_or(Value::Nil);
        let step = match self.counting.take() {
            None => self.looked(reply, replies.next().unwrap_or(Value::Nil)),
            Some((counting, groups)) => {
                counted(reply, &counting, groups).map(|groups| Step::Done(Ok(groups)))
            }
        };
        step.unwrap_or_else(|error| Step::Done(Err(error.about(&*self.key))))
    }

    fn looked(&mut self, info: Value, time: Value) -> Result<Step<Vec<GroupInfo>>> {
        if let Value::ServerError(error) = &info
            && reply::is_no_such_key(error)
        {
            return Ok(Step::Done(Ok(Vec::new())));
        }
        let Snapshot { stream, mut groups } = Snapshot::read(info, reply::server_time(time)?)?;
        if let Some(wanted) = &self.group {
            groups.retain(|(group, _)| group.name == **wanted);
        }
        let uncertain = groups.iter().filter_map(|(group, lag)| match lag {
            Lag::AtMost(at_most) => Some((group.last_delivered, *at_most)),
            _ => None,
        });
        Ok(match Counting::new(uncertain, stream.last_generated) {
            Some(counting) => {
                self.counting = Some((counting, groups));
                Step::Again
            }
            None => Step::Done(Ok(settled(groups, |_, _| None))),
        })
    }
}

fn counted(reply: Value, counting: &Counting, groups: Vec<(GroupInfo, Lag)>) -> Result<Vec<GroupInfo>> {
    let entries = reply::list(reply::accepted(reply)?)?.into_iter();
    let entries = entries.map(info::position).collect::<Result<Vec<EntryId>>>()?;
    Ok(settled(groups, |position, at_most| counting.lag(&entries, position, at_most)))
}

/// The groups with their lags, those that are not certain as `count` says.
fn settled(groups: Vec<(GroupInfo, Lag)>, count: impl Fn(EntryId, u64) -> Option<u64>) -> Vec<GroupInfo> {
    let settle = |(group, lag): (GroupInfo, Lag)| {
        let lag = match lag {
            Lag::Known(lag) => Some(lag),
            Lag::Unknown => None,
            Lag::AtMost(at_most) => count(group.last_delivered, at_most),
        };
        GroupInfo { lag, ..group }
    };
    groups.into_iter().map(settle).collect()
}
