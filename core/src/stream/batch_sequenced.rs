//! Many records of a stream with several writers, one result for each (`docs/protocol.md` §4).

use super::Key;
use super::append_sequenced::AppendSequenced;
use super::batch_atomic::check_fields;
use crate::error::{Error, Result};
use crate::id::branded::EventId;
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::record::Fields;
use crate::record::packed::Packed;
use redis::Value;
use std::time::Duration;

/// Appends in one step what can be appended.
pub(crate) struct AppendBatchSequenced {
    /// What was refused before the wire, each in its place; nothing for those that are sent.
    refused: Vec<Option<Error>>,
    append: AppendSequenced<Vec<EventId>>,
}

impl AppendBatchSequenced {
    /// What was refused before the wire keeps its place and its error.
    pub(crate) fn new(key: Key, records: Vec<Result<Fields>>, timeout: Duration) -> Self {
        let (mut refused, mut sent) = (Vec::with_capacity(records.len()), Vec::with_capacity(records.len()));
        for record in records {
            match record.and_then(|fields| check_fields(&fields).map(|()| fields)) {
                Ok(fields) => {
                    sent.push(fields);
                    refused.push(None);
                }
                Err(error) => refused.push(Some(error.about(&*key))),
            }
        }
        Self { refused, append: AppendSequenced::of_checked(key, sent, timeout) }
    }

    /// Whether nothing is to be sent.
    pub(crate) fn is_done(&self) -> bool {
        self.append.weight() == 0
    }

    /// The results of a batch of which nothing is to be sent.
    pub(crate) fn into_results(mut self) -> Vec<Result<EventId>> {
        self.results(Ok(Vec::new()))
    }

    /// One result for each record: the refusals, and between them the ids of the others or what happened to all of those.
    fn results(&mut self, appended: Result<Vec<EventId>>) -> Vec<Result<EventId>> {
        let (ids, failure) = match appended {
            Ok(ids) => (ids, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let mut ids = ids.into_iter();
        let result = |refused: Option<Error>| match (refused, &failure) {
            (Some(error), _) => Some(Err(error)),
            (None, Some(error)) => Some(Err(error.clone())),
            (None, None) => ids.next().map(Ok),
        };
        std::mem::take(&mut self.refused).into_iter().filter_map(result).collect()
    }

    fn each(&mut self, step: Step<Vec<EventId>>) -> Step<Vec<Result<EventId>>> {
        step.then(|appended| Step::Done(Ok(self.results(appended))))
    }
}

impl Operation for AppendBatchSequenced {
    type Reply = Vec<Result<EventId>>;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        self.append.prepare(minter)
    }

    fn mints(&self) -> bool {
        self.append.mints()
    }

    fn commands(&self, commands: &mut Packed) {
        self.append.commands(commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let step = self.append.answered(replies);
        self.each(step)
    }

    fn unavailable(&mut self, replies: Vec<Value>, why: Error) -> Step<Self::Reply> {
        let step = self.append.unavailable(replies, why);
        self.each(step)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        let step = self.append.lost();
        self.each(step)
    }

    fn unsent(&mut self) {
        self.append.unsent();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        let given_up = self.append.abandon(why);
        Ok(self.results(given_up))
    }

    fn finds_out(&self) -> bool {
        self.append.finds_out()
    }

    fn weight(&self) -> usize {
        self.append.weight()
    }

    fn bytes(&self) -> usize {
        self.append.bytes()
    }
}
