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
    /// Whether the part is played by a process that has done nothing else, and does nothing behind it.
    #[serde(default)]
    pub fresh: bool,
    /// Whether its connections go through the network that steps disturb.
    #[serde(default)]
    pub through_network: bool,
}

impl Part {
    /// Whether it is played by a process of its own.
    pub fn needs_new_process(&self) -> bool {
        self.fresh || self.clock.is_some()
    }
}

fn one_part() -> Vec<Part> {
    let name = "a".to_owned();
    vec![Part { name, node: None, clock: None, fresh: false, through_network: false }]
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
    /// Waits of a reader are cancelled at random while records or events come, and nothing is lost.
    Interrupt(Interrupt),
    /// Parts write one stream, in turns or all at once, and all that they write is there.
    Write(Write),
    /// The node leases that a part answers, and what the keys say of them.
    Leases(Leases),
    /// The server's clock is set, so many milliseconds ahead of the machine's. It holds until the scene's end.
    Clock {
        /// How many.
        clock: i64,
    },
    /// The network between the server and those parts that go through it is disturbed.
    Disturb {
        /// In which way.
        network: Network,
    },
    /// A part is told to do something, and not waited for.
    Begin(Begin),
    /// What comes of that.
    Finish(Finish),
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

/// A reader whose waits are cancelled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// A part and the name of its reader: a consumer or a tail of the stream `s` of the queue `q`, or a listener to `q`.
    pub interrupt: (String, String),
    /// What kind of reader that is.
    pub reader: Interrupted,
    /// How many records or events come, and through how many cancellations at least. The long form has more.
    pub times: u64,
}

/// The readers that can be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interrupted {
    /// A consumer: each record comes with its first attempt, and is acknowledged.
    Consumer,
    /// A tail.
    Tail,
    /// A listener.
    Listener,
}

/// Who writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The parts.
    pub write: Vec<String>,
    /// How often each of them appends a record, a batch, and a record with an event.
    pub times: u64,
    /// Whether they take turns; otherwise they write all at once.
    #[serde(default)]
    pub turns: bool,
}

/// Which nodes are leased.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leases {
    /// The nodes.
    pub leases: Vec<u64>,
    /// The part that is asked; by default the first.
    pub by: Option<String>,
}

/// How the network is disturbed.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Network {
    /// The connection on which a command of this name (or of one of several, with bars between them) comes next is closed, before the command or after it.
    CloseOn(String, Moment),
    /// The connection that carries the last of so many bytes of requests from now on is closed.
    CutRequests(usize),
    /// New connections are refused.
    Refuse,
    /// Waits until a connection was closed.
    Closed,
    /// Nothing is disturbed any more.
    Heal,
}

/// When a connection is closed on which a certain command comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The server never sees the command.
    Before,
    /// The server carries it out, and its reply is lost.
    After,
}

/// An op that is not waited for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// The part; by default the first.
    pub by: Option<String>,
    /// The op and its arguments, without the handle.
    pub begin: Vec<Item>,
}

/// What comes of the op that a part was told and not waited for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finish {
    /// The part.
    pub finish: String,
    /// It worked, with these values.
    #[serde(default)]
    pub ok: Vec<Item>,
    /// It failed with this code instead.
    pub err: Option<String>,
    /// Texts that the error's sentence has to name, in any case of letters.
    #[serde(default)]
    pub text: Vec<String>,
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
                    check_order(&op.order)?;
                    check_outcome(&op.ok, op.err.as_ref(), &op.text)?;
                    op.by.as_deref().map_or(Ok(()), known)?;
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
                Step::Hear { .. } | Step::Restart { .. } | Step::Clock { .. } | Step::Disturb { .. } => {}
                Step::Heard { heard } => drop(item::expand(heard)?),
                Step::Flood(flood) => known(&flood.to.0)?,
                Step::Interrupt(interrupt) => known(&interrupt.interrupt.0)?,
                Step::Write(write) => write.write.iter().try_for_each(|part| known(part))?,
                Step::Leases(leases) => leases.by.as_deref().map_or(Ok(()), known)?,
                Step::Begin(begin) => {
                    check_order(&begin.begin)?;
                    begin.by.as_deref().map_or(Ok(()), known)?;
                }
                Step::Finish(finish) => {
                    check_outcome(&finish.ok, finish.err.as_ref(), &finish.text)?;
                    known(&finish.finish)?;
                }
            }
        }
        Ok(())
    }
}

fn check_order(order: &[Item]) -> Result<(), String> {
    operation::named(order)?;
    item::expand(&order[1..]).map(drop)
}

fn check_outcome(ok: &[Item], err: Option<&String>, text: &[String]) -> Result<(), String> {
    item::expand(ok)?;
    if err.is_some() && !ok.is_empty() || err.is_none() && !text.is_empty() {
        return Err("an op has values or an error".to_owned());
    }
    Ok(())
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
        with(r#"{"interrupt":["a","c"],"reader":"tail","times":5}, {"write":["a"],"times":5,"turns":true}"#)
            .unwrap();
        with(r#"{"leases":[0,1]}, {"clock":-5}, {"begin":["mint","1"]}, {"finish":"a","err":"closed"}"#)
            .unwrap();
        with(r#"{"network":"refuse"}, {"network":{"close_on":["XADD","after"]}}, {"network":{"cut_requests":9}}"#)
            .unwrap();
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
            r#"{"interrupt":["b","c"],"reader":"tail","times":5}"#,
            r#"{"interrupt":["a","c"],"reader":"stream","times":5}"#,
            r#"{"write":["b"],"times":5}"#,
            r#"{"leases":[0],"by":"b"}"#,
            r#"{"network":"break"}"#,
            r#"{"network":{"close_on":["XADD","during"]}}"#,
            r#"{"begin":["nxet","c","1"]}"#,
            r#"{"finish":"b"}"#,
            r#"{"finish":"a","ok":["x"],"err":"closed"}"#,
        ] {
            assert!(with(steps).is_err(), "{steps}");
        }
    }
}
