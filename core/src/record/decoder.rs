//! Replies out of bytes as they come in, under RESP2 and RESP3.
//!
//! redis-rs reads replies too, but at more than twice the cost, and a page of a thousand records has nine thousand of them.
//! What is rare is still left to it, and a test holds both against each other.

use redis::{PushKind, Value};
use std::io::{self, ErrorKind};

/// How much room there is at least for what comes in next.
const ROOM: usize = 32 * 1024;

/// How deep a reply may be nested.
const DEPTH: usize = 64;

/// How many items a list reserves room for before they are there.
const RESERVED: usize = 1_024;

/// Bytes that came in, and the replies in them that are not whole yet.
pub(crate) struct Decoder {
    buffer: Vec<u8>,
    /// What came in and was not read yet.
    start: usize,
    end: usize,
    /// Lists that wait for further items, the outermost first.
    open: Vec<List>,
}

struct List {
    kind: u8,
    items: Vec<Value>,
    missing: usize,
}

enum Token {
    Value(Value),
    List(List),
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, open: Vec::new() }
    }

    /// Room for what comes in next.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.buffer.len() - self.end < ROOM {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.buffer.len() - self.end < ROOM {
                let length = (2 * self.buffer.len()).max(self.end + ROOM);
                self.buffer.resize(length, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    /// Takes bytes as if they had come in.
    #[cfg(test)]
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(ROOM) {
            self.room()[..part.len()].copy_from_slice(part);
            self.filled(part.len());
        }
    }

    /// That many bytes of the room were filled.
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// The next reply, or nothing while it is not whole.
    ///
    /// Fails for bytes that are no reply; the connection is of no use then.
    pub(crate) fn next(&mut self) -> io::Result<Option<Value>> {
        if self.open.is_empty()
            && let Some((message, length)) = message(&self.buffer[self.start..self.end])?
        {
            self.start += length;
            return Ok(Some(message));
        }
        while let Some((token, length)) = token(&self.buffer[self.start..self.end])? {
            self.start += length;
            let mut value = match token {
                Token::Value(value) => value,
                Token::List(list) if self.open.len() == DEPTH => {
                    drop(list);
                    return Err(malformed("a list too deep in others"));
                }
                Token::List(list) => {
                    self.open.push(list);
                    continue;
                }
            };
            loop {
                let Some(mut list) = self.open.pop() else { return Ok(Some(value)) };
                list.items.push(value);
                list.missing -= 1;
                if list.missing > 0 {
                    self.open.push(list);
                    break;
                }
                value = list.close()?;
            }
        }
        Ok(None)
    }
}

impl List {
    fn close(self) -> io::Result<Value> {
        Ok(match self.kind {
            b'~' => Value::Set(self.items),
            b'%' => Value::Map(pairs(self.items.into_iter())),
            b'>' => {
                let mut items = self.items.into_iter();
                Value::Push { kind: push_kind(items.next())?, data: items.collect() }
            }
            b'|' => {
                let mut items = self.items;
                let data = Box::new(items.pop().unwrap_or(Value::Nil));
                Value::Attribute { data, attributes: pairs(items.into_iter()) }
            }
            _ => Value::Array(self.items),
        })
    }
}

/// A whole message of a channel, the one kind of push that comes in great numbers, and how many bytes it has.
fn message(bytes: &[u8]) -> io::Result<Option<(Value, usize)>> {
    const BEGINNING: &[u8] = b">3\r\n$7\r\nmessage\r\n";
    let Some(rest) = bytes.strip_prefix(BEGINNING) else { return Ok(None) };
    let Some((Token::Value(channel), first)) = token(rest)? else { return Ok(None) };
    let Some((Token::Value(payload), second)) = token(&rest[first..])? else { return Ok(None) };
    let message = Value::Push { kind: PushKind::Message, data: vec![channel, payload] };
    Ok(Some((message, BEGINNING.len() + first + second)))
}

fn pairs(mut items: impl Iterator<Item = Value>) -> Vec<(Value, Value)> {
    std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect()
}

fn push_kind(name: Option<Value>) -> io::Result<PushKind> {
    let name = match name {
        Some(Value::BulkString(name)) => name,
        Some(Value::SimpleString(name)) => name.into_bytes(),
        _ => return Err(malformed("a pushed message without a name")),
    };
    match name.as_slice() {
        b"message" => return Ok(PushKind::Message),
        b"subscribe" => return Ok(PushKind::Subscribe),
        b"unsubscribe" => return Ok(PushKind::Unsubscribe),
        _ => {}
    }
    let length = format!(">1\r\n${}\r\n", name.len());
    let message = [length.as_bytes(), name.as_slice(), b"\r\n"].concat();
    match other(&message)? {
        Value::Push { kind, .. } => Ok(kind),
        _ => Err(malformed("a pushed message without a name")),
    }
}

/// The first token and how many bytes it has, or nothing while it is not whole.
fn token(bytes: &[u8]) -> io::Result<Option<(Token, usize)>> {
    let Some(newline) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let [kind, line @ .., b'\r', b'\n'] = &bytes[..=newline] else {
        return Err(malformed("a line without its end"));
    };
    let (kind, behind) = (*kind, newline + 1);
    Ok(Some(match kind {
        b'$' if line == b"-1" => (Token::Value(Value::Nil), behind),
        b'$' => match text(bytes, line, behind)? {
            Some(text) => (Token::Value(Value::BulkString(text.to_vec())), behind + text.len() + 2),
            None => return Ok(None),
        },
        b'*' | b'~' if line == b"-1" => (Token::Value(Value::Nil), behind),
        b'*' | b'~' | b'%' | b'>' | b'|' => (list(kind, number(line)?)?, behind),
        b':' => (Token::Value(Value::Int(number(line)?)), behind),
        b'!' | b'=' => match text(bytes, line, behind)? {
            Some(text) => (Token::Value(other(&bytes[..behind + text.len() + 2])?), behind + text.len() + 2),
            None => return Ok(None),
        },
        _ => (Token::Value(other(&bytes[..behind])?), behind),
    }))
}

fn list(kind: u8, count: usize) -> io::Result<Token> {
    let missing = match kind {
        b'%' => count.checked_mul(2),
        b'|' => count.checked_mul(2).and_then(|items| items.checked_add(1)),
        _ => Some(count),
    };
    let missing = missing.ok_or_else(|| malformed("a list too long"))?;
    let list = List { kind, items: Vec::with_capacity(missing.min(RESERVED)), missing };
    Ok(if missing == 0 { Token::Value(list.close()?) } else { Token::List(list) })
}

/// The text behind a line that says its length, or nothing while it is not whole.
fn text<'a>(bytes: &'a [u8], line: &[u8], behind: usize) -> io::Result<Option<&'a [u8]>> {
    let length: usize = number(line)?;
    match bytes[behind..].split_at_checked(length) {
        Some((text, [b'\r', b'\n', ..])) => Ok(Some(text)),
        Some((_, [] | [b'\r'])) | None => Ok(None),
        Some(_) => Err(malformed("a text longer than it says")),
    }
}

fn number<N: std::str::FromStr>(line: &[u8]) -> io::Result<N> {
    let number = str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    number.ok_or_else(|| malformed("a line that is no number"))
}

/// What is not read here.
fn other(bytes: &[u8]) -> io::Result<Value> {
    redis::parse_redis_value(bytes).map_err(|error| malformed(&error.to_string()))
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the server sent what is no reply: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8], step: usize) -> io::Result<Vec<Value>> {
        let (mut decoder, mut values) = (Decoder::new(), Vec::new());
        for part in bytes.chunks(step) {
            decoder.put(part);
            while let Some(value) = decoder.next()? {
                values.push(value);
            }
        }
        Ok(values)
    }

    const REPLIES: &[&str] = &[
        "+OK\r\n",
        "+PONG\r\n",
        "-ERR no\r\n",
        "-WRONGTYPE no\r\n",
        ":7\r\n",
        ":-7\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$5\r\na\r\nbc\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*2\r\n:1\r\n$1\r\na\r\n",
        "*2\r\n*1\r\n+OK\r\n*0\r\n",
        "_\r\n",
        ",1.5\r\n",
        "#t\r\n",
        "#f\r\n",
        "(123456789012345678901\r\n",
        "!5\r\nERR x\r\n",
        "=5\r\ntxt:a\r\n",
        "~1\r\n:1\r\n",
        "%0\r\n",
        "%1\r\n$1\r\na\r\n:1\r\n",
        "|1\r\n+a\r\n:1\r\n:2\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
        ">1\r\n+subscribe\r\n",
        ">1\r\n+new\r\n",
        ">1\r\n$4\r\nk\r\n1\r\n",
    ];

    #[test]
    fn every_kind_of_reply_is_read_as_redis_rs_reads_it() {
        for reply in REPLIES {
            let expected = redis::parse_redis_value(reply.as_bytes()).unwrap();
            for step in 1..=reply.len() {
                let read = decoded(reply.as_bytes(), step).unwrap();
                assert_eq!(read, std::slice::from_ref(&expected), "{reply:?}, {step} at a time");
            }
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in [
            "\n",
            "x\r\n",
            ":\r\n",
            ":a\r\n",
            "$-2\r\n",
            "$1\r\nab\r\n",
            "*-2\r\n",
            "$99999999999999999999\r\n",
            "%-1\r\n",
        ] {
            assert_eq!(
                decoded(bytes.as_bytes(), 100).unwrap_err().kind(),
                ErrorKind::InvalidData,
                "{bytes:?}"
            );
        }
        assert!(decoded("*1\r\n".repeat(DEPTH + 1).as_bytes(), 100).is_err());
    }

    proptest! {
        #[test]
        fn replies_are_read_whatever_parts_they_come_in(picked: Vec<prop::sample::Index>, step in 1_usize..40) {
            let replies: Vec<&str> = picked.iter().map(|index| *index.get(REPLIES)).collect();
            let expected: Vec<Value> =
                replies.iter().map(|reply| redis::parse_redis_value(reply.as_bytes()).unwrap()).collect();
            prop_assert_eq!(decoded(replies.concat().as_bytes(), step).unwrap(), expected);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, step in 1_usize..40) {
            let _ = decoded(&bytes, step);
        }
    }
}
