//! What orders have opened to read: tails, consumers, listeners and watched jobs.

use crate::answer::{Answer, Refusal};
use crate::arguments::Arguments;
use crate::records::answer_record;
use echomq::{
    CancelToken, Code, Consumer, ConsumerOptions, Delivery, EntryId, Events, Failure, Heard, Start, Stream,
    Subscriber, SubscriberOptions, Tail, Tailed,
};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::time::{timeout, timeout_at};

/// How long a reader may take to end whose name is given to another.
const CLOSING: Duration = Duration::from_secs(10);

type Answered = Result<Answer, Refusal>;

/// What a name stands for.
#[derive(Debug)]
enum Reader {
    Tail(Tail),
    Consumer(Consumer, HashMap<EntryId, Delivery>),
    Listener(Subscriber),
    Watch(CancelToken),
}

impl Reader {
    /// What comes next: nothing where the wait was cancelled before, which it is then.
    async fn next(&mut self, until: Instant) -> Result<Option<Answer>, Refusal> {
        match self {
            Self::Tail(tail) => loop {
                match timeout_at(until.into(), tail.next()).await {
                    Ok(next) => match next? {
                        Some(Tailed::Record(record)) => return Ok(Some(answer_record(&record, None))),
                        None => return Ok(Some(Answer::default())),
                        // The op answers records alone.
                        Some(_) => {}
                    },
                    Err(_) => return Ok(None),
                }
            },
            Self::Consumer(consumer, in_hand) => {
                let Ok(next) = timeout_at(until.into(), consumer.next()).await else { return Ok(None) };
                let Some(delivery) = next? else { return Ok(Some(Answer::default())) };
                let answer = answer_record(delivery.record(), Some(delivery.attempts()));
                in_hand.insert(delivery.entry_id(), delivery);
                Ok(Some(answer))
            }
            Self::Listener(subscriber) => match timeout_at(until.into(), subscriber.next()).await {
                Ok(next) => Ok(Some(match next? {
                    Some(Heard::Event(event)) => Answer::default().text(event.name()).value(event.payload()),
                    Some(Heard::Gap(_)) => Answer::default().text("gap"),
                    None => Answer::default(),
                })),
                Err(_) => Ok(None),
            },
            Self::Watch(_) => Err(Refusal::senseless("a watched job has nothing that comes next")),
        }
    }
}

/// All readers, by their names.
#[derive(Debug, Default)]
pub(crate) struct Readers(HashMap<Vec<u8>, Reader>);

impl Readers {
    pub(crate) async fn tail(
        &mut self,
        name: Vec<u8>,
        stream: Stream,
        mut arguments: Arguments<'_>,
    ) -> Answered {
        self.end(&name, CLOSING).await;
        let after = Start::parse(&arguments.text()?)?;
        arguments.end()?;
        self.0.insert(name, Reader::Tail(stream.tail(after).await?));
        Ok(Answer::default())
    }

    pub(crate) async fn consumer(
        &mut self,
        name: Vec<u8>,
        stream: Stream,
        mut arguments: Arguments<'_>,
    ) -> Answered {
        self.end(&name, CLOSING).await;
        let mut options = Vec::new();
        for option in ["group", "consumer", "start"] {
            options.push((option.to_owned(), arguments.text()?));
        }
        options.extend(arguments.options()?);
        let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let consumer = stream.consumer(ConsumerOptions::parse(options)?).await?;
        self.0.insert(name, Reader::Consumer(consumer, HashMap::new()));
        Ok(Answer::default())
    }

    pub(crate) async fn listen(
        &mut self,
        name: Vec<u8>,
        events: Events,
        arguments: Arguments<'_>,
    ) -> Answered {
        self.end(&name, CLOSING).await;
        arguments.end()?;
        let subscriber = events.listen().await?.subscribe(SubscriberOptions::new())?;
        self.0.insert(name, Reader::Listener(subscriber));
        Ok(Answer::default())
    }

    pub(crate) async fn watch(
        &mut self,
        name: Vec<u8>,
        events: Events,
        mut arguments: Arguments<'_>,
    ) -> Answered {
        self.end(&name, CLOSING).await;
        let job = arguments.bytes()?;
        arguments.end()?;
        self.0.insert(name, Reader::Watch(events.watch(job).await?));
        Ok(Answer::default())
    }

    pub(crate) async fn event(&mut self, mut arguments: Arguments<'_>) -> Answered {
        let name = arguments.bytes()?;
        let until = Instant::now() + Duration::from_millis(arguments.number()?);
        arguments.end()?;
        match self.0.get_mut(&name) {
            Some(reader @ Reader::Listener(_)) => Ok(reader.next(until).await?.unwrap_or_default()),
            _ => Err(unknown(&name)),
        }
    }

    pub(crate) async fn cancelled(&mut self, mut arguments: Arguments<'_>) -> Answered {
        let name = arguments.bytes()?;
        let within = Duration::from_millis(arguments.number()?);
        arguments.end()?;
        let Some(Reader::Watch(token)) = self.0.get(&name) else { return Err(unknown(&name)) };
        Ok(match timeout(within, token.cancelled()).await {
            Ok(reason) => Answer::default().text(reason?),
            Err(_) => Answer::default(),
        })
    }

    pub(crate) async fn next(&mut self, mut arguments: Arguments<'_>) -> Answered {
        let name = arguments.bytes()?;
        let until = Instant::now() + Duration::from_millis(arguments.number()?);
        arguments.end()?;
        match self.0.get_mut(&name) {
            Some(reader @ (Reader::Tail(_) | Reader::Consumer(..))) => {
                Ok(reader.next(until).await?.unwrap_or_default())
            }
            _ => Err(unknown(&name)),
        }
    }

    /// Waits, and gives up so many microseconds later.
    pub(crate) async fn next_cancelled(&mut self, mut arguments: Arguments<'_>) -> Answered {
        let name = arguments.bytes()?;
        let until = Instant::now() + Duration::from_micros(arguments.number()?);
        arguments.end()?;
        let reader = self.0.get_mut(&name).ok_or_else(|| unknown(&name))?;
        Ok(reader.next(until).await?.unwrap_or_else(|| Answer::default().text("cancelled")))
    }

    /// Gives an entry its verdict: handled without a reason, failed with one.
    pub(crate) async fn settle(&mut self, failed: bool, mut arguments: Arguments<'_>) -> Answered {
        let name = arguments.bytes()?;
        let entry_id = EntryId::parse(arguments.bytes()?)?;
        let Some(Reader::Consumer(consumer, in_hand)) = self.0.get_mut(&name) else {
            return Err(unknown(&name));
        };
        let reason = if failed { Some(arguments.bytes()?) } else { None };
        arguments.end()?;
        let delivery = in_hand
            .remove(&entry_id)
            .ok_or_else(|| Refusal::Refused(Code::State, format!("{entry_id} is not in hand")))?;
        match reason {
            Some(reason) => delivery.fail(Failure::new(reason)),
            None => delivery.ack(),
        }
        consumer.flush().await?;
        Ok(Answer::default())
    }

    pub(crate) async fn stop(&mut self, mut arguments: Arguments<'_>) -> Answered {
        let name = arguments.bytes()?;
        let within = Duration::from_millis(arguments.number()?);
        arguments.end()?;
        if self.end(&name, within).await { Ok(Answer::default()) } else { Err(unknown(&name)) }
    }

    /// Ends a reader, and answers whether there was one of the name.
    async fn end(&mut self, name: &[u8], within: Duration) -> bool {
        match self.0.remove(name) {
            Some(Reader::Tail(tail)) => tail.close(),
            Some(Reader::Consumer(consumer, in_hand)) => {
                // Nobody can give them a verdict any longer.
                drop(in_hand);
                consumer.stop(within).await;
            }
            Some(Reader::Listener(subscriber)) => subscriber.close(),
            Some(Reader::Watch(_)) => {}
            None => return false,
        }
        true
    }
}

fn unknown(name: &[u8]) -> Refusal {
    Refusal::Refused(Code::Closed, format!("no such reader is named {}", name.escape_ascii()))
}
