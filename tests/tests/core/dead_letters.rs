//! Dead letters: moved by the script as a plain client calls it, read and put back by the core.

use crate::{Bus, KEY, each, options};
use echomq::{Client, Clock, Code, EPOCH_MS, EntryId, EventId, Fields, Options, Range, Snowflake};
use echomq_tests::{Direction, Ending, Kind, Plain, Proxy, Server};
use redis::Value;

const SOURCE: &str = concat!(
    include_str!("../../../core/lua/sequencer.lua"),
    include_str!("../../../core/lua/dead_letter.lua")
);
const DEAD: &str = "emq:{codemojex}:stream:events:dead";
const SEQ: &str = "emq:{codemojex}:seq";
const T: u64 = 1_735_689_600_000;

/// The sequencer's first tail in a millisecond: node 1023.
const FIRST: u64 = 1023 << 12;

const ERROR: &[u8] = b"it broke: \xff\x00";

/// Entries as the server has them, byte for byte.
type Entries = Vec<(String, Vec<Vec<u8>>)>;

fn event(ms: u64, tail: u64) -> EventId {
    EventId::new(Snowflake::new((ms - EPOCH_MS) << 22 | tail).unwrap())
}

fn entries(plain: &mut Plain, key: &str) -> Entries {
    plain.query(["XRANGE", key, "-", "+"])
}

/// The group `g`, with all entries delivered to the consumer `c`.
fn deliver(plain: &mut Plain) {
    plain.command(["XGROUP", "CREATE", KEY, "g", "0", "MKSTREAM"]);
    plain.command(["XREADGROUP", "GROUP", "g", "c", "STREAMS", KEY, ">"]);
}

fn pending(plain: &mut Plain) -> usize {
    plain.query::<Vec<Value>>(["XPENDING", KEY, "g", "-", "+", "100"]).len()
}

/// The script's call, as the core makes it.
fn call(entry_id: &str, candidate: Option<EventId>) -> Vec<Vec<u8>> {
    let candidate = candidate.map_or([const { String::new() }; 3], |id| {
        let entry_id = EntryId::from(id);
        [entry_id.ms().to_string(), entry_id.seq().to_string(), id.to_string()]
    });
    let mut call: Vec<Vec<u8>> = ["EVAL", SOURCE, "3", KEY, DEAD, SEQ, "g", entry_id]
        .iter()
        .map(|part| part.as_bytes().to_vec())
        .collect();
    call.extend(candidate.map(String::into_bytes));
    call.extend([b"3".to_vec(), ERROR.to_vec(), b"1735689600777".to_vec()]);
    call
}

/// The fields in front of an entry's own.
fn head(id: &str, origin: &str) -> Vec<Vec<u8>> {
    let parts: [&[u8]; 12] = [
        b"id",
        id.as_bytes(),
        b"origin",
        origin.as_bytes(),
        b"group",
        b"g",
        b"attempts",
        b"3",
        b"error",
        ERROR,
        b"at",
        b"1735689600777",
    ];
    parts.map(<[u8]>::to_vec).to_vec()
}

#[tokio::test]
async fn a_dead_letter_has_the_entrys_fields_byte_for_byte() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let own: Vec<Vec<u8>> = [&b"k"[..], b"\x00\xff\r\n%", b"", b"", b"k", b"again"]
            .iter()
            .map(|part| part.to_vec())
            .collect();
        let fields: Fields = own.chunks(2).map(|pair| (&pair[0], &pair[1])).collect();
        let origin = bus.stream.append(fields).await.unwrap();
        let empty = bus.stream.append(Fields::new()).await.unwrap();
        deliver(&mut bus.plain);

        let candidate = event(T, 7);
        let entry_id = EntryId::from(origin).to_string();
        let moved: String = bus.plain.query(call(&entry_id, Some(candidate)));
        assert_eq!(moved, candidate.as_str());
        let dead = entries(&mut bus.plain, DEAD);
        let expected = [head(&moved, origin.as_str()), own.clone()].concat();
        assert_eq!(dead, [(EntryId::from(candidate).to_string(), expected)]);
        assert_eq!(pending(&mut bus.plain), 1);
        assert_eq!(entries(&mut bus.plain, KEY).len(), 2, "the entry itself stays in its stream");

        // The next candidate is not above the first dead letter.
        let entry_id = EntryId::from(empty).to_string();
        let moved: String = bus.plain.query(call(&entry_id, Some(event(T, 3))));
        assert_eq!(moved, event(T, FIRST).as_str());
        assert_eq!(entries(&mut bus.plain, DEAD)[1].1, head(&moved, empty.as_str()));
        assert_eq!(pending(&mut bus.plain), 0);

        // Read by the core.
        let letters = bus.stream.dead_letters(Range::all()).all().await.unwrap();
        assert_eq!(letters[0].id(), Some(candidate));
        assert_eq!(letters[0].get("origin"), Some(origin.as_str().as_bytes()));
        assert_eq!(letters[0].get("error"), Some(ERROR));
        let read: Vec<Vec<u8>> =
            letters[0].fields()[5..].iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect();
        assert_eq!(read, own);
    })
    .await;
}

#[tokio::test]
async fn foreign_entries_keep_all_their_fields() {
    each(|kind| async move {
        let server = Server::start(kind);
        let mut plain = Plain::connect(&server);
        let other = event(T + 5, 5).to_string();
        let foreign: [(&str, &[&str]); 5] = [
            ("1-1", &["id", "42", "k", "v"]),
            ("1735689600000-1", &["id", &other]),
            ("1735689600000-2", &["k", "v", "id", &other]),
            ("1735689600000-4194304", &["id", &other, "k", "v"]),
            ("9223372036854775807-18446744073709551615", &["id", &other, "k", "v"]),
        ];
        for (entry_id, fields) in foreign {
            plain.command(["XADD", KEY, entry_id].iter().chain(fields));
        }
        deliver(&mut plain);
        for (place, (entry_id, fields)) in foreign.into_iter().enumerate() {
            // Without a candidate, as of a client without a node id.
            let moved: String = plain.query(call(entry_id, None));
            let id = EventId::parse(&moved).unwrap();
            assert_eq!(id.snowflake().node(), 1023);
            let own = fields.iter().map(|part| part.as_bytes().to_vec()).collect();
            let dead = &entries(&mut plain, DEAD)[place];
            assert_eq!(*dead, (EntryId::from(id).to_string(), [head(&moved, entry_id), own].concat()));
        }
        assert_eq!(pending(&mut plain), 0);
    })
    .await;
}

#[tokio::test]
async fn moving_twice_does_nothing() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let (one, two) =
            (bus.stream.append([("k", "1")]).await.unwrap(), bus.stream.append([("k", "2")]).await.unwrap());
        let (one, two) = (EntryId::from(one).to_string(), EntryId::from(two).to_string());
        deliver(&mut bus.plain);
        bus.plain.query::<String>(call(&one, Some(event(T, 1))));
        let before = (bus.plain.dump(DEAD), bus.plain.dump(SEQ));
        for entry_id in [&one, "1-1"] {
            assert_eq!(bus.plain.query::<i64>(call(entry_id, Some(event(T, 1)))), 0);
        }
        assert_eq!((bus.plain.dump(DEAD), bus.plain.dump(SEQ)), before);

        bus.plain.command(["XDEL", KEY, &two]);
        assert_eq!(bus.plain.query::<i64>(call(&two, Some(event(T, 2)))), -1);
        assert_eq!((bus.plain.dump(DEAD), bus.plain.dump(SEQ)), before);
        assert_eq!(pending(&mut bus.plain), 0);

        bus.plain.command(["XGROUP", "DESTROY", KEY, "g"]);
        assert_eq!(bus.plain.try_command(call(&one, None)).unwrap_err().code(), Some("NOGROUP"));
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_moved_stays_pending() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let wide: Fields = (0..3_746).map(|field| (field.to_string(), "")).collect();
        let widest: Fields = (0..3_499).map(|field| (field.to_string(), "")).collect();
        let wide = EntryId::from(bus.stream.append(wide).await.unwrap()).to_string();
        let widest = EntryId::from(bus.stream.append(widest).await.unwrap()).to_string();
        let usual = EntryId::from(bus.stream.append([("k", "v")]).await.unwrap()).to_string();
        deliver(&mut bus.plain);
        let (seconds, _): (u64, u64) = bus.plain.query(["TIME"]);
        let far = (seconds + 3_600) * 1_000;
        let refused = |plain: &mut Plain, entry_id: &str, candidate: Option<EventId>, code: &str| {
            let before = (plain.dump(DEAD), plain.dump(SEQ));
            assert_eq!(plain.try_command(call(entry_id, candidate)).unwrap_err().code(), Some(code));
            assert_eq!((plain.dump(DEAD), plain.dump(SEQ)), before);
            assert_eq!(pending(plain), 3);
        };
        refused(&mut bus.plain, &wide, None, "EMQSTATE");
        refused(&mut bus.plain, &usual, Some(event(far, 1)), "EMQAHEAD");
        bus.plain.command(["XADD", DEAD, &format!("{far}-1"), "k", "v"]);
        refused(&mut bus.plain, &usual, None, "EMQAHEAD");
        bus.plain.command(["DEL", DEAD]);
        bus.plain.command(["SET", DEAD, "no stream"]);
        refused(&mut bus.plain, &usual, None, "WRONGTYPE");
        bus.plain.command(["DEL", DEAD]);
        bus.plain.command(["SET", SEQ, "no hash"]);
        refused(&mut bus.plain, &usual, None, "WRONGTYPE");
        bus.plain.command(["DEL", SEQ]);
        // The widest record that a script appends can be moved, and put back.
        let moved: String = bus.plain.query(call(&widest, None));
        let back = bus.stream.put_back(EventId::parse(moved).unwrap()).await.unwrap();
        let records = bus.stream.read(Range::all().from(back)).all().await.unwrap();
        assert_eq!(records[0].fields().len(), 3_499);
    })
    .await;
}

#[tokio::test]
async fn putting_a_dead_letter_back() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let own: [&[u8]; 4] = [b"k", b"\x00\xff", b"k", b""];
        let origin = bus.stream.append([(own[0], own[1]), (own[2], own[3])]).await.unwrap();
        bus.plain.command(["XADD", KEY, &format!("{}-0", origin.unix_ms() + 1), "id", "42", "k", "v"]);
        deliver(&mut bus.plain);
        let mut letters = Vec::new();
        for (entry_id, _) in entries(&mut bus.plain, KEY) {
            letters.push(EventId::parse(bus.plain.query::<String>(call(&entry_id, None))).unwrap());
        }

        let back = bus.stream.put_back(letters[0]).await.unwrap();
        let own = own.map(<[u8]>::to_vec).to_vec();
        let expected = [vec![b"id".to_vec(), back.as_str().into()], own].concat();
        let stored = entries(&mut bus.plain, KEY);
        assert_eq!(stored[2], (EntryId::from(back).to_string(), expected));
        assert_eq!(entries(&mut bus.plain, DEAD).len(), 1);
        let error = bus.stream.put_back(letters[0]).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::Gone, Some(DEAD)));
        assert_eq!(error.id(), Some(letters[0].as_str()));

        // A client that leases its node; and an entry that had a field `id` of its own.
        let client = Client::connect(&Options::new(&bus.server.url()).unwrap()).await.unwrap();
        let back = client.stream("codemojex", "events").unwrap().put_back(letters[1]).await.unwrap();
        assert_ne!(back.snowflake().node(), 1023);
        let stored = entries(&mut bus.plain, KEY);
        let expected =
            ["id", back.as_str(), "id", "42", "k", "v"].map(|part| part.as_bytes().to_vec()).to_vec();
        assert_eq!(stored[3], (EntryId::from(back).to_string(), expected));
        assert_eq!(bus.plain.xlen(DEAD), 0);
        assert_eq!(bus.stream.put_back(letters[1]).await.unwrap_err().code(), Code::Gone);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_put_back_stays_a_dead_letter() {
    each(|kind| async move {
        let mut bus = Bus::with(Server::start(kind), |options| options.clock(Clock::standing(T))).await;
        let (letter, none) = (event(T, 1), event(T, 2));
        let values = ["g", "3", "no", "1"];
        for (id, names) in [
            (letter, ["origin", "group", "attempts", "error", "at"]),
            (none, ["origin", "group", "attempts", "at", "error"]),
        ] {
            let mut command = vec!["XADD".to_owned(), DEAD.into(), EntryId::from(id).to_string()];
            command.extend(["id".to_owned(), id.to_string(), names[0].to_owned(), "1-1".to_owned()]);
            command.extend(
                names[1..].iter().zip(values).flat_map(|(name, value)| [name.to_string(), value.into()]),
            );
            bus.plain.command(command);
        }
        let error = bus.stream.put_back(none).await.unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::State, Some(KEY)), "{error}");
        bus.plain.command(["SET", KEY, "no stream"]);
        assert_eq!(bus.stream.put_back(letter).await.unwrap_err().code(), Code::WrongType);
        bus.plain.command(["DEL", KEY]);
        let (seconds, _): (u64, u64) = bus.plain.query(["TIME"]);
        bus.plain.command(["XADD", KEY, &format!("{}-1", (seconds + 3_600) * 1_000), "k", "v"]);
        assert_eq!(bus.stream.put_back(letter).await.unwrap_err().code(), Code::StreamAhead);
        assert_eq!((bus.plain.xlen(DEAD), bus.plain.xlen(KEY)), (2, 1));
        bus.plain.command(["DEL", KEY]);
        bus.plain.command(["SCRIPT", "FLUSH"]);
        let back = bus.stream.put_back(letter).await.unwrap();
        assert_eq!(back.unix_ms(), T);
        assert_eq!(
            entries(&mut bus.plain, KEY)[0].1,
            ["id", back.as_str()].map(|part| part.as_bytes().to_vec())
        );
    })
    .await;
}

#[tokio::test]
async fn a_lost_answer_to_putting_back() {
    each(|kind| async move {
        // Where the first sending was carried out, whether under its candidate or the sequencer's; and where it was not.
        for (direction, ahead) in
            [(Direction::Replies, false), (Direction::Replies, true), (Direction::Requests, false)]
        {
            let mut bus = Bus::start(kind).await;
            bus.stream.append([("k", "v")]).await.unwrap();
            deliver(&mut bus.plain);
            let entry_id = entries(&mut bus.plain, KEY)[0].0.clone();
            let letter = EventId::parse(bus.plain.query::<String>(call(&entry_id, None))).unwrap();
            if ahead {
                let (seconds, _): (u64, u64) = bus.plain.query(["TIME"]);
                bus.plain.command(["XADD", KEY, &format!("{}-0", (seconds + 30) * 1_000), "k", "top"]);
            }
            let proxy = Proxy::start(bus.server.address());
            let client = Client::connect(&options(&proxy.url())).await.unwrap();
            let stream = client.stream("codemojex", "events").unwrap();
            // The script is known, so that the first sending is the whole of it.
            assert_eq!(stream.put_back(event(T, 1)).await.unwrap_err().code(), Code::Gone);
            proxy.cut_after(direction, 1, Ending::Reset);
            let answer = stream.put_back(letter).await;
            let stored = entries(&mut bus.plain, KEY);
            assert_eq!((stored.len(), bus.plain.xlen(DEAD)), (2 + usize::from(ahead), 0));
            match answer {
                Ok(id) if !ahead => assert_eq!(stored[1].1[1], id.as_str().as_bytes()),
                Err(error) if ahead => assert_eq!(error.code(), Code::UnknownOutcome, "{error}"),
                other => panic!("{other:?}"),
            }
            assert_eq!(proxy.cuts(), 1);
        }
    })
    .await;
}

#[test]
fn the_blocking_client_reads_and_puts_back() {
    let server = Server::start(Kind::Valkey);
    let mut plain = Plain::connect(&server);
    let client = echomq::blocking::Client::open(&options(&server.url())).unwrap();
    let stream = client.stream("codemojex", "events").unwrap();
    stream.append_sequenced([("k", "1")]).unwrap();
    stream.append_batch_sequenced([[("k", "2")]]).unwrap();
    deliver(&mut plain);
    for (entry_id, _) in entries(&mut plain, KEY) {
        plain.query::<String>(call(&entry_id, None));
    }
    let letters: Vec<_> = stream.dead_letters(Range::all()).map(Result::unwrap).collect();
    assert_eq!(letters.len(), 2);
    for letter in letters {
        stream.put_back(letter.id().unwrap()).unwrap();
    }
    assert_eq!((plain.xlen(KEY), plain.xlen(DEAD)), (4, 0));
}
