//! A process that makes ids with a leased node; see `tests/faults/nodes.rs`.
//!
//! It writes `minted <ms> <id>` and `refused <ms> <code>`, the milliseconds read before the call, and ends when the file
//! `gate` is there.

use echomq::{Clock, Options, blocking::Client};
use echomq_tests::Given;
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let mut given = Given::read();
    let (log, gate) = (given.take("log")?, given.take("gate")?);
    let mut options = Options::new(&given.take("url")?)?;
    for (name, value) in given.rest() {
        options.set(name, value)?;
    }
    let mut log = File::options().append(true).create(true).open(log)?;
    let client = Client::open(&options)?;
    while !Path::new(&gate).exists() {
        let before = Clock::system().now();
        let line = match client.mint() {
            Ok(id) => format!("minted {before} {id}\n"),
            Err(error) => format!("refused {before} {}\n", error.code()),
        };
        log.write_all(line.as_bytes())?;
        std::thread::sleep(Duration::from_millis(2));
    }
    client.close(Duration::from_secs(5));
    Ok(())
}
