//! Replies out of bytes as they come in, under RESP2 and RESP3.
//!
//! redis-rs reads replies too, but at more than twice the cost, and a page of a thousand records has nine thousand of them.
//! What is rare is still left to it, and a test holds both against each other.

use redis::{PushKind, Value};
use std::io::{self, ErrorKind};

/// How much room there is at least for what comes in next.
const ROOM: usize = 32 * 1024;

/// How much memory is kept for what comes in, once all that came in was read.
const KEPT: usize = 256 * 1024;

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
        self.shrink();
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
                let Some(mut list) = self.open.pop() else {
                    self.shrink();
                    return Ok(Some(value));
                };
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

    /// A long reply needs much memory, and the next ones do not.
    fn shrink(&mut self) {
        if self.start == self.end && self.buffer.len() > KEPT {
            self.buffer = Vec::new();
            (self.start, self.end) = (0, 0);
        }
    }

    /// How much memory there is for what comes in.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// A message of a channel, where the next reply is one and whole: the channel, and what was published.
    ///
    /// These come in great numbers, so nothing is copied. Whatever else comes next is left to [`Decoder::next`].
    pub(crate) fn message(&mut self) -> io::Result<Option<(&[u8], &[u8])>> {
        const BEGINNING: &[u8] = b"3\r\n$7\r\nmessage\r\n";
        let bytes = &self.buffer[self.start..self.end];
        let [b'>' | b'*', rest @ ..] = bytes else { return Ok(None) };
        let Some(rest) = rest.strip_prefix(BEGINNING).filter(|_| self.open.is_empty()) else {
            return Ok(None);
        };
        let Some((channel, rest)) = bulk(rest)? else { return Ok(None) };
        let Some((payload, rest)) = bulk(rest)? else { return Ok(None) };
        self.start += bytes.len() - rest.len();
        Ok(Some((channel, payload)))
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

/// The bulk string at the beginning, where there is a whole one, and what is behind it.
fn bulk(bytes: &[u8]) -> io::Result<Option<(&[u8], &[u8])>> {
    let Some(newline) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let [b'$', line @ .., b'\r', b'\n'] = &bytes[..=newline] else { return Ok(None) };
    let text = text(bytes, line, newline + 1)?;
    Ok(text.map(|text| (text, &bytes[newline + 1 + text.len() + 2..])))
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
    fn messages_are_taken_one_by_one_and_nothing_else_is() {
        let mut decoder = Decoder::new();
        let (pushed, listed) = (
            ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nm1\r\n",
            "*3\r\n$7\r\nmessage\r\n$1\r\nd\r\n$0\r\n\r\n",
        );
        decoder.put(
            [pushed, listed, "+PONG\r\n", pushed, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n"].concat().as_bytes(),
        );
        assert_eq!(decoder.message().unwrap(), Some((&b"c"[..], &b"m1"[..])));
        assert_eq!(decoder.message().unwrap(), Some((&b"d"[..], &b""[..])));
        assert_eq!(decoder.message().unwrap(), None);
        assert_eq!(decoder.next().unwrap(), Some(Value::SimpleString("PONG".to_owned())));
        assert!(decoder.message().unwrap().is_some());
        // What is not whole is left, and once it was begun with, all of it.
        assert_eq!(decoder.message().unwrap(), None);
        assert_eq!(decoder.next().unwrap(), None);
        decoder.put(["$1\r\nx\r\n", pushed].concat().as_bytes());
        assert_eq!(decoder.message().unwrap(), None);
        let data = vec![Value::BulkString(b"c".to_vec()), Value::BulkString(b"x".to_vec())];
        assert_eq!(decoder.next().unwrap(), Some(Value::Push { kind: PushKind::Message, data }));
        assert!(decoder.message().unwrap().is_some());
    }

    #[test]
    fn a_long_reply_leaves_no_memory_behind() {
        let mut decoder = Decoder::new();
        let text = vec![b'x'; 20 << 20];
        for _ in 0..2 {
            decoder.put(format!("*1\r\n${}\r\n", text.len()).as_bytes());
            decoder.put(&text);
            assert_eq!(decoder.next().unwrap(), None);
            // Another reply behind it keeps the memory until it was read too.
            decoder.put(b"\r\n+OK\r\n");
            assert_eq!(decoder.next().unwrap(), Some(Value::Array(vec![Value::BulkString(text.clone())])));
            assert_eq!(decoder.next().unwrap(), Some(Value::Okay));
            assert!(decoder.capacity() <= KEPT, "{} bytes", decoder.capacity());
        }
        decoder.put(b"+OK\r\n");
        assert_eq!(decoder.next().unwrap(), Some(Value::Okay));
    }

    #[test]
    fn a_long_message_leaves_no_memory_behind() {
        let mut decoder = Decoder::new();
        for bytes in [20 << 20, 3, 3] {
            decoder.put(format!(">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n${bytes}\r\n").as_bytes());
            decoder.put(&vec![b'x'; bytes]);
            assert_eq!(decoder.message().unwrap(), None);
            decoder.put(b"\r\n");
            assert_eq!(decoder.message().unwrap().map(|(_, payload)| payload.len()), Some(bytes));
        }
        assert!(decoder.capacity() <= KEPT, "{} bytes", decoder.capacity());
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
        fn messages_taken_apart_are_those_that_are_read(picked: Vec<prop::sample::Index>, step in 1_usize..40) {
            const MESSAGE: &str = ">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$4\r\na\r\nb\r\n";
            let bytes: Vec<&str> = picked
                .iter()
                .flat_map(|index| [MESSAGE, *index.get(REPLIES)])
                .collect();
            let bytes = bytes.concat();
            let (mut decoder, mut values) = (Decoder::new(), Vec::new());
            for part in bytes.as_bytes().chunks(step) {
                decoder.put(part);
                loop {
                    if let Some((channel, payload)) = decoder.message().unwrap() {
                        let data = [channel, payload].map(|text| Value::BulkString(text.to_vec())).to_vec();
                        values.push(Value::Push { kind: PushKind::Message, data });
                    } else if let Some(value) = decoder.next().unwrap() {
                        values.push(value);
                    } else {
                        break;
                    }
                }
            }
            prop_assert_eq!(values, decoded(bytes.as_bytes(), 1).unwrap());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>, step in 1_usize..40) {
            let _ = decoded(&bytes, step);
        }
    }
}
