//! Every operation that is not known to be harmless when it is repeated says `unknown_outcome` where it may have been carried
//! out, and only there.

use crate::cancel::mark::Cancel;
use crate::clock::Clock;
use crate::error::{Code, Error};
use crate::events::Channel;
use crate::events::progress::UpdateProgress;
use crate::events::publish::Publish;
use crate::events::signal::Signal;
use crate::group::admin::consumers::{RemoveConsumer, SweepConsumers};
use crate::group::admin::existence::{CreateGroup, RemoveGroup};
use crate::group::admin::seek::Seek;
use crate::group::dead_letter::{DeadLetter, PutBack};
use crate::id::entry_id::EntryId;
use crate::id::mint::Mint;
use crate::keyspace::Keyspace;
use crate::operation::command::{Command, Commands};
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::stream::Key;
use crate::stream::start::Start;
use crate::stream::trim::{Trim, Trimming};
use redis::Value;
use std::time::Duration;

const JOB: &[u8] = b"JOB000xY9Wvvcd";
const TIMEOUT: Duration = Duration::from_secs(5);
const REFUSED: &str = "-NOREPLICAS Not enough good replicas to write.\r\n";
const END: &str = "*2\r\n$17\r\nlast-generated-id\r\n$3\r\n7-1\r\n";

fn key() -> Key {
    Key::new(&Keyspace::new("q").unwrap(), "s").unwrap()
}

fn channel() -> Channel {
    Channel::new(Keyspace::new("q").unwrap())
}

fn parsed(reply: &str) -> Value {
    redis::parse_redis_value(reply.as_bytes()).unwrap()
}

/// What happens to an operation, one thing after the other.
struct Course<'a, O> {
    operation: O,
    minter: &'a Minter,
    /// How many commands it sent last.
    commands: usize,
}

impl<O: Operation> Course<'_, O> {
    fn send(mut self) -> Self {
        let mut commands = Packed::default();
        self.operation.prepare(self.minter).unwrap();
        self.operation.commands(&mut commands);
        self.commands = commands.count();
        self
    }

    fn unsent(mut self) -> Self {
        self.operation.unsent();
        self
    }

    /// The server refuses all of it.
    fn refused(mut self) -> Self {
        let replies = vec![parsed(REFUSED); self.commands];
        let step = self.operation.unavailable(replies, Error::new(Code::Unavailable, "no replicas"));
        assert!(matches!(step, Step::Later(_)));
        self
    }

    fn answered(mut self, reply: &str) -> Self {
        assert!(matches!(self.operation.answered(vec![parsed(reply)]), Step::Again));
        self
    }

    /// The answer is lost. Where that ends it, the code with which it ends.
    fn lost(mut self) -> Result<Self, Code> {
        match self.operation.lost() {
            Step::Again => Ok(self),
            Step::Done(answer) => Err(answer.err().unwrap().code()),
            Step::Later(_) | Step::Wait(_) => panic!("nobody was asked"),
        }
    }

    fn abandoned(mut self, why: Code) -> Code {
        self.operation.abandon(Error::new(why, "why")).err().unwrap().code()
    }
}

/// What an operation says that is false.
fn check<O: Operation>(name: &str, is_script: bool, new: impl Fn(&Minter) -> O) -> Vec<String> {
    let minter = Minter::new(Clock::system(), Some(Mint::new(NODE).unwrap()), None);
    let course = || Course { operation: new(&minter), minter: &minter, commands: 0 };
    let mut wrong = Vec::new();
    let mut expect = |what: &str, said: Code, expected: Code| {
        if said != expected {
            wrong.push(format!("{name}, {what}: {said}"));
        }
    };
    for own in [Code::Disconnected, Code::Timeout, Code::Closed] {
        expect("never sent", course().abandoned(own), own);
        expect("unsent", course().send().unsent().abandoned(own), own);
        expect("refused", course().send().refused().abandoned(own), own);
        expect("refused and then unsent", course().send().refused().send().unsent().abandoned(own), own);
        expect("on its way", course().send().abandoned(own), Code::UnknownOutcome);
        expect("refused, on its way", course().send().refused().send().abandoned(own), Code::UnknownOutcome);
        if is_script {
            let unknown = course().send().answered("-NOSCRIPT No matching script.\r\n");
            expect("unknown script", unknown.abandoned(own), own);
        }
    }
    expect("refused", course().send().refused().abandoned(Code::Unavailable), Code::Unavailable);
    match course().send().lost() {
        Err(code) => expect("lost", code, Code::UnknownOutcome),
        Ok(_) => {
            let lost = || course().send().lost().ok().unwrap();
            let unknown = Code::UnknownOutcome;
            expect("lost", lost().abandoned(Code::Disconnected), unknown);
            expect("lost, then refused", lost().send().refused().abandoned(Code::Unavailable), unknown);
            expect("lost, then unsent", lost().send().unsent().abandoned(Code::Disconnected), unknown);
            // It was not carried out before the answer was lost, but it may have been then.
            let refused = course().send().refused().send().lost().ok().unwrap();
            expect("refused, lost, refused", refused.send().refused().abandoned(Code::Unavailable), unknown);
        }
    }
    wrong
}

/// The operation after an answer that has it ask for more.
fn after<O: Operation>(operation: O, minter: &Minter, reply: &str) -> O {
    Course { operation, minter, commands: 0 }.send().answered(reply).operation
}

const NODE: u16 = 877;

#[test]
fn nothing_is_in_doubt_that_was_certainly_not_carried_out() {
    let (group, consumer) = ("g", "c");
    let signal = || Signal::new("completed", JOB).unwrap();
    let cancel = || Cancel::new(channel(), JOB, b"late", None, 1_000).unwrap();
    let dead_letter =
        |_: &Minter| DeadLetter::new(key(), group.into(), EntryId::new(7, 8), 3, b"no".to_vec(), TIMEOUT);
    let wrong = [
        check("a trim", false, |_| Trimming::new(key(), Trim::max_len(3))),
        check("an event", false, |_| Publish::new(channel(), &signal(), 1_000).unwrap()),
        check("a progress", true, |_| UpdateProgress::new(channel(), JOB, b"50", 1_000).unwrap()),
        check("a mark", false, |_| cancel()),
        check("the event of a mark", false, |minter| after(cancel(), minter, "+OK\r\n")),
        check("a removal of a consumer", true, |_| RemoveConsumer::new(key(), group.into(), consumer.into())),
        check("a sweep", true, |_| SweepConsumers::new(key(), group.into(), TIMEOUT)),
        check("a group", false, |_| CreateGroup::new(key(), group.into(), Start::Head)),
        check("a removal of a group", false, |_| RemoveGroup::new(key(), group.into())),
        check("a move", false, |_| Seek::new(key(), group.into(), Start::Head)),
        check("a move to the end", false, |minter| {
            after(Seek::new(key(), group.into(), Start::New), minter, END)
        }),
        check("a dead letter", true, dead_letter),
        check("what is put back", true, |minter| PutBack::new(key(), minter.mint().unwrap(), TIMEOUT)),
        check("a command", false, |_| Command::new(["INCR", "k"]).unwrap()),
        check("commands", false, |_| Commands::new([["INCR", "k"], ["INCR", "l"]]).unwrap()),
    ];
    assert_eq!(wrong.concat(), Vec::<String>::new());
}
