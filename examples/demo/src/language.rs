//! One language: its conformance driver, told what to do line by line.

use crate::PATIENCE;
use crate::input::Fields;
use echomq_conformance::driver::Driver;
use echomq_conformance::protocol::{Reply, Token};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// The stream's key, for the plain client.
pub const KEY: &str = "emq:{demo}:stream:history";

const STREAM: [&str; 3] = ["bus", "demo", "history"];

/// How many records a language reads at a time.
const PAGE: usize = 500;

/// A record and who appended it.
pub struct Written {
    /// The number of the language.
    pub writer: usize,
    pub record: Fields,
}

/// A language and what it has done so far.
pub struct Language {
    pub name: &'static str,
    driver: Driver,
    pub records: usize,
    pub bytes: usize,
    pub appending: Duration,
    pub first: Option<String>,
    pub last: Option<String>,
    pub read: usize,
    pub reading: Duration,
    last_ms: Option<u64>,
}

impl Language {
    /// Starts the language's driver and connects it, as one of many writers.
    pub fn start(name: &'static str, url: &str) -> Result<Self, String> {
        let driver = Driver::start(Path::new("."), name, &[], PATIENCE)?;
        let mut language = Self {
            name,
            driver,
            records: 0,
            bytes: 0,
            appending: Duration::ZERO,
            first: None,
            last: None,
            read: 0,
            reading: Duration::ZERO,
            last_ms: None,
        };
        language.ask("open", [STREAM[0], url, "many=1"].map(Token::text).into())?;
        Ok(language)
    }

    fn ask(&mut self, op: &str, arguments: Vec<Token>) -> Result<Vec<Token>, String> {
        match self.driver.ask(op, &arguments) {
            Ok(Reply::Ok(values)) => Ok(values),
            Ok(Reply::Err { code, text }) => Err(format!("{}: {op}: {code}: {text}", self.name)),
            Ok(Reply::Unsupported) => Err(format!("{}: the driver does not know {op}", self.name)),
            Err(sentence) => Err(format!("{}: {sentence}: {}", self.name, self.driver.diagnostics())),
        }
    }

    /// Appends a batch and answers the ids.
    pub fn append(&mut self, batch: &[Fields]) -> Result<Vec<String>, String> {
        let mut arguments: Vec<Token> = STREAM.map(Token::text).into();
        for (number, record) in batch.iter().enumerate() {
            if number > 0 {
                arguments.push(Token::Bar);
            }
            for (name, value) in record {
                arguments.push(Token::text(name));
                arguments.push(Token::text(value));
                self.bytes += name.len() + value.len();
            }
        }
        let started = Instant::now();
        let values = self.ask("append_batch", arguments)?;
        self.appending += started.elapsed();
        let mut ids = Vec::with_capacity(batch.len());
        for result in groups(&values) {
            match &texts(result)[..] {
                [ok, id] if ok == "ok" => ids.push(id.clone()),
                refused => return Err(format!("{}: a record was refused: {}", self.name, refused.join(" "))),
            }
        }
        self.records += ids.len();
        self.first = self.first.take().or_else(|| ids.first().cloned());
        self.last = ids.last().cloned();
        if let Some(last) = &self.last {
            let decoded = self.ask("id.decode", vec![Token::text(last)])?;
            self.last_ms = texts(&decoded).get(2).and_then(|ms| ms.parse().ok());
        }
        Ok(ids)
    }

    /// The instant of the last record that this language appended.
    pub fn last_ms(&self) -> Option<u64> {
        self.last_ms
    }

    /// Reads the whole stream and answers, by writer, how many of its records are exactly as they were appended.
    pub fn read_all(
        &mut self,
        written: &HashMap<String, Written>,
        writers: usize,
    ) -> Result<Vec<usize>, String> {
        let mut same = vec![0; writers];
        let mut from = "-".to_owned();
        loop {
            let bounds = [&from, "+", &PAGE.to_string()].map(Token::text);
            let started = Instant::now();
            let values = self.ask("read", STREAM.map(Token::text).into_iter().chain(bounds).collect())?;
            self.reading += started.elapsed();
            let page: Vec<Vec<String>> = records(&values);
            for record in &page {
                let Some(original) = written.get(&record[0]) else {
                    return Err(format!(
                        "{} read the record {}, which nobody appended",
                        self.name, record[0]
                    ));
                };
                let flat: Vec<&String> =
                    original.record.iter().flat_map(|(name, value)| [name, value]).collect();
                same[original.writer] += usize::from(record[2..].iter().eq(flat));
            }
            self.read += page.len();
            match page.last() {
                Some(last) if page.len() == PAGE => from = format!("({}", last[0]),
                _ => return Ok(same),
            }
        }
    }

    /// Reads what was minted between two instants.
    pub fn read_window(&mut self, from: u64, to: u64) -> Result<Vec<Vec<String>>, String> {
        let bounds = [from.to_string(), to.to_string(), "0".to_owned()].map(Token::text);
        let values = self.ask("read_window", STREAM.map(Token::text).into_iter().chain(bounds).collect())?;
        Ok(records(&values))
    }

    /// Ends the driver.
    pub fn finish(mut self) -> Result<(), String> {
        self.ask("close", vec![Token::text(STREAM[0])])?;
        self.driver.finish().map_err(|sentence| format!("{}: {sentence}", self.name))
    }
}

fn groups(values: &[Token]) -> impl Iterator<Item = &[Token]> {
    values.split(|value| *value == Token::Bar).filter(|group| !group.is_empty())
}

fn texts(values: &[Token]) -> Vec<String> {
    let text = |value: &Token| match value {
        Token::Value(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Token::Bar => String::new(),
    };
    values.iter().map(text).collect()
}

/// Records as `id`, entry id, name, value, …
fn records(values: &[Token]) -> Vec<Vec<String>> {
    groups(values).map(texts).filter(|record| record.len() >= 2).collect()
}
