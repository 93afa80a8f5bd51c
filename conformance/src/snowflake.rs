//! The judge's own arithmetic of ids, written from the law and checked against `vectors.json`.

/// Unix milliseconds of 2024-01-01T00:00:00Z, where the instants of ids begin.
pub const EPOCH_MS: u64 = 1_704_067_200_000;

/// The largest tail of an entry id: node and sequence, 22 bits of ones.
pub const MAX_TAIL: u64 = (1 << 22) - 1;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Writes a snowflake as an `EVT` id.
pub fn branded(snowflake: u64) -> String {
    let mut digits = [b'0'; 11];
    let mut rest = snowflake;
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[usize::try_from(rest % 62).unwrap_or_default()];
        rest /= 62;
    }
    format!("EVT{}", String::from_utf8_lossy(&digits))
}

/// Reads the snowflake of an `EVT` id, or nothing where the bytes are none.
pub fn snowflake(id: &[u8]) -> Option<u64> {
    let digits = id.strip_prefix(b"EVT").filter(|digits| digits.len() == 11)?;
    let number = digits.iter().try_fold(0u128, |number, digit| {
        let value = ALPHABET.iter().position(|letter| letter == digit)?;
        Some(number * 62 + value as u128)
    })?;
    i64::try_from(number).ok().and_then(|number| u64::try_from(number).ok())
}

/// The entry id of a snowflake.
pub fn entry(snowflake: u64) -> String {
    format!("{}-{}", (snowflake >> 22) + EPOCH_MS, snowflake & MAX_TAIL)
}

/// The snowflake of an entry id, or nothing where no id of the bus stands there.
pub fn from_entry(entry: &str) -> Option<u64> {
    let (ms, tail) = split_entry(entry)?;
    let ts = ms.checked_sub(EPOCH_MS).filter(|ts| *ts < 1 << 41)?;
    (tail <= MAX_TAIL).then_some(ts << 22 | tail)
}

/// The two numbers of an entry id.
pub fn split_entry(entry: &str) -> Option<(u64, u64)> {
    let (ms, tail) = entry.split_once('-')?;
    Some((ms.parse().ok()?, tail.parse().ok()?))
}

/// The snowflakes that a fresh mint gives while its clock stands still: 4096 a millisecond, then the next one's.
pub fn minted(clock_ms: u64, node: u64, count: u64) -> impl Iterator<Item = u64> {
    let start = clock_ms.saturating_sub(EPOCH_MS) << 12;
    (start..start + count).map(move |cell| (cell >> 12) << 22 | node << 12 | (cell & 0xFFF))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::Vectors;

    #[test]
    fn agrees_with_the_vectors() {
        let vectors = Vectors::load(&crate::root()).unwrap();
        assert_eq!(vectors.epoch_ms, EPOCH_MS);
        for fact in &vectors.ids {
            let number: u64 = fact.snowflake.parse().unwrap();
            assert_eq!(branded(number), fact.evt);
            assert_eq!(snowflake(fact.evt.as_bytes()), Some(number));
            assert_eq!(entry(number), fact.entry_id);
            assert_eq!(from_entry(&fact.entry_id), Some(number));
        }
        for fact in &vectors.malformed {
            assert_eq!(snowflake(fact.id.as_bytes()), None, "{}", fact.id);
        }
    }

    #[test]
    fn a_burst_borrows_from_the_next_millisecond() {
        let ids: Vec<_> = minted(EPOCH_MS + 1, 3, 4097).collect();
        assert_eq!(ids[0], 1 << 22 | 3 << 12);
        assert_eq!(ids[4095], 1 << 22 | 3 << 12 | 4095);
        assert_eq!(ids[4096], 2 << 22 | 3 << 12);
    }

    #[test]
    fn an_entry_outside_the_bus_has_no_id() {
        for entry in ["1704067199999-0", "1704067200000-4194304", "3903090455552-0", "1", "a-b", ""] {
            assert_eq!(from_entry(entry), None, "{entry}");
        }
    }
}
