//! `conformance/vectors.json`: the facts of the law as data.

use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The facts that cases and scenes of this suite are made from.
#[derive(Clone, Debug, Deserialize)]
pub struct Vectors {
    /// Where the instants of ids begin, in Unix milliseconds.
    pub epoch_ms: u64,
    /// The largest payload of an id.
    pub max_payload: String,
    /// Ids of several namespaces.
    pub branded: Vec<Branded>,
    /// `EVT` ids and all they say.
    pub ids: Vec<Id>,
    /// Texts that are no ids.
    pub malformed: Vec<Malformed>,
    /// Ids that a stream does not admit.
    pub kind: Vec<String>,
    /// Names of queues and streams.
    pub names: Names,
    /// Keys and their slots.
    pub keys: Vec<Key>,
    /// Instants and the entry ids that bound them.
    pub windows: Vec<Window>,
    /// Events and their payloads.
    pub events: Vec<Event>,
    /// Records and the bytes of their XADD.
    pub records: Vec<Record>,
}

/// An id of any namespace.
#[derive(Clone, Debug, Deserialize)]
pub struct Branded {
    /// The namespace.
    pub ns: String,
    /// The snowflake, decimal.
    pub snowflake: String,
    /// The id.
    pub id: String,
}

/// An `EVT` id and all it says.
#[derive(Clone, Debug, Deserialize)]
pub struct Id {
    /// The snowflake, decimal.
    pub snowflake: String,
    /// When it was minted, in Unix milliseconds.
    pub unix_ms: u64,
    /// The node.
    pub node: u64,
    /// The sequence number.
    pub seq: u64,
    /// The id.
    pub evt: String,
    /// Where it stands in a stream.
    pub entry_id: String,
}

/// A text that is no id.
#[derive(Clone, Debug, Deserialize)]
pub struct Malformed {
    /// The text.
    pub id: String,
    /// The first rule that it breaks.
    pub reason: String,
}

/// Names of queues and streams.
#[derive(Clone, Debug, Deserialize)]
pub struct Names {
    /// Those that are taken.
    pub valid: Vec<String>,
    /// Those that are refused, as a queue's at least.
    pub invalid: Vec<String>,
}

/// A key and its slot.
#[derive(Clone, Debug, Deserialize)]
pub struct Key {
    /// The queue, where the key is a queue's.
    pub queue: Option<String>,
    /// What follows the queue.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The key.
    pub key: String,
    /// Its slot.
    pub slot: u16,
}

/// An instant and the entry ids that bound it.
#[derive(Clone, Debug, Deserialize)]
pub struct Window {
    /// The instant.
    pub t: String,
    /// The first entry id of its millisecond.
    pub floor: String,
    /// The last one.
    pub ceil: String,
}

/// An event and its payload.
#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    /// Its name.
    pub event: String,
    /// The job that it is about.
    pub job: String,
    /// Its further members.
    pub extra: Vec<(String, String)>,
    /// What is published.
    pub payload: String,
}

/// A record and the bytes of its XADD.
#[derive(Clone, Debug, Deserialize)]
pub struct Record {
    /// Its id.
    pub evt: String,
    /// Its names and values, in hexadecimal.
    pub fields_hex: Vec<(String, String)>,
    /// The whole command, in hexadecimal.
    pub command_hex: String,
}

impl Vectors {
    /// Loads the facts of the project at `root`.
    ///
    /// # Errors
    ///
    /// Says why the file cannot be read.
    pub fn load(root: &Path) -> Result<Self, String> {
        let file = root.join("conformance/vectors.json");
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }
}
