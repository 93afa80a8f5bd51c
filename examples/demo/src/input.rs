//! Real input: a user's JSON lines, or a git history.

use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

/// Names and values.
pub type Fields = Vec<(String, String)>;

type Records = Box<dyn Iterator<Item = Result<Fields, String>>>;

/// Each line of a file, read when it is needed. A text member is taken as it is, any other as its JSON.
pub fn json_lines(path: &Path) -> Result<Records, String> {
    let file = File::open(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let shown = path.display().to_string();
    let lines = BufReader::new(file).lines().enumerate();
    let records = lines.filter(|(_, line)| !matches!(line, Ok(line) if line.trim().is_empty())).map(
        move |(number, line)| {
            let at = |why: String| format!("{shown}, line {}: {why}", number + 1);
            let line = line.map_err(|error| at(error.to_string()))?;
            match serde_json::from_str(&line).map_err(|error| at(error.to_string()))? {
                Value::Object(members) => {
                    Ok(members.into_iter().map(|(name, value)| field(name, value)).collect())
                }
                _ => Err(at("a record is an object".to_owned())),
            }
        },
    );
    Ok(Box::new(records))
}

/// A record's own `id` is the branded id, so a member of that name is appended as `source_id`.
fn field(name: String, value: Value) -> (String, String) {
    let name = if name == "id" { "source_id".to_owned() } else { name };
    match value {
        Value::String(text) => (name, text),
        value => (name, value.to_string()),
    }
}

/// Commit, instant and subject of each commit, oldest first.
pub fn git_history() -> Result<Records, String> {
    let format = "--format=%H%x09%cI%x09%s";
    let output = Command::new("git").args(["log", "--reverse", format]).output();
    let output = output.map_err(|error| format!("git cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "there is no git history here: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    let history = String::from_utf8_lossy(&output.stdout).into_owned();
    let records: Vec<Result<Fields, String>> = history.lines().map(|line| Ok(commit(line))).collect();
    Ok(Box::new(records.into_iter()))
}

fn commit(line: &str) -> Fields {
    let names = ["commit", "instant", "subject"].into_iter().map(str::to_owned);
    names.zip(line.splitn(3, '\t').map(str::to_owned)).collect()
}
