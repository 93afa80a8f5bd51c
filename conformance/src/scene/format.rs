//! What a scene is, and how scenes are loaded.

use super::generated;
use crate::item::{self, Item};
use crate::operation;
use crate::vectors::Vectors;
use serde::Deserialize;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The stream that records are put on where no other is named.
const STREAM: &str = "emq:{q}:stream:s";

/// One scene: who plays, and what happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scene {
    /// `area/what-it-shows`.
    pub name: String,
    /// The rule that a failure would break.
    pub why: String,
    /// The parts; the first one's language is the column.
    #[serde(default = "one_part")]
    pub parts: Vec<Part>,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// Keys whose serialisation has to be the same whoever played.
    #[serde(default)]
    pub same_bytes: Vec<String>,
}

/// A part of a scene: a driver with one connection.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What steps call it.
    pub name: String,
    /// The node that mints; by default the part's number, from 1 on.
    pub node: Option<u64>,
    /// A clock that stands still, in Unix milliseconds. The part is then played by a process that has done nothing else.
    pub clock: Option<u64>,
}

fn one_part() -> Vec<Part> {
    vec![Part { name: "a".to_owned(), node: None, clock: None }]
}

/// One thing that happens.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// A part does what it is told.
    Op(Op),
    /// The plain client sends a command.
    Plain(Plain),
    /// The plain client puts records on a stream.
    Records(Records),
    /// A part's process is killed, and the server closes its connections. It begins anew with its next step.
    Kill {
        /// The part.
        kill: String,
    },
    /// Parts take and acknowledge entries in turn, until those that are expected have come.
    Share(Share),
    /// The plain client listens from here on.
    Hear {
        /// The channels.
        hear: Vec<String>,
    },
    /// What the plain client has heard since it listens, or since the last step of this kind.
    Heard {
        /// The payloads, in order.
        heard: Vec<Item>,
    },
    /// More events than a listener's buffer takes are published, and then taken.
    Flood(Flood),
    /// What is named is killed, and started again with nothing in it.
    Restart {
        /// What is named.
        restart: Restart,
    },
}

impl Step {
    /// Whether it is the end of that part's process.
    pub fn kills(&self, part: &str) -> bool {
        matches!(self, Self::Kill { kill } if kill == part)
    }
}

/// An op, and what has to come of it: no values where nothing is said.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Op {
    /// The part; by default the first.
    pub by: Option<String>,
    /// The op and its arguments, without the handle.
    #[serde(rename = "do")]
    pub order: Vec<Item>,
    /// It works, with these values.
    #[serde(default)]
    pub ok: Vec<Item>,
    /// It fails with this code instead.
    pub err: Option<String>,
    /// Texts that the error's sentence has to name, in any case of letters.
    #[serde(default)]
    pub text: Vec<String>,
}

/// A command of the plain client. Without an expectation any reply but an error will do.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plain {
    /// The command.
    pub plain: Vec<Item>,
    /// What it answers: its values one behind the other, nothing as the empty one.
    pub is: Option<Vec<Item>>,
    /// What it answers sooner or later; it is sent until then.
    pub until: Option<Vec<Item>>,
    /// What stands side by side somewhere in the answer.
    pub has: Option<Vec<Item>>,
}

/// Records from one number to another, as [`crate::item::Special::Record`] has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    /// The first and the last number.
    pub records: (u64, u64),
    /// The stream's key.
    #[serde(default = "stream")]
    pub key: String,
}

fn stream() -> String {
    STREAM.to_owned()
}

/// Who shares, and what: each of these ids comes exactly once, to anyone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Parts and the names of their consumers.
    pub share: Vec<(String, String)>,
    /// The ids.
    pub gets: Vec<Item>,
    /// Whether each of them gets its own in order.
    #[serde(default)]
    pub in_order: bool,
}

/// How many events, and who takes them: each at most once, in order, with a gap wherever some are missing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    /// How many are published before the first is taken.
    pub flood: u64,
    /// A part and the name of its listener, which listens to the queue `q`.
    pub to: (String, String),
    /// Another listener of the part and the queue, which takes every event soon, and so misses none.
    pub beside: Option<String>,
}

/// What can be started again.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// The server.
    Server,
}

impl Scene {
    fn check(&self) -> Result<(), String> {
        if !self.name.contains('/') || self.why.is_empty() {
            return Err("a scene has a name of the form area/what, and a reason".to_owned());
        }
        let parts: HashSet<&str> = self.parts.iter().map(|part| part.name.as_str()).collect();
        if parts.is_empty() || parts.len() != self.parts.len() {
            return Err("a scene has parts of different names".to_owned());
        }
        let known = |part: &str| {
            if parts.contains(part) { Ok(()) } else { Err(format!("no part is named {part}")) }
        };
        for step in &self.steps {
            match step {
                Step::Op(op) => {
                    operation::named(&op.order)?;
                    item::expand(&op.order[1..])?;
                    item::expand(&op.ok)?;
                    op.by.as_deref().map_or(Ok(()), known)?;
                    if op.err.is_some() && !op.ok.is_empty() || op.err.is_none() && !op.text.is_empty() {
                        return Err("an op has values or an error".to_owned());
                    }
                }
                Step::Plain(plain) => {
                    item::expand(&plain.plain)?;
                    let expectations = [&plain.is, &plain.until, &plain.has];
                    for expected in expectations.into_iter().flatten() {
                        item::expand(expected)?;
                    }
                    if expectations.into_iter().flatten().count() > 1 {
                        return Err("a command has one expectation".to_owned());
                    }
                }
                Step::Records(records) if records.records.0 > records.records.1 => {
                    return Err("records go up".to_owned());
                }
                Step::Records(_) => {}
                Step::Kill { kill } => known(kill)?,
                Step::Share(share) => {
                    share.share.iter().try_for_each(|(part, _)| known(part))?;
                    item::expand(&share.gets)?;
                }
                Step::Hear { hear } if hear.is_empty() => return Err("nothing to listen to".to_owned()),
                Step::Hear { .. } | Step::Restart { .. } => {}
                Step::Heard { heard } => drop(item::expand(heard)?),
                Step::Flood(flood) => known(&flood.to.0)?,
            }
        }
        Ok(())
    }
}

/// Loads the scenes of `conformance/scenes`, file by file, and makes those of `vectors.json`.
///
/// # Errors
///
/// Says which file or scene cannot be read.
pub fn load(root: &Path) -> Result<Vec<Scene>, String> {
    let folder = root.join("conformance/scenes");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut scenes = Vec::new();
    for file in files {
        let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| fault(&error))?;
        let loaded: Vec<Scene> = serde_json::from_str(&text).map_err(|error| fault(&error))?;
        scenes.extend(loaded);
    }
    scenes.extend(generated::scenes(&Vectors::load(root)?)?);
    let mut seen = HashSet::new();
    for scene in &scenes {
        scene.check().map_err(|error| format!("scene {}: {error}", scene.name))?;
        if !seen.insert(&scene.name) {
            return Err(format!("two scenes are named {}", scene.name));
        }
    }
    Ok(scenes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Scene, String> {
        let scene: Scene = serde_json::from_str(json).map_err(|error| error.to_string())?;
        scene.check().map(|()| scene)
    }

    #[test]
    fn every_scene_of_the_suite_can_be_read() {
        assert!(load(&crate::root()).unwrap().len() > 30);
    }

    #[test]
    fn mistakes_in_a_scene_are_refused() {
        let with = |steps: &str| read(&format!(r#"{{"name":"a/b","why":"c","steps":[{steps}]}}"#));
        with(r#"{"do":["next","c","1"]}, {"plain":["DEL","k"],"is":["1"]}, {"kill":"a"}, {"records":[1,2]}"#)
            .unwrap();
        with(r#"{"hear":["c"]}, {"heard":["x"]}, {"flood":5,"to":["a","l"]}, {"restart":"server"}"#).unwrap();
        for steps in [
            r#"{"do":["nxet","c","1"]}"#,
            r#"{"do":["next","c","1"],"by":"b"}"#,
            r#"{"do":["next","c","1"],"ok":["x"],"err":"closed"}"#,
            r#"{"do":["next","c","1"],"text":["x"]}"#,
            r#"{"do":["next","c","1"],"oks":[]}"#,
            r#"{"plain":["DEL","k"],"is":["1"],"until":["1"]}"#,
            r#"{"records":[2,1]}"#,
            r#"{"kill":"b"}"#,
            r#"{"share":[["b","c"]],"gets":[]}"#,
            r#"{"hear":[]}"#,
            r#"{"heard":["a b"]}"#,
            r#"{"flood":5,"to":["b","l"]}"#,
            r#"{"restart":"plain"}"#,
        ] {
            assert!(with(steps).is_err(), "{steps}");
        }
    }
}
