//! The main job, for real: four languages take turns at writing one stream of a Valkey of its own, each a writer among many,
//! and each reads back what the others wrote.

mod input;
mod language;
mod report;

use clap::Parser;
use echomq_tests::{Kind, Plain, Server};
use language::{Language, Written};
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The languages, in the order of their turns.
const LANGUAGES: [&str; 4] = ["rust", "elixir", "python", "node"];

/// How many records a language appends at its turn, at most. Turns begin with one record and double with each round, so
/// that every language has its turn in a short input, and a long one is not appended record by record.
const TURN: usize = 512;

const DAY_MS: u64 = 86_400_000;

/// Appends JSON lines, or the history of a git checkout, to a stream of a Valkey of its own, the languages taking
/// turns; each language reads back what the others wrote.
#[derive(Parser)]
struct Arguments {
    /// A file of JSON lines, each object one record; without it, the git history of the current folder.
    file: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("demo: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let mut records = match &arguments.file {
        Some(file) => input::json_lines(file)?,
        None => input::git_history()?,
    }
    .peekable();
    if records.peek().is_none() {
        return Err("there is no record to append".to_owned());
    }
    let server = Server::builder(Kind::Valkey).try_start().map_err(|error| error.to_string())?;
    println!("A Valkey of its own listens on port {}.", server.port());
    let mut languages =
        LANGUAGES.iter().map(|name| Language::start(name, &server.url())).collect::<Result<Vec<_>, _>>()?;

    let mut written: HashMap<String, Written> = HashMap::new();
    let mut turn = 0;
    while records.peek().is_some() {
        let (round, writer) = (turn / languages.len(), turn % languages.len());
        let size = 1_usize.checked_shl(round as u32).map_or(TURN, |size| size.min(TURN));
        let batch = records.by_ref().take(size).collect::<Result<Vec<_>, _>>()?;
        let ids = languages[writer].append(&batch)?;
        written.extend(ids.into_iter().zip(batch).map(|(id, record)| (id, Written { writer, record })));
        turn += 1;
    }
    let length = Plain::connect(&server).xlen(language::KEY);
    println!("{} records were appended; XLEN, asked by a plain client, says {length}.\n", written.len());
    if length != written.len() as u64 {
        return Err("that is not the same".to_owned());
    }

    let mut matrix = Vec::new();
    for language in &mut languages {
        matrix.push(language.read_all(&written, LANGUAGES.len())?);
    }
    report::writers(&languages);
    report::matrix(&matrix, &written)?;

    let (from, to) = day_of_last(&languages)?;
    report::day(from);
    for language in &mut languages {
        let started = Instant::now();
        let records = language.read_window(from, to)?;
        report::window(language.name, &records, started.elapsed());
    }
    languages.into_iter().try_for_each(Language::finish)
}

/// The UTC day in which the last record was minted.
fn day_of_last(languages: &[Language]) -> Result<(u64, u64), String> {
    let last = languages.iter().filter_map(|language| language.last_ms()).max();
    let last = last.ok_or("no record has an instant")?;
    let from = last - last % DAY_MS;
    Ok((from, from + DAY_MS - 1))
}

/// How long a driver may take over one request.
const PATIENCE: Duration = Duration::from_secs(60);
