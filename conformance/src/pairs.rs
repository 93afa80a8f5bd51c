//! What one language writes, every language reads.

use crate::case::Case;
use crate::item::{self, Item};
use crate::judgement::Verdict;
use crate::lane::Lane;
use crate::observation::{Observation, as_read};
use crate::protocol::{Reply, Token, shorten};

/// What came of one case read by one language: a verdict for each writer.
pub struct PairRow {
    /// `pairs/<case> read by <language>`.
    pub name: String,
    /// The case's reason.
    pub why: String,
    /// A verdict for each writer, in the order of the lanes.
    pub verdicts: Vec<Verdict>,
}

/// Lets each language write a case, and each language read it: every ordered pair.
pub fn run(lanes: &mut [Lane], cases: &[Case]) -> Vec<PairRow> {
    let mut rows = Vec::new();
    for case in cases.iter().filter(|case| !case.read.is_empty()) {
        let mut case_rows: Vec<_> = lanes
            .iter()
            .map(|reader| PairRow {
                name: format!("pairs/{} read by {}", case.name, reader.name()),
                why: case.why.clone(),
                verdicts: vec![],
            })
            .collect();
        for writer in 0..lanes.len() {
            let written = lanes[writer].run(case);
            let url = lanes[writer].url();
            for (reader, row) in lanes.iter_mut().zip(&mut case_rows) {
                row.verdicts.push(match &written.verdict {
                    Verdict::Pass => read(reader, &url, case, &written.seen),
                    unwritten => unwritten.clone(),
                });
            }
        }
        rows.append(&mut case_rows);
    }
    rows
}

fn read(reader: &mut Lane, url: &str, case: &Case, written: &Observation) -> Verdict {
    let replies = match reader.read_at(url, &case.read) {
        Ok(replies) => replies,
        Err(stop) => return stop.into(),
    };
    for (step, reply) in case.read.iter().zip(replies) {
        let expected = match expected_groups(step, &written.entries) {
            Ok(groups) => groups.join(&Token::Bar),
            Err(fault) => return Verdict::Fail(fault),
        };
        match reply {
            Reply::Ok(seen) if seen == expected => {}
            Reply::Unsupported => return Verdict::Gap("a read".to_owned()),
            other => {
                let (seen, expected) = (format!("{other:?}"), format!("{expected:?}"));
                return Verdict::Fail(format!(
                    "read {} instead of what the plain client sees: {}",
                    shorten(&seen),
                    shorten(&expected)
                ));
            }
        }
    }
    Verdict::Pass
}

/// What a reading step has to answer for a stream with these entries.
///
/// # Errors
///
/// Says so where the step is not one that reads the whole stream, forwards or backwards.
pub fn expected_groups(step: &[Item], entries: &[Vec<Token>]) -> Result<Vec<Vec<Token>>, String> {
    let tokens = item::values(step)?;
    let words: Vec<_> = tokens.iter().map(Token::encode).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (count, newest_first) = match words[..] {
        ["read", _, _, "-", "+", count] => (count, false),
        ["read_since", _, _, "0", count] => (count, false),
        ["read_last", _, _, count] => (count, true),
        _ => return Err(format!("a pair reads its whole stream, not {words:?}")),
    };
    let mut groups: Vec<_> = entries.iter().map(|entry| as_read(entry)).collect();
    if newest_first {
        groups.reverse();
    }
    match count.parse::<usize>() {
        Ok(0) => {}
        Ok(count) => groups.truncate(count),
        Err(_) => return Err(format!("no count: {count}")),
    }
    Ok(groups)
}
