//! Cases made from `vectors.json`: every fact in it, so that none is typed again.
//!
//! Two kinds of fact have no case here. The two keys that belong to no queue cannot be asked for through the op `key`,
//! so the judge checks its own slot function against them and that function against every other slot. The facts about
//! events are scenes (`scene/generated.rs`).

use crate::protocol::encode;
use crate::snowflake;
use crate::vectors::{Key, Record, Vectors, Window};
use crate::{case::Case, slot::slot};
use serde_json::{Value, json};

/// The queue and the stream of the vectors' records.
const RECORD_KEY: &str = "emq:{codemojex}:stream:events";

/// Makes the cases.
///
/// # Errors
///
/// Says which fact cannot be read, or contradicts another.
pub fn cases(vectors: &Vectors) -> Result<Vec<Case>, String> {
    let mut all = ids(vectors)?;
    all.extend(refused_ids(vectors));
    all.extend(names(vectors));
    for fact in &vectors.keys {
        all.extend(key(fact)?);
    }
    for fact in &vectors.windows {
        all.push(window(fact)?);
    }
    for fact in &vectors.records {
        all.push(record(fact)?);
    }
    all.into_iter().map(|case| serde_json::from_value(case).map_err(|error| error.to_string())).collect()
}

fn ids(vectors: &Vectors) -> Result<Vec<Value>, String> {
    let mut all = Vec::new();
    for fact in &vectors.branded {
        let number = fact.snowflake.parse().map_err(|error| format!("{}: {error}", fact.id))?;
        let mut answer = vec![fact.ns.clone()];
        answer.extend(parts(number));
        if fact.ns != "EVT" {
            answer[5] = "%".to_owned();
        }
        all.push(json!({
            "name": format!("ids/branded {}", fact.id),
            "why": "An id of any namespace is read and written; only an EVT id stands in a stream.",
            "open": false,
            "do": [["id.decode", fact.id], ["id.encode", fact.ns, fact.snowflake]],
            "expect": {"replies": [answer, [fact.id]]},
        }));
    }
    let events = vectors.ids.iter().map(|fact| {
        let answer = [
            "EVT".to_owned(),
            fact.snowflake.clone(),
            fact.unix_ms.to_string(),
            fact.node.to_string(),
            fact.seq.to_string(),
            fact.entry_id.clone(),
        ];
        json!({
            "name": format!("ids/event {}", fact.evt),
            "why": "Id, snowflake and entry id are spellings of one number.",
            "open": false,
            "do": [["id.decode", fact.evt], ["id.encode", "EVT", fact.snowflake], ["id.from_entry", fact.entry_id]],
            "expect": {"replies": [answer, [fact.evt], [fact.evt]]},
        })
    });
    let largest = json!({
        "name": "ids/largest payload",
        "why": "The largest payload is read in every namespace.",
        "open": false,
        "do": [["id.encode", "USR", i64::MAX.to_string()]],
        "expect": {"replies": [[format!("USR{}", vectors.max_payload)]]},
    });
    all.extend(events.chain([largest]));
    Ok(all)
}

/// Snowflake, instant, node, sequence number and entry id.
fn parts(number: u64) -> Vec<String> {
    let instant = (number >> 22) + snowflake::EPOCH_MS;
    vec![
        number.to_string(),
        instant.to_string(),
        (number >> 12 & 0x3FF).to_string(),
        (number & 0xFFF).to_string(),
        snowflake::entry(number),
    ]
}

fn refused_ids(vectors: &Vectors) -> Vec<Value> {
    let malformed = vectors.malformed.iter().map(|fact| {
        let id = encode(fact.id.as_bytes());
        let refusal = json!({"err": "malformed_id", "text": [fact.reason]});
        json!({
            "name": format!("ids/malformed {id}"),
            "why": "The first rule that an id breaks is named, and nothing is sent.",
            "do": [["id.decode", id], ["append_id", "q", "s", id, "k", "v"]],
            "expect": {"replies": [refusal, refusal], "keys": []},
        })
    });
    let kind = vectors.kind.iter().map(|id| {
        json!({
            "name": format!("ids/kind {id}"),
            "why": "A stream admits EVT ids and nothing else.",
            "do": [["append_id", "q", "s", id, "k", "v"]],
            "expect": {"replies": [{"err": "kind"}], "keys": []},
        })
    });
    malformed.chain(kind).collect()
}

fn names(vectors: &Vectors) -> Vec<Value> {
    let id = snowflake::branded(1);
    let accepted = |what: &str, name: &str, queue: &str, stream: &str| {
        let key = format!("emq:{{{queue}}}:stream:{stream}");
        json!({
            "name": format!("names/valid {what} {}", short(name)),
            "why": "A name of the allowed letters, up to 128 bytes, stands in the key as it is.",
            "do": [["append_id", queue, stream, id], ["key", queue, format!("stream:{stream}")]],
            "expect": {"replies": [[id], [key, slot(key.as_bytes()).to_string()]], "keys": [key]},
        })
    };
    let mut all = Vec::new();
    for name in &vectors.names.valid {
        all.push(accepted("queue", name, name, "s"));
        all.push(accepted("stream", name, "q", name));
    }
    for name in &vectors.names.invalid {
        let sent = encode(name.as_bytes());
        let refused = |what: &str, steps: Vec<Value>| {
            json!({
                "name": format!("names/invalid {what} {}", short(&sent)),
                "why": "A name that could reach another key or another slot is refused before the wire.",
                "replies": steps.iter().map(|_| json!({"err": "invalid_name"})).collect::<Vec<_>>(),
                "do": steps,
            })
        };
        let queue =
            refused("queue", vec![json!(["append", sent, "s", "k", "v"]), json!(["key", sent, "stream:s"])]);
        all.push(settled(queue));
        if name == "emq" {
            // Reserved as a queue's name only: `{emq}` is the deployment's own slot, a stream of that name is not.
            all.push(accepted("stream", name, "q", name));
        } else {
            all.push(settled(refused("stream", vec![json!(["append", "q", sent, "k", "v"])])));
        }
    }
    all
}

/// Moves the replies where they belong, and expects an empty server.
fn settled(mut case: Value) -> Value {
    let replies = case.as_object_mut().and_then(|members| members.remove("replies"));
    case["expect"] = json!({"replies": replies, "keys": []});
    case
}

/// Names of cases stay short.
fn short(name: &str) -> String {
    if name.len() <= 20 { name.to_owned() } else { format!("{}… of {} bytes", &name[..4], name.len()) }
}

fn key(fact: &Key) -> Result<Option<Value>, String> {
    let own = slot(fact.key.as_bytes());
    if own != fact.slot {
        return Err(format!("{}: slot {} in the vectors, {own} by the judge", fact.key, fact.slot));
    }
    let (Some(queue), Some(kind)) = (&fact.queue, &fact.kind) else { return Ok(None) };
    Ok(Some(json!({
        "name": format!("keys/{}", fact.key),
        "why": "All keys of a queue share its slot.",
        "open": false,
        "do": [["key", queue, kind]],
        "expect": {"replies": [[fact.key, fact.slot.to_string()]]},
    })))
}

/// One record on each side of both edges, and what the closed interval of that one instant holds.
fn window(fact: &Window) -> Result<Value, String> {
    let instant: jiff::Timestamp = fact.t.parse().map_err(|error| format!("{}: {error}", fact.t))?;
    let ms = instant.as_nanosecond().div_euclid(1_000_000).to_string();
    let bound = |entry: &str| {
        snowflake::split_entry(entry).ok_or_else(|| format!("{}: no entry id: {entry}", fact.t))
    };
    let ((floor, low), (ceil, high)) = (bound(&fact.floor)?, bound(&fact.ceil)?);
    let before = floor.checked_sub(1).map(|before| format!("{before}-{}", snowflake::MAX_TAIL));
    let after = format!("{}-0", ceil + 1);
    // No entry has the id 0-0, so that the first one that can be has 1.
    let first = format!("{floor}-{}", if floor == 0 { low + 1 } else { low });
    let last = format!("{ceil}-{high}");
    let places: Vec<_> = before.iter().chain([&first, &last, &after]).collect();
    let group = |entry: &String| match snowflake::from_entry(entry) {
        Some(number) => vec![snowflake::branded(number), entry.clone(), "at".to_owned(), entry.clone()],
        None => vec!["%".to_owned(), entry.clone(), "at".to_owned(), entry.clone()],
    };
    let groups = |entries: &[&String]| {
        entries.iter().map(|entry| group(entry)).collect::<Vec<_>>().join(&"|".to_owned())
    };
    let of_the_bus = places.iter().all(|entry| snowflake::from_entry(entry).is_some());
    let mut steps = Vec::new();
    let mut replies = Vec::new();
    let mut given = Vec::new();
    for entry in &places {
        if of_the_bus {
            let id = &group(entry)[0];
            steps.push(json!(["append_id", "q", "s", id, "at", entry]));
            replies.push(json!([id]));
        } else {
            // Before the epoch there are no ids, so another writer puts the entries there.
            given.push(json!(["XADD", "emq:{q}:stream:s", entry, "at", entry]));
        }
    }
    let from_first = places.iter().position(|entry| **entry == first).unwrap_or_default();
    steps.push(json!(["read_window", "q", "s", ms, ms, "0"]));
    replies.push(json!(groups(&[&first, &last])));
    steps.push(json!(["read_since", "q", "s", ms, "0"]));
    replies.push(json!(groups(&places[from_first..])));
    Ok(json!({
        "name": format!("windows/{}", fact.t),
        "why": "A window is closed at both edges and cut to the millisecond towards the past.",
        "given": given,
        "do": steps,
        "expect": {"replies": replies},
    }))
}

/// The record is minted by a clock that stands where its id says, until its sequence number is reached.
fn record(fact: &Record) -> Result<Value, String> {
    let number = snowflake::snowflake(fact.evt.as_bytes()).ok_or_else(|| format!("no id: {}", fact.evt))?;
    let field = |hex: &str| unhex(hex).map(|bytes| encode(&bytes));
    let mut fields = Vec::new();
    for (name, value) in &fact.fields_hex {
        fields.extend([field(name)?, field(value)?]);
    }
    let mut append = vec!["append".to_owned(), "codemojex".to_owned(), "events".to_owned()];
    append.extend(fields.clone());
    let mut entry = vec![snowflake::entry(number), "id".to_owned(), fact.evt.clone()];
    entry.extend(fields);
    let (node, clock, earlier) = (number >> 12 & 0x3FF, (number >> 22) + snowflake::EPOCH_MS, number & 0xFFF);
    let minted = json!([{"minted": {"node": node, "clock": clock, "count": earlier}}]);
    let (mut steps, mut replies) = (vec![json!(append)], vec![json!([fact.evt])]);
    if earlier > 0 {
        steps.insert(0, json!(["mint", earlier.to_string()]));
        replies.insert(0, minted);
    }
    Ok(json!({
        "name": format!("records/{}", fact.evt),
        "why": "What goes over the wire is the law's command, byte for byte.",
        "open": {"node": node, "clock": clock},
        "do": steps,
        "expect": {
            "replies": replies,
            "stream": {
                "key": RECORD_KEY,
                "records": [entry],
                "commands": [fact.command_hex],
                "same_bytes_in_every_language": true,
            },
        },
    }))
}

/// Reads hexadecimal bytes.
///
/// # Errors
///
/// Says so where the text is none.
pub fn unhex(text: &str) -> Result<Vec<u8>, String> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|value| value as u8);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect::<Option<_>>().ok_or_else(|| format!("no hexadecimal bytes: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item;

    #[test]
    fn every_fact_has_a_case() {
        let vectors = Vectors::load(&crate::root()).unwrap();
        let cases = cases(&vectors).unwrap();
        let queues = vectors.keys.iter().filter(|fact| fact.queue.is_some()).count();
        let facts = vectors.branded.len()
            + vectors.ids.len()
            + 1
            + vectors.malformed.len()
            + vectors.kind.len()
            + 2 * (vectors.names.valid.len() + vectors.names.invalid.len())
            + queues
            + vectors.windows.len()
            + vectors.records.len();
        assert_eq!(cases.len(), facts);
    }

    #[test]
    fn a_window_has_a_record_on_each_side_of_each_edge() {
        let vectors = Vectors::load(&crate::root()).unwrap();
        let case: Case = serde_json::from_value(window(&vectors.windows[1]).unwrap()).unwrap();
        let sent: Vec<_> = case.steps.iter().map(|step| item::values(step).unwrap()).collect();
        let places: Vec<_> = sent[..4].iter().map(|step| format!("{:?}", step[5])).collect();
        assert_eq!(
            places,
            ["1780512970163-4194303", "1780512970164-0", "1780512970164-4194303", "1780512970165-0"]
        );
        assert_eq!(format!("{:?}", sent[4]), "[read_window, q, s, 1780512970164, 1780512970164, 0]");
    }

    #[test]
    fn an_instant_is_cut_towards_the_past() {
        let fact = Window {
            t: "1969-12-31T23:59:58.9999Z".to_owned(),
            floor: "0-0".to_owned(),
            ceil: "0-4194303".to_owned(),
        };
        let case: Case = serde_json::from_value(window(&fact).unwrap()).unwrap();
        let sent = item::values(&case.steps[0]).unwrap();
        assert_eq!(format!("{sent:?}"), "[read_window, q, s, -1001, -1001, 0]");
    }

    #[test]
    fn hexadecimal_bytes_are_read() {
        assert_eq!(unhex("00fF0a").unwrap(), [0, 255, 10]);
        for wrong in ["0", "0g", "0x00"] {
            assert!(unhex(wrong).is_err());
        }
    }
}
