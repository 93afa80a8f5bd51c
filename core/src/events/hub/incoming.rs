//! What comes in on a connection that listens, under RESP3 and RESP2.

use redis::{PushKind, ServerError, Value};

/// One message of the server's.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    /// An event on a channel.
    Message { channel: Vec<u8>, payload: Vec<u8> },
    /// A subscription is confirmed.
    Subscribed(Vec<u8>),
    /// The end of one is confirmed.
    Unsubscribed,
    /// A sign of life.
    Pong,
    /// A command was refused.
    Refused(ServerError),
    /// Something that nobody asked for.
    Other,
}

impl Incoming {
    /// RESP3 pushes what RESP2 answers as a list.
    pub(super) fn read(value: Value) -> Self {
        match value {
            Value::Push { kind, data } => Self::of_kind(&kind, data.into_iter()),
            Value::Array(items) => {
                let mut items = items.into_iter();
                match items.next() {
                    Some(Value::BulkString(kind)) => match kind.as_slice() {
                        b"message" => Self::of_kind(&PushKind::Message, items),
                        b"subscribe" => Self::of_kind(&PushKind::Subscribe, items),
                        b"unsubscribe" => Self::of_kind(&PushKind::Unsubscribe, items),
                        b"pong" => Self::Pong,
                        _ => Self::Other,
                    },
                    _ => Self::Other,
                }
            }
            Value::SimpleString(text) if text == "PONG" => Self::Pong,
            Value::ServerError(error) => Self::Refused(error),
            _ => Self::Other,
        }
    }

    fn of_kind(kind: &PushKind, mut data: impl Iterator<Item = Value>) -> Self {
        match (kind, data.next(), data.next()) {
            (PushKind::Message, Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) => {
                Self::Message { channel, payload }
            }
            (PushKind::Subscribe, Some(Value::BulkString(channel)), _) => Self::Subscribed(channel),
            (PushKind::Unsubscribe, _, _) => Self::Unsubscribed,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::decoder::Decoder;

    fn read(bytes: &str) -> Incoming {
        let mut decoder = Decoder::new();
        decoder.put(bytes.as_bytes());
        Incoming::read(decoder.next().unwrap().unwrap())
    }

    #[test]
    fn both_protocols_say_the_same() {
        let message = Incoming::Message { channel: b"c".to_vec(), payload: b"m".to_vec() };
        for list in ['>', '*'] {
            assert_eq!(read(&format!("{list}3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n")), message);
            let subscribed = read(&format!("{list}3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"));
            assert_eq!(subscribed, Incoming::Subscribed(b"c".to_vec()));
            let unsubscribed = read(&format!("{list}3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"));
            assert_eq!(unsubscribed, Incoming::Unsubscribed);
            assert_eq!(read(&format!("{list}2\r\n$5\r\nhello\r\n:1\r\n")), Incoming::Other);
        }
        assert_eq!(read("+PONG\r\n"), Incoming::Pong);
        assert_eq!(read("*2\r\n$4\r\npong\r\n$0\r\n\r\n"), Incoming::Pong);
        assert!(matches!(read("-NOPERM no\r\n"), Incoming::Refused(_)));
        assert_eq!(read(":1\r\n"), Incoming::Other);
        assert_eq!(read("*0\r\n"), Incoming::Other);
    }
}
