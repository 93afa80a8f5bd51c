//! A record appended, and then published: the light signal has the id by which a listener fetches what it missed.

use super::Channel;
use super::publish::Publish;
use super::signal::Signal;
use crate::error::{Error, Result};
use crate::id::branded::EventId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use redis::Value;

/// A record that was appended, and what became of its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The record's branded id. It is in the stream, whatever became of the event.
    pub id: EventId,
    /// How many listened, or why the event was not published.
    pub published: Result<u64>,
}

/// Appends by another operation, and publishes when the record is there.
pub(crate) struct Announce<A> {
    append: A,
    channel: Channel,
    stream: String,
    signal: Signal,
    max_bytes: usize,
    publish: Option<(EventId, Publish)>,
}

impl<A: Operation<Reply = EventId>> Announce<A> {
    /// Fails with `reserved_field` where a member of the event has a name that says where the record is, and with `too_large`.
    pub(crate) fn new(
        append: A,
        channel: Channel,
        stream: &str,
        signal: Signal,
        max_bytes: usize,
    ) -> Result<Self> {
        signal.check_record_members()?;
        // Every id has the same length, so what fits with one fits with any.
        Publish::new(channel.clone(), &signal.of_record(stream, "EVT00000000000"), max_bytes)?;
        Ok(Self { append, channel, stream: stream.to_owned(), signal, max_bytes, publish: None })
    }

    fn then_publish(&mut self, appended: Result<EventId>) -> Step<Announced> {
        let id = match appended {
            Ok(id) => id,
            Err(error) => return Step::Done(Err(error)),
        };
        let signal = self.signal.of_record(&self.stream, id.as_str());
        match Publish::new(self.channel.clone(), &signal, self.max_bytes) {
            Ok(publish) => {
                self.publish = Some((id, publish));
                Step::Again
            }
            Err(error) => Step::Done(Ok(Announced { id, published: Err(error) })),
        }
    }

    fn published(id: EventId, step: Step<u64>) -> Step<Announced> {
        step.then(|published| Step::Done(Ok(Announced { id, published })))
    }
}

impl<A: Operation<Reply = EventId>> Operation for Announce<A> {
    type Reply = Announced;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        match &mut self.publish {
            None => self.append.prepare(minter),
            Some((_, publish)) => publish.prepare(minter),
        }
    }

    fn mints(&self) -> bool {
        self.publish.is_none() && self.append.mints()
    }

    fn commands(&self, commands: &mut Packed) {
        match &self.publish {
            None => self.append.commands(commands),
            Some((_, publish)) => publish.commands(commands),
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        match &mut self.publish {
            None => self.append.answered(replies).then(|appended| self.then_publish(appended)),
            Some((id, publish)) => Self::published(*id, publish.answered(replies)),
        }
    }

    fn unavailable(&mut self, replies: Vec<Value>, why: Error) -> Step<Self::Reply> {
        match &mut self.publish {
            None => self.append.unavailable(replies, why).then(|appended| self.then_publish(appended)),
            Some((id, publish)) => Self::published(*id, publish.unavailable(replies, why)),
        }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        match &mut self.publish {
            None => self.append.lost().then(|appended| self.then_publish(appended)),
            Some((id, publish)) => Self::published(*id, publish.lost()),
        }
    }

    fn finds_out(&self) -> bool {
        self.publish.is_none() && self.append.finds_out()
    }

    fn unsent(&mut self) {
        match &mut self.publish {
            None => self.append.unsent(),
            Some((_, publish)) => publish.unsent(),
        }
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        match &mut self.publish {
            None => {
                let id = self.append.abandon(why.clone())?;
                Ok(Announced { id, published: Err(why) })
            }
            Some((id, publish)) => Ok(Announced { id: *id, published: publish.abandon(why) }),
        }
    }

    fn weight(&self) -> usize {
        self.append.weight()
    }

    fn bytes(&self) -> usize {
        self.append.bytes()
    }
}
