//! Scenes made from `vectors.json`: payloads, channels, and what is refused.

use super::format::Scene;
use crate::protocol::encode;
use crate::vectors::{Event, Vectors};
use serde_json::{Value, json};

/// The job of the steps that are refused for another reason.
const JOB: &str = "JOB000xY9Wvvcd";

/// Makes the scenes.
///
/// # Errors
///
/// Says which scene cannot be read.
pub(super) fn scenes(vectors: &Vectors) -> Result<Vec<Scene>, String> {
    let mut all: Vec<Value> = vectors.events.iter().map(payload).collect();
    all.extend([channels(vectors), malformed_jobs(vectors), names(vectors)]);
    all.into_iter().map(|scene| serde_json::from_value(scene).map_err(|error| error.to_string())).collect()
}

fn payload(fact: &Event) -> Value {
    let (event, payload) = (encode(fact.event.as_bytes()), encode(fact.payload.as_bytes()));
    let mut publish = vec!["publish".to_owned(), "q".to_owned(), event.clone(), fact.job.clone()];
    for (name, value) in &fact.extra {
        publish.extend([encode(name.as_bytes()), encode(value.as_bytes())]);
    }
    json!({
        "name": format!("events/payload of {}", fact.event),
        "why": "What is published is the law's JSON, byte for byte, and a listener of any language has it as it came.",
        "parts": [{"name": "a"}, {"name": "b"}],
        "steps": [
            {"hear": ["emq:{q}:events"]},
            {"by": "b", "do": ["listen", "l", "q"]},
            {"by": "a", "do": publish},
            {"heard": [payload]},
            {"by": "b", "do": ["event", "l", "5000"], "ok": [event, payload]},
            {"plain": ["KEYS", "*"], "is": []},
        ],
    })
}

fn channels(vectors: &Vectors) -> Value {
    let is_channel = |kind: &Option<String>| kind.as_deref() == Some("events");
    let channels = vectors.keys.iter().filter(|fact| is_channel(&fact.kind));
    let (mut keys, mut steps, mut heard) = (vec![], vec![], vec![]);
    for (number, fact) in channels.enumerate() {
        keys.push(&fact.key);
        heard.push(format!(r#"{{"event":"e{number}","job":"{JOB}"}}"#));
        steps.push(json!({"do": ["publish", fact.queue, format!("e{number}"), JOB]}));
        steps.push(json!({"heard": [heard[number]]}));
    }
    steps.insert(0, json!({"hear": keys}));
    json!({
        "name": "events/channels",
        "why": "Each queue has one channel, and its name is spelled like a key of the queue.",
        "steps": steps,
    })
}

/// The steps that take a queue and a job, each refused with this.
fn refused(queue: &str, job: &str, err: &str, text: &[&str]) -> Vec<Value> {
    let steps = [
        json!(["publish", queue, "completed", job]),
        json!(["progress", queue, job, "1"]),
        json!(["cancel", queue, job, "why"]),
        json!(["watch", "w", queue, job]),
    ];
    steps.into_iter().map(|step| json!({"do": step, "err": err, "text": text})).collect()
}

/// Listens meanwhile, and finds that nothing was published or written.
fn unheard(name: &str, why: &str, refused: impl IntoIterator<Item = Value>) -> Value {
    let mut steps = vec![json!({"hear": ["emq:{q}:events"]})];
    steps.extend(refused);
    steps.extend([json!({"heard": []}), json!({"plain": ["KEYS", "*"], "is": []})]);
    json!({"name": name, "why": why, "steps": steps})
}

fn malformed_jobs(vectors: &Vectors) -> Value {
    let steps = |id: &str, reason: &str| refused("q", &encode(id.as_bytes()), "malformed_id", &[reason]);
    unheard(
        "events/malformed jobs",
        "A job that is no id is refused before the wire, and the first rule that it breaks is named.",
        vectors.malformed.iter().flat_map(|fact| steps(&fact.id, &fact.reason)),
    )
}

fn names(vectors: &Vectors) -> Value {
    let steps = vectors.names.invalid.iter().flat_map(|name| {
        let queue = encode(name.as_bytes());
        let mut steps = refused(&queue, JOB, "invalid_name", &[]);
        steps.push(json!({"do": ["listen", "l", queue], "err": "invalid_name"}));
        steps
    });
    unheard(
        "events/names of queues",
        "A queue's name that could reach another channel is refused before the wire.",
        steps,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_about_events_has_a_scene() {
        let vectors = Vectors::load(&crate::root()).unwrap();
        let scenes = scenes(&vectors).unwrap();
        assert!(!vectors.events.is_empty());
        for fact in &vectors.events {
            let name = format!("events/payload of {}", fact.event);
            assert!(scenes.iter().any(|scene| scene.name == name), "{name}");
        }
        let steps =
            |name: &str| scenes.iter().find(|scene| scene.name == name).map(|scene| scene.steps.len());
        assert_eq!(steps("events/channels"), Some(1 + 2 * 4));
        assert_eq!(steps("events/malformed jobs"), Some(3 + 4 * vectors.malformed.len()));
        assert_eq!(steps("events/names of queues"), Some(3 + 5 * vectors.names.invalid.len()));
    }
}
