//! The line against a made-up operation: order, loss, deadlines, bounds.

use super::*;
use crate::clock::Clock;
use crate::keyspace::Keyspace;
use crate::operation::Step;
use crate::operation::lease::{Hold, OnNodeConflict, Terms};
use crate::operation::minter::Minter;
use crate::record::Fields;
use crate::record::packed::Packed;
use crate::stream::Key;
use crate::stream::append::Append;
use crate::stream::append_sequenced::AppendSequenced;
use crate::stream::batch::AppendBatch;
use crate::stream::batch_atomic::AppendBatchAtomic;
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

fn refusal(text: &str) -> Value {
    redis::parse_redis_value(text.as_bytes()).unwrap()
}

/// What a server answers that has just been started: it knows no script and no record.
fn new_server(command: &str) -> Value {
    let text = |text: String| Value::BulkString(text.into_bytes());
    let words: Vec<&str> = command.split(' ').collect();
    match words[0] {
        "TIME" => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            Value::Array(vec![text(now.as_secs().to_string()), text(now.subsec_micros().to_string())])
        }
        "XADD" => text(words[2].to_owned()),
        "XINFO" => refusal("-ERR no such key\r\n"),
        "XRANGE" => Value::Array(Vec::new()),
        "EVALSHA" => refusal("-NOSCRIPT No matching script.\r\n"),
        "EVAL" if command.contains("node_lease.lua") => held(),
        "EVAL" if command.contains("append_batch.lua") => Value::Int(1),
        "EVAL" => text(command.split(' ').find(|word| word.starts_with("EVT")).unwrap()[..14].to_owned()),
        other => panic!("{other}"),
    }
}

impl Bench {
    /// A new server answers all until nothing is left.
    fn runs_to_its_end(&mut self) -> Vec<String> {
        let mut sent = Vec::new();
        for _ in 0..20 {
            let taken = self.take(1_000);
            taken.iter().for_each(|command| self.answer(new_server(command)));
            sent.extend(taken);
            if self.line.is_empty() {
                return sent;
            }
        }
        panic!("it does not come to an end: {sent:?}");
    }
}

/// Has an operation ask for the server's time, breaks the connection under that, and has another server answer.
fn breaks_while_the_time_is_asked<O: Operation>(operation: O) {
    let mut bench = Bench::new(10);
    bench.lease();
    bench.minter.set_server_time(bench.minter.now() - 120_000, Instant::now());
    let deadline = bench.now + Duration::from_secs(60);
    let mut answer = bench.line.submit(operation, deadline).unwrap();
    assert_eq!(bench.take(10), ["TIME"]);
    bench.broken();
    bench.runs_to_its_end();
    if let Err(error) = answer.try_take().unwrap() {
        panic!("{error}");
    }
}

/// The kind: what has no id yet when a connection breaks is in no doubt. It waits for the node, and the question for that goes on.
#[test]
fn what_has_no_id_when_a_connection_breaks_waits_for_the_node() {
    let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
    let fields = || Fields::from([("k", "v")]);
    breaks_while_the_time_is_asked(Append::new(key.clone(), None, fields()));
    breaks_while_the_time_is_asked(AppendBatch::new(key.clone(), vec![Ok(fields()), Ok(fields())]));
    let timeout = Duration::from_secs(5);
    breaks_while_the_time_is_asked(AppendSequenced::batch(key.clone(), vec![fields()], timeout).unwrap());
    breaks_while_the_time_is_asked(AppendBatchAtomic::new(key, vec![fields()]).unwrap());
}

#[test]
fn a_batch_of_which_a_record_was_refused_when_a_connection_breaks_is_asked_after_without_it() {
    let mut bench = Bench::new(10);
    bench.lease();
    let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
    let records = (0..3).map(|_| Ok(Fields::from([("k", "v")])));
    let deadline = bench.now + Duration::from_secs(60);
    let mut answer = bench.line.submit(AppendBatch::new(key, records.collect()), deadline).unwrap();
    assert_eq!(bench.take(10).len(), 3);
    bench.answer(refusal("-READONLY You can't write against a read only replica.\r\n"));
    bench.broken();
    let sent = bench.runs_to_its_end();
    let of = |name: &str| sent.iter().filter(|command| command.starts_with(name)).count();
    assert_eq!((of("XRANGE"), of("XADD")), (2, 3), "{sent:?}");
    let ids = answer.try_take().unwrap().unwrap().into_iter().collect::<Result<Vec<_>>>().unwrap();
    assert!(ids[1] < ids[2] && ids[2] < ids[0], "{ids:?}");
}

/// What is refused behind a record that ended must not make a record in doubt forget its id: it would be written twice.
#[test]
fn a_record_in_doubt_keeps_its_id_whatever_ends_before_it() {
    let minter = Minter::leased(Clock::standing(1_735_689_600_000), None, Some(Duration::ZERO));
    let permit = |limit| minter.permit(Some((7, 0)), Some(limit), Some(u64::MAX));
    permit(u64::MAX);
    let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
    const REFUSED: usize = 50_000;
    let records = (0..=REFUSED).map(|_| Ok(Fields::from([("k", "v")])));
    let mut batch = AppendBatch::new(key, records.collect());
    batch.prepare(&minter).unwrap();
    let readonly = || refusal("-READONLY You can't write against a read only replica.\r\n");
    assert!(matches!(batch.cut((0..REFUSED).map(|_| readonly()).collect()), Step::Again));
    let asked = |batch: &AppendBatch| {
        let mut commands = Packed::default();
        batch.commands(&mut commands);
        commands.texts().pop().unwrap()
    };
    let in_doubt = asked(&batch);
    assert!(in_doubt.starts_with("XRANGE "), "{in_doubt}");
    // The first is ahead of the server's clock, and a millisecond later the next is after the lease's limit.
    permit(1_735_689_599_999);
    minter.set_server_time(1_735_689_599_999, Instant::now());
    assert_eq!(batch.prepare(&minter).unwrap_err().code(), Code::NodeLeaseLost);
    assert!(batch.records_ended() > 0, "the first is refused for the server's clock");
    permit(u64::MAX);
    batch.prepare(&minter).unwrap();
    assert_eq!(asked(&batch), in_doubt);
}

/// Scripts are long: one that is sent whole is sent so once in a pipeline, and what was lost goes in several pipelines.
#[test]
fn what_was_lost_is_asked_after_within_the_bounds_of_a_pipeline() {
    let mut bench = Bench::new(10_000);
    bench.lease();
    let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
    let deadline = bench.now + Duration::from_secs(60);
    let mut answers: Vec<_> = (0..500)
        .map(|_| {
            let fields = vec![Fields::from([("k", "v")])];
            let append = AppendSequenced::batch(key.clone(), fields, Duration::from_secs(5)).unwrap();
            bench.line.submit(append, deadline).unwrap()
        })
        .collect();
    while !bench.take(1_000).is_empty() {}
    bench.broken();
    let mut rounds = Vec::new();
    while !bench.line.is_empty() {
        let mut commands = Packed::default();
        let outgoing = Outgoing::prepare(bench.line.take(most(100)), &bench.minter, &mut commands);
        bench.line.sent(outgoing).tell();
        assert!(commands.bytes().len() < 100_000, "{commands:?}");
        rounds.push(commands.count());
        for command in commands.texts() {
            // The server knows what it was sent whole in the same pipeline.
            bench.answer(match command.contains("emq:{q}:seq") {
                true => new_server(&command.replacen("EVALSHA ", "EVAL ", 1)),
                false => new_server(&command),
            });
        }
        assert!(rounds.len() < 100, "{rounds:?}");
    }
    assert!(answers.iter_mut().all(|answer| answer.try_take().unwrap().is_ok()));
    // The first has the question for the node as well.
    assert!(rounds.iter().all(|count| *count <= 101), "{rounds:?}");
}

/// Somebody else holds the node: the question for it is asked again after a pause, which is nobody else's.
#[test]
fn only_the_question_for_a_node_pauses_while_another_holds_it() {
    let mut bench = Bench::new(10);
    let time = Duration::from_secs(30);
    let terms = Terms { node: Some(7), time, on_conflict: OnNodeConflict::Wait };
    let node = crate::id::mint::Mint::new(7).unwrap();
    bench.minter = Arc::new(Minter::leased(Clock::system(), Some(node), None));
    let lease = Arc::new(Lease::new(bench.minter.clone(), terms, "", Box::new(|_| ())));
    bench.line = Line::leasing(bench.line.bounds, lease, false);
    let key = Key::new(&Keyspace::new("q").unwrap(), "s").unwrap();
    let append = Append::new(key, None, Fields::from([("k", "v")]));
    let deadline = bench.now + Duration::from_secs(60);
    let mut appended = bench.line.submit(append, deadline).unwrap();
    assert_eq!(bench.take(10), [""; 0], "there is no node yet");
    let asks = |taken: &[String]| {
        taken.len() == 1 && taken[0].starts_with("EVALSHA") && taken[0].contains("acquire")
    };
    for _ in 0..3 {
        let taken = bench.take(10);
        assert!(asks(&taken), "{taken:?}");
        bench.answer(refusal("*2\r\n$5\r\ntaken\r\n$3\r\n7:X\r\n"));
        assert_eq!(bench.take(10), ["HGETALL {emq}:nodes:X"]);
        bench.answer(Value::Array(Vec::new()));
        // What makes no id goes on at once, and the question does not.
        let mut read = bench.submit("a").unwrap();
        assert_eq!(bench.take(10), ["SET a"]);
        bench.answer(Value::Okay);
        assert_eq!(read.try_take().unwrap(), Ok("a"));
        assert_eq!(bench.take(10), [""; 0]);
        let again = bench.line.goes_on_at().expect("the question is asked again");
        bench.line.resume(again - Duration::from_millis(1));
        assert_eq!(bench.take(10), [""; 0]);
        bench.line.resume(again);
    }
    let taken = bench.take(10);
    assert!(asks(&taken), "{taken:?}");
    bench.answer(held());
    let taken = bench.take(10);
    assert!(taken[0].starts_with("XADD "), "{taken:?}");
    bench.answer(new_server(&taken[0]));
    assert!(appended.try_take().unwrap().is_ok());
    assert_eq!(bench.line.goes_on_at(), None);
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
    bench.line.submit(Hold::new(lease), bench.now + Duration::from_secs(60)).unwrap();
}
