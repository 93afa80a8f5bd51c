//! Records as they are answered.

use crate::answer::Answer;
use echomq::Record;

/// One group a record: branded id, entry id, names and values.
pub(crate) fn answer_records(records: Vec<Record>) -> Answer {
    Answer::groups(records.into_iter().map(|record| {
        let id = record.id().map(String::from).unwrap_or_default();
        let answer = Answer::default().text(id).text(record.entry_id());
        record.fields().iter().fold(answer, |answer, (name, value)| answer.value(name).value(value))
    }))
}
