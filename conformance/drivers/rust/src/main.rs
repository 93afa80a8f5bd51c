//! Reads orders from standard input and writes answers to standard output, until the input ends.

use echomq_driver_rust::Driver;
use std::io::{self, BufRead, Write};
use tokio::runtime::Builder;

fn main() -> io::Result<()> {
    // The worker keeps the connections going while this thread waits for the next order.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut driver = Driver::default();
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let order = line.strip_suffix(b"\n").unwrap_or(&line);
        let answer = runtime.block_on(driver.carry_out(order));
        output.write_all(&answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
        line.clear();
    }
    Ok(())
}
