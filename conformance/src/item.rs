//! The parts that a case is written in: values to send, values to expect, and the shorthands for many of them.

use crate::protocol::{Token, shorten};
use crate::snowflake;
use serde::Deserialize;
use std::collections::HashMap;

/// One part of a step, a reply or a record, as a case file writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Item {
    /// A field as the driver protocol writes it: `%` is the empty value, `|` the bare bar.
    Field(String),
    /// Anything else: an object with one member.
    Special(Special),
}

/// The parts that are not a plain field.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Special {
    /// One long value: `text`, `times` over.
    Repeat {
        /// What is repeated.
        text: String,
        /// How often.
        times: usize,
    },
    /// One value: all bytes from 0 to 255, this many times over.
    EveryByte(usize),
    /// This many fields: `f0 v0 f1 v1 …`.
    Numbered(usize),
    /// Records with consecutive ids, as `read` answers them; their one field `n` holds the snowflake.
    Records(Run),
    /// The ids that a fresh mint gives while its clock stands still.
    Minted {
        /// The clock, in Unix milliseconds.
        clock: u64,
        /// The node.
        node: u64,
        /// How many ids.
        count: u64,
    },
    /// Records of one field, `n` and its number from 0 on, as a batch sends them.
    Batch(usize),
    /// Expects what a batch answers where it is written whole, under any ids; their names are `0`, `1`, …
    Accepted(usize),
    /// Expects what `read` answers for records that `batch` wrote and `accepted` named.
    ReadBack(usize),
    /// The id of a scene's record: record n has the snowflake n, and the one field `n` holds n.
    Record(u64),
    /// The entry id of a scene's record.
    Entry(u64),
    /// What `next` of a tail answers for a scene's record.
    Tailed(u64),
    /// What `next` of a consumer answers for a scene's record.
    Delivered {
        /// Which record.
        record: u64,
        /// How often it was delivered.
        attempts: u64,
    },
    /// Expects any `EVT` id. The first one met under a name is what the name stands for from then on.
    Id(String),
    /// Expects the entry id of the id that this name stands for.
    EntryOf(String),
    /// Expects any decimal number, under a name as with `id`.
    Number(String),
    /// Expects any text that is not empty, under a name as with `id`.
    Text(String),
    /// One value: these, put together. Names stand for what they met before.
    Join(Vec<Item>),
    /// Expects a value that holds this text.
    Contains(String),
    /// Expects this JSON, in whatever order and with whatever escapes it is written.
    Json(serde_json::Value),
    /// Expects a decimal number, one of these two or between them.
    Between(u64, u64),
    /// Expects a value of a kind.
    Is(Kind),
}

/// Records with consecutive ids.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The lowest id.
    pub first: String,
    /// How many.
    pub count: u64,
    /// Whether the highest stands first.
    #[serde(default)]
    pub newest_first: bool,
}

impl Run {
    /// The snowflakes, in the order asked for.
    ///
    /// # Errors
    ///
    /// Says so where `first` is no `EVT` id.
    pub fn snowflakes(&self) -> Result<Vec<u64>, String> {
        let first = snowflake::snowflake(self.first.as_bytes())
            .ok_or_else(|| format!("no EVT id: {}", self.first))?;
        let mut all: Vec<_> = (first..first + self.count).collect();
        if self.newest_first {
            all.reverse();
        }
        Ok(all)
    }
}

/// The kinds of value that an expectation can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Any text that is not empty.
    Text,
    /// A decimal number, whichever.
    Count,
    /// Three numbers with points between them.
    Version,
    /// The name of the language that is judged.
    Language,
}

/// What one value has to be.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Exactly this.
    Exact(Token),
    /// An `EVT` id, under a name.
    Id(String),
    /// The entry id of a named id.
    EntryOf(String),
    /// A decimal number, under a name.
    Number(String),
    /// A text, under a name.
    Text(String),
    /// One value put together from others that are known.
    Join(Vec<Pattern>),
    /// A text with this in it.
    Contains(String),
    /// This JSON, however it is written.
    Json(serde_json::Value),
    /// A decimal number, one of these two or between them.
    Between(u64, u64),
    /// A value of a kind.
    Is(Kind),
}

/// Writes the shorthands out.
///
/// # Errors
///
/// Says which part cannot be read.
pub fn expand(items: &[Item]) -> Result<Vec<Pattern>, String> {
    let mut patterns = Vec::new();
    for item in items {
        match item {
            Item::Field(field) => patterns.push(Pattern::Exact(Token::decode(field)?)),
            Item::Special(special) => expand_special(special, &mut patterns)?,
        }
    }
    Ok(patterns)
}

/// Writes the shorthands out, where every value has to be known.
///
/// # Errors
///
/// Says which part cannot be read, or is an expectation and no value.
pub fn values(items: &[Item]) -> Result<Vec<Token>, String> {
    expand(items)?
        .into_iter()
        .map(|pattern| match pattern {
            Pattern::Exact(token) => Ok(token),
            other => Err(format!("{other:?} can be expected but not sent")),
        })
        .collect()
}

/// Writes the shorthands out, where names stand for what they met before.
///
/// # Errors
///
/// Says which part cannot be read, stands for nothing yet, or is an expectation and no value.
pub fn resolved(items: &[Item], names: &Names) -> Result<Vec<Token>, String> {
    expand(items)?.into_iter().map(|pattern| names.resolve(pattern)).collect()
}

fn expand_special(special: &Special, into: &mut Vec<Pattern>) -> Result<(), String> {
    match special {
        Special::Repeat { text, times } => into.push(exact(text.repeat(*times))),
        Special::EveryByte(times) => {
            let bytes: Vec<u8> = (0..=255).collect();
            into.push(Pattern::Exact(Token::Value(bytes.repeat(*times))));
        }
        Special::Numbered(count) => {
            for number in 0..*count {
                into.extend([exact(format!("f{number}")), exact(format!("v{number}"))]);
            }
        }
        Special::Minted { clock, node, count } => {
            into.extend(snowflake::minted(*clock, *node, *count).map(|id| exact(snowflake::branded(id))));
        }
        Special::Records(run) => groups(into, run.snowflakes()?, |id| {
            [snowflake::branded(id), snowflake::entry(id), "n".to_owned(), id.to_string()].map(exact).to_vec()
        }),
        Special::Batch(count) => {
            groups(into, 0..*count, |number| ["n".to_owned(), number.to_string()].map(exact).to_vec());
        }
        Special::Accepted(count) => {
            groups(into, 0..*count, |number| vec![exact("ok".to_owned()), Pattern::Id(number.to_string())]);
        }
        Special::ReadBack(count) => groups(into, 0..*count, |number| {
            let name = number.to_string();
            vec![
                Pattern::Id(name.clone()),
                Pattern::EntryOf(name.clone()),
                exact("n".to_owned()),
                exact(name),
            ]
        }),
        Special::Record(number) => into.push(exact(snowflake::branded(*number))),
        Special::Entry(number) => into.push(exact(snowflake::entry(*number))),
        Special::Tailed(number) => into.extend(scene_record(*number, None)),
        Special::Delivered { record, attempts } => into.extend(scene_record(*record, Some(*attempts))),
        Special::Id(name) => into.push(Pattern::Id(name.clone())),
        Special::EntryOf(name) => into.push(Pattern::EntryOf(name.clone())),
        Special::Number(name) => into.push(Pattern::Number(name.clone())),
        Special::Text(name) => into.push(Pattern::Text(name.clone())),
        Special::Join(items) => into.push(Pattern::Join(expand(items)?)),
        Special::Contains(text) => into.push(Pattern::Contains(text.clone())),
        Special::Json(json) => into.push(Pattern::Json(json.clone())),
        Special::Between(low, high) => into.push(Pattern::Between(*low, *high)),
        Special::Is(kind) => into.push(Pattern::Is(*kind)),
    }
    Ok(())
}

/// A record of a scene as `next` answers it.
fn scene_record(number: u64, attempts: Option<u64>) -> impl Iterator<Item = Pattern> {
    let head = [snowflake::branded(number), snowflake::entry(number)].into_iter();
    let attempts = attempts.map(|attempts| attempts.to_string());
    head.chain(attempts).chain(["n".to_owned(), number.to_string()]).map(exact)
}

fn groups<T>(
    into: &mut Vec<Pattern>,
    members: impl IntoIterator<Item = T>,
    group: impl Fn(T) -> Vec<Pattern>,
) {
    for (at, member) in members.into_iter().enumerate() {
        if at > 0 {
            into.push(Pattern::Exact(Token::Bar));
        }
        into.extend(group(member));
    }
}

fn exact(text: String) -> Pattern {
    Pattern::Exact(Token::text(text))
}

/// What the names of a case stand for, and the language that is judged.
#[derive(Clone, Debug, Default)]
pub struct Names {
    language: String,
    known: HashMap<String, String>,
}

impl Names {
    /// No name is known yet.
    pub fn new(language: &str) -> Self {
        Self { language: language.to_owned(), known: HashMap::new() }
    }

    /// The number that a name stands for.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.known.get(name)?.parse().ok()
    }

    /// The value that a pattern stands for.
    fn resolve(&self, pattern: Pattern) -> Result<Token, String> {
        let known = |name: &str| self.known.get(name).ok_or_else(|| format!("{name} stands for nothing yet"));
        match pattern {
            Pattern::Exact(token) => Ok(token),
            Pattern::Id(name) | Pattern::Number(name) | Pattern::Text(name) => known(&name).map(Token::text),
            Pattern::EntryOf(name) => known(&name).and_then(|id| {
                let id = snowflake::snowflake(id.as_bytes()).ok_or_else(|| format!("{name} is no id"))?;
                Ok(Token::text(snowflake::entry(id)))
            }),
            Pattern::Join(parts) => {
                let mut joined = Vec::new();
                for part in parts {
                    match self.resolve(part)? {
                        Token::Value(bytes) => joined.extend(bytes),
                        Token::Bar => return Err("a bar is no part of a value".to_owned()),
                    }
                }
                Ok(Token::Value(joined))
            }
            other => Err(format!("{other:?} can be expected but not sent")),
        }
    }

    /// Compares values with what they have to be.
    ///
    /// # Errors
    ///
    /// Says where they first differ.
    pub fn compare(&mut self, expected: &[Pattern], seen: &[Token]) -> Result<(), String> {
        for (at, pair) in expected.iter().zip(seen).enumerate() {
            if !self.fits(pair.0, pair.1) {
                return Err(format!("value {} is {:?}, expected {}", at + 1, pair.1, self.describe(pair.0)));
            }
        }
        if expected.len() == seen.len() {
            return Ok(());
        }
        let places = |count| if count == 1 { "1 value".to_owned() } else { format!("{count} values") };
        Err(format!(
            "{} instead of {}: {}",
            places(seen.len()),
            places(expected.len()),
            shorten(&format!("{seen:?}"))
        ))
    }

    fn fits(&mut self, pattern: &Pattern, token: &Token) -> bool {
        if let Pattern::Exact(expected) = pattern {
            return expected == token;
        }
        let Token::Value(bytes) = token else { return false };
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        match pattern {
            Pattern::Exact(_) => false,
            Pattern::Join(_) => self.resolve(pattern.clone()).is_ok_and(|joined| joined == *token),
            Pattern::Text(name) => !text.is_empty() && self.stands_for(name, text),
            Pattern::Id(name) => snowflake::snowflake(bytes).is_some() && self.stands_for(name, text),
            Pattern::Number(name) => text.parse::<u64>().is_ok() && self.stands_for(name, text),
            Pattern::EntryOf(name) => {
                let id = self.known.get(name).and_then(|id| snowflake::snowflake(id.as_bytes()));
                id.is_some_and(|id| snowflake::entry(id) == text)
            }
            Pattern::Contains(part) => text.contains(part),
            Pattern::Json(json) => {
                serde_json::from_str(text).is_ok_and(|seen: serde_json::Value| seen == *json)
            }
            Pattern::Between(low, high) => text.parse().is_ok_and(|number| (*low..=*high).contains(&number)),
            Pattern::Is(Kind::Text) => !text.is_empty(),
            Pattern::Is(Kind::Count) => text.parse::<u64>().is_ok(),
            Pattern::Is(Kind::Language) => text == self.language,
            Pattern::Is(Kind::Version) => {
                text.split('.').count() == 3 && text.split('.').all(|part| part.parse::<u32>().is_ok())
            }
        }
    }

    fn stands_for(&mut self, name: &str, text: &str) -> bool {
        self.known.entry(name.to_owned()).or_insert_with(|| text.to_owned()) == text
    }

    fn describe(&self, pattern: &Pattern) -> String {
        match pattern {
            Pattern::Exact(token) => format!("{token:?}"),
            Pattern::Join(_) => format!("{:?}", self.resolve(pattern.clone())),
            Pattern::Id(name) | Pattern::Number(name) | Pattern::Text(name) => match self.known.get(name) {
                Some(known) => format!("{known} ({name})"),
                None => format!("a new {name}"),
            },
            Pattern::EntryOf(name) => format!("the entry id of {:?} ({name})", self.known.get(name)),
            Pattern::Contains(part) => format!("something with {part:?} in it"),
            Pattern::Json(json) => json.to_string(),
            Pattern::Between(low, high) => format!("a number from {low} to {high}"),
            Pattern::Is(kind) => format!("a {kind:?}").to_lowercase(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(json: &str) -> Vec<Item> {
        serde_json::from_str(json).unwrap()
    }

    fn tokens(fields: &[&str]) -> Vec<Token> {
        fields.iter().map(|field| Token::decode(field).unwrap()).collect()
    }

    #[test]
    fn shorthands_are_written_out() {
        let sent =
            values(&items(r#"["%", {"repeat":{"text":"ab","times":2}}, "|", {"numbered":2}]"#)).unwrap();
        assert_eq!(sent, tokens(&["%", "abab", "|", "f0", "v0", "f1", "v1"]));
        let run = r#"[{"records":{"first":"EVT00000000001","count":2,"newest_first":true}}]"#;
        assert_eq!(
            values(&items(run)).unwrap(),
            tokens(&[
                "EVT00000000002",
                "1704067200000-2",
                "n",
                "2",
                "|",
                "EVT00000000001",
                "1704067200000-1",
                "n",
                "1"
            ])
        );
    }

    #[test]
    fn an_expectation_cannot_be_sent() {
        assert!(values(&items(r#"[{"id":"a"}]"#)).is_err());
        assert!(serde_json::from_str::<Vec<Item>>(r#"[{"unknown":"a"}]"#).is_err());
    }

    #[test]
    fn a_name_stands_for_the_first_id_met() {
        let mut names = Names::new("rust");
        let expected = expand(&items(r#"[{"id":"a"}, {"entry_of":"a"}, {"id":"a"}]"#)).unwrap();
        let good = tokens(&["EVT00000000001", "1704067200000-1", "EVT00000000001"]);
        names.clone().compare(&expected, &good).unwrap();
        let other = tokens(&["EVT00000000001", "1704067200000-1", "EVT00000000002"]);
        names.compare(&expected, &other).unwrap_err();
    }

    #[test]
    fn records_of_a_scene_and_what_names_stand_for() {
        let expected =
            values(&items(r#"[{"delivered":{"record":5,"attempts":2}}, {"tailed":5}, {"entry":5}]"#));
        let [id, entry] = ["EVT00000000005", "1704067200000-5"];
        assert_eq!(expected.unwrap(), tokens(&[id, entry, "2", "n", "5", id, entry, "n", "5", entry]));
        let mut names = Names::new("rust");
        let named = items(r#"[{"id":"a"}, {"entry_of":"a"}]"#);
        assert!(resolved(&named, &names).is_err());
        names.compare(&expand(&named[..1]).unwrap(), &tokens(&[id])).unwrap();
        assert_eq!(resolved(&named, &names).unwrap(), tokens(&[id, entry]));
        assert!(resolved(&items(r#"[{"is":"count"}]"#), &names).is_err());
    }

    #[test]
    fn values_are_put_together_from_what_names_stand_for() {
        let mut names = Names::new("rust");
        let joined = items(r#"[{"join":["5:", {"text":"owner"}]}]"#);
        assert!(resolved(&joined, &names).is_err());
        names.compare(&expand(&items(r#"[{"text":"owner"}]"#)).unwrap(), &tokens(&["01ARZ"])).unwrap();
        assert_eq!(resolved(&joined, &names).unwrap(), tokens(&["5:01ARZ"]));
        names.compare(&expand(&joined).unwrap(), &tokens(&["5:01ARZ"])).unwrap();
        names.compare(&expand(&joined).unwrap(), &tokens(&["6:01ARZ"])).unwrap_err();
    }

    #[test]
    fn json_and_numbers_are_taken_by_what_they_say() {
        let expected = expand(&items(r#"[{"json":{"a":"/","b":"1"}}, {"between":[1,9]}]"#)).unwrap();
        let mut names = Names::new("rust");
        for good in [[r#"{"a":"/","b":"1"}"#, "1"], [r#"{"b":"\u0031","a":"\/"}"#, "9"]] {
            names.compare(&expected, &tokens(&good)).unwrap();
        }
        for wrong in [
            [r#"{"a":"/","b":1}"#, "1"],
            [r#"{"a":"/"}"#, "1"],
            [r#"{"a":"/","b":"1"}x"#, "1"],
            [r#"{"a":"/","b":"1"}"#, "0"],
            [r#"{"a":"/","b":"1"}"#, "10"],
            [r#"{"a":"/","b":"1"}"#, "-5"],
        ] {
            names.compare(&expected, &tokens(&wrong)).unwrap_err();
        }
    }

    #[test]
    fn a_missing_or_surplus_value_is_seen() {
        let expected = expand(&items(r#"["a", "b"]"#)).unwrap();
        let mut names = Names::new("rust");
        names.compare(&expected, &tokens(&["a", "b"])).unwrap();
        names.compare(&expected, &tokens(&["a"])).unwrap_err();
        names.compare(&expected, &tokens(&["a", "b", "c"])).unwrap_err();
        names.compare(&expected, &tokens(&["a", "B"])).unwrap_err();
        names.compare(&expected, &tokens(&["a", "|"])).unwrap_err();
    }

    #[test]
    fn kinds_are_told_apart() {
        let mut names = Names::new("rust");
        let expected =
            expand(&items(r#"[{"is":"language"}, {"is":"version"}, {"is":"text"}, {"contains":"-0"}]"#))
                .unwrap();
        names.compare(&expected, &tokens(&["rust", "0.1.0", "x", "1-0"])).unwrap();
        for wrong in
            [["node", "0.1.0", "x", "1-0"], ["rust", "0.1", "x", "1-0"], ["rust", "0.1.0", "%", "1-0"]]
        {
            names.compare(&expected, &tokens(&wrong)).unwrap_err();
        }
    }
}
