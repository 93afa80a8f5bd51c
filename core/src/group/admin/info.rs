//! What is known of a group and of its consumers.

use super::lag::{self, Lag};
use crate::error::Result;
use crate::id::entry_id::EntryId;
use crate::record::reply;
use redis::Value;
use std::time::Duration;

/// A consumer group of a stream, as the server had it at one instant.
///
/// ```no_run
/// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
/// for group in events.groups().await? {
///     match group.lag() {
///         Some(lag) => println!("{} has {lag} records ahead and {} in hand", group.name(), group.pending()),
///         None => println!("{} has {} in hand", group.name(), group.pending()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInfo {
    pub(super) name: String,
    pub(super) pending: u64,
    pub(super) lag: Option<u64>,
    pub(super) last_delivered: EntryId,
    pub(super) consumers: Vec<ConsumerInfo>,
}

impl GroupInfo {
    /// The group's name; in one that another program gave, bytes that are no UTF-8 show as `U+FFFD`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many entries were delivered and are not acknowledged.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// How many records of the stream were not delivered to the group yet; nothing where that is not known.
    ///
    /// It is not known where records were removed one by one ahead of the group, where the group began in the middle of
    /// the stream, and where more than 1 000 are ahead of the group in a stream that was trimmed behind it: the server's
    /// own number may then count records that are gone.
    pub fn lag(&self) -> Option<u64> {
        self.lag
    }

    /// The position of the last entry that was delivered: the next one delivered stands behind it.
    pub fn last_delivered(&self) -> EntryId {
        self.last_delivered
    }

    /// The consumers that the server knows, in its order.
    pub fn consumers(&self) -> &[ConsumerInfo] {
        &self.consumers
    }
}

/// A consumer of a group, as the server had it at one instant.
///
/// ```no_run
/// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
/// for consumer in events.group("mailer").await?.consumers() {
///     println!("{} holds {} and last asked {:?} ago", consumer.name(), consumer.pending(), consumer.idle());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerInfo {
    name: String,
    pending: u64,
    idle: Duration,
}

impl ConsumerInfo {
    /// The consumer's name; in one that another program gave, bytes that are no UTF-8 show as `U+FFFD`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many entries were delivered to it and are not acknowledged.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// How long ago it last asked for entries, to the millisecond, by the server's clock.
    ///
    /// Servers before 7.2 do not count an attempt that found nothing.
    pub fn idle(&self) -> Duration {
        self.idle
    }
}

/// A stream and its groups at one instant: the reply to `XINFO STREAM key FULL COUNT 1`.
pub(super) struct Snapshot {
    pub(super) stream: StreamInfo,
    /// Each group with its lag, or how to find it.
    pub(super) groups: Vec<(GroupInfo, Lag)>,
}

/// What a lag is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamInfo {
    pub(super) length: u64,
    /// How many entries were ever added, where the server says so.
    pub(super) added: Option<u64>,
    pub(super) first: Option<EntryId>,
    pub(super) last_generated: EntryId,
}

impl Snapshot {
    /// Reads the snapshot, taken at `now` of the server's clock, in milliseconds since 1970.
    pub(super) fn read(reply: Value, now: u64) -> Result<Self> {
        let mut members = reply::Members::read(reply)?;
        let first = reply::list(members.take("entries"))?.into_iter().next();
        let stream = StreamInfo {
            length: reply::count(members.take("length"))?,
            added: reply::optional_count(members.take("entries-added"))?,
            first: first.map(position).transpose()?,
            last_generated: reply::entry_id(members.take("last-generated-id"))?,
        };
        let groups = reply::list(members.take("groups"))?;
        let groups = groups.into_iter().map(|info| group(info, &stream, now)).collect::<Result<_>>()?;
        Ok(Self { stream, groups })
    }
}

fn group(reply: Value, stream: &StreamInfo, now: u64) -> Result<(GroupInfo, Lag)> {
    let mut members = reply::Members::read(reply)?;
    let last_delivered = reply::entry_id(members.take("last-delivered-id"))?;
    let lag = lag::judge(stream, last_delivered, reply::optional_count(members.take("lag"))?);
    let consumers = reply::list(members.take("consumers"))?;
    let info = GroupInfo {
        name: name(members.take("name"))?,
        pending: reply::count(members.take("pel-count"))?,
        lag: None,
        last_delivered,
        consumers: consumers.into_iter().map(|info| consumer(info, now)).collect::<Result<_>>()?,
    };
    Ok((info, lag))
}

fn consumer(reply: Value, now: u64) -> Result<ConsumerInfo> {
    let mut members = reply::Members::read(reply)?;
    let seen = reply::count(members.take("seen-time"))?;
    Ok(ConsumerInfo {
        name: name(members.take("name"))?,
        pending: reply::count(members.take("pel-count"))?,
        idle: Duration::from_millis(now.saturating_sub(seen)),
    })
}

/// The position of an entry, which its fields follow.
pub(super) fn position(entry: Value) -> Result<EntryId> {
    reply::entry_id(reply::list(entry)?.into_iter().next().unwrap_or(Value::Nil))
}

/// Names of other programs may be any bytes.
pub(super) fn name(reply: Value) -> Result<String> {
    reply::bytes(reply).map(|name| String::from_utf8_lossy(&name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    /// Names and values as RESP3 and as RESP2 have them.
    fn members(resp3: bool, members: Vec<(&str, Value)>) -> Value {
        let members = members.into_iter().map(|(name, value)| (text(name), value));
        match resp3 {
            true => Value::Map(members.collect()),
            false => Value::Array(members.flat_map(|(name, value)| [name, value]).collect()),
        }
    }

    /// What Valkey 9 answers; Redis 7.0 gives no `active-time`, and Redis 6.2 neither lags nor `entries-added`.
    fn snapshot(resp3: bool, version: u32, lag: Value) -> Value {
        let mut consumer = vec![
            ("name", text("c")),
            ("seen-time", Value::Int(1_000)),
            ("pel-count", Value::Int(1)),
            ("pending", Value::Array(vec![Value::Array(vec![text("1-0"), Value::Int(900), Value::Int(1)])])),
        ];
        if version > 7 {
            consumer.insert(2, ("active-time", Value::Int(-1)));
        }
        let mut group = vec![
            ("name", text("g")),
            ("last-delivered-id", text("1-0")),
            ("pel-count", Value::Int(1)),
            ("pending", Value::Array(vec![])),
            ("consumers", Value::Array(vec![members(resp3, consumer)])),
        ];
        let mut stream = vec![
            ("length", Value::Int(2)),
            ("last-generated-id", text("3-7")),
            ("entries", Value::Array(vec![Value::Array(vec![text("1-0"), Value::Array(vec![])])])),
        ];
        if version >= 7 {
            group.insert(2, ("entries-read", Value::Int(1)));
            group.insert(3, ("lag", lag));
            stream.push(("entries-added", Value::Int(2)));
        }
        stream.push(("groups", Value::Array(vec![members(resp3, group)])));
        members(resp3, stream)
    }

    #[test]
    fn every_shape_of_a_snapshot() {
        for resp3 in [false, true] {
            for (version, answered, added, lag) in [
                (9, Value::Int(1), Some(2), Lag::Known(1)),
                (9, Value::Nil, Some(2), Lag::Unknown),
                (7, Value::Int(1), Some(2), Lag::Known(1)),
                (6, Value::Nil, None, Lag::Unknown),
            ] {
                let found = Snapshot::read(snapshot(resp3, version, answered), 1_250).unwrap();
                assert_eq!((found.stream.length, found.stream.added), (2, added));
                assert_eq!(found.stream.first, Some(EntryId::new(1, 0)));
                assert_eq!(found.stream.last_generated, EntryId::new(3, 7));
                let consumer =
                    ConsumerInfo { name: "c".into(), pending: 1, idle: Duration::from_millis(250) };
                let group = GroupInfo {
                    name: "g".into(),
                    pending: 1,
                    lag: None,
                    last_delivered: EntryId::new(1, 0),
                    consumers: vec![consumer],
                };
                assert_eq!(found.groups, [(group, lag)]);
            }
        }
    }

    #[test]
    fn a_clock_that_stepped_back_and_a_name_of_any_bytes() {
        let found = Snapshot::read(snapshot(true, 9, Value::Nil), 10).unwrap();
        assert_eq!(found.groups[0].0.consumers[0].idle, Duration::ZERO);
        assert_eq!(name(Value::BulkString(b"a\xffb".to_vec())).unwrap(), "a\u{fffd}b");
    }

    #[test]
    fn what_is_no_snapshot_is_refused() {
        for reply in [Value::Nil, Value::Array(vec![]), text("OK"), Value::Int(1)] {
            assert!(Snapshot::read(reply, 0).is_err());
        }
    }
}
