//! Identity: snowflakes, branded ids, entry ids, and the mint that makes them. Pure, without I/O.

pub(crate) mod base62;
pub(crate) mod snowflake;

pub(crate) mod branded;
pub(crate) mod entry_id;
pub(crate) mod mint;

#[cfg(test)]
mod tests;
