//! What a run found, for people and for machines.

mod junit;
mod markdown;
mod terminal;

pub use junit::junit;
pub use markdown::markdown;
pub use terminal::terminal;

use crate::judgement::Verdict;
use crate::run::Results;
use std::fs;
use std::path::{Path, PathBuf};

/// The word that stands for a verdict in a table.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail(_) => "FAIL",
        Verdict::Gap(_) => "gap",
    }
}

/// What is wrong in one cell.
struct Fault<'a> {
    case: &'a str,
    why: &'a str,
    language: &'a str,
    sentence: String,
}

/// Everything that is not a pass.
fn faults(results: &Results) -> Vec<Fault<'_>> {
    let mut faults = Vec::new();
    for row in &results.rows {
        for (language, verdict) in results.languages.iter().zip(&row.verdicts) {
            let sentence = match verdict {
                Verdict::Pass => continue,
                Verdict::Fail(sentence) => sentence.clone(),
                Verdict::Gap(op) => format!("the driver does not know the op {op}"),
            };
            faults.push(Fault { case: &row.name, why: &row.why, language, sentence });
        }
    }
    faults
}

/// Writes `report.md` and `report.xml` into `folder`, and answers their paths.
///
/// # Errors
///
/// Says which file cannot be written.
pub fn write(results: &Results, folder: &Path) -> Result<[PathBuf; 2], String> {
    let fault = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    fs::create_dir_all(folder).map_err(|error| fault(folder, &error))?;
    let [readable, machine] = ["report.md", "report.xml"].map(|name| folder.join(name));
    fs::write(&readable, markdown(results)).map_err(|error| fault(&readable, &error))?;
    fs::write(&machine, junit(results)?).map_err(|error| fault(&machine, &error))?;
    Ok([readable, machine])
}
