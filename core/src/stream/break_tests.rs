//! Appends on a line whose connection breaks, against a server made up here: what is asked after, with which ids, and what waits
//! for the node.

use super::Key;
use super::append::Append;
use super::append_sequenced::AppendSequenced;
use super::batch::AppendBatch;
use super::batch_atomic::AppendBatchAtomic;
use crate::clock::Clock;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::id::mint::Mint;
use crate::keyspace::Keyspace;
use crate::operation::lease::{Lease, OnNodeConflict, Terms};
use crate::operation::line::{Bounds, Line, Outgoing, Settled};
use crate::operation::minter::Minter;
use crate::operation::pending::Pending;
use crate::operation::{Operation, Step};
use crate::record::Fields;
use crate::record::packed::Packed;
use redis::Value;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

struct Bench {
    line: Line,
    minter: Arc<Minter>,
}

impl Bench {
    /// A line that leases the node id, or any.
    fn new(node: Option<u16>, on_conflict: OnNodeConflict) -> Self {
        let mint = node.map(|node| Mint::new(node).unwrap());
        let minter = Arc::new(Minter::leased(Clock::system(), mint, Some(Duration::from_secs(60))));
        let terms = Terms { node, time: Duration::from_secs(30), on_conflict };
        let lease = Arc::new(Lease::new(minter.clone(), terms, "", Box::new(|_| ())));
        Self { line: Line::leasing(Bounds { weight: 10_000, bytes: usize::MAX }, lease, false), minter }
    }

    /// One that has its lease: a first record was appended.
    fn leased() -> Self {
        let mut bench = Self::new(None, OnNodeConflict::Warn);
        let mut first = bench.submit(Append::new(key(), None, fields()));
        bench.runs_to_its_end();
        first.try_take().unwrap().unwrap();
        bench
    }

    fn submit<O: Operation>(&mut self, operation: O) -> Pending<O::Reply> {
        self.line.submit(operation, Instant::now() + Duration::from_secs(60)).unwrap()
    }

    fn take(&mut self, max: usize) -> Vec<String> {
        self.pipeline(max).texts()
    }

    fn pipeline(&mut self, max: usize) -> Packed {
        let mut commands = Packed::default();
        let taken = self.line.take(Bounds { weight: max, bytes: usize::MAX });
        let outgoing = Outgoing::prepare(taken, &self.minter, &mut commands);
        self.line.sent(outgoing).tell();
        commands
    }

    fn answer(&mut self, reply: Value) {
        let settled = Settled::read(self.line.answer(reply).into_iter().collect());
        self.line.settle(settled).tell();
    }

    fn broken(&mut self) {
        let lost = self.line.broken(u64::MAX, &Error::new(Code::Disconnected, "the server closed")).ask();
        self.line.recover(lost).tell();
    }

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

fn key() -> Key {
    Key::new(&Keyspace::new("q").unwrap(), "s").unwrap()
}

fn fields() -> Fields {
    Fields::from([("k", "v")])
}

/// What the server's script answers to the question for the node.
fn held() -> Value {
    reply("*5\r\n$4\r\nheld\r\n:7\r\n$1\r\n0\r\n$13\r\n4000000000000\r\n$0\r\n\r\n")
}

fn reply(text: &str) -> Value {
    redis::parse_redis_value(text.as_bytes()).unwrap()
}

fn readonly() -> Value {
    reply("-READONLY You can't write against a read only replica.\r\n")
}

fn sequenced() -> AppendSequenced<Vec<EventId>> {
    AppendSequenced::batch(key(), vec![fields()], Duration::from_secs(5)).unwrap()
}

/// What a server answers that has just been started: it knows no script and no record.
fn new_server(command: &str) -> Value {
    let text = |text: String| Value::BulkString(text.into_bytes());
    let words: Vec<&str> = command.split(' ').collect();
    match words[0] {
        "TIME" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            Value::Array(vec![text(now.as_secs().to_string()), text(now.subsec_micros().to_string())])
        }
        "XADD" => text(words[2].to_owned()),
        "XINFO" => reply("-ERR no such key\r\n"),
        "XRANGE" => Value::Array(Vec::new()),
        "EVALSHA" => reply("-NOSCRIPT No matching script.\r\n"),
        "EVAL" if command.contains("node_lease.lua") => held(),
        "EVAL" if command.contains("append_batch.lua") => Value::Int(1),
        "EVAL" => text(command.split(' ').find(|word| word.starts_with("EVT")).unwrap()[..14].to_owned()),
        other => panic!("{other}"),
    }
}

/// Has an operation ask for the server's time, breaks the connection under that, and has another server answer.
fn breaks_while_the_time_is_asked<O: Operation>(operation: O) {
    let mut bench = Bench::leased();
    bench.minter.set_server_time(bench.minter.now() - 120_000, Instant::now());
    let mut answer = bench.submit(operation);
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
    breaks_while_the_time_is_asked(Append::new(key(), None, fields()));
    breaks_while_the_time_is_asked(AppendBatch::new(key(), vec![Ok(fields()), Ok(fields())]));
    breaks_while_the_time_is_asked(sequenced());
    breaks_while_the_time_is_asked(AppendBatchAtomic::new(key(), vec![fields()]).unwrap());
}

#[test]
fn a_batch_of_which_a_record_was_refused_when_a_connection_breaks_is_asked_after_without_it() {
    let mut bench = Bench::leased();
    let mut answer = bench.submit(AppendBatch::new(key(), vec![Ok(fields()), Ok(fields()), Ok(fields())]));
    assert_eq!(bench.take(10).len(), 3);
    bench.answer(readonly());
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
    const NOW: u64 = 1_735_689_600_000;
    const REFUSED: usize = 20_000;
    let minter = Minter::leased(Clock::standing(NOW), None, Some(Duration::ZERO));
    let permit = |limit| minter.permit(Some((7, 0)), Some(limit), Some(u64::MAX));
    let asked = |batch: &AppendBatch| {
        let mut commands = Packed::default();
        batch.commands(&mut commands);
        commands.texts().pop().unwrap()
    };
    for _ in 0..50 {
        permit(u64::MAX);
        let mut batch = AppendBatch::new(key(), (0..=REFUSED).map(|_| Ok(fields())).collect());
        minter.set_server_time(NOW + 10_000, Instant::now());
        batch.prepare(&minter).unwrap();
        assert!(matches!(batch.cut((0..REFUSED).map(|_| readonly()).collect()), Step::Again));
        let in_doubt = asked(&batch);
        assert!(in_doubt.starts_with("XRANGE "), "{in_doubt}");
        // The first are ahead of the server's clock. Two milliseconds later the next are after the lease's limit only.
        permit(NOW - 1);
        minter.set_server_time(NOW - 2, Instant::now());
        let refused = batch.prepare(&minter);
        permit(u64::MAX);
        minter.set_server_time(NOW + 10_000, Instant::now());
        let both = batch.ended() > 0 && refused.is_err_and(|error| error.code() == Code::NodeLeaseLost);
        batch.prepare(&minter).unwrap();
        assert_eq!(asked(&batch), in_doubt);
        if both {
            return;
        }
    }
    panic!("no batch was refused for both reasons");
}

/// Scripts are long: one that is sent whole is sent so once in a pipeline, and what was lost goes in several pipelines.
#[test]
fn what_was_lost_is_asked_after_within_the_bounds_of_a_pipeline() {
    let mut bench = Bench::leased();
    let mut answers: Vec<_> = (0..500).map(|_| bench.submit(sequenced())).collect();
    while !bench.take(1_000).is_empty() {}
    bench.broken();
    let mut rounds = Vec::new();
    while !bench.line.is_empty() {
        let pipeline = bench.pipeline(100);
        assert!(pipeline.bytes().len() < 100_000, "{pipeline:?}");
        rounds.push(pipeline.count());
        for command in pipeline.texts() {
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
    let mut bench = Bench::new(Some(7), OnNodeConflict::Wait);
    let mut appended = bench.submit(Append::new(key(), None, fields()));
    assert_eq!(bench.take(10), [""; 0], "there is no node yet");
    let asks = |taken: &[String]| {
        taken.len() == 1 && taken[0].starts_with("EVALSHA") && taken[0].contains("acquire")
    };
    for _ in 0..3 {
        let taken = bench.take(10);
        assert!(asks(&taken), "{taken:?}");
        bench.answer(reply("*2\r\n$5\r\ntaken\r\n$3\r\n7:X\r\n"));
        assert_eq!(bench.take(10), ["HGETALL {emq}:nodes:X"]);
        bench.answer(Value::Array(Vec::new()));
        // What makes no id goes on at once, and the question does not.
        let id = EventId::parse("EVT0NgWEfAER90").unwrap();
        let mut other = bench.submit(Append::new(key(), Some(id), fields()));
        let taken = bench.take(10);
        assert!(taken.len() == 1 && taken[0].starts_with("XADD "), "{taken:?}");
        bench.answer(new_server(&taken[0]));
        assert_eq!(other.try_take().unwrap(), Ok(id));
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
