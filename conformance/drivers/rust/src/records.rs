//! Records as they are answered.

use crate::answer::Answer;
use echomq::Record;

/// One group a record: branded id, entry id, names and values.
pub(crate) fn answer_records(records: Vec<Record>) -> Answer {
    Answer::groups(records.iter().map(|record| answer_record(record, None)))
}

/// Branded id, entry id, how often it was delivered where that is asked for, names and values.
pub(crate) fn answer_record(record: &Record, attempts: Option<u64>) -> Answer {
    let id = record.id().map(String::from).unwrap_or_default();
    let mut answer = Answer::default().text(id).text(record.entry_id());
    if let Some(attempts) = attempts {
        answer = answer.text(attempts);
    }
    record.fields().iter().fold(answer, |answer, (name, value)| answer.value(name).value(value))
}
