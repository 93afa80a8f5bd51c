//! `echomq-judge`: runs the conformance suite and prints a table of cases and languages.

use clap::{Parser, ValueEnum};
use echomq_conformance::lane::{Participant, Start};
use echomq_conformance::suite::Suite;
use echomq_conformance::{report, root, run};
use echomq_tests::Kind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Judges the implementations of the bus: tells each driver what to do, reads the keys with a client of its own, and
/// compares what it finds with the expected and the languages with each other.
///
/// Drivers are started as conformance/drivers/LANGUAGE/run and have to be built before. Reports are written below
/// target/conformance. Ends with 0 only where every case passes in every language.
#[derive(Parser)]
#[command(name = "echomq-judge")]
struct Options {
    /// The drivers to judge, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "rust,elixir,python,node")]
    languages: Vec<String>,

    /// The servers to judge on, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "valkey", value_enum)]
    server: Vec<ServerName>,

    /// Only cases with this text in their names
    #[arg(long, default_value = "", hide_default_value = true)]
    filter: String,

    /// List the cases with their reasons and judge nothing
    #[arg(long)]
    list: bool,

    /// A driver that does not know an op does not make the run fail
    #[arg(long)]
    allow_gaps: bool,

    /// The folder that reports are written into, one folder below it for each server [default: target/conformance]
    #[arg(long)]
    reports: Option<PathBuf>,

    /// How long a driver may take over one answer, in seconds
    #[arg(long, default_value_t = 30)]
    deadline: u64,

    /// Cancel waits 20 000 times in each scene that does so, instead of as often as the scene says
    #[arg(long)]
    long: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ServerName {
    Valkey,
    Redis,
}

impl ServerName {
    fn kind(self) -> Kind {
        match self {
            Self::Valkey => Kind::Valkey,
            Self::Redis => Kind::Redis,
        }
    }
}

fn main() -> ExitCode {
    match judge(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(sentence) => {
            eprintln!("echomq-judge: {sentence}");
            ExitCode::from(2)
        }
    }
}

/// Answers whether all is well.
fn judge(options: &Options) -> Result<bool, String> {
    let root = root();
    let mut suite = Suite::load(&root)?;
    suite.retain(|name| name.contains(&options.filter));
    if suite.is_empty() {
        return Err(format!("no case has {:?} in its name; --list shows all", options.filter));
    }
    if options.list {
        list(&suite);
        return Ok(true);
    }
    for language in &options.languages {
        let driver = root.join("conformance/drivers").join(language).join("run");
        if !driver.is_file() {
            return Err(format!("there is no driver {}", driver.display()));
        }
    }
    let start =
        Start { root: root.clone(), deadline: Duration::from_secs(options.deadline), long: options.long };
    let participants: Vec<_> = options.languages.iter().map(|name| Participant::language(name)).collect();
    let reports = options.reports.clone().unwrap_or_else(|| root.join("target/conformance"));
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for server in &options.server {
        let kind = server.kind();
        kind.program().map_err(|error| error.to_string())?;
        println!("{} cases on {}: {}\n", suite.len(), kind.name(), options.languages.join(", "));
        let results = run::run(&suite, &participants, kind, &start);
        println!("{}", report::terminal(&results));
        for file in report::write(&results, &reports.join(kind.name().to_lowercase()))? {
            println!("written: {}", file.strip_prefix(&root).unwrap_or(&file).display());
        }
        println!();
        let counts = results.counts();
        passed += counts.passed;
        failed += counts.failed;
        *if options.allow_gaps { &mut skipped } else { &mut failed } += counts.gaps;
    }
    println!("counts conformance passed={passed} failed={failed} skipped={skipped}");
    Ok(failed == 0)
}

fn list(suite: &Suite) {
    for (name, why) in suite.entries() {
        println!("{name}\n  {why}");
    }
    println!("\n{} cases", suite.len());
}
