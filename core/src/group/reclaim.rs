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
    /// How many entries it was asked for: fewer than at first after a page was cut.
    pub(crate) asked: usize,
}

impl Reclaim {
    pub(crate) fn new(member: Member, min_idle: Duration, cursor: EntryId, count: usize) -> Self {
        Self { member, min_idle, cursor, count, claimed: None }
    }

    fn claimed(asked: usize, replies: Vec<Value>) -> Result<Reclaimed> {
        let (cursor, entries, removed) =
            reply::claimed_entries(replies.into_iter().next().unwrap_or(Value::Nil))?;
        let mut page = Page::first_time(entries);
        page.removed.extend(removed);
        Ok(Reclaimed { page, cursor, asked })
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
            None => match Self::claimed(self.count, replies) {
                Ok(claimed) if !claimed.page.deliveries.is_empty() => {
                    self.claimed = Some(claimed);
                    return Step::Again;
                }
                answer => answer,
            },
        };
        Step::Done(answer.map_err(|error| error.about(&*self.member.key)))
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        // It may have been more than the way, or the server, carries at once. What has come is asked after again.
        if self.claimed.is_none() {
            self.count = (self.count / 2).max(1);
        }
        Step::Again
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;
    use crate::stream::Key;

    #[test]
    fn what_is_cut_is_claimed_in_smaller_pages() {
        let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
        let member = Member { key, group: "g".into(), consumer: "c".into() };
        let mut reclaim = Reclaim::new(member, Duration::from_millis(5), EntryId::MIN, 9);
        let asked = |reclaim: &Reclaim| {
            let mut commands = Packed::default();
            reclaim.commands(&mut commands);
            commands.texts()
        };
        for count in [9, 4, 2, 1, 1] {
            assert_eq!(asked(&reclaim), [format!("XAUTOCLAIM emq:{{q}}:stream:s g c 5 0-0 COUNT {count}")]);
            assert!(matches!(reclaim.lost(), Step::Again));
        }
        let entry = "*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n";
        let reply = redis::parse_redis_value(format!("*2\r\n$3\r\n1-2\r\n*1\r\n{entry}").as_bytes()).unwrap();
        assert!(matches!(reclaim.answered(vec![reply]), Step::Again));
        let counts = asked(&reclaim);
        assert_eq!(counts, ["XPENDING emq:{q}:stream:s g 1-1 1-1 1 c"]);
        assert!(matches!(reclaim.lost(), Step::Again));
        assert_eq!(asked(&reclaim), counts, "what has come stays");
        let count = redis::parse_redis_value(b"*1\r\n*4\r\n$3\r\n1-1\r\n$1\r\nc\r\n:5\r\n:4\r\n").unwrap();
        let Step::Done(Ok(reclaimed)) = reclaim.answered(vec![count]) else { panic!("not done") };
        assert_eq!((reclaimed.asked, reclaimed.page.deliveries.len()), (1, 1));
    }
}
