//! The report that people read.

use super::{faults, word};
use crate::run::Results;
use std::fmt::Write;

/// The counts, the table and what is wrong, as Markdown.
pub fn markdown(results: &Results) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    let _ = write_report(results, &mut text);
    text
}

fn write_report(results: &Results, text: &mut String) -> std::fmt::Result {
    let counts = results.counts();
    writeln!(text, "# Conformance on {}\n", results.server)?;
    writeln!(text, "{} passed, {} failed, {} gaps.\n", counts.passed, counts.failed, counts.gaps)?;
    writeln!(text, "| case | {} |", results.languages.join(" | "))?;
    writeln!(text, "|---|{}", "---|".repeat(results.languages.len()))?;
    for row in &results.rows {
        let words: Vec<_> = row.verdicts.iter().map(word).collect();
        writeln!(text, "| `{}` | {} |", escape(&row.name), words.join(" | "))?;
    }
    let faults = faults(results);
    if !faults.is_empty() {
        writeln!(text, "\n## What is wrong\n")?;
    }
    for fault in faults {
        let sentence = escape(&fault.sentence).replace('\n', " ");
        writeln!(text, "- **{}**, {}: {sentence}\n  {}", escape(fault.case), fault.language, fault.why)?;
    }
    Ok(())
}

/// A bar would end a cell of a table.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}
