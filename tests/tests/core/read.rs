//! Reading by id and by instant.

use crate::{Bus, KEY, each};
use echomq::{Client, Code, EntryId, EventId, Range, Record, Timestamp};
use echomq_tests::Kind;
use futures_util::StreamExt;

const T: i64 = 1_780_512_970_164;

fn ids(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.entry_id().to_string()).collect()
}

fn event(ms: i64, seq: u64) -> EventId {
    EventId::try_from(EntryId::new(ms as u64, seq)).unwrap()
}

#[tokio::test]
async fn a_window_has_both_its_edges() {
    each(|kind| async move {
        let bus = Bus::start(kind).await;
        for id in [event(T - 1, 4_194_303), event(T, 0), event(T, 4_194_303), event(T + 1, 0)] {
            bus.stream.append_id(id, [("k", "v")]).await.unwrap();
        }
        let at = Timestamp::from_millis;
        let window = |first, last| bus.stream.read_window(at(first), at(last)).unwrap().all();
        assert_eq!(ids(&window(T, T).await.unwrap()), [format!("{T}-0"), format!("{T}-4194303")]);
        assert_eq!(window(T - 1, T + 1).await.unwrap().len(), 4);
        assert_eq!(window(T + 2, T + 9).await.unwrap().len(), 0);
        assert_eq!(window(-5, -5).await.unwrap().len(), 0);
        let error = bus.stream.read_window(at(T), at(T - 1)).unwrap_err();
        assert_eq!((error.code(), error.subject()), (Code::InvalidWindow, Some(KEY)));
        assert_eq!(ids(&bus.stream.read_since(at(T + 1)).all().await.unwrap()), [format!("{}-0", T + 1)]);
        assert_eq!(bus.stream.read_since(at(-1)).all().await.unwrap().len(), 4);
        assert_eq!(bus.stream.read_since(at(i64::MAX)).all().await.unwrap().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn bounds_are_inclusive_or_exclusive() {
    let bus = Bus::start(Kind::Valkey).await;
    let all: Vec<EventId> = (0..5).map(|n| event(T + n, 0)).collect();
    for id in &all {
        bus.stream.append_id(*id, [("k", "v")]).await.unwrap();
    }
    for (from, to, expected) in [
        ("-".into(), "+".into(), &all[..]),
        (all[1].to_string(), all[3].to_string(), &all[1..=3]),
        (format!("({}", all[1]), format!("({}", all[3]), &all[2..3]),
        (format!("({}", all[4]), "+".into(), &[]),
        ("-".into(), format!("({}", all[0]), &[]),
        ("+".into(), "-".into(), &[]),
    ] {
        let records = bus.stream.read(Range::parse(&from, &to).unwrap()).all().await.unwrap();
        let found: Vec<EventId> = records.iter().filter_map(Record::id).collect();
        assert_eq!(found, expected, "{from} {to}");
    }
    assert_eq!(
        bus.stream.read(Range::all().from(all[1]).before(all[4])).limit(2).all().await.unwrap().len(),
        2
    );
    let last: Vec<EventId> =
        bus.stream.read_last(2).all().await.unwrap().iter().filter_map(Record::id).collect();
    assert_eq!(last, [all[4], all[3]]);
    assert_eq!(bus.stream.read_last(0).all().await.unwrap().len(), 0);
    for text in ["", "x", "(", "((EVT0NgWEfAER90", "(-"] {
        assert_eq!(Range::parse(text, "+").unwrap_err().code(), Code::MalformedId, "{text}");
    }
    assert_eq!(Range::parse("-", "JOB0NgWEfAER90").unwrap_err().code(), Code::Kind);
}

#[tokio::test]
async fn long_ranges_are_paged_both_ways_and_every_shape_gives_the_same() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let total = 2_500_usize;
        let written = bus.stream.append_batch((0..total).map(|n| [("n", n.to_string())])).await.unwrap();
        let written: Vec<EventId> = written.into_iter().map(Result::unwrap).collect();
        let ids = |records: &[Record]| records.iter().filter_map(Record::id).collect::<Vec<_>>();

        let all = bus.stream.read(Range::all()).all().await.unwrap();
        assert_eq!(ids(&all), written);
        let newest: Vec<EventId> = written.iter().rev().copied().collect();
        assert_eq!(ids(&bus.stream.read_last(2_400).page_size(700).all().await.unwrap()), newest[..2_400]);

        // How large the records are shows in the first pages; then they are full, also those of the next reader.
        let fresh = async || {
            let client = Client::connect(&crate::options(&bus.server.url())).await.unwrap();
            client.stream("codemojex", "events").unwrap()
        };
        let new = fresh().await;
        for (stream, expected) in [
            (&new, &[16, 64, 320, 1_000, 700][..]),
            (&new, &[1_000, 1_000, 100]),
            (&bus.stream, &[1_000, 1_000, 100]),
        ] {
            let mut reader = stream.read(Range::all()).limit(2_100);
            let mut sizes = Vec::new();
            while let Some(page) = reader.next_page().await.unwrap() {
                sizes.push(page.len());
            }
            assert_eq!(sizes, expected);
        }

        // A page that records were taken from goes on where they ended.
        let new = fresh().await;
        let mut reader = new.read(Range::all()).limit(20);
        assert_eq!(reader.next().await.unwrap().unwrap(), all[0]);
        assert_eq!(reader.next_page().await.unwrap().unwrap(), all[1..16]);
        assert_eq!(reader.next_page().await.unwrap().unwrap(), all[16..20]);
        assert_eq!(reader.next_page().await.unwrap(), None);

        let mut reader = bus.stream.read(Range::all()).page_size(999);
        let mut one_by_one = Vec::new();
        while let Some(record) = reader.next().await {
            one_by_one.push(record.unwrap());
        }
        assert_eq!(one_by_one, all);

        let blocking = {
            let url = bus.server.url();
            tokio::task::spawn_blocking(move || {
                let client = echomq::blocking::Client::open(&crate::options(&url)).unwrap();
                let reader = client.stream("codemojex", "events").unwrap().read(Range::all());
                reader.collect::<Result<Vec<_>, _>>().unwrap()
            })
        };
        assert_eq!(blocking.await.unwrap(), all);
        assert_eq!(bus.plain.xlen(KEY), total as u64);
    })
    .await;
}

#[tokio::test]
async fn foreign_entries_are_read_whole_under_both_protocols() {
    each(|kind| async move {
        let mut bus = Bus::start(kind).await;
        let entries: [(&str, &[&[u8]]); 5] = [
            ("1-1", &[b"k", b"v"]),
            ("2-2", &[b"k", b"v", b"id", b"EVT0NgWEfAER90"]),
            ("3-3", &[b"id", b"EVT0NgWEfAER90"]),
            ("1780512970164-28714", &[b"id", b"EVT0NgWEfAER90", b"\xff\0", b"", b"", b"x"]),
            ("18446744073709551615-18446744073709551615", &[b"id", b"JOB0NgWEfAER90"]),
        ];
        for (entry_id, fields) in entries {
            let mut command: Vec<&[u8]> = vec![b"XADD", KEY.as_bytes(), entry_id.as_bytes()];
            command.extend(fields);
            bus.plain.command(command);
        }
        for protocol in ["2", "3"] {
            let mut options = crate::options(&bus.server.url());
            options.set("protocol", protocol).unwrap();
            let client = echomq::Client::connect(&options).await.unwrap();
            let stream = client.stream("codemojex", "events").unwrap();
            // One at a time, so that the last position is a page's end.
            let records = stream.read(Range::all()).page_size(1).all().await.unwrap();
            assert_eq!(records.len(), 5);
            for (record, (entry_id, fields)) in records.iter().zip(entries) {
                let is_ours = entry_id == "1780512970164-28714";
                assert_eq!(record.entry_id().to_string(), entry_id);
                assert_eq!(record.is_foreign(), !is_ours);
                let shown: Vec<&[u8]> =
                    record.fields().iter().flat_map(|(name, value)| [&name[..], &value[..]]).collect();
                assert_eq!(shown, if is_ours { &fields[2..] } else { fields });
            }
        }
    })
    .await;
}
