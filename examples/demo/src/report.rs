//! What the demo prints.

use crate::LANGUAGES;
use crate::language::{Language, Written};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::HashMap;
use std::time::Duration;

/// How many records of a window are shown.
const SHOWN: usize = 3;

/// Who wrote what, how fast, under which ids.
pub fn writers(languages: &[Language]) {
    println!("{:<8} {:>8} {:>10} {:>11} {:>11}  ids", "", "records", "bytes", "appended/s", "read/s");
    for language in languages {
        println!(
            "{:<8} {:>8} {:>10} {:>11} {:>11}  {} … {}",
            language.name,
            language.records,
            language.bytes,
            rate(language.records, language.appending),
            rate(language.read, language.reading),
            language.first.as_deref().unwrap_or("-"),
            language.last.as_deref().unwrap_or("-"),
        );
    }
    println!(
        "Rates are those of the conformance drivers, through a pipe; scripts/bench measures the libraries.\n"
    );
}

fn rate(records: usize, time: Duration) -> String {
    if records == 0 {
        "-".to_owned()
    } else {
        format!("{:.0}", records as f64 / time.as_secs_f64().max(1e-9))
    }
}

/// Records that came back exactly as they were appended: a row a writer, a column a reader.
pub fn matrix(same_by_reader: &[Vec<usize>], written: &HashMap<String, Written>) -> Result<(), String> {
    println!("Records that each language read back exactly as they were appended:");
    print!("{:<16}", "");
    LANGUAGES.iter().for_each(|reader| print!("{:>14}", format!("by {reader}")));
    println!();
    let mut whole = true;
    for (writer, name) in LANGUAGES.iter().enumerate() {
        let total = written.values().filter(|record| record.writer == writer).count();
        print!("{:<16}", format!("of {name}"));
        for same in same_by_reader {
            print!("{:>14}", format!("{} of {total}", same[writer]));
            whole &= same[writer] == total;
        }
        println!();
    }
    println!();
    if whole { Ok(()) } else { Err("a language read something else than was appended".to_owned()) }
}

/// Names the day.
pub fn day(from_ms: u64) {
    println!("Time travel: the records minted on {} (UTC), read by instant:", date(from_ms, "%Y-%m-%d"));
}

/// What a language found in a window.
pub fn window(name: &str, records: &[Vec<String>], time: Duration) {
    println!("{name:<8} {:>8} records in {:.1} ms", records.len(), time.as_secs_f64() * 1_000.0);
    if name != LANGUAGES[0] {
        return;
    }
    for record in records.iter().take(SHOWN) {
        let fields: Vec<String> = record[2..]
            .chunks(2)
            .map(|pair| format!("{}={}", pair[0], pair.get(1).map_or("", |v| v)))
            .collect();
        println!("    {} {}", record[0], shorten(&fields.join(" ")));
    }
    if records.len() > SHOWN {
        println!("    … and {} more", records.len() - SHOWN);
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn date(ms: u64, format: &str) -> String {
    match i64::try_from(ms).map(Timestamp::from_millisecond) {
        Ok(Ok(instant)) => instant.to_zoned(TimeZone::UTC).strftime(format).to_string(),
        _ => ms.to_string(),
    }
}
