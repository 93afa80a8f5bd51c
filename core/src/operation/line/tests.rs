//! The line against a made-up operation: order, loss, deadlines, bounds.

use super::*;
use crate::clock::Clock;
use crate::operation::Step;
use crate::operation::lease::{Hold, OnNodeConflict, Terms};
use crate::operation::minter::Minter;
use crate::record::packed::Packed;
use std::time::Duration;

/// Sends `SET <name>` once, or `GET <name>` after a loss; a `GET` that answers nil sends `SET` again.
struct Probe {
    name: &'static str,
    asking: bool,
    bytes: usize,
}

impl Operation for Probe {
    type Reply = &'static str;

    fn commands(&self, commands: &mut Packed) {
        commands.command(2).arg(if self.asking { "GET" } else { "SET" }).arg(self.name);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        match (self.asking, &replies[..]) {
            (true, [Value::Nil]) => {
                self.asking = false;
                Step::Again
            }
            _ => Step::Done(Ok(self.name)),
        }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        self.asking = true;
        Step::Again
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What the server's script answers to the question for the node.
fn held() -> Value {
    let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    Value::Array(vec![text("held"), Value::Int(7), text("0"), text("4000000000000"), text("")])
}

fn most(weight: usize) -> Bounds {
    Bounds { weight, bytes: usize::MAX }
}

struct Bench {
    line: Line,
    minter: Arc<Minter>,
    now: Instant,
}

impl Bench {
    fn new(max_weight: usize) -> Self {
        Self {
            line: Line::new(Bounds { weight: max_weight, bytes: 1_000 }),
            minter: Arc::new(Minter::new(Clock::system(), None, None)),
            now: Instant::now(),
        }
    }

    /// Has the line mint under a lease, which it holds.
    fn lease(&mut self) {
        let terms = Terms { node: None, time: Duration::from_secs(30), on_conflict: OnNodeConflict::Warn };
        let minter = Arc::new(Minter::leased(Clock::system(), None, Some(Duration::from_secs(60))));
        let lease = Arc::new(Lease::new(minter.clone(), terms, "", Box::new(|_| ())));
        let mut question = Hold::new(lease.clone());
        question.prepare(&minter).unwrap();
        assert!(matches!(question.answered(vec![held()]), Step::Done(Ok(()))));
        self.line = Line::leasing(self.line.bounds, lease, false);
        self.minter = minter;
    }

    fn submit(&mut self, name: &'static str) -> Result<Pending<&'static str>> {
        self.submit_until(name, 60)
    }

    fn submit_until(&mut self, name: &'static str, seconds: u64) -> Result<Pending<&'static str>> {
        self.line.submit(Probe { name, asking: false, bytes: 0 }, self.now + Duration::from_secs(seconds))
    }

    fn answer(&mut self, reply: Value) {
        let settled = Settled::read(self.line.answer(reply).into_iter().collect());
        self.line.settle(settled).tell();
    }

    fn broken(&mut self) {
        self.broken_after(u64::MAX);
    }

    /// The connection breaks when so many bytes have left.
    fn broken_after(&mut self, left: u64) {
        let lost = self.line.broken(left, &Error::new(Code::Disconnected, "the server closed")).ask();
        self.line.recover(lost).tell();
    }

    fn abandon(&mut self, why: &Error) -> usize {
        let (count, abandoned) = self.line.abandon(why);
        abandoned.tell();
        count
    }

    fn take(&mut self, max: usize) -> Vec<String> {
        let mut commands = Packed::default();
        let outgoing = Outgoing::prepare(self.line.take(most(max)), &self.minter, &mut commands);
        self.line.sent(outgoing).tell();
        commands.texts()
    }
}

#[test]
fn operations_go_out_and_are_answered_in_order() {
    let mut bench = Bench::new(10);
    let mut answers: Vec<_> = ["a", "b", "c"].map(|name| bench.submit(name).unwrap()).into();
    assert_eq!(bench.take(2), ["SET a", "SET b"]);
    assert_eq!(bench.take(2), ["SET c"]);
    bench.answer(Value::Okay);
    assert_eq!(answers[0].try_take().unwrap(), Ok("a"));
    assert!(answers[1].try_take().is_none());
    bench.answer(Value::Okay);
    bench.answer(Value::Okay);
    assert_eq!(answers[2].try_take().unwrap(), Ok("c"));
    assert!(bench.line.is_empty());
}

#[test]
fn what_was_lost_is_asked_after_then_sent_again_before_anything_newer() {
    let mut bench = Bench::new(10);
    let mut answers: Vec<_> = ["a", "b", "c"].map(|name| bench.submit(name).unwrap()).into();
    bench.take(3);
    bench.answer(Value::Okay);
    bench.broken();
    answers.push(bench.submit("d").unwrap());
    assert_eq!(bench.take(10), ["GET b", "GET c"]);
    assert_eq!(bench.take(10), [""; 0], "nothing newer before the answers");
    bench.answer(Value::Nil);
    assert_eq!(bench.take(10), [""; 0], "nor a part of them");
    bench.answer(Value::Nil);
    assert_eq!(bench.take(10), ["SET b", "SET c", "SET d"]);
    (0..3).for_each(|_| bench.answer(Value::Okay));
    let taken: Vec<_> = answers.iter_mut().map(|answer| answer.try_take().unwrap().unwrap()).collect();
    assert_eq!(taken, ["a", "b", "c", "d"]);
    assert!(bench.line.is_empty());
}

#[test]
fn a_second_break_while_asking_changes_nothing() {
    let mut bench = Bench::new(10);
    let mut a = bench.submit("a").unwrap();
    let mut b = bench.submit("b").unwrap();
    bench.take(2);
    bench.broken();
    assert_eq!(bench.take(10), ["GET a", "GET b"]);
    bench.answer(Value::Nil);
    bench.broken();
    let mut c = bench.submit("c").unwrap();
    assert_eq!(bench.take(10), ["GET b"], "a is known to be missing, b is not");
    bench.answer(Value::Okay);
    assert_eq!(bench.take(10), ["SET a", "SET c"]);
    (0..2).for_each(|_| bench.answer(Value::Okay));
    for answer in [&mut a, &mut b, &mut c] {
        assert!(answer.try_take().unwrap().is_ok());
    }
}

#[test]
fn a_full_line_takes_no_more_until_there_is_room() {
    let mut bench = Bench::new(2);
    let _answers = [bench.submit("a").unwrap(), bench.submit("b").unwrap()];
    assert_eq!(bench.submit("c").unwrap_err().code(), Code::Overloaded);
    bench.take(1);
    assert_eq!(bench.submit("c").unwrap_err().code(), Code::Overloaded);
    bench.answer(Value::Okay);
    assert!(bench.submit("c").is_ok());
}

#[test]
fn a_deadline_holds_wherever_the_operation_stands() {
    let mut bench = Bench::new(10);
    let mut on_its_way = bench.submit_until("a", 1).unwrap();
    bench.take(1);
    let mut later = bench.submit_until("b", 3).unwrap();
    let mut fresh = bench.submit_until("c", 1).unwrap();
    assert_eq!(bench.line.next_deadline(), Some(bench.now + Duration::from_secs(1)));
    bench.line.expire(bench.now + Duration::from_secs(1), || Error::new(Code::Timeout, "late")).tell();
    for answer in [&mut on_its_way, &mut fresh] {
        assert_eq!(answer.try_take().unwrap().unwrap_err().code(), Code::Timeout);
    }
    assert_eq!(bench.take(10), ["SET b"]);
    bench.answer(Value::Okay); // to a, which nobody waits for
    assert!(later.try_take().is_none());
    bench.answer(Value::Okay);
    assert_eq!(later.try_take().unwrap(), Ok("b"));
    assert!(bench.line.is_empty());
}

#[test]
fn a_closed_line_takes_nothing_and_gives_up_what_is_left() {
    let mut bench = Bench::new(10);
    let mut a = bench.submit("a").unwrap();
    bench.line.close(Error::new(Code::Closed, "closed"));
    assert_eq!(bench.submit("b").unwrap_err().code(), Code::Closed);
    assert_eq!(bench.abandon(&Error::new(Code::Closed, "closed")), 1);
    assert_eq!(a.try_take().unwrap().unwrap_err().code(), Code::Closed);
    assert!(bench.line.is_empty());
}

#[test]
fn what_is_in_hand_when_all_is_given_up_follows() {
    let mut bench = Bench::new(10);
    let why = Error::new(Code::Closed, "closed");
    let mut answers: Vec<_> = ["a", "b"].map(|name| bench.submit(name).unwrap()).into();
    bench.take(1);
    let answered = bench.line.answer(Value::Nil).unwrap();
    let taken = bench.line.take(most(1));
    bench.line.close(why.clone());
    assert_eq!(bench.abandon(&why), 2, "both are in hand");
    assert!(!bench.line.is_finished());
    bench.line.settle(Settled::read(vec![answered])).tell();
    assert_eq!(answers[0].try_take().unwrap(), Ok("a"), "its answer was there");
    let mut sent = Packed::default();
    bench.line.sent(Outgoing::prepare(taken, &bench.minter, &mut sent)).tell();
    assert_eq!(sent.count(), 1);
    assert_eq!(answers[1].try_take().unwrap().unwrap_err().code(), Code::Closed);
    bench.answer(Value::Okay);
    assert!(bench.line.is_finished());
}

/// A server that closes on one certain command: its operation fails by itself, whatever is on its way with it.
#[test]
fn what_breaks_the_connection_each_time_is_found_and_fails_alone() {
    const NAMES: [&str; 40] = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t",
        "u", "v", "w", "x", "y", "z", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "A", "B", "C", "D",
    ];
    for guilty in NAMES {
        // The server gives its answers before it closes, or keeps them back; each connection begins with the question for the
        // node, or not.
        for (answers_first, leases) in [(true, true), (true, false), (false, true), (false, false)] {
            let mut bench = Bench::new(1_000);
            if leases {
                bench.lease();
            }
            let mut answers: Vec<_> = NAMES.map(|name| bench.submit(name).unwrap()).into();
            let (mut breaks, mut rounds) = (0, 0);
            while !bench.line.is_empty() {
                rounds += 1;
                assert!(rounds < 1_000, "{guilty} is never found");
                let taken = bench.take(1_000);
                let closes = taken.iter().position(|command| *command == format!("SET {guilty}"));
                let answered = match closes {
                    Some(place) if answers_first => place,
                    Some(_) => 0,
                    None => taken.len(),
                };
                taken[..answered].iter().for_each(|command| {
                    bench.answer(match command.split(' ').next() {
                        Some("GET") => Value::Nil,
                        Some("SET") => Value::Okay,
                        _ => held(),
                    })
                });
                if closes.is_some() {
                    breaks += 1;
                    bench.broken();
                }
            }
            assert!(breaks <= 9, "{breaks} connections broke for {guilty}");
            for (name, answer) in NAMES.iter().zip(&mut answers) {
                let answer = answer.try_take().unwrap();
                assert_eq!(answer.is_ok(), *name != guilty, "{name} beside {guilty}");
            }
            // The next ones are trusted again.
            let _answers = ["a", "b", "c"].map(|name| bench.submit(name).unwrap());
            assert_eq!(bench.take(10).iter().filter(|command| command.starts_with("SET")).count(), 3);
        }
    }
}

#[test]
fn what_breaks_the_connection_alone_is_told_with_the_reason() {
    let mut bench = Bench::new(10);
    let mut answer = bench.submit("a").unwrap();
    for _ in 0..2 {
        assert_eq!(bench.take(10), ["SET a"]);
        bench.broken();
        // The question after it is another command, and says nothing about it.
        for _ in 0..5 {
            assert_eq!(bench.take(10), ["GET a"]);
            bench.broken();
        }
        assert_eq!(bench.take(10), ["GET a"]);
        bench.answer(Value::Nil);
        assert!(answer.try_take().is_none());
    }
    assert_eq!(bench.take(10), ["SET a"]);
    bench.broken();
    let error = answer.try_take().unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Disconnected);
    assert_eq!(error.cause().unwrap().message(), "the server closed");
}

#[test]
fn what_had_not_left_was_not_lost_and_is_not_suspected() {
    let mut bench = Bench::new(10);
    let _answers = ["a", "b", "c"].map(|name| bench.submit(name).unwrap());
    let mut commands = Packed::default();
    let outgoing = Outgoing::prepare(bench.line.take(most(10)), &bench.minter, &mut commands);
    bench.line.sent(outgoing).tell();
    // One byte of the second had left.
    let second = 1 + commands.position() / 3;
    bench.broken_after(second);
    assert_eq!(bench.take(10), ["GET a", "GET b"]);
    bench.answer(Value::Okay);
    bench.answer(Value::Nil);
    assert_eq!(bench.take(10), ["SET b", "SET c"]);
}

#[test]
fn nothing_is_sent_to_a_server_that_cannot_serve_and_the_order_is_kept() {
    let mut bench = Bench::new(10);
    let mut first = bench.submit_until("a", 1).unwrap();
    let mut second = bench.submit_until("b", 3).unwrap();
    bench.take(1);
    let busy = || {
        Value::ServerError(match redis::parse_redis_value(b"-BUSY a script runs\r\n").unwrap() {
            Value::ServerError(error) => error,
            other => panic!("{other:?}"),
        })
    };
    let settled = Settled::read(bench.line.answer(busy()).into_iter().collect());
    let why = settled.unavailable.clone().unwrap();
    bench.line.settle(settled).tell();
    bench.line.pause(bench.now + Duration::from_millis(10), why);
    assert_eq!(bench.take(10), [""; 0]);
    bench.line.resume(bench.now + Duration::from_millis(9));
    assert_eq!(bench.take(10), [""; 0]);
    bench.line.expire(bench.now + Duration::from_secs(1), || Error::new(Code::Timeout, "late")).tell();
    let error = first.try_take().unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("BUSY a script runs"), "{error}");
    assert_eq!(error.cause().map(Error::code), Some(Code::Unavailable));
    bench.line.resume(bench.now + Duration::from_millis(10));
    assert_eq!(bench.take(10), ["SET b"]);
    bench.answer(Value::Okay);
    assert_eq!(second.try_take().unwrap(), Ok("b"));
}

#[test]
fn bytes_are_bounded_as_well_as_commands() {
    let mut bench = Bench::new(10);
    let deadline = bench.now + Duration::from_secs(60);
    let submit = |bench: &mut Bench, bytes| {
        bench.line.submit(Probe { name: "a", asking: false, bytes }, deadline).map(drop)
    };
    submit(&mut bench, 600).unwrap();
    submit(&mut bench, 400).unwrap();
    let refused = submit(&mut bench, 1).unwrap_err();
    assert_eq!(refused.code(), Code::Overloaded);
    assert!(refused.message().contains("1000 bytes"), "{refused}");
    bench.take(10);
    bench.answer(Value::Okay);
    submit(&mut bench, 600).unwrap();
    bench.answer(Value::Okay);
    bench.take(10);
    bench.answer(Value::Okay);
    // One that is over the bound by itself has its turn alone.
    submit(&mut bench, 5_000).unwrap();
    assert_eq!(submit(&mut bench, 1).unwrap_err().code(), Code::Overloaded);
}

#[test]
fn a_pipeline_ends_where_it_has_bytes_enough() {
    let mut bench = Bench::new(10);
    let deadline = bench.now + Duration::from_secs(60);
    let _answers: Vec<_> = (0..4)
        .map(|_| bench.line.submit(Probe { name: "a", asking: false, bytes: 200 }, deadline).unwrap())
        .collect();
    let take = |line: &mut Line| line.take(Bounds { weight: 10, bytes: 300 }).len();
    assert_eq!((take(&mut bench.line), take(&mut bench.line), take(&mut bench.line)), (2, 2, 0));
}

/// What counts for no bound is the line's own: a full line must not let the lease of its node run out.
#[test]
fn a_full_line_still_takes_the_renewal_of_its_lease() {
    let mut bench = Bench::new(1);
    bench.lease();
    let _answer = bench.submit("a").unwrap();
    assert_eq!(bench.submit("b").unwrap_err().code(), Code::Overloaded);
    let terms = Terms { node: None, time: Duration::from_secs(30), on_conflict: OnNodeConflict::Warn };
    let lease = Arc::new(Lease::new(bench.minter.clone(), terms, "", Box::new(|_| ())));
    assert!(bench.line.submit(Hold::new(lease), bench.now + Duration::from_secs(60)).is_ok());
}
