//! How fast the core is on a real server, beside a bare redis-rs connection and the server's own limit.
//!
//!     cargo bench --workspace --bench server [-- --short]
//!
//! Every round runs every contender once, so that what disturbs the machine disturbs all of them. Only ratios within
//! one run mean anything. The tables are printed and written to `target/bench/core.md`.

mod aims;
mod bare;
mod contender;
mod core;
mod events;
mod latency;
mod limit;
mod memory;
mod mint;
mod payload;
mod table;

use contender::Contender;
use echomq_tests::{Kind, Plain, Server};
use std::error::Error;
use std::path::Path;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How much is done in one round.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// What the amounts below are divided by.
    divisor: usize,
}

impl Effort {
    const FULL: Self = Self { rounds: 7, divisor: 1 };
    const SHORT: Self = Self { rounds: 1, divisor: 10 };

    const fn of(self, amount: usize) -> usize {
        amount / self.divisor
    }
}

fn main() -> Result<()> {
    let short = std::env::args().any(|argument| argument == "--short");
    let effort = if short { Effort::SHORT } else { Effort::FULL };
    let server = Server::builder(Kind::Valkey).try_start()?;
    let mut plain = Plain::connect(&server);
    let mut contenders = mint::contenders(effort)?;
    contenders.extend(core::contenders(&server.url(), effort)?);
    contenders.extend(bare::contenders(&server.url(), effort)?);
    contenders.extend(events::contenders(&server.url(), effort)?);
    contenders.extend(limit::contenders(server.address(), effort)?);

    for round in 0..effort.rounds {
        for step in 0..contenders.len() {
            // Another order each time, so that nobody always follows the same one.
            let at = (step * stride(contenders.len()) + round) % contenders.len();
            plain.command(["FLUSHALL"]);
            let contender = &mut contenders[at];
            let rate = (contender.run)()?;
            contender.rates.push(rate);
        }
        eprintln!("round {} of {} is done", round + 1, effort.rounds);
    }

    let latency = latency::table(&server.url(), &mut plain, effort)?;
    let memory = memory::line(&server.url(), &mut plain, effort)?;
    let report = format!("{}\n{latency}\n{memory}", report(&contenders, effort, &version(&mut plain)));
    println!("{report}");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("core.md"), report)?;
    Ok(())
}

/// A step that has no factor in common with the count, so that every place is reached.
fn stride(count: usize) -> usize {
    let common = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (count / 2..).find(|step| common(*step, count) == 1).unwrap_or(1)
}

fn version(plain: &mut Plain) -> String {
    let info: String = plain.query(["INFO", "server"]);
    let value = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let valkey = value("valkey_version:").map(|version| format!("Valkey {version}"));
    valkey.or_else(|| value("redis_version:").map(|version| format!("Redis {version}"))).unwrap_or_default()
}

fn report(contenders: &[Contender], effort: Effort, version: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let rounds = effort.rounds;
    format!(
        "# Core\n\n{version} on the same machine, {cores} cores, {rounds} interleaved round{}; records of {}.\n\n{}\n{}",
        if rounds == 1 { "" } else { "s" },
        payload::description(),
        table::table(contenders),
        aims::table(contenders),
    )
}
