//! The record that everyone appends.

/// What it is, for the report.
pub(crate) fn description() -> String {
    let bytes: usize = FIELDS.iter().map(|(name, value)| name.len() + value.len()).sum();
    format!("{} fields with {bytes} bytes of names and values", FIELDS.len())
}

/// Its fields.
pub(crate) const FIELDS: [(&str, &str); 3] = [
    ("kind", "guessed"),
    ("player", "PLR0NgWEfAEJfs"),
    (
        "payload",
        "{\"word\":\"rocket\",\"guess\":[\"128640\",\"127775\",\"128293\"],\"correct\":true,\"after_ms\":48213,\
         \"room\":\"codemojex-eu-1\",\"points\":120,\"n\":7}",
    ),
];

/// The key that whoever is not the core appends to.
pub(crate) const KEY: &str = "emq:{bench}:stream:events";
/// The queue of that key.
pub(crate) const QUEUE: &str = "bench";
/// The stream of that key.
pub(crate) const STREAM: &str = "events";

/// The group that consumes it.
pub(crate) const GROUP: &str = "bench";

/// How many records a pipeline and a page have.
pub(crate) const BATCH: usize = 1_000;
/// How many calls wait for their answers at once.
pub(crate) const IN_FLIGHT: usize = 64;
/// How many pipelines wait for their answers at once.
pub(crate) const BATCHES: usize = 4;
/// How many threads share a blocking client.
pub(crate) const THREADS: usize = 8;
