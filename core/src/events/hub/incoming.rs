//! What comes in on a connection that listens, under RESP3 and RESP2.

use crate::events::event::Event;
use crate::record::decoder::Decoder;
use redis::{PushKind, ServerError, Value};
use std::io;

/// One message of the server's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Incoming {
    /// Events on a channel, one after the other.
    Events { channel: Vec<u8>, events: Vec<Event> },
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
    /// Takes what came in next, if it is whole, and puts it behind what came in before. Answers whether there was something.
    pub(super) fn take(decoder: &mut Decoder, before: &mut Vec<Self>) -> io::Result<bool> {
        if let Some((channel, payload)) = decoder.message()? {
            let event = Event::new(payload.to_vec());
            match before.last_mut() {
                Some(Self::Events { channel: last, events }) if last == channel => events.push(event),
                _ => before.push(Self::Events { channel: channel.to_vec(), events: vec![event] }),
            }
            return Ok(true);
        }
        let Some(value) = decoder.next()? else { return Ok(false) };
        before.push(Self::read(value));
        Ok(true)
    }

    /// RESP3 pushes what RESP2 answers as a list.
    fn read(value: Value) -> Self {
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
                Self::Events { channel, events: vec![Event::new(payload)] }
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

    fn taken(decoder: &mut Decoder, bytes: &str) -> Vec<Incoming> {
        decoder.put(bytes.as_bytes());
        let mut incoming = Vec::new();
        while Incoming::take(decoder, &mut incoming).unwrap() {}
        incoming
    }

    fn read(bytes: &str) -> Incoming {
        let mut incoming = taken(&mut Decoder::new(), bytes);
        assert_eq!(incoming.len(), 1);
        incoming.remove(0)
    }

    fn events(channel: &str, payloads: &[&str]) -> Incoming {
        let events = payloads.iter().map(|payload| Event::new(payload.as_bytes().to_vec())).collect();
        Incoming::Events { channel: channel.as_bytes().to_vec(), events }
    }

    #[test]
    fn both_protocols_say_the_same() {
        for list in ['>', '*'] {
            let message = format!("{list}3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
            assert_eq!(read(&message), events("c", &["m"]));
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

    #[test]
    fn events_of_one_channel_that_come_together_are_one_whatever_parts_they_come_in() {
        let message = |channel: &str, payload: &str| {
            format!(">3\r\n$7\r\nmessage\r\n$1\r\n{channel}\r\n${}\r\n{payload}\r\n", payload.len())
        };
        let all =
            [message("c", "1"), message("c", "22"), message("d", ""), "+PONG\r\n".into(), message("d", "4")];
        let expected = [events("c", &["1", "22"]), events("d", &[""]), Incoming::Pong, events("d", &["4"])];
        assert_eq!(taken(&mut Decoder::new(), &all.concat()), expected);
        for cut in 0..all.concat().len() {
            let mut decoder = Decoder::new();
            let all = all.concat();
            let (first, second) = all.split_at(cut);
            let said = |incoming: Vec<Incoming>| -> Vec<Incoming> {
                let each = incoming.into_iter().flat_map(|one| match one {
                    Incoming::Events { channel, events } => events
                        .into_iter()
                        .map(|event| Incoming::Events { channel: channel.clone(), events: vec![event] })
                        .collect(),
                    other => vec![other],
                });
                each.collect()
            };
            let parts = [taken(&mut decoder, first), taken(&mut decoder, second)].concat();
            assert_eq!(said(parts), said(expected.to_vec()), "cut at {cut}");
        }
    }
}
