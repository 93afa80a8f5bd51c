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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;
    use crate::stream::Key;

    fn texts(drain: &Drain) -> Vec<String> {
        let mut commands = Packed::default();
        drain.commands(&mut commands);
        commands.texts()
    }

    fn reply(text: &str) -> Value {
        redis::parse_redis_value(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_counts_of_a_page_take_one_round_and_what_is_gone_is_told() {
        let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
        let member = Member { key, group: "g".into(), consumer: "c".into() };
        let mut drain = Drain::new(member, EntryId::new(1, 0), 3);
        assert_eq!(texts(&drain), ["XREADGROUP GROUP g c COUNT 3 STREAMS emq:{q}:stream:s 1-0"]);
        let entry = |seq: u64| format!("*2\r\n$3\r\n1-{seq}\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n");
        let page = format!(
            "*1\r\n*2\r\n$16\r\nemq:{{q}}:stream:s\r\n*3\r\n{}*2\r\n$3\r\n1-2\r\n*-1\r\n{}",
            entry(1),
            entry(3)
        );
        assert!(matches!(drain.answered(vec![reply(&page)]), Step::Again));
        assert_eq!(
            texts(&drain),
            ["XPENDING emq:{q}:stream:s g 1-1 1-1 1 c", "XPENDING emq:{q}:stream:s g 1-3 1-3 1 c"]
        );
        // The first was settled meanwhile.
        let counts = ["*0\r\n", "*1\r\n*4\r\n$3\r\n1-3\r\n$1\r\nc\r\n:5\r\n:4\r\n"];
        let Step::Done(Ok(page)) = drain.answered(counts.map(reply).into()) else { panic!("not done") };
        let deliveries: Vec<(EntryId, u64)> =
            page.deliveries.iter().map(|(record, count)| (record.entry_id(), *count)).collect();
        assert_eq!(deliveries, [(EntryId::new(1, 3), 4)]);
        assert_eq!((page.removed, page.last), (vec![EntryId::new(1, 2)], Some(EntryId::new(1, 3))));
    }
}
