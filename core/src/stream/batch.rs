//! Many records in one pipeline, one result for each (`docs/protocol.md` §4).

use super::Key;
use super::append::Appending;
use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::{Fields, reply};
use redis::Value;

/// Appends many records, each for itself.
pub(crate) struct AppendBatch {
    key: Key,
    records: Vec<Slot>,
}

enum Slot {
    Open(Appending),
    Done(Result<EventId>),
}

impl AppendBatch {
    /// What was refused before the wire keeps its place and its error.
    pub(crate) fn new(key: Key, records: Vec<Result<Fields>>) -> Self {
        let records = records.into_iter().map(|record| match record {
            Ok(fields) => Slot::Open(Appending::new(None, fields)),
            Err(error) => Slot::Done(Err(error.about(&*key))),
        });
        Self { records: records.collect(), key }
    }

    /// Whether nothing is left to send.
    pub(crate) fn is_done(&self) -> bool {
        self.records.iter().all(|slot| matches!(slot, Slot::Done(_)))
    }

    /// The results as they stand, for a batch of which nothing is to be sent.
    pub(crate) fn into_results(self) -> Vec<Result<EventId>> {
        let done = self.records.into_iter().filter_map(|slot| match slot {
            Slot::Done(result) => Some(result),
            Slot::Open(_) => None,
        });
        done.collect()
    }

    /// How many records have their result.
    #[cfg(test)]
    pub(crate) fn ended(&self) -> usize {
        self.records.iter().filter(|slot| matches!(slot, Slot::Done(_))).count()
    }

    fn open(&mut self) -> impl Iterator<Item = &mut Appending> {
        self.records.iter_mut().filter_map(|slot| match slot {
            Slot::Open(record) => Some(record),
            Slot::Done(_) => None,
        })
    }

    /// Reads the answers to the records that are open, as many as came. One that the server could not serve stays open; of the
    /// others the answers are lost.
    fn read(&mut self, replies: Vec<Value>) {
        let mut replies = replies.into_iter();
        for slot in &mut self.records {
            if let Slot::Open(record) = slot {
                match replies.next() {
                    None => record.lost(),
                    Some(reply) if reply::unavailable(&reply).is_some() => record.unavailable(),
                    Some(reply) => {
                        if let Step::Done(result) = record.answered(&self.key, reply) {
                            *slot = Slot::Done(result);
                        }
                    }
                }
            }
        }
    }

    fn take_results(&mut self) -> Vec<Result<EventId>> {
        Self { key: self.key.clone(), records: std::mem::take(&mut self.records) }.into_results()
    }
}

impl Operation for AppendBatch {
    type Reply = Vec<Result<EventId>>;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        let is_sent = |slot: &Slot| matches!(slot, Slot::Open(record) if record.is_sent());
        let sent: Vec<bool> = self.records.iter().map(is_sent).collect();
        let first_time = !sent.contains(&true);
        let mut waits = None;
        for slot in &mut self.records {
            if let Slot::Open(record) = slot
                && let Err(error) = record.prepare(&self.key, minter)
            {
                // Without a node the batch waits as a whole, and the server is asked for its time before anything is refused for
                // it.
                if error.code() == Code::NodeLeaseLost || first_time && error.code() == Code::ClockAhead {
                    waits = Some(error);
                    break;
                }
                *slot = Slot::Done(Err(error.about(&*self.key)));
            }
        }
        if let Some(error) = waits {
            for (slot, sent) in self.records.iter_mut().zip(sent) {
                if let Slot::Open(record) = slot
                    && !sent
                {
                    record.forget();
                }
            }
            return Err(error);
        }
        // A batch of which nothing is left would send nothing and wait for ever.
        match self.records.iter().find_map(|slot| match slot {
            Slot::Done(Err(error)) => Some(error.clone()),
            _ => None,
        }) {
            Some(error) if self.is_done() => Err(error),
            _ => Ok(()),
        }
    }

    fn mints(&self) -> bool {
        self.records.iter().any(|slot| matches!(slot, Slot::Open(record) if record.mints()))
    }

    fn commands(&self, commands: &mut Packed) {
        for slot in &self.records {
            if let Slot::Open(record) = slot {
                record.command(&self.key, commands);
            }
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        self.read(replies);
        if self.is_done() { Step::Done(Ok(self.take_results())) } else { Step::Again }
    }

    fn unavailable(&mut self, replies: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.read(replies);
        if self.is_done() { Step::Done(Ok(self.take_results())) } else { Step::Later(why) }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        for slot in &mut self.records {
            if let Slot::Open(record) = slot {
                record.lost();
            }
        }
        Step::Again
    }

    fn cut(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        self.read(replies);
        // What was asked after and is not there is asked after again: nothing is appended before all that was lost was found.
        if self.is_done() { Step::Done(Ok(self.take_results())) } else { self.lost() }
    }

    fn unsent(&mut self) {
        self.open().for_each(Appending::unsent);
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        for slot in &mut self.records {
            if let Slot::Open(record) = slot {
                *slot = Slot::Done(Err(record.abandon(&self.key, why.clone())));
            }
        }
        Ok(self.take_results())
    }

    fn finds_out(&self) -> bool {
        self.records.iter().any(|slot| matches!(slot, Slot::Open(record) if record.finds_out()))
    }

    fn weight(&self) -> usize {
        self.records.len()
    }

    fn bytes(&self) -> usize {
        let size = |slot: &Slot| if let Slot::Open(record) = slot { record.size() } else { 0 };
        self.records.iter().map(size).sum()
    }
}
