//! The law of several writers (`docs/protocol.md` §4) against the script that carries it out, called by a plain client.

use crate::each;
use echomq::{EPOCH_MS, EntryId, EventId, Snowflake};
use echomq_tests::{Plain, Server};

const SEQUENCER: &str = include_str!("../../../core/lua/sequencer.lua");
const APPEND: &str = include_str!("../../../core/lua/append_sequenced.lua");

const STREAM: &str = "emq:{q}:stream:s";
const SEQ: &str = "emq:{q}:seq";

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

/// The law, word for word, on plain numbers.
struct Law {
    last: (u64, u64),
    sequencer: Option<(u64, u64)>,
}

impl Law {
    fn append(&mut self, candidate: (u64, u64)) -> (u64, u64) {
        if candidate > self.last {
            self.last = candidate;
            return candidate;
        }
        let ms = self.sequencer.map_or(self.last.0, |(ms, _)| ms.max(self.last.0));
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

/// Streams whose tops stand anywhere, deleted tops and foreign ones among them; sequencers anywhere; one to four records.
#[tokio::test]
async fn every_state_of_stream_and_sequencer() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let sha: String = plain.query(["SCRIPT", "LOAD", &format!("{SEQUENCER}{APPEND}")]);
        let mut random = fastrand::Rng::with_seed(4);
        let base = 1_735_689_600_000;
        let tops = [0, 5, FIRST - 1, FIRST, FIRST + 3, FIRST + 4_095, FIRST + 4_096, 1 << 40, u64::MAX];
        for round in 0..4_000 {
            plain.command(["DEL", STREAM, SEQ]);
            let mut law = Law { last: (0, 0), sequencer: None };
            if random.f32() < 0.9 {
                law.last = (base + random.u64(0..5), tops[random.usize(..tops.len())]);
                let top = format!("{}-{}", law.last.0, law.last.1);
                plain.command(["XADD", STREAM, &top, "k", "v"]);
                if random.f32() < 0.3 {
                    plain.command(["XDEL", STREAM, &top]);
                }
            }
            if random.f32() < 0.8 {
                let (ms, seq) = (base + random.u64(0..5), [0, 3, 4_094, 4_095][random.usize(..4)]);
                plain.command(["HSET", SEQ, "ms", &ms.to_string(), "seq", &seq.to_string()]);
                law.sequencer = Some((ms, seq));
            }
            let mut candidates: Vec<(u64, u64)> = (0..random.usize(1..5))
                .map(|_| (base + random.u64(0..5), [0, 1, 5, 6, 4_096, FIRST - 1][random.usize(..6)]))
                .collect();
            candidates.sort_unstable();
            candidates.dedup();

            let mut call = vec!["EVALSHA".to_owned(), sha.clone(), "2".into(), STREAM.into(), SEQ.into()];
            for (ms, tail) in &candidates {
                call.extend([ms.to_string(), tail.to_string(), branded(*ms, *tail)]);
                call.extend(["2", "k", "v"].map(String::from));
            }
            let before = (law.last, law.sequencer);
            let expected: Vec<(u64, u64)> =
                candidates.iter().map(|candidate| law.append(*candidate)).collect();
            let answer: String = plain.query(call);
            let ids: String = expected.iter().map(|(ms, tail)| branded(*ms, *tail)).collect();
            assert_eq!(answer, ids, "round {round}: {before:?} {candidates:?}");

            let entries: Vec<(String, Vec<String>)> = plain.query(["XRANGE", STREAM, "-", "+"]);
            let written = &entries[entries.len() - expected.len()..];
            for ((entry_id, fields), (ms, tail)) in written.iter().zip(&expected) {
                assert_eq!(*entry_id, format!("{ms}-{tail}"));
                assert_eq!(*fields, ["id", &branded(*ms, *tail), "k", "v"]);
            }
            let kept: Vec<Option<u64>> = plain.query(["HMGET", SEQ, "ms", "seq"]);
            let (ms, seq) = law.sequencer.unzip();
            assert_eq!(kept, [ms, seq], "round {round}: {before:?} {candidates:?}");
        }
    })
    .await;
}

/// Without a candidate, time goes on by the server's clock.
#[tokio::test]
async fn a_record_without_a_candidate() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let source = format!("{SEQUENCER}{APPEND}");
        let mut append =
            || plain.query::<String>(["EVAL", &source, "2", STREAM, SEQ, "", "", "", "2", "k", "v"]);
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
        let third: String = plain.query(["EVAL", &source, "2", STREAM, SEQ, "", "", "", "0"]);
        assert_eq!(third, branded(ahead, FIRST));
        let other = "emq:{q}:stream:other";
        let fourth: String = plain.query(["EVAL", &source, "2", other, SEQ, "", "", "", "0"]);
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
        let (t, id) = ("1735689600000", branded(1_735_689_600_000, 1));
        let wide: Vec<String> = [t, "1", &id, "7502"]
            .into_iter()
            .chain(std::iter::repeat_n("x", 7_502))
            .map(String::from)
            .collect();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        for values in [
            vec![],
            texts(&[t]),
            texts(&[t, "1", &id]),
            texts(&[t, "1", &id, "x"]),
            texts(&[t, "1", &id, "-2"]),
            texts(&[t, "1", &id, "1", "k"]),
            texts(&[t, "1", &id, "2", "k"]),
            texts(&[t, "1", &id, "0", "k"]),
            texts(&[t, "", &id, "0"]),
            texts(&[t, "1", &id, "0", t, "1", &id, "0"]),
            texts(&[t, "1", &id, "0", t, "0", &id, "0"]),
            texts(&[t, "1", &id, "0", "1735689599999", "2", &id, "0"]),
            texts(&["", "", "", "0", t, "1", &id, "0"]),
            texts(&[t, "1", &id, "0", "", "", "", "0"]),
            wide,
        ] {
            let mut call = texts(&["EVAL", &source, "2", STREAM, SEQ]);
            call.extend(values.iter().cloned());
            let error = plain.try_command(call).unwrap_err();
            assert_eq!(error.code(), Some("EMQSTATE"), "{values:?}: {error}");
        }
        assert_eq!(plain.query::<u64>(["EXISTS", STREAM, SEQ]), 0);
    })
    .await;
}
