//! The order theorem, and every fact of the vectors that is about ids.

use super::branded::{BrandedId, EventId};
use super::entry_id::EntryId;
use super::snowflake::{EPOCH_MS, MAX_TIMESTAMP, Snowflake};
use crate::clock::Timestamp;
use crate::error::Code;
use proptest::prelude::*;
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../conformance/vectors.json")).expect("the vectors are JSON")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn event(number: u64) -> EventId {
    EventId::new(Snowflake::new(number).expect("63 bits"))
}

#[test]
fn every_id_of_the_vectors() {
    for fact in list(&vectors()["ids"]) {
        let number: u64 = text(&fact["snowflake"]).parse().unwrap();
        let id = EventId::parse(text(&fact["evt"])).unwrap();
        let entry_id: EntryId = text(&fact["entry_id"]).parse().unwrap();
        assert_eq!(id, event(number));
        assert_eq!(id.as_str(), text(&fact["evt"]));
        assert_eq!(id.unix_ms(), fact["unix_ms"].as_u64().unwrap());
        assert_eq!(u64::from(id.snowflake().node()), fact["node"].as_u64().unwrap());
        assert_eq!(u64::from(id.snowflake().sequence()), fact["seq"].as_u64().unwrap());
        assert_eq!(EntryId::from(id), entry_id);
        assert_eq!(entry_id.to_string(), text(&fact["entry_id"]));
        assert_eq!(EventId::try_from(entry_id).unwrap(), id);
    }
}

#[test]
fn every_branded_id_of_the_vectors() {
    let vectors = vectors();
    for fact in list(&vectors["branded"]) {
        let snowflake = Snowflake::new(text(&fact["snowflake"]).parse().unwrap()).unwrap();
        let id = BrandedId::parse(text(&fact["id"])).unwrap();
        assert_eq!((id.namespace(), id.snowflake()), (text(&fact["ns"]), snowflake));
        assert_eq!(BrandedId::new(text(&fact["ns"]), snowflake).unwrap(), id);
    }
    assert_eq!(vectors["epoch_ms"].as_u64().unwrap(), EPOCH_MS);
    assert_eq!(&event(i64::MAX as u64).as_str()[3..], text(&vectors["max_payload"]));
}

#[test]
fn every_refusal_of_the_vectors() {
    let vectors = vectors();
    for fact in list(&vectors["malformed"]) {
        let error = EventId::parse(text(&fact["id"])).unwrap_err();
        assert_eq!(error.code(), Code::MalformedId);
        assert_eq!(error.message().split(':').next().unwrap(), text(&fact["reason"]), "{error}");
    }
    for fact in list(&vectors["kind"]) {
        assert_eq!(EventId::parse(text(fact)).unwrap_err().code(), Code::Kind);
        assert!(BrandedId::parse(text(fact)).is_ok());
    }
}

#[test]
fn a_snowflake_is_63_bits_in_digits() {
    assert_eq!(Snowflake::parse("9223372036854775807").unwrap().number(), i64::MAX as u64);
    assert_eq!(Snowflake::parse("0").unwrap(), Snowflake::ZERO);
    let refused = [
        ("9223372036854775808", "range"),
        ("99999999999999999999999", "range"),
        ("-1", "charset"),
        ("", "charset"),
    ];
    for (digits, check) in refused {
        let error = Snowflake::parse(digits).unwrap_err();
        assert_eq!(
            (error.code(), error.message().split(':').next()),
            (Code::MalformedId, Some(check)),
            "{digits}"
        );
    }
}

#[test]
fn windows_of_the_vectors() {
    let windows = vectors();
    for (fact, us) in
        list(&windows["windows"]).iter().zip([1_704_103_200_000_000, 1_780_512_970_164_999, -1_000_000])
    {
        let instant = Timestamp::from_micros(us);
        assert_eq!(EntryId::floor(instant).to_string(), text(&fact["floor"]), "{}", text(&fact["t"]));
        assert_eq!(EntryId::ceil(instant).to_string(), text(&fact["ceil"]), "{}", text(&fact["t"]));
    }
}

#[test]
fn what_is_no_entry_id_is_refused() {
    let texts = [
        "",
        "-",
        "1",
        "1-",
        "-1",
        "1-2-3",
        "+1-2",
        "01-2",
        "1-02",
        " 1-2",
        "1-2 ",
        "18446744073709551616-0",
        "a-b",
    ];
    for text in texts {
        assert_eq!(EntryId::parse(text).unwrap_err().code(), Code::MalformedId, "{text:?}");
    }
    assert_eq!(EntryId::parse("0-0").unwrap(), EntryId::new(0, 0));
    assert_eq!(EntryId::parse(EntryId::MAX.to_string()).unwrap(), EntryId::MAX);
}

#[test]
fn entry_ids_without_a_record_id() {
    let last = EPOCH_MS + MAX_TIMESTAMP;
    for (ms, seq) in [(EPOCH_MS - 1, 0), (EPOCH_MS, 1 << 22), (last + 1, 0), (u64::MAX, u64::MAX)] {
        assert_eq!(EventId::try_from(EntryId::new(ms, seq)).unwrap_err().code(), Code::MalformedId);
    }
    assert_eq!(EventId::try_from(EntryId::new(last, (1 << 22) - 1)).unwrap(), event(i64::MAX as u64));
}

proptest! {
    /// Stream order = id order = mint order: the three spellings of a snowflake sort alike.
    #[test]
    fn the_order_theorem(a in 0..=i64::MAX as u64, b in 0..=i64::MAX as u64) {
        let order = a.cmp(&b);
        prop_assert_eq!(event(a).as_bytes().cmp(event(b).as_bytes()), order);
        prop_assert_eq!(event(a).cmp(&event(b)), order);
        prop_assert_eq!(EntryId::from(event(a)).cmp(&EntryId::from(event(b))), order);
    }

    #[test]
    fn an_id_and_its_entry_id_are_one_to_one(number in 0..=i64::MAX as u64) {
        let id = event(number);
        prop_assert_eq!(EventId::try_from(EntryId::from(id)).unwrap(), id);
        prop_assert_eq!(EventId::parse(id.as_str()).unwrap(), id);
        prop_assert_eq!(EntryId::parse(EntryId::from(id).to_string()).unwrap(), EntryId::from(id));
    }

    #[test]
    fn any_bytes_are_an_id_or_refused(bytes: Vec<u8>) {
        if let Ok(id) = BrandedId::parse(&bytes) {
            prop_assert_eq!(&id.as_bytes()[..], &bytes[..]);
        }
        if let Ok(id) = EntryId::parse(&bytes) {
            prop_assert_eq!(id.to_string().into_bytes(), bytes);
        }
    }
}

#[test]
fn a_number_of_more_than_63_bits_is_no_snowflake() {
    let largest = i64::MAX as u64;
    assert_eq!(Snowflake::try_from(largest).unwrap().number(), largest);
    let error = Snowflake::try_from(largest + 1).unwrap_err();
    assert_eq!(error.code(), Code::MalformedId);
    assert!(error.message().starts_with("range: 9223372036854775808"), "{error}");
}
