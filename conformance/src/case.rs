//! What a case is, and how cases are loaded.

use crate::item::{self, Item, Run};
use crate::operation;
use crate::vectors::Vectors;
use serde::Deserialize;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// One case: what is given, what the driver does, and what has to come of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// `area/what-it-shows`.
    pub name: String,
    /// The rule that a failure would break.
    pub why: String,
    /// The connection that the steps use.
    #[serde(default)]
    pub open: Open,
    /// What the plain client puts on the empty server first.
    #[serde(default)]
    pub given: Vec<Given>,
    /// The steps: an op and its arguments, without the handle.
    #[serde(rename = "do")]
    pub steps: Vec<Vec<Item>>,
    /// Steps that every language then takes as reader of what every language wrote.
    #[serde(default)]
    pub read: Vec<Vec<Item>>,
    /// What has to come of it.
    pub expect: Expect,
}

/// The connection that a case uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Open {
    /// The one that all cases without a wish share.
    #[default]
    Shared,
    /// None: a step opens it, or no step needs one.
    Never(No),
    /// One of its own.
    Own(Settings),
}

/// The literal `false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "bool")]
pub struct No;

impl TryFrom<bool> for No {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        if value { Err("`open` is false or an object") } else { Ok(Self) }
    }
}

/// What a connection of its own is opened with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The node that mints.
    pub node: Option<u64>,
    /// A clock that stands still, in Unix milliseconds.
    pub clock: Option<u64>,
}

/// One thing that the plain client does first.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Given {
    /// A command.
    Command(Vec<Item>),
    /// Records with consecutive ids.
    Records {
        /// The stream's key.
        key: String,
        /// Which records.
        records: Run,
    },
}

/// What has to come of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// One for each step.
    pub replies: Vec<ExpectedReply>,
    /// The stream that the plain client then sees.
    pub stream: Option<ExpectedStream>,
    /// All keys of the server, in byte order.
    pub keys: Option<Vec<String>>,
}

/// The reply that a step has to get.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ExpectedReply {
    /// It worked, with these values.
    Values(Vec<Item>),
    /// It failed.
    Err(ExpectedErr),
    /// All of a batch failed for one reason: as one error, or as the same error for each record.
    Refused(Refused),
}

/// An error that a step has to get.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedErr {
    /// Its code.
    pub err: String,
    /// Texts that its sentence has to name, in any case of letters.
    #[serde(default)]
    pub text: Vec<String>,
}

/// The refusal of a whole batch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
    /// Its code.
    pub refused: String,
}

/// What the plain client has to see in a stream.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedStream {
    /// The key.
    pub key: String,
    /// Every entry: entry id, field, value, …
    pub records: Option<Vec<Vec<Item>>>,
    /// How many entries it holds.
    pub length: Option<Length>,
    /// The bytes of every XADD that went to the server, in hexadecimal.
    pub commands: Option<Vec<String>>,
    /// Whether every language has to leave the same bytes: the raw XRANGE reply, DUMP, and every XADD sent.
    #[serde(default)]
    pub same_bytes_in_every_language: bool,
}

/// How many entries a stream has to hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Length {
    /// This many.
    Exactly(u64),
    /// All that were there but those that a reply says were removed, and at least some.
    Left {
        /// How many there were.
        of: u64,
        /// The name of the number that a reply gave.
        removed: String,
        /// How many have to be left at least.
        at_least: u64,
        /// How many may be left at most.
        at_most: Option<u64>,
    },
}

impl Case {
    /// Whether the case needs a driver process that has done nothing else.
    ///
    /// Ids come from one cell for a process and node, so a clock that stands still pins them only in a new process.
    pub fn needs_new_process(&self) -> bool {
        let clock_in_step = self.steps.iter().flatten().any(|item| match item {
            Item::Field(field) => field.starts_with("clock="),
            Item::Special(_) => false,
        });
        clock_in_step || matches!(&self.open, Open::Own(settings) if settings.clock.is_some())
    }

    /// Whether what the driver sends has to be captured.
    pub fn captures(&self) -> bool {
        let wanted =
            |stream: &ExpectedStream| stream.commands.is_some() || stream.same_bytes_in_every_language;
        self.expect.stream.as_ref().is_some_and(wanted)
    }

    fn check(&self) -> Result<(), String> {
        if !self.name.contains('/') || self.why.is_empty() {
            return Err("a case has a name of the form area/what, and a reason".to_owned());
        }
        if self.steps.len() != self.expect.replies.len() {
            return Err(format!("{} steps, {} replies", self.steps.len(), self.expect.replies.len()));
        }
        if self.captures() && self.open == Open::Shared {
            return Err("what is sent is captured on a connection of the case's own".to_owned());
        }
        if !self.read.is_empty() && self.expect.stream.is_none() {
            return Err("a case that is read by others names its stream".to_owned());
        }
        for step in self.steps.iter().chain(&self.read) {
            operation::named(step)?;
            item::values(step)?;
        }
        for given in &self.given {
            if let Given::Command(command) = given {
                item::values(command)?;
            }
        }
        for reply in &self.expect.replies {
            if let ExpectedReply::Values(values) = reply {
                item::expand(values)?;
            }
        }
        let records = self.expect.stream.iter().filter_map(|stream| stream.records.as_ref());
        records.flatten().try_for_each(|record| item::expand(record).map(drop))
    }
}

/// Loads the cases of `conformance/cases` and those made from the vectors, in the order of their names' areas.
///
/// # Errors
///
/// Says which file or case cannot be read.
pub fn load(root: &Path) -> Result<Vec<Case>, String> {
    let mut cases = crate::generated::cases(&Vectors::load(root)?)?;
    let folder = root.join("conformance/cases");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    for file in files {
        let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| fault(&error))?;
        let loaded: Vec<Case> = serde_json::from_str(&text).map_err(|error| fault(&error))?;
        cases.extend(loaded);
    }
    let mut seen = HashSet::new();
    for case in &cases {
        case.check().map_err(|error| format!("case {}: {error}", case.name))?;
        if !seen.insert(&case.name) {
            return Err(format!("two cases are named {}", case.name));
        }
    }
    cases.sort_by(|a, b| area(&a.name).cmp(area(&b.name)));
    Ok(cases)
}

fn area(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Case, String> {
        let case: Case = serde_json::from_str(json).map_err(|error| error.to_string())?;
        case.check().map(|()| case)
    }

    #[test]
    fn every_case_of_the_suite_can_be_read() {
        assert!(load(&crate::root()).unwrap().len() > 100);
    }

    #[test]
    fn a_standing_clock_asks_for_a_new_process() {
        let with = |open: &str| {
            let json = format!(
                r#"{{"name":"a/b","why":"c",{open}"do":[["mint","1"]],"expect":{{"replies":[[{{"id":"x"}}]]}}}}"#
            );
            read(&json).unwrap()
        };
        assert!(!with("").needs_new_process());
        assert!(!with(r#""open":false,"#).needs_new_process());
        assert!(!with(r#""open":{"node":1},"#).needs_new_process());
        assert!(with(r#""open":{"node":1,"clock":5},"#).needs_new_process());
    }

    #[test]
    fn mistakes_in_a_case_are_refused() {
        for json in [
            r#"{"name":"ab","why":"c","do":[],"expect":{"replies":[]}}"#,
            r#"{"name":"a/b","why":"","do":[],"expect":{"replies":[]}}"#,
            r#"{"name":"a/b","why":"c","do":[["mint","1"]],"expect":{"replies":[]}}"#,
            r#"{"name":"a/b","why":"c","do":[["mnit","1"]],"expect":{"replies":[[]]}}"#,
            r#"{"name":"a/b","why":"c","do":[["mint",{"id":"a"}]],"expect":{"replies":[[]]}}"#,
            r#"{"name":"a/b","why":"c","do":[["mint","a b"]],"expect":{"replies":[[]]}}"#,
            r#"{"name":"a/b","why":"c","open":true,"do":[],"expect":{"replies":[]}}"#,
            r#"{"name":"a/b","why":"c","do":[],"expect":{"replies":[],"streem":1}}"#,
        ] {
            assert!(read(json).is_err(), "{json}");
        }
    }
}
