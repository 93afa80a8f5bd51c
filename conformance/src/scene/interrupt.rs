//! Waits that are cancelled at random while records or events come: each comes exactly once and in order.

use super::format::Interrupted;
use super::stage::Stop;
use crate::item::{self, Item, Names, Special};
use crate::protocol::{Token, shorten};
use crate::snowflake;
use echomq_tests::Plain;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// How many times waits are cancelled in the long form.
const LONG: u64 = 20_000;

/// Waits end after 0 to so many microseconds, and records come 0 to so many microseconds apart.
const LONGEST: u64 = 2_000;

/// How many records are ahead of the reader, and of the cancellations, at most. A listener's buffer holds more.
const AHEAD: u64 = 64;

/// How long a record may take to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pause of a writer that is far enough ahead.
const PAUSE: Duration = Duration::from_micros(200);

/// The reader, and how often it is interrupted.
pub(super) struct Plan<'a> {
    pub(super) reader: Interrupted,
    pub(super) name: &'a str,
    pub(super) times: u64,
}

/// How far reader and cancellations are.
#[derive(Default)]
struct Progress {
    received: AtomicU64,
    cancelled: AtomicU64,
    over: AtomicBool,
}

impl Plan<'_> {
    /// The plan in its long form.
    pub(super) fn long(self) -> Self {
        Self { times: LONG, ..self }
    }

    /// Has `plain` write records, or publish events, while waits of the reader are cancelled, until all have come and as
    /// many waits were cancelled. `ask` has the driver do an op.
    pub(super) fn carry_out(
        &self,
        plain: Plain,
        ask: impl FnMut(&[&str]) -> Result<Vec<Token>, Stop>,
    ) -> Result<(), Stop> {
        let progress = Progress::default();
        thread::scope(|scope| {
            let source = scope.spawn(|| self.write(plain, &progress));
            let taken = self.take(&progress, ask);
            progress.over.store(true, SeqCst);
            let written = source.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            taken.and(written.map_err(Stop::Fault))
        })
    }

    fn write(&self, mut plain: Plain, progress: &Progress) -> Result<(), String> {
        // A seed of its own, so that the two sequences of times are not the same.
        let mut random = Random(2);
        for number in 1..=self.times {
            thread::sleep(Duration::from_micros(random.up_to(LONGEST)));
            let reached = || progress.received.load(SeqCst).min(progress.cancelled.load(SeqCst));
            while number > reached() + AHEAD {
                if progress.over.load(SeqCst) {
                    return Ok(());
                }
                thread::sleep(PAUSE);
            }
            let sent = match self.reader {
                Interrupted::Listener => plain.try_command(["PUBLISH", "emq:{q}:events", &payload(number)]),
                Interrupted::Consumer | Interrupted::Tail => {
                    let (entry, id) = (snowflake::entry(number), snowflake::branded(number));
                    plain.try_command([
                        "XADD",
                        "emq:{q}:stream:s",
                        &entry,
                        "id",
                        &id,
                        "n",
                        &number.to_string(),
                    ])
                }
            };
            sent.map_err(|error| format!("number {number} cannot be written: {error}"))?;
        }
        Ok(())
    }

    fn take(
        &self,
        progress: &Progress,
        mut ask: impl FnMut(&[&str]) -> Result<Vec<Token>, Stop>,
    ) -> Result<(), Stop> {
        let mut random = Random(1);
        let (mut received, mut cancelled) = (0, 0);
        let mut last = Instant::now();
        while received < self.times || cancelled < self.times {
            let after = random.up_to(LONGEST).to_string();
            let values = ask(&["next_cancelled", self.name, &after])?;
            if values == [Token::text("cancelled")] {
                cancelled += 1;
                progress.cancelled.store(cancelled, SeqCst);
                if received < self.times && last.elapsed() > PATIENCE {
                    let next = received + 1;
                    return fault(format!(
                        "number {next} does not come, through {cancelled} cancelled waits"
                    ));
                }
                continue;
            }
            received += 1;
            if let Err(difference) = self.compare(received, &values) {
                let found = shorten(&format!("{values:?}"));
                return fault(format!(
                    "behind {cancelled} cancelled waits comes {found} instead of number {received}: {difference}"
                ));
            }
            if self.reader == Interrupted::Consumer {
                let entry = snowflake::entry(received);
                let acknowledged = ask(&["ack", self.name, &entry])?;
                if !acknowledged.is_empty() {
                    return fault(format!("ack answers {acknowledged:?}"));
                }
            }
            progress.received.store(received, SeqCst);
            last = Instant::now();
        }
        Ok(())
    }

    fn compare(&self, number: u64, values: &[Token]) -> Result<(), String> {
        let expected = match self.reader {
            Interrupted::Consumer => vec![Item::Special(Special::Delivered { record: number, attempts: 1 })],
            Interrupted::Tail => vec![Item::Special(Special::Tailed(number))],
            Interrupted::Listener => ["tick".to_owned(), payload(number)].map(Item::Field).to_vec(),
        };
        Names::default().compare(&item::expand(&expected)?, values)
    }
}

fn fault(sentence: String) -> Result<(), Stop> {
    Err(Stop::Fault(sentence))
}

fn payload(number: u64) -> String {
    format!(r#"{{"event":"tick","n":"{number}"}}"#)
}

/// Numbers that look random, the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn up_to(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % (most + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_spread_and_the_same_in_every_run() {
        let drawn = |seed| {
            let mut random = Random(seed);
            (0..10_000).map(|_| random.up_to(LONGEST)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let (sum, most) = (drawn(1).iter().sum::<u64>(), drawn(1).into_iter().max());
        assert!((950..1050).contains(&(sum / 10_000)), "{sum}");
        assert_eq!(most, Some(LONGEST));
    }

    /// What is said of a listener that answers these numbers, 0 for a cancelled wait, and then nothing but cancelled waits.
    fn judged(numbers: &[u64]) -> Result<(), String> {
        let plan = Plan { reader: Interrupted::Listener, name: "l", times: 3 };
        let mut answers = numbers.iter();
        let ask = |_: &[&str]| {
            Ok(match answers.next() {
                None | Some(0) => vec![Token::text("cancelled")],
                Some(number) => vec![Token::text("tick"), Token::text(payload(*number))],
            })
        };
        plan.take(&Progress::default(), ask).map_err(|stop| match stop {
            Stop::Fault(fault) => fault,
            Stop::Gap(op) => op,
        })
    }

    #[test]
    fn what_is_lost_or_repeated_or_out_of_order_is_seen() {
        judged(&[0, 1, 0, 0, 2, 3]).unwrap();
        for numbers in [&[0, 1, 3][..], &[1, 1], &[2, 1]] {
            assert!(judged(numbers).unwrap_err().contains("instead of number"), "{numbers:?}");
        }
    }
}
