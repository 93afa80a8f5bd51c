//! Who plays which part, and what came of it.

use super::format::Scene;
use super::stage::{Played, Stage};
use crate::judgement::Verdict;
use crate::lane::{Participant, Start};
use crate::run::Row;
use echomq_tests::Kind;
use std::thread;

/// What the scenes found.
pub struct Report {
    /// A row for each scene and cast beside the first part, a cell for each language in the first part.
    pub rows: Vec<Row>,
    /// For each participant, whether its processes ended by themselves.
    pub ended: Vec<Result<(), String>>,
}

/// Plays all scenes: for each participant in the first part on a stage of its own, all stages at once.
///
/// Panics where a server cannot be started.
pub fn run(scenes: &[Scene], participants: &[Participant], kind: Kind, start: &Start) -> Report {
    let mut ended = vec![Ok(()); participants.len()];
    if scenes.is_empty() {
        return Report { rows: vec![], ended };
    }
    let columns: Vec<(Vec<Played>, _)> = thread::scope(|scope| {
        let running: Vec<_> = (0..participants.len())
            .map(|lead| {
                scope.spawn(move || {
                    let mut stage = Stage::new(kind, start.clone());
                    let play = |(scene, cast): (&Scene, Vec<usize>)| {
                        let cast: Vec<_> = cast.into_iter().map(|at| &participants[at]).collect();
                        stage.play(scene, &cast)
                    };
                    let casts = |scene| casts(scene, lead, participants.len()).into_iter();
                    let all = scenes.iter().flat_map(|scene| casts(scene).map(move |cast| (scene, cast)));
                    let played = all.map(play).collect();
                    (played, stage.finish())
                })
            })
            .collect();
        let joined = running.into_iter().map(|stage| stage.join());
        joined.map(|stage| stage.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });

    let mut columns_of_plays = Vec::new();
    for (played, faults) in columns {
        for (name, fault) in faults {
            if let Some(at) = participants.iter().position(|participant| participant.name == name) {
                ended[at] = Err(fault);
            }
        }
        columns_of_plays.push(played.into_iter());
    }
    let names: Vec<&str> = participants.iter().map(|participant| participant.name.as_str()).collect();
    let mut rows = Vec::new();
    for scene in scenes {
        let mut model = None;
        for (number, cast) in casts(scene, 0, participants.len()).iter().enumerate() {
            let played = columns_of_plays.iter_mut().zip(&names).map(|(plays, lead)| {
                let played = plays.next().unwrap_or_else(|| unreachable!("each stage plays all scenes"));
                same_bytes(scene, lead, played, &mut model)
            });
            let verdicts = played.collect();
            rows.push(Row { name: row_name(scene, number, cast, &names), why: scene.why.clone(), verdicts });
        }
    }
    Report { rows, ended }
}

/// Who plays a scene where this one has the first part: alone, with each, or with those that follow in either direction.
fn casts(scene: &Scene, lead: usize, participants: usize) -> Vec<Vec<usize>> {
    match scene.parts.len() {
        1 => vec![vec![lead]],
        2 => (0..participants).map(|other| vec![lead, other]).collect(),
        parts => {
            let forwards: Vec<_> = (lead..lead + parts).map(|at| at % participants).collect();
            let mut backwards = forwards.clone();
            backwards[1..].reverse();
            let mut both = vec![forwards, backwards];
            both.dedup();
            both
        }
    }
}

fn row_name(scene: &Scene, number: usize, cast: &[usize], names: &[&str]) -> String {
    match cast {
        [_, other] => format!("{} with {}", scene.name, names[*other]),
        _ if number > 0 => format!("{}, backwards", scene.name),
        _ => scene.name.clone(),
    }
}

/// Takes a pass away where the keys are not what the first play that passed left.
fn same_bytes(
    scene: &Scene,
    lead: &str,
    played: Played,
    model: &mut Option<(String, Vec<Option<Vec<u8>>>)>,
) -> Verdict {
    if played.verdict != Verdict::Pass || scene.same_bytes.is_empty() {
        return played.verdict;
    }
    match model {
        Some((name, bytes)) if *bytes != played.bytes => {
            Verdict::Fail(format!("the keys are serialised otherwise than where {name} has the first part"))
        }
        Some(_) => Verdict::Pass,
        None => {
            *model = Some((lead.to_owned(), played.bytes));
            Verdict::Pass
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(parts: usize) -> Scene {
        let parts: Vec<_> = (0..parts).map(|at| format!(r#"{{"name":"{at}"}}"#)).collect();
        let json = format!(r#"{{"name":"a/b","why":"c","parts":[{}],"steps":[]}}"#, parts.join(","));
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn every_pair_and_a_few_of_more() {
        assert_eq!(casts(&scene(1), 2, 4), [[2]]);
        assert_eq!(casts(&scene(2), 1, 3), [[1, 0], [1, 1], [1, 2]]);
        assert_eq!(casts(&scene(3), 3, 4), [[3, 0, 1], [3, 1, 0]]);
        assert_eq!(casts(&scene(3), 0, 1), [[0, 0, 0]]);
    }

    #[test]
    fn other_bytes_than_the_first_play_left_are_a_fault() {
        let scene = Scene { same_bytes: vec!["k".to_owned()], ..scene(1) };
        let played = |bytes: &[u8]| Played { verdict: Verdict::Pass, bytes: vec![Some(bytes.to_vec())] };
        let mut model = None;
        assert_eq!(same_bytes(&scene, "rust", played(b"a"), &mut model), Verdict::Pass);
        assert_eq!(same_bytes(&scene, "node", played(b"a"), &mut model), Verdict::Pass);
        let other = same_bytes(&scene, "python", played(b"b"), &mut model);
        assert!(matches!(other, Verdict::Fail(fault) if fault.contains("where rust has")));
    }
}
