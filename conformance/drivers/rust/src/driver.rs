//! What each order means.

use crate::answer::{Answer, Refusal};
use crate::arguments::Arguments;
use crate::readers::Readers;
use crate::records::answer_records;
use echomq::{
    BrandedId, Client, Code, EntryId, EventId, Events, Keyspace, Options, Range, Signal, Snowflake, Stream,
    Timestamp, Trim, VERSION, Writers, slot,
};
use std::collections::HashMap;
use std::time::Duration;

/// How long a connection may take to end.
const CLOSING: Duration = Duration::from_secs(10);

type Answered = Result<Answer, Refusal>;

/// Carries out orders; holds the connections and readers that they have opened.
#[derive(Debug, Default)]
pub struct Driver {
    /// Each with the writers that its streams have.
    clients: HashMap<Vec<u8>, (Client, Writers)>,
    readers: Readers,
}

impl Driver {
    /// Carries out one order, a line without its end, and answers the line to say, without an end as well.
    pub async fn carry_out(&mut self, order: &[u8]) -> Vec<u8> {
        let fields: Vec<&[u8]> = order.split(|byte| *byte == b'\t').collect();
        let (number, op, arguments) = match fields.as_slice() {
            [number, op, arguments @ ..] => (*number, *op, arguments),
            number => (number.first().copied().unwrap_or_default(), &b""[..], &[][..]),
        };
        let told = match self.obey(op, Arguments::new(arguments)).await {
            Ok(answer) => format!("\tok{}", answer.fields()),
            Err(Refusal::Refused(code, why)) => {
                format!("\terr{}", Answer::default().text(code).text(why).fields())
            }
            Err(Refusal::Unsupported) => "\tunsupported".to_owned(),
        };
        [number, told.as_bytes()].concat()
    }

    async fn obey(&mut self, op: &[u8], mut arguments: Arguments<'_>) -> Answered {
        match op {
            b"hello" => {
                arguments.end()?;
                Ok(Answer::default().text("rust").text(env!("CARGO_PKG_VERSION")).text(VERSION))
            }
            b"id.decode" => decode_id(arguments),
            b"id.encode" => encode_id(arguments),
            b"id.from_entry" => {
                let entry_id = EntryId::parse(arguments.bytes()?)?;
                arguments.end()?;
                Ok(Answer::default().text(EventId::try_from(entry_id)?))
            }
            b"key" => {
                let key = Keyspace::new(&arguments.text()?)?.key(&arguments.text()?)?;
                arguments.end()?;
                Ok(Answer::default().text(&key).text(slot(&key)))
            }
            b"open" => self.open(arguments).await,
            b"close" => {
                let handle = arguments.bytes()?;
                arguments.end()?;
                self.client(&handle)?;
                self.close(&handle).await;
                Ok(Answer::default())
            }
            b"mint" => self.mint(arguments).await,
            b"append" => {
                let stream = self.stream(&mut arguments)?;
                Ok(Answer::default().text(stream.append(arguments.record()?).await?))
            }
            b"append_id" => {
                let stream = self.stream(&mut arguments)?;
                let id = EventId::parse(arguments.bytes()?)?;
                Ok(Answer::default().text(stream.append_id(id, arguments.record()?).await?))
            }
            b"append_sequenced" => {
                let stream = self.stream(&mut arguments)?;
                Ok(Answer::default().text(stream.append_sequenced(arguments.record()?).await?))
            }
            b"append_batch" => self.append_batch(arguments).await,
            b"append_batch_atomic" => {
                let stream = self.stream(&mut arguments)?;
                let ids = stream.append_batch_atomic(arguments.records()?).await?;
                Ok(Answer::groups(ids.into_iter().map(|id| Answer::default().text("ok").text(id))))
            }
            b"append_batch_sequenced" => {
                let stream = self.stream(&mut arguments)?;
                let ids = stream.append_batch_sequenced(arguments.records()?).await?;
                Ok(Answer::groups(ids.into_iter().map(|id| Answer::default().text("ok").text(id))))
            }
            b"append_and_publish" => {
                let stream = self.stream(&mut arguments)?;
                let signal = Signal::new(arguments.bytes()?, arguments.bytes()?)?;
                let announced = stream.append_and_publish(arguments.record()?, signal).await?;
                Ok(Answer::default().text(announced.id))
            }
            b"nodes" => self.nodes(arguments).await,
            b"read" | b"read_window" | b"read_since" => self.read(op, arguments).await,
            b"read_last" => {
                let reader = self.stream(&mut arguments)?.read_last(arguments.number()?);
                arguments.end()?;
                Ok(answer_records(reader.all().await?))
            }
            b"trim" => self.trim(arguments).await,
            b"tail" => {
                let name = arguments.bytes()?;
                let stream = self.stream(&mut arguments)?;
                self.readers.tail(name, stream, arguments).await
            }
            b"consumer" => {
                let name = arguments.bytes()?;
                let stream = self.stream(&mut arguments)?;
                self.readers.consumer(name, stream, arguments).await
            }
            b"next" => self.readers.next(arguments).await,
            b"next_cancelled" => self.readers.next_cancelled(arguments).await,
            b"ack" => self.readers.settle(false, arguments).await,
            b"fail" => self.readers.settle(true, arguments).await,
            b"stop" => self.readers.stop(arguments).await,
            b"group.info" => self.group_info(arguments).await,
            b"listen" | b"watch" => {
                let name = arguments.bytes()?;
                let events = self.events(&mut arguments)?;
                match op {
                    b"listen" => self.readers.listen(name, events, arguments).await,
                    _ => self.readers.watch(name, events, arguments).await,
                }
            }
            b"event" => self.readers.event(arguments).await,
            b"cancelled" => self.readers.cancelled(arguments).await,
            b"publish" => {
                let events = self.events(&mut arguments)?;
                let signal = Signal::new(arguments.bytes()?, arguments.bytes()?)?;
                events.publish(signal.with_all(arguments.record()?.iter())?).await?;
                Ok(Answer::default())
            }
            b"progress" | b"cancel" => {
                let events = self.events(&mut arguments)?;
                let (job, value) = (arguments.bytes()?, arguments.bytes()?);
                arguments.end()?;
                match op {
                    b"progress" => events.update_progress(job, value).await?,
                    _ => events.cancel(job, value, None).await?,
                };
                Ok(Answer::default())
            }
            _ => Err(Refusal::Unsupported),
        }
    }

    async fn open(&mut self, mut arguments: Arguments<'_>) -> Answered {
        let handle = arguments.bytes()?;
        self.close(&handle).await;
        let mut options = Options::new(&arguments.text()?)?;
        let mut writers = Writers::One;
        for (key, value) in arguments.options()? {
            let name = match &*key {
                "node" => "node_id",
                "clock" => "clock",
                "fence" => "claim_version",
                "many" => {
                    writers = Writers::Many;
                    continue;
                }
                _ => return Err(Refusal::senseless(format!("open takes no `{key}`"))),
            };
            options.set(name, &value)?;
        }
        self.clients.insert(handle, (Client::connect(&options).await?, writers));
        Ok(Answer::default())
    }

    async fn close(&mut self, handle: &[u8]) {
        if let Some((client, _)) = self.clients.remove(handle) {
            client.close(CLOSING).await;
        }
    }

    fn client(&self, handle: &[u8]) -> Result<&Client, Refusal> {
        let unknown =
            || Refusal::Refused(Code::Closed, format!("no connection is named {}", handle.escape_ascii()));
        self.clients.get(handle).map(|(client, _)| client).ok_or_else(unknown)
    }

    /// Reads handle, queue and stream.
    fn stream(&self, arguments: &mut Arguments<'_>) -> Result<Stream, Refusal> {
        let handle = arguments.bytes()?;
        let stream = self.client(&handle)?.stream(&arguments.text()?, &arguments.text()?)?;
        let writers = self.clients.get(&handle).map_or(Writers::One, |(_, writers)| *writers);
        Ok(stream.writers(writers))
    }

    /// Reads handle and queue.
    fn events(&self, arguments: &mut Arguments<'_>) -> Result<Events, Refusal> {
        let client = self.client(&arguments.bytes()?)?;
        Ok(client.events(&arguments.text()?)?)
    }

    async fn mint(&self, mut arguments: Arguments<'_>) -> Answered {
        let client = self.client(&arguments.bytes()?)?;
        let count: usize = arguments.number()?;
        arguments.end()?;
        let mut answer = Answer::default();
        for _ in 0..count {
            answer = answer.text(client.mint().await?);
        }
        Ok(answer)
    }

    async fn nodes(&self, mut arguments: Arguments<'_>) -> Answered {
        let client = self.client(&arguments.bytes()?)?;
        arguments.end()?;
        let leases = client.nodes().await?;
        Ok(Answer::groups(
            leases.into_iter().map(|lease| {
                Answer::default().text(lease.node).text(lease.owner).text(lease.left.as_millis())
            }),
        ))
    }

    async fn append_batch(&self, mut arguments: Arguments<'_>) -> Answered {
        let stream = self.stream(&mut arguments)?;
        let results = stream.append_batch(arguments.records()?).await?;
        Ok(Answer::groups(results.into_iter().map(|result| match result {
            Ok(id) => Answer::default().text("ok").text(id),
            Err(error) => Answer::default().text("err").text(error.code()).text(error.message()),
        })))
    }

    async fn read(&self, op: &[u8], mut arguments: Arguments<'_>) -> Answered {
        let stream = self.stream(&mut arguments)?;
        let mut instant = || arguments.number().map(Timestamp::from_millis);
        let reader = match op {
            b"read_window" => stream.read_window(instant()?, instant()?)?,
            b"read_since" => stream.read_since(instant()?),
            _ => stream.read(Range::parse(&arguments.text()?, &arguments.text()?)?),
        };
        let reader = match arguments.number()? {
            0 => reader,
            count => reader.limit(count),
        };
        arguments.end()?;
        Ok(answer_records(reader.all().await?))
    }

    async fn group_info(&self, mut arguments: Arguments<'_>) -> Answered {
        let stream = self.stream(&mut arguments)?;
        let group = stream.group(&arguments.text()?).await?;
        arguments.end()?;
        let lag = group.lag().map(|lag| lag.to_string()).unwrap_or_default();
        let answer = Answer::default().text(group.pending()).text(lag);
        Ok(group.consumers().iter().fold(answer, |answer, consumer| answer.text(consumer.name())))
    }

    async fn trim(&self, mut arguments: Arguments<'_>) -> Answered {
        let stream = self.stream(&mut arguments)?;
        let trim = match &*arguments.text()? {
            "maxlen" => Trim::max_len(arguments.number()?),
            "minid" => Trim::min_id(Timestamp::from_millis(arguments.number()?)),
            other => return Err(Refusal::senseless(format!("`{other}` is neither maxlen nor minid"))),
        };
        let trim = match &*arguments.text()? {
            "exact" => trim.exact(),
            "approx" => trim,
            other => return Err(Refusal::senseless(format!("`{other}` is neither approx nor exact"))),
        };
        arguments.end()?;
        Ok(Answer::default().text(stream.trim(trim).await?))
    }
}

fn decode_id(mut arguments: Arguments<'_>) -> Answered {
    let id = BrandedId::parse(arguments.bytes()?)?;
    arguments.end()?;
    let snowflake = id.snowflake();
    let entry_id = EventId::parse(id).map(|id| EntryId::from(id).to_string()).unwrap_or_default();
    Ok(Answer::default()
        .text(id.namespace())
        .text(snowflake.number())
        .text(snowflake.unix_ms())
        .text(snowflake.node())
        .text(snowflake.sequence())
        .text(entry_id))
}

fn encode_id(mut arguments: Arguments<'_>) -> Answered {
    let namespace = arguments.text()?;
    let number = arguments.number()?;
    arguments.end()?;
    let beyond = || Refusal::Refused(Code::MalformedId, format!("range: {number} is above 2^63 - 1"));
    Ok(Answer::default().text(BrandedId::new(&namespace, Snowflake::new(number).ok_or_else(beyond)?)?))
}
