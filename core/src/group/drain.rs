//! A consumer's own pending entries, a page at a time (`docs/protocol.md` §6.2).

use super::member::Member;
use super::page::Page;
use crate::id::entry_id::EntryId;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;

/// `XREADGROUP GROUP g c COUNT n STREAMS key <after>`, then the delivery counts.
pub(crate) struct Drain {
    member: Member,
    after: EntryId,
    count: usize,
    page: Option<Page>,
}

impl Drain {
    pub(crate) fn new(member: Member, after: EntryId, count: usize) -> Self {
        Self { member, after, count, page: None }
    }
}

impl Operation for Drain {
    type Reply = Page;

    fn commands(&self, commands: &mut Packed) {
        match &self.page {
            Some(page) => page.ask_counts(&self.member, commands),
            None => {
                let mut command = self.member.read(5, commands);
                command.arg("COUNT").number(self.count as u64);
                command.arg("STREAMS").arg(&*self.member.key).arg(self.after.text().as_bytes());
            }
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let answer = match self.page.take() {
            Some(mut page) => page.take_counts(replies).map(|()| page),
            None => {
                let reply = replies.into_iter().next().unwrap_or(Value::Nil);
                match reply::stream_entries(reply).map(Page::first_time) {
                    Ok(page) if !page.deliveries.is_empty() => {
                        self.page = Some(page);
                        return Step::Again;
                    }
                    answer => answer,
                }
            }
        };
        Step::Done(answer.map_err(|error| error.about(&*self.member.key)))
    }
}
