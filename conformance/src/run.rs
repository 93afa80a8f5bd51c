//! A run of the suite: cases, languages, one kind of server.

use crate::case::Case;
use crate::judgement::{Verdict, same_as};
use crate::lane::{Lane, Outcome, Participant, Start};
use crate::pairs;
use crate::scene;
use crate::suite::Suite;
use echomq_tests::Kind;
use std::thread;

/// What a run found: a row for each case, a cell for each language.
#[derive(Clone, Debug)]
pub struct Results {
    /// The server.
    pub server: &'static str,
    /// The languages, in the order of the cells.
    pub languages: Vec<String>,
    /// The cases.
    pub rows: Vec<Row>,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Its reason.
    pub why: String,
    /// A verdict for each language.
    pub verdicts: Vec<Verdict>,
}

/// How many verdicts there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cells that pass.
    pub passed: usize,
    /// Cells that fail.
    pub failed: usize,
    /// Cells whose driver does not know an op.
    pub gaps: usize,
}

impl Results {
    /// Counts the cells.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for verdict in self.rows.iter().flat_map(|row| &row.verdicts) {
            match verdict {
                Verdict::Pass => counts.passed += 1,
                Verdict::Fail(_) => counts.failed += 1,
                Verdict::Gap(_) => counts.gaps += 1,
            }
        }
        counts
    }
}

/// Runs the cases with every participant at once, each against a server of its own, then compares the languages with each
/// other, then lets each read what each wrote, then has the scenes played.
///
/// Panics where a server cannot be started.
pub fn run(suite: &Suite, participants: &[Participant], kind: Kind, start: &Start) -> Results {
    let cases = suite.cases.as_slice();
    let (mut lanes, outcomes): (Vec<_>, Vec<_>) = thread::scope(|scope| {
        let running: Vec<_> = participants
            .iter()
            .map(|participant| {
                scope.spawn(move || {
                    let mut lane = Lane::new(participant.clone(), kind, start.clone());
                    let outcomes: Vec<_> = cases.iter().map(|case| lane.run(case)).collect();
                    (lane, outcomes)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .unzip()
    });

    let languages: Vec<_> = participants.iter().map(|participant| participant.name.clone()).collect();
    let mut rows = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let outcomes: Vec<_> = outcomes.iter().map(|outcomes| &outcomes[at]).collect();
        let verdicts = compare_languages(case, &languages, &outcomes);
        rows.push(Row { name: case.name.clone(), why: case.why.clone(), verdicts });
    }
    let pairs = pairs::run(&mut lanes, cases);
    rows.extend(pairs.into_iter().map(|pair| Row {
        name: pair.name,
        why: pair.why,
        verdicts: pair.verdicts,
    }));
    let lanes_ended: Vec<_> = lanes.iter_mut().map(Lane::finish).collect();
    let scenes = scene::run(&suite.scenes, participants, kind, start);
    rows.extend(scenes.rows);
    rows.push(Row {
        name: "driver/ends with its input".to_owned(),
        why: "A driver ends by itself once its standard input has ended, and says nothing more.".to_owned(),
        verdicts: lanes_ended
            .into_iter()
            .zip(scenes.ended)
            .map(|(lane, stages)| lane.and(stages).map_or_else(Verdict::Fail, |()| Verdict::Pass))
            .collect(),
    });
    Results { server: kind.name(), languages, rows }
}

/// Takes a pass away where a language answers, leaves or sends other bytes than the first one that passed.
fn compare_languages(case: &Case, languages: &[String], outcomes: &[&Outcome]) -> Vec<Verdict> {
    let passed = outcomes.iter().position(|outcome| outcome.verdict == Verdict::Pass);
    let Some(first) = passed else {
        return outcomes.iter().map(|outcome| outcome.verdict.clone()).collect();
    };
    let (name, model) = (&languages[first], outcomes[first]);
    let same_bytes = case.expect.stream.as_ref().is_some_and(|stream| stream.same_bytes_in_every_language);
    let compare = |outcome: &&Outcome| {
        if outcome.verdict != Verdict::Pass {
            return outcome.verdict.clone();
        }
        if outcome.kinds != model.kinds {
            return Verdict::Fail(format!(
                "answers {:?}, and {name} answers {:?}",
                outcome.kinds, model.kinds
            ));
        }
        match same_bytes.then(|| same_as(name, &model.seen, &outcome.seen)) {
            Some(Err(fault)) => Verdict::Fail(fault),
            _ => Verdict::Pass,
        }
    };
    outcomes.iter().map(compare).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Observation;

    fn case(stream: &str) -> Case {
        let json = format!(
            r#"{{"name":"a/b","why":"c","open":{{}},"do":[["append_batch_atomic","q","s","id","1"]],
                "expect":{{"replies":[{{"refused":"reserved_field"}}]{stream}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn outcome(verdict: Verdict, kind: &str, range: &[u8]) -> Outcome {
        let seen = Observation { range: range.to_vec(), ..Observation::default() };
        Outcome { verdict, kinds: vec![kind.to_owned()], seen }
    }

    fn verdicts(case: &Case, outcomes: &[Outcome]) -> Vec<Verdict> {
        let languages: Vec<_> = (0..outcomes.len()).map(|number| format!("language {number}")).collect();
        compare_languages(case, &languages, &outcomes.iter().collect::<Vec<_>>())
    }

    #[test]
    fn two_forms_of_one_refusal_are_a_difference() {
        let both = [outcome(Verdict::Pass, "reserved_field", b""), outcome(Verdict::Pass, "ok", b"")];
        let seen = verdicts(&case(""), &both);
        assert_eq!(seen[0], Verdict::Pass);
        assert!(matches!(&seen[1], Verdict::Fail(sentence) if sentence.contains("language 0 answers")));
    }

    #[test]
    fn bytes_are_compared_where_the_case_asks_for_it() {
        let both = [outcome(Verdict::Pass, "ok", b"a"), outcome(Verdict::Pass, "ok", b"b")];
        assert_eq!(verdicts(&case(""), &both), [Verdict::Pass, Verdict::Pass]);
        let same = case(r#","stream":{"key":"k","same_bytes_in_every_language":true}"#);
        assert!(
            matches!(&verdicts(&same, &both)[1], Verdict::Fail(sentence) if sentence.contains("language 0"))
        );
    }

    #[test]
    fn what_failed_by_itself_is_no_model_for_others() {
        let failed = Verdict::Fail("x".to_owned());
        let same = case(r#","stream":{"key":"k","same_bytes_in_every_language":true}"#);
        let all = [
            outcome(failed.clone(), "ok", b"a"),
            outcome(Verdict::Pass, "ok", b"b"),
            outcome(Verdict::Gap("trim".to_owned()), "unsupported", b""),
            outcome(Verdict::Pass, "ok", b"b"),
        ];
        let expected = [failed, Verdict::Pass, Verdict::Gap("trim".to_owned()), Verdict::Pass];
        assert_eq!(verdicts(&same, &all), expected);
    }
}
