//! The judge's own cluster slots.

/// The slot of a key: CRC16-XMODEM of the text inside the first non-empty `{…}`, else of the whole key, modulo 16384.
pub fn slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % 16384
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let inside = &key[open + 1..];
    match inside.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &inside[..close],
    }
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte) << 8,
            |crc: u16, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vectors::Vectors;

    #[test]
    fn agrees_with_the_vectors() {
        let vectors = Vectors::load(&crate::root()).unwrap();
        assert!(vectors.keys.iter().any(|fact| fact.queue.is_none()));
        for fact in &vectors.keys {
            assert_eq!(slot(fact.key.as_bytes()), fact.slot, "{}", fact.key);
        }
    }

    #[test]
    fn only_the_first_tag_counts_and_an_empty_one_does_not() {
        assert_eq!(slot(b"a{x}b{y}"), slot(b"x"));
        assert_eq!(slot(b"{}x"), crc16(b"{}x") % 16384);
        assert_eq!(slot(b"{x"), crc16(b"{x") % 16384);
    }
}
