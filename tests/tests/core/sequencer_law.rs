//! The law of several writers (`docs/protocol.md` §4) against the script that carries it out, called by a plain client.

use crate::each;
use echomq::{EPOCH_MS, EntryId, EventId, Snowflake};
use echomq_tests::{Plain, Server};

const SEQUENCER: &str = include_str!("../../../core/lua/sequencer.lua");
const APPEND: &str = include_str!("../../../core/lua/append_sequenced.lua");

const STREAM: &str = "emq:{q}:stream:s";
const SEQ: &str = "emq:{q}:seq";

/// 2025-01-01, the instant about which the clock of these tests stands.
const T: u64 = 1_735_689_600_000;

/// Where a test keeps the clock that the script looks at.
const CLOCK: &str = "clock";

/// The sequencer's first tail in a millisecond: node 1023.
const FIRST: u64 = 1023 << 12;

fn branded(ms: u64, tail: u64) -> String {
    EventId::new(Snowflake::new((ms - EPOCH_MS) << 22 | tail).unwrap()).to_string()
}

/// Host and script write every id with the same bytes, and the host reads back what the script wrote.
#[tokio::test]
async fn base62_of_the_script_and_of_the_host() {
    let mut random = fastrand::Rng::with_seed(62);
    let max = i64::MAX as u64;
    let mut numbers: Vec<u64> = (0..100_000).map(|_| random.u64(..=max)).collect();
    // Few bits set, and the neighbours of each power of the base and of two.
    numbers.extend((0..10_000).map(|_| random.u64(..=max) >> random.u32(0..63)));
    let powers = (0..11).map(|digits| 62_u64.pow(digits)).chain((0..63).map(|bits| 1 << bits));
    numbers.extend(powers.flat_map(|power| [power - 1, power, (power + 1).min(max)]));
    numbers.extend([0, max, max - 1, 62_u64.pow(5) << 22, (62_u64.pow(5) << 22) - 1, max >> 22 << 22]);

    let script = format!(
        "{SEQUENCER}
         local ids = {{}}
         for i = 1, #ARGV, 2 do ids[#ids + 1] = branded(tonumber(ARGV[i]), tonumber(ARGV[i + 1])) end
         return table.concat(ids)"
    );
    each(|kind| {
        let (numbers, script) = (numbers.clone(), script.clone());
        async move {
            let server = Server::start(kind);
            let mut plain = Plain::connect(&server);
            for part in numbers.chunks(5_000) {
                let ids = part.iter().map(|number| EventId::new(Snowflake::new(*number).unwrap()));
                let mut call = vec![String::from("EVAL"), script.clone(), String::from("0")];
                for id in ids.clone() {
                    let entry_id = EntryId::from(id);
                    call.extend([entry_id.ms().to_string(), entry_id.seq().to_string()]);
                }
                let answer: String = plain.query(call);
                for (id, text) in ids.zip(answer.as_bytes().chunks(14)) {
                    assert_eq!(id.as_str().as_bytes(), text, "{}", id.snowflake().number());
                    assert_eq!(EventId::parse(text).unwrap().snowflake(), id.snowflake());
                }
                assert_eq!(answer.len(), 14 * part.len());
            }
        }
    })
    .await;
}

/// The script with a clock that the test sets.
struct Sequencer {
    plain: Plain,
    sha: String,
}

/// One question: its candidates, with one field each whose value names the question.
#[derive(Clone, Debug)]
struct Question {
    candidates: Vec<(u64, u64)>,
    owner: String,
}

/// How often and with what knowledge a question is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    First { ahead: bool },
    Again { ahead: bool },
}

impl Sequencer {
    fn start(server: &Server) -> Self {
        let mut plain = Plain::connect(server);
        let script = format!("{SEQUENCER}{APPEND}");
        let time = "redis.call('TIME')";
        assert_eq!(script.matches(time).count(), 1, "the script looks at the clock once");
        let script = script.replace(time, &format!("redis.call('HMGET', '{CLOCK}', 's', 'us')"));
        let sha = plain.query(["SCRIPT", "LOAD", &script]);
        Self { plain, sha }
    }

    fn set_clock(&mut self, ms: u64) {
        let (seconds, micros) = ((ms / 1_000).to_string(), (ms % 1_000 * 1_000 + 999).to_string());
        self.plain.command(["HSET", CLOCK, "s", &seconds, "us", &micros]);
    }

    fn added(&mut self) -> u64 {
        if self.plain.query::<u64>(["EXISTS", STREAM]) == 0 {
            return 0;
        }
        let info: Vec<redis::Value> = self.plain.query(["XINFO", "STREAM", STREAM]);
        let name = redis::Value::BulkString(b"entries-added".to_vec());
        let place = info.iter().position(|value| *value == name).unwrap();
        redis::from_redis_value(info[place + 1].clone()).unwrap()
    }

    /// Nothing where nobody can tell.
    fn ask(&mut self, question: &Question, sent: Sent, seen: Option<u64>) -> Result<Option<String>, String> {
        let first = question.candidates[0];
        let name = format!("{}{}", branded(first.0, first.1), question.owner);
        let asked = format!("emq:{{q}}:asked:{}", first.0 / 5_000);
        let sent = match sent {
            Sent::First { ahead } => u64::from(ahead),
            Sent::Again { ahead } => 2 + u64::from(ahead),
        };
        let seen = seen.map_or_else(String::new, |seen| seen.to_string());
        let mut call: Vec<String> =
            ["EVALSHA", &self.sha, "3", STREAM, SEQ, &asked, &name, "60000"].map(String::from).to_vec();
        call.extend([sent.to_string(), seen, "0".to_owned()]);
        for (ms, tail) in &question.candidates {
            call.extend([format!("{ms}-{tail}"), branded(*ms, *tail)]);
            call.extend(["2", "k", &question.owner].map(String::from));
        }
        match self.plain.try_command(call) {
            Ok(redis::Value::Nil) => Ok(None),
            Ok(answer) => Ok(Some(redis::from_redis_value(answer).unwrap())),
            Err(error) => Err(error.code().unwrap_or_default().to_owned()),
        }
    }

    /// The entries of a question, as the stream holds them.
    fn of(&mut self, question: &Question) -> Vec<String> {
        let entries: Vec<(String, Vec<String>)> = self.plain.query(["XRANGE", STREAM, "-", "+"]);
        let own = entries.into_iter().filter(|(_, fields)| fields.last() == Some(&question.owner));
        own.map(|(_, fields)| fields[1].clone()).collect()
    }
}

/// The law, word for word, on plain numbers.
struct Law {
    last: (u64, u64),
    sequencer: Option<(u64, u64)>,
}

impl Law {
    fn append(&mut self, candidate: (u64, u64), now: u64) -> (u64, u64) {
        let ahead = candidate.0 > now + 5;
        if candidate > self.last && !ahead {
            self.last = candidate;
            return candidate;
        }
        let own = self.sequencer.map_or(0, |(ms, _)| ms);
        let ms = self.last.0.max(own).max(if ahead { now } else { 0 });
        let seq = match self.sequencer {
            Some((own, seq)) if own == ms => seq + 1,
            _ => 0,
        };
        let (ms, seq) = if seq > 4_095 || (ms, FIRST + seq) <= self.last { (ms + 1, 0) } else { (ms, seq) };
        self.sequencer = Some((ms, seq));
        self.last = (ms, FIRST + seq);
        self.last
    }
}

/// Streams whose tops stand anywhere, deleted tops and foreign ones among them; sequencers anywhere; one to four records,
/// some of them ahead of the server's clock.
#[tokio::test]
async fn every_state_of_stream_sequencer_and_clock() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut bench = Sequencer::start(&server);
        let mut random = fastrand::Rng::with_seed(4);
        let tops = [0, 5, FIRST - 1, FIRST, FIRST + 3, FIRST + 4_095, FIRST + 4_096, 1 << 40, u64::MAX];
        for round in 0..4_000 {
            bench.plain.command(["FLUSHALL"]);
            let now = T + random.u64(0..8);
            bench.set_clock(now);
            let mut law = Law { last: (0, 0), sequencer: None };
            if random.f32() < 0.9 {
                law.last = (T + random.u64(0..5), tops[random.usize(..tops.len())]);
                let top = format!("{}-{}", law.last.0, law.last.1);
                bench.plain.command(["XADD", STREAM, &top, "k", "v"]);
                if random.f32() < 0.3 {
                    bench.plain.command(["XDEL", STREAM, &top]);
                }
            }
            if random.f32() < 0.8 {
                let (ms, seq) = (T + random.u64(0..5), [0, 3, 4_094, 4_095][random.usize(..4)]);
                bench.plain.command(["HSET", SEQ, "ms", &ms.to_string(), "seq", &seq.to_string()]);
                law.sequencer = Some((ms, seq));
            }
            let span = [5, 20][random.usize(..2)];
            let mut candidates: Vec<(u64, u64)> = (0..random.usize(1..5))
                .map(|_| (T + random.u64(0..span), [0, 1, 5, 6, 4_096, FIRST - 1][random.usize(..6)]))
                .collect();
            candidates.sort_unstable();
            candidates.dedup();

            let before = (law.last, law.sequencer, now);
            let expected: Vec<(u64, u64)> =
                candidates.iter().map(|candidate| law.append(*candidate, now)).collect();
            let question = Question { candidates: candidates.clone(), owner: format!("round {round}") };
            let sent = Sent::First { ahead: random.bool() };
            let answer = bench.ask(&question, sent, None).unwrap().unwrap();
            let ids: String = expected.iter().map(|(ms, tail)| branded(*ms, *tail)).collect();
            assert_eq!(answer, ids, "round {round}: {before:?} {candidates:?}");

            let entries: Vec<(String, Vec<String>)> = bench.plain.query(["XRANGE", STREAM, "-", "+"]);
            let written = &entries[entries.len() - expected.len()..];
            for ((entry_id, fields), (ms, tail)) in written.iter().zip(&expected) {
                assert_eq!(*entry_id, format!("{ms}-{tail}"));
                assert_eq!(*fields, ["id", &branded(*ms, *tail), "k", &question.owner]);
            }
            let kept: Vec<Option<u64>> = bench.plain.query(["HMGET", SEQ, "ms", "seq"]);
            let (ms, seq) = law.sequencer.unzip();
            assert_eq!(kept, [ms, seq], "round {round}: {before:?} {candidates:?}");
            // On record is what got another id than its candidate, and nothing else.
            let on_record =
                bench.plain.query::<u64>(["EXISTS", &format!("emq:{{q}}:asked:{}", candidates[0].0 / 5_000)]);
            assert_eq!(on_record == 1, expected != candidates, "round {round}: {before:?} {candidates:?}");
        }
    })
    .await;
}

/// A question is carried out once, in whatever order its sendings arrive, whatever the clock, other writers and those who
/// remove entries do in between. In doubt is only what may have been removed.
#[tokio::test]
async fn a_question_is_carried_out_once_in_whatever_order_its_sendings_arrive() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut bench = Sequencer::start(&server);
        let mut random = fastrand::Rng::with_seed(5);
        let (mut doubts, mut repeated, mut waited) = (0, 0, 0);
        for round in 0..4_000 {
            bench.plain.command(["FLUSHALL"]);
            let mut now = T + 1_000;
            bench.set_clock(now);
            bench.plain.command(["XADD", STREAM, &format!("{}-5", now - 500), "k", "older"]);
            let top = now - random.u64(0..30);
            bench.plain.command(["XADD", STREAM, &format!("{top}-5"), "k", "top"]);
            let first = (now - 20 + random.u64(0..60), 7 << 12);
            let ahead = random.bool() || first.0 > now + 5;
            // A host that does not know better may take a candidate for not ahead though it is.
            let ahead = ahead && random.f32() < 0.8;
            let candidates = (0..random.u64(1..4)).map(|n| (first.0 + n, first.1)).collect();
            let question = Question { candidates, owner: format!("round {round}") };
            let seen = bench.added();

            // The first sending arrives at any place among the others, or never.
            let mut sendings = vec![Sent::Again { ahead }; random.usize(1..4)];
            let place = random.usize(0..sendings.len() + 2);
            if place <= sendings.len() {
                sendings.insert(place, Sent::First { ahead });
            }
            let (mut answers, mut removed) = (Vec::new(), false);
            for sent in sendings {
                let answer = match bench.ask(&question, sent, Some(seen)) {
                    Err(code) => {
                        assert_eq!((code.as_str(), sent), ("TRYAGAIN", Sent::Again { ahead: false }));
                        waited += 1;
                        now = first.0;
                        bench.set_clock(now);
                        bench.ask(&question, sent, Some(seen)).unwrap()
                    }
                    Ok(answer) => answer,
                };
                answers.push(answer);
                // What happens in between.
                match random.usize(0..5) {
                    0 => {
                        now += random.u64(0..40);
                        bench.set_clock(now);
                    }
                    1 => {
                        let other = Question { candidates: vec![(now, 9 << 12)], owner: "other".to_owned() };
                        bench.ask(&other, Sent::First { ahead: true }, None).unwrap();
                    }
                    2 => {
                        let ids = bench.of(&question);
                        if let Some(id) = ids.first() {
                            let entry_id = EntryId::from(EventId::parse(id).unwrap()).to_string();
                            bench.plain.command(["XDEL", STREAM, &entry_id]);
                            removed = true;
                        }
                    }
                    _ => {}
                }
            }
            let count = question.candidates.len();
            let known: Vec<&String> = answers.iter().flatten().collect();
            assert!(known.windows(2).all(|pair| pair[0] == pair[1]), "round {round}: {answers:?}");
            repeated += usize::from(known.len() > 1);
            if answers.iter().any(Option::is_none) {
                assert!(removed, "round {round}: in doubt though nothing was removed");
                doubts += 1;
            }
            let stored = bench.of(&question);
            if removed {
                assert!(
                    stored.len() < count,
                    "round {round}: what was removed is not written again: {stored:?}"
                );
            } else {
                assert_eq!(stored.concat(), *known[0], "round {round}");
                assert_eq!(stored.len(), count, "round {round}");
            }
        }
        assert!(doubts > 10 && repeated > 1_000 && waited > 10, "{doubts} {repeated} {waited}");
    })
    .await;
}

/// What says that a candidate may have been removed, one after the other; and what says that it was not.
#[tokio::test]
async fn what_a_sending_again_finds_of_a_candidate_that_is_not_there() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut bench = Sequencer::start(&server);
        bench.set_clock(T + 1_000);
        let question = Question { candidates: vec![(T + 500, 5)], owner: "this".to_owned() };
        let again = Sent::Again { ahead: false };
        let entry = |ms: u64| format!("{ms}-5");
        // Each entry of the stream, which of them are removed, what was seen of it, and whether nobody can tell.
        for (entries, removed, seen, doubt) in [
            (vec![T, T + 900], vec![], Some(2), false),
            (vec![T, T + 900], vec![], Some(0), false),
            (vec![T, T + 900], vec![], Some(3), true),
            (vec![T, T + 900], vec![], None, true),
            (vec![T, T + 400, T + 900], vec![T + 400], Some(2), false),
            (vec![T, T + 600, T + 900], vec![T + 600], Some(2), true),
            (vec![T + 600, T + 900], vec![], Some(2), true),
            (vec![T + 900], vec![T + 900], Some(1), true),
            // Above the top is what was never written.
            (vec![T, T + 400], vec![T + 400], None, false),
            (vec![], vec![], None, false),
        ] {
            bench.plain.command(["FLUSHALL"]);
            bench.set_clock(T + 1_000);
            for ms in &entries {
                bench.plain.command(["XADD", STREAM, &entry(*ms), "k", "v"]);
            }
            for ms in &removed {
                bench.plain.command(["XDEL", STREAM, &entry(*ms)]);
            }
            let answer = bench.ask(&question, again, seen).unwrap();
            assert_eq!(answer.is_none(), doubt, "{entries:?} {removed:?} {seen:?}");
            assert_eq!(bench.of(&question).len(), usize::from(!doubt));
        }
        // Another process's record stands there: this one was not written, and is now.
        bench.plain.command(["FLUSHALL"]);
        bench.set_clock(T + 1_000);
        bench.plain.command(["XADD", STREAM, &entry(T + 500), "id", &branded(T + 500, 5), "k", "another"]);
        let answer = bench.ask(&question, again, None).unwrap().unwrap();
        assert_eq!((answer.as_str(), bench.of(&question)), (&*branded(T + 500, FIRST), vec![answer.clone()]));
    })
    .await;
}

/// A thousand writers whose clocks stand up to two seconds off, ten appends a millisecond: ids are unique and rise, and the
/// stream's time stays at the server's.
#[tokio::test]
async fn a_thousand_writers_with_clocks_up_to_two_seconds_off() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut bench = Sequencer::start(&server);
        let mut random = fastrand::Rng::with_seed(6);
        let mut writers: Vec<(i64, (u64, u64))> =
            (0..1_000).map(|node| (random.i64(-2_000..=2_000), (0, node << 12))).collect();
        let mut ids = std::collections::BTreeSet::new();
        let (mut kept, mut top) = (0, 0);
        for step in 0..1_000 {
            let now = T + step;
            bench.set_clock(now);
            for _ in 0..10 {
                let node = random.usize(..writers.len());
                let (offset, last) = &mut writers[node];
                // The writer's mint: its clock, and never the same twice.
                let ms = now.checked_add_signed(*offset).unwrap();
                *last = if ms > last.0 { (ms, (node as u64) << 12) } else { (last.0, last.1 + 1) };
                let question = Question { candidates: vec![*last], owner: "w".to_owned() };
                let sent = Sent::First { ahead: *offset > 0 };
                let id = EventId::parse(bench.ask(&question, sent, None).unwrap().unwrap()).unwrap();
                kept += usize::from(id.snowflake().node() != 1_023);
                assert!(ids.last().is_none_or(|last| *last < id), "{id} does not rise");
                ids.insert(id);
                top = id.unix_ms();
                assert!(top <= now + 10, "{top} at {now}");
            }
            // At the very beginning no writer whose clock is ahead may have written yet.
            assert!(step < 10 || top + 10 >= now, "{top} at {now}");
        }
        assert_eq!(ids.len(), 10_000);
        assert_eq!(bench.plain.xlen(STREAM), 10_000);
        assert!(kept > 0 && kept < 10_000, "some ids are candidates, some are the sequencer's: {kept}");
    })
    .await;
}

/// Answers are kept for as long as the writer says, the longest of those who write to the same key.
#[tokio::test]
async fn how_long_an_answer_is_kept() {
    let server = Server::start(echomq_tests::Kind::Valkey);
    let mut plain = Plain::connect(&server);
    let source = format!("{SEQUENCER}{APPEND}");
    let asked = format!("emq:{{q}}:asked:{}", T / 5_000);
    plain.command(["XADD", STREAM, &format!("{}-0", T + 9), "k", "v"]);
    let mut kept = 0;
    for (n, expiry, least) in [(1, 60_000, 60_000), (2, 600_000, 600_000), (3, 60_000, 590_000)] {
        let id = branded(T, n);
        let (name, expiry, entry_id) = (format!("{id}owner"), expiry.to_string(), format!("{T}-{n}"));
        let call =
            ["EVAL", &source, "3", STREAM, SEQ, &asked, &name, &expiry, "0", "", "0", &entry_id, &id, "0"];
        let answer: String = plain.query(call);
        assert_eq!(plain.query::<String>(["HGET", &asked, &name]), answer);
        let ttl: u64 = plain.query(["PTTL", &asked]);
        assert!(ttl >= least && ttl <= 605_000, "{ttl} ms are left of {expiry}");
        kept += 1;
        assert_eq!(plain.query::<u64>(["HLEN", &asked]), kept);
    }
}

/// A call without a question, for the first time.
fn call(source: &str, stream: &str, values: &[&str]) -> Vec<String> {
    let mut call: Vec<String> =
        ["EVAL", source, "3", stream, SEQ, "emq:{q}:asked:0", "", "60000", "1", "", "0"]
            .map(String::from)
            .to_vec();
    call.extend(values.iter().map(ToString::to_string));
    call
}

/// Without a candidate, time goes on by the server's clock.
#[tokio::test]
async fn a_record_without_a_candidate() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let source = format!("{SEQUENCER}{APPEND}");
        let mut append = || plain.query::<String>(call(&source, STREAM, &["", "", "2", "k", "v"]));
        let (first, second) = (append(), append());
        assert!(first < second);
        let (seconds, _): (u64, u64) = plain.query(["TIME"]);
        for id in [&first, &second] {
            let id = EventId::parse(id).unwrap();
            assert_eq!(id.snowflake().node(), 1023);
            assert!(id.unix_ms().abs_diff(seconds * 1_000) < 60_000, "{id}");
        }
        let id = EventId::parse(&second).unwrap();
        let kept: (u64, u64) = plain.query(["HMGET", SEQ, "ms", "seq"]);
        assert_eq!(kept, (id.unix_ms(), u64::from(id.snowflake().sequence())));
        // A stream and a sequencer ahead of the clock are not left behind.
        let ahead = (seconds + 30) * 1_000;
        plain.command(["XADD", STREAM, &format!("{ahead}-7"), "k", "v"]);
        let third: String = plain.query(call(&source, STREAM, &["", "", "0"]));
        assert_eq!(third, branded(ahead, FIRST));
        let other = "emq:{q}:stream:other";
        let fourth: String = plain.query(call(&source, other, &["", "", "0"]));
        assert_eq!(fourth, branded(ahead, FIRST + 1));
    })
    .await;
}

#[tokio::test]
async fn arguments_that_do_not_add_up_change_nothing() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let source = format!("{SEQUENCER}{APPEND}");
        let (t, id) = ("1735689600000-1", branded(T, 1));
        let wide: Vec<String> =
            [t, &id, "7502"].into_iter().chain(std::iter::repeat_n("x", 7_502)).map(String::from).collect();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        for values in [
            vec![],
            texts(&[t]),
            texts(&[t, &id]),
            texts(&[t, &id, "x"]),
            texts(&[t, &id, "-2"]),
            texts(&[t, &id, "1", "k"]),
            texts(&[t, &id, "2", "k"]),
            texts(&[t, &id, "0", "k"]),
            texts(&["1735689600000", &id, "0"]),
            texts(&["1735689600000-", &id, "0"]),
            texts(&["173568960000-11", &id, "0"]),
            texts(&["x735689600000-1", &id, "0"]),
            texts(&[t, &id, "0", t, &id, "0"]),
            texts(&[t, &id, "0", "1735689600000-0", &id, "0"]),
            texts(&[t, &id, "0", "1735689599999-2", &id, "0"]),
            texts(&["", "", "0", t, &id, "0"]),
            texts(&[t, &id, "0", "", "", "0"]),
            wide,
        ] {
            for sent in ["0", "1", "2", "3"] {
                let asked = "emq:{q}:asked:347137920";
                let mut call =
                    texts(&["EVAL", &source, "3", STREAM, SEQ, asked, "q", "60000", sent, "", "0"]);
                call.extend(values.iter().cloned());
                let error = plain.try_command(call).unwrap_err();
                assert_eq!(error.code(), Some("EMQSTATE"), "{values:?}: {error}");
            }
        }
        assert_eq!(plain.query::<u64>(["DBSIZE"]), 0);
    })
    .await;
}
