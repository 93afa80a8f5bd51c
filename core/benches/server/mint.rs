//! Making ids, beside what it cannot do without.

use crate::contender::{Contender, Task, rate, timed};
use crate::{Effort, Result};
use echomq::{Clock, Mint};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const MINT: &str = "echomq";
pub(crate) const BASE: &str = "a clock read and one compare-and-swap";

const IDS: usize = 5_000_000;

pub(crate) fn contenders(effort: Effort) -> Result<Vec<Contender>> {
    let count = effort.of(IDS);
    let (mint, clock) = (Mint::new(1)?, Clock::system());
    let cell = AtomicU64::new(0);
    Ok(vec![
        Contender::new(Task::Mint, MINT, move || {
            let time = timed(|| {
                for _ in 0..count {
                    black_box(mint.mint(&clock)?);
                }
                Ok(())
            })?;
            Ok(rate(count, time))
        }),
        Contender::new(Task::Mint, BASE, move || {
            let time = timed(|| {
                for _ in 0..count {
                    black_box(swap(&cell));
                }
                Ok(())
            })?;
            Ok(rate(count, time))
        }),
    ])
}

fn swap(cell: &AtomicU64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let last = cell.load(Ordering::Relaxed);
    let next = now.max(last + 1);
    let _ = black_box(cell.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed));
    next
}
