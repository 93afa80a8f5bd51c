//! Whether a consumer's memory stays as it is over a million deliveries.

use crate::contender::Kind;
use crate::payload::{BATCH, FIELDS, GROUP, QUEUE, STREAM};
use crate::{Effort, Result};
use echomq::{Client, ConsumerOptions, Delivery, Options, Start, Trim};
use echomq_tests::Plain;

/// How many records are appended, consumed and trimmed away in one go.
const GO: usize = 10 * BATCH;

/// Deliveries in all.
const DELIVERIES: usize = 1_000_000;

/// A line with the resident memory of this process after a tenth of the deliveries and after all of them.
pub(crate) fn line(url: &str, plain: &mut Plain, effort: Effort) -> Result<String> {
    plain.command(["FLUSHALL"]);
    let gos = effort.of(DELIVERIES) / GO;
    let (early, late) = Kind::OneWorker.runtime()?.block_on(async {
        let client = Client::connect(&Options::new(url)?.node_id(4)).await?;
        let stream = client.stream(QUEUE, STREAM)?;
        let consumer = stream.consumer(ConsumerOptions::new(GROUP, Start::Head)?).await?;
        let mut early = 0;
        for go in 0..gos {
            for _ in 0..GO / BATCH {
                stream.append_batch_atomic(vec![FIELDS; BATCH]).await?;
            }
            for _ in 0..GO {
                consumer.next().await?.into_iter().for_each(Delivery::ack);
            }
            consumer.flush().await?;
            stream.trim(Trim::max_len(0).exact()).await?;
            if go == gos / 10 {
                early = resident()?;
            }
        }
        Ok::<_, Box<dyn std::error::Error>>((early, resident()?))
    })?;
    Ok(format!(
        "Resident memory of the process after {} deliveries {} KiB, after {} deliveries {} KiB.\n",
        (gos / 10 + 1) * GO,
        early,
        gos * GO,
        late
    ))
}

/// The resident memory of this process in KiB.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("there is no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
