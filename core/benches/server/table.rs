//! The table of all figures.

use crate::contender::{Contender, Task};
use crate::limit::LIMIT;

/// A Markdown table that can be read as it is.
pub(crate) fn table(contenders: &[Contender]) -> String {
    let mut rows: Vec<&Contender> = contenders.iter().collect();
    rows.sort_by_key(|contender| contender.task);
    let mut lines = vec![
        line(["task", "contender", "least", "median", "most", "of limit", "of redis-rs"]),
        line(["---", "---", "--:", "--:", "--:", "--:", "--:"]),
    ];
    for contender in &rows {
        let [least, middle, most] = contender.spread();
        let of = |other: Option<f64>| other.map_or(String::new(), |other| format!("{:.2}", middle / other));
        lines.push(line([
            contender.task.title(),
            contender.name,
            &thousands(least),
            &thousands(middle),
            &thousands(most),
            &of(median(contenders, contender.task, LIMIT)),
            &of(peer(contenders, contender)),
        ]));
    }
    lines.join("\n") + "\n"
}

/// The median of one who does a task.
pub(crate) fn median(contenders: &[Contender], task: Task, name: &str) -> Option<f64> {
    let found = contenders.iter().find(|contender| contender.task == task && contender.name == name);
    found.map(|contender| contender.spread()[1])
}

/// The median of redis-rs on the same kind of runtime.
fn peer(contenders: &[Contender], contender: &Contender) -> Option<f64> {
    let (_, how) = contender.name.split_once("echomq")?;
    let fits = |other: &&Contender| {
        other.task == contender.task && other.name.starts_with(&format!("redis-rs{how}"))
    };
    contenders.iter().find(fits).map(|other| other.spread()[1])
}

fn line<const N: usize>(cells: [&str; N]) -> String {
    const WIDTHS: [usize; 7] = [41, 37, 10, 10, 10, 8, 11];
    let cells = cells.iter().zip(WIDTHS).enumerate().map(|(at, (cell, width))| {
        if at < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    });
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// A rate with three digits that matter.
fn thousands(rate: f64) -> String {
    match rate {
        rate if rate >= 1e6 => format!("{:.2} M/s", rate / 1e6),
        rate if rate >= 1e5 => format!("{:.0} k/s", rate / 1e3),
        rate => format!("{:.1} k/s", rate / 1e3),
    }
}
