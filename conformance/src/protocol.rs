//! The lines that judge and driver exchange.
//!
//! A line is a number, a word and values, separated by tabs. Every value is percent-encoded bytes, so a line holds
//! nothing but printable ASCII and tabs, whatever the values hold. A bare `|` separates groups of values.

use std::fmt;

/// One place of a line: a value, or the bar that separates two groups.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token {
    /// A value: any bytes, none included.
    Value(Vec<u8>),
    /// The bare `|` between two groups.
    Bar,
}

impl Token {
    /// A value made of the bytes of `text`.
    pub fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Value(text.as_ref().to_vec())
    }

    /// Reads one field of a line.
    ///
    /// # Errors
    ///
    /// Says what is wrong where the field holds a byte that had to be encoded, or an escape that is none.
    pub fn decode(field: &str) -> Result<Self, String> {
        if field == "|" { Ok(Self::Bar) } else { decode(field).map(Self::Value) }
    }

    /// Writes this place as a field of a line.
    pub fn encode(&self) -> String {
        match self {
            Self::Bar => "|".to_owned(),
            Self::Value(bytes) => encode(bytes),
        }
    }
}

/// A long value shows its beginning and its length.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shorten(&self.encode()))
    }
}

/// Cuts a long text, and says how long it was.
pub fn shorten(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
    }
}

/// Writes bytes as a field: `%` for none, `%XX` for a byte outside `!`–`~` and for `%` and `|`.
pub fn encode(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if bytes.is_empty() {
        return "%".to_owned();
    }
    let mut field = String::with_capacity(bytes.len());
    for &byte in bytes {
        if stands_for_itself(byte) {
            field.push(char::from(byte));
        } else {
            field.push('%');
            field.push(char::from(HEX[usize::from(byte >> 4)]));
            field.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    field
}

/// Reads a field that [`encode`] wrote. Hexadecimal digits may be of either case.
///
/// # Errors
///
/// Says what is wrong where the field is not what an encoder writes.
pub fn decode(field: &str) -> Result<Vec<u8>, String> {
    if field == "%" {
        return Ok(Vec::new());
    }
    if field.is_empty() {
        return Err("an empty field (the empty value is written %)".to_owned());
    }
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                let (Some(high), Some(low)) = (nibble(*high), nibble(*low)) else {
                    return Err(format!("no escape: {}", shorten(field)));
                };
                bytes.push(high << 4 | low);
                tail
            }
            (byte, tail) if stands_for_itself(*byte) => {
                bytes.push(*byte);
                tail
            }
            _ => return Err(format!("a byte that has to be written %XX: {}", shorten(field))),
        };
    }
    Ok(bytes)
}

fn stands_for_itself(byte: u8) -> bool {
    (b'!'..=b'~').contains(&byte) && byte != b'%' && byte != b'|'
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Writes a request, without the end of the line.
pub fn request(number: u64, op: &str, arguments: &[Token]) -> String {
    let mut line = format!("{number}\t{op}");
    for argument in arguments {
        line.push('\t');
        line.push_str(&argument.encode());
    }
    line
}

/// What a driver answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It worked.
    Ok(Vec<Token>),
    /// It failed.
    Err {
        /// The code of the law's section 10.
        code: String,
        /// The sentence that came with it.
        text: String,
    },
    /// The driver does not know the op.
    Unsupported,
}

impl Reply {
    /// Reads the line that answers request `number`.
    ///
    /// # Errors
    ///
    /// Says how the line breaks the protocol.
    pub fn parse(number: u64, line: &str) -> Result<Self, String> {
        let mut fields = line.split('\t');
        let answered = fields.next().unwrap_or_default();
        if answered != number.to_string() {
            return Err(format!("a line that does not answer request {number}: {}", shorten(line)));
        }
        match (fields.next(), fields.collect::<Vec<_>>().as_slice()) {
            (Some("ok"), values) => {
                values.iter().map(|field| Token::decode(field)).collect::<Result<_, _>>().map(Self::Ok)
            }
            (Some("err"), [code, text]) => {
                let read = |field| decode(field).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                Ok(Self::Err { code: read(code)?, text: read(text)? })
            }
            (Some("unsupported"), []) => Ok(Self::Unsupported),
            _ => Err(format!("a line that is no reply: {}", shorten(line))),
        }
    }

    /// The kind of answer, without its values: `ok`, an error's code, or `unsupported`.
    pub fn kind(&self) -> &str {
        match self {
            Self::Ok(_) => "ok",
            Self::Err { code, .. } => code,
            Self::Unsupported => "unsupported",
        }
    }
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
            ("é".as_bytes(), "%C3%A9"),
            (b"a=b", "a=b"),
        ] {
            assert_eq!(encode(bytes), field);
            assert_eq!(decode(field).unwrap(), bytes);
        }
        assert_eq!(decode("%c3%a9").unwrap(), "é".as_bytes());
    }

    #[test]
    fn what_no_encoder_writes_is_refused() {
        for field in ["", "a%", "a%4", "%%", "%G0", "a b", "é", "a|b", "%+1"] {
            assert!(decode(field).is_err(), "{field:?}");
        }
    }

    #[test]
    fn replies_are_read() {
        let ok = Reply::parse(7, "7\tok\tEVT\t%\t|\t%7C").unwrap();
        assert_eq!(ok, Reply::Ok(vec![Token::text("EVT"), Token::text(""), Token::Bar, Token::text("|")]));
        let err = Reply::parse(7, "7\terr\tkind\tno%20EVT").unwrap();
        assert_eq!(err, Reply::Err { code: "kind".into(), text: "no EVT".into() });
        assert_eq!(Reply::parse(7, "7\tunsupported").unwrap(), Reply::Unsupported);
        assert_eq!(Reply::parse(7, "7\tok").unwrap(), Reply::Ok(vec![]));
        for line in ["", "8\tok", "7", "7\tfine", "7\terr\tkind", "7\tunsupported\tx", "7\tok\t", " 7\tok"] {
            assert!(Reply::parse(7, line).is_err(), "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive(bytes: Vec<u8>) {
            let field = encode(&bytes);
            prop_assert!(field.bytes().all(|byte| (b'!'..=b'~').contains(&byte) && byte != b'|'));
            prop_assert_eq!(decode(&field).unwrap(), bytes);
        }

        #[test]
        fn any_field_is_read_or_refused(field: String) {
            if let Ok(bytes) = decode(&field) {
                prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
            }
        }

        #[test]
        fn any_line_is_read_or_refused(line: String) {
            let _read_or_refused = Reply::parse(1, &line);
            let _read_or_refused = Reply::parse(1, &format!("1\tok\t{line}"));
        }

        #[test]
        fn a_line_is_one_line(values: Vec<Vec<u8>>) {
            let tokens: Vec<_> = values.iter().map(Token::text).collect();
            let line = request(1, "append", &tokens);
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(line.matches('\t').count(), 1 + tokens.len());
        }
    }
}
