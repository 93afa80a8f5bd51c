//! Entries of dead peers, and failed ones whose time has come (`docs/protocol.md` §6.4).

use super::member::Member;
use super::page::Page;
use crate::error::Result;
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::time::Duration;

/// `XAUTOCLAIM key g c <min idle> <cursor> COUNT n`, then the delivery counts.
///
/// An entry that was claimed by a call whose answer was lost comes back once it is idle again.
pub(crate) struct Reclaim {
    member: Member,
    min_idle: Duration,
    cursor: EntryId,
    count: usize,
    claimed: Option<Reclaimed>,
}

/// What was reclaimed.
pub(crate) struct Reclaimed {
    pub(crate) page: Page,
    /// Where the next scan begins; the smallest position once the end was reached.
    pub(crate) cursor: EntryId,
}

impl Reclaim {
    pub(crate) fn new(member: Member, min_idle: Duration, cursor: EntryId, count: usize) -> Self {
        Self { member, min_idle, cursor, count, claimed: None }
    }

    fn claimed(replies: Vec<Value>) -> Result<Reclaimed> {
        let (cursor, entries, removed) =
            reply::claimed_entries(replies.into_iter().next().unwrap_or(Value::Nil))?;
        let mut page = Page::first_time(entries);
        page.removed.extend(removed);
        Ok(Reclaimed { page, cursor })
    }
}

impl Operation for Reclaim {
    type Reply = Reclaimed;

    fn commands(&self, commands: &mut Packed) {
        match &self.claimed {
            Some(claimed) => claimed.page.ask_counts(&self.member, commands),
            None => {
                let mut command = commands.command(8);
                command.arg("XAUTOCLAIM").arg(&*self.member.key).arg(&*self.member.group);
                command.arg(&*self.member.consumer).number(self.min_idle.as_millis() as u64);
                command.arg(self.cursor.text().as_bytes()).arg("COUNT").number(self.count as u64);
            }
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let answer = match self.claimed.take() {
            Some(mut claimed) => claimed.page.take_counts(replies).map(|()| claimed),
            None => match Self::claimed(replies) {
                Ok(claimed) if !claimed.page.deliveries.is_empty() => {
                    self.claimed = Some(claimed);
                    return Step::Again;
                }
                answer => answer,
            },
        };
        Step::Done(answer.map_err(|error| error.about(&*self.member.key)))
    }
}
