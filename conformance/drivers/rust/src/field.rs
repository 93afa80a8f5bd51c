//! A field of a line: percent-encoded bytes.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode, percent_encode};

/// What is written as `%XX` besides bytes beyond ASCII.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'|');

/// Writes bytes as a field; no bytes are written as `%`.
pub fn encode(bytes: &[u8]) -> String {
    if bytes.is_empty() { "%".to_owned() } else { percent_encode(bytes, ESCAPED).to_string() }
}

/// Reads a field, or nothing where it has an escape that is none or a byte that had to be escaped.
pub fn decode(field: &[u8]) -> Option<Vec<u8>> {
    if field == b"%" {
        return Some(Vec::new());
    }
    let bytes: Vec<u8> = percent_decode(field).collect();
    // An escape that was read is two bytes shorter than it was written; one that is none stands as it was.
    let escapes = field.iter().filter(|byte| **byte == b'%').count();
    let plain = field.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'|');
    (plain && !field.is_empty() && bytes.len() + 2 * escapes == field.len()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_written_as_the_protocol_says() {
        for (bytes, field) in [
            (&b""[..], "%"),
            (b"plain!~", "plain!~"),
            (b"%", "%25"),
            (b"|", "%7C"),
            (b" \t\r\n\x7f\x00\xff", "%20%09%0D%0A%7F%00%FF"),
            ("\u{e9}".as_bytes(), "%C3%A9"),
            (b"a=b", "a=b"),
        ] {
            assert_eq!(encode(bytes), field);
            assert_eq!(decode(field.as_bytes()).as_deref(), Some(bytes), "{field}");
        }
        assert_eq!(decode(b"%c3%a9").as_deref(), Some("\u{e9}".as_bytes()));
    }

    #[test]
    fn what_no_encoder_writes_is_refused() {
        for field in ["", "a%", "a%4", "%%", "%G0", "a b", "\u{e9}", "a|b", "|", "%+1", "%2%35"] {
            assert_eq!(decode(field.as_bytes()), None, "{field:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive(bytes: Vec<u8>) {
            let field = encode(&bytes);
            prop_assert!(field.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'|'));
            prop_assert_eq!(decode(field.as_bytes()), Some(bytes));
        }

        #[test]
        fn any_field_is_read_or_refused(field: Vec<u8>) {
            if let Some(bytes) = decode(&field) {
                prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
            }
        }
    }
}
