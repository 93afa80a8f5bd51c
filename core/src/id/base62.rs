//! Base62 over `0-9A-Za-z`: eleven digits, most significant first, so that byte order is numeric order.

/// How many digits a payload has.
pub(crate) const DIGITS: usize = 11;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const NO_DIGIT: u8 = u8::MAX;

const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// Why eleven bytes are no payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A byte that is no digit.
    Charset,
    /// A number above 2^63 − 1.
    Range,
}

/// Writes `number` left-padded with `0`.
#[inline]
pub(crate) fn encode(mut number: u64, out: &mut [u8; DIGITS]) {
    for digit in out.iter_mut().rev() {
        *digit = ALPHABET[(number % 62) as usize];
        number /= 62;
    }
}

/// Reads eleven digits; charset is checked over all of them before range.
pub(crate) fn decode(digits: &[u8; DIGITS]) -> Result<u64, Refusal> {
    let values = digits.map(|digit| VALUES[usize::from(digit)]);
    if values.contains(&NO_DIGIT) {
        return Err(Refusal::Charset);
    }
    // Ten digits always fit; the eleventh may be one too many.
    let [leading @ .., last] = values;
    let leading = leading.iter().fold(0_u64, |number, value| number * 62 + u64::from(*value));
    match leading.checked_mul(62).and_then(|number| number.checked_add(u64::from(last))) {
        Some(number) if number <= i64::MAX as u64 => Ok(number),
        _ => Err(Refusal::Range),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(number: u64) -> [u8; DIGITS] {
        let mut out = [0; DIGITS];
        encode(number, &mut out);
        out
    }

    proptest! {
        #[test]
        fn round_trip(number in 0..=i64::MAX as u64) {
            prop_assert_eq!(decode(&text(number)), Ok(number));
        }

        #[test]
        fn bytes_sort_as_numbers(a in 0..=i64::MAX as u64, b in 0..=i64::MAX as u64) {
            prop_assert_eq!(text(a).cmp(&text(b)), a.cmp(&b));
        }

        #[test]
        fn any_bytes_are_read_or_refused(digits: [u8; DIGITS]) {
            if let Ok(number) = decode(&digits) {
                prop_assert_eq!(text(number), digits);
            }
        }
    }

    #[test]
    fn edges() {
        assert_eq!(&text(0), b"00000000000");
        assert_eq!(&text(i64::MAX as u64), b"AzL8n0Y58m7");
        assert_eq!(decode(b"AzL8n0Y58m8"), Err(Refusal::Range));
        assert_eq!(decode(b"zzzzzzzzzzz"), Err(Refusal::Range));
        assert_eq!(decode(b"zzzzzzzzzz-"), Err(Refusal::Charset));
    }
}
