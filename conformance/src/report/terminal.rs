//! The table on the terminal.

use super::{faults, word};
use crate::run::Results;
use std::fmt::Write;

/// A table with a line for each case and a column for each language, then what is wrong, then the counts.
pub fn terminal(results: &Results) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_table(results, &mut text);
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn write_table(results: &Results, text: &mut String) -> std::fmt::Result {
    let names = results.rows.iter().map(|row| row.name.chars().count());
    let first = names.chain([4]).max().unwrap_or_default();
    let widths: Vec<_> = results.languages.iter().map(|language| language.len().max(4)).collect();
    write!(text, "{:first$}", "case")?;
    for (language, width) in results.languages.iter().zip(&widths) {
        write!(text, "  {language:width$}")?;
    }
    writeln!(text)?;
    for row in &results.rows {
        write!(text, "{:first$}", row.name)?;
        for (verdict, width) in row.verdicts.iter().zip(&widths) {
            write!(text, "  {:width$}", word(verdict))?;
        }
        writeln!(text)?;
    }
    for fault in faults(results) {
        writeln!(text, "\n{} in {}: {}", fault.case, fault.language, fault.sentence)?;
        writeln!(text, "  {}", fault.why)?;
    }
    let counts = results.counts();
    writeln!(
        text,
        "\n{}: {} passed, {} failed, {} gaps",
        results.server, counts.passed, counts.failed, counts.gaps
    )
}
