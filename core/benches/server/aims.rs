//! What the project aims at, and whether it is met.

use crate::bare;
use crate::contender::{Contender, Task};
use crate::core::{CURRENT_THREAD, ONE_WORKER};
use crate::limit::LIMIT;
use crate::mint::{BASE, MINT};
use crate::table::median;

/// Lines that say what is aimed at, the ratio of medians, and whether it is met.
pub(crate) fn table(contenders: &[Contender]) -> String {
    let of = |task, name| median(contenders, task, name).unwrap_or(0.0);
    let best = |task| of(task, ONE_WORKER).max(of(task, CURRENT_THREAD));
    let best_bare = |task| of(task, bare::ONE_WORKER).max(of(task, bare::CURRENT_THREAD));
    let aims = [
        // As times, so that less is better: what takes twice as long is made half as often.
        (
            "mint, in clock reads with one compare-and-swap",
            of(Task::Mint, BASE) / of(Task::Mint, MINT),
            Bound::AtMost(1.5),
        ),
        (
            "64 in flight, of redis-benchmark -P 64",
            best(Task::InFlight) / of(Task::InFlight, LIMIT),
            Bound::AtLeast(0.8),
        ),
        (
            "one pipeline of 1 000, of redis-benchmark -P 1000",
            best(Task::Pipeline) / of(Task::Pipeline, LIMIT),
            Bound::AtLeast(0.75),
        ),
        (
            "entries consumed, of a bare redis-rs loop",
            best(Task::Consume) / best_bare(Task::Consume),
            Bound::AtLeast(0.9),
        ),
        (
            "events published, of redis-rs",
            best(Task::Publish) / best_bare(Task::Publish),
            Bound::AtLeast(1.5),
        ),
        (
            "events heard by one listener, of redis-rs",
            best(Task::Hear) / best_bare(Task::Hear),
            Bound::AtLeast(1.5),
        ),
        ("the same by processor time", best(Task::HearWork) / best_bare(Task::HearWork), Bound::AtLeast(1.5)),
    ];
    let lines = aims.iter().map(|(what, ratio, bound)| {
        let (sign, aim, met) = match bound {
            Bound::AtMost(aim) => ('≤', aim, ratio <= aim),
            Bound::AtLeast(aim) => ('≥', aim, ratio >= aim),
        };
        let verdict = if met { "met" } else { "missed" };
        format!("| {what:<49} | {sign} {aim:.2} | {ratio:>5.2} | {verdict:<7} |\n")
    });
    format!(
        "| {:<49} | {:<6} | {:>5} | {:<7} |\n| {:<49} | {:<6} | {:>5} | {:<7} |\n{}",
        "aim",
        "bound",
        "ratio",
        "",
        "---",
        "---",
        "--:",
        "---",
        lines.collect::<String>()
    )
}

enum Bound {
    AtMost(f64),
    AtLeast(f64),
}
