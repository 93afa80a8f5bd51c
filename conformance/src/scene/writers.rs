//! Several parts that write one stream, in turns or all at once.

use super::stage::Stop;
use crate::driver::Driver;
use crate::observation;
use crate::protocol::{Reply, Token, shorten};
use crate::snowflake;
use echomq_tests::Plain;
use std::collections::HashMap;
use std::thread;

/// The stream that they write.
const STREAM: &str = "emq:{q}:stream:s";

/// How many records a batch has.
const BATCH: usize = 3;

/// The job of the events that are published along.
const JOB: &str = "JOB000xY9Wvvcd";

/// One who writes: its name, which is its handle too, and its process.
pub(super) struct Writer<'a> {
    pub(super) name: &'a str,
    pub(super) driver: &'a mut Driver,
}

/// A record that was answered as written: its id and its fields.
type Written = (Token, Vec<Token>);

/// Has each append so many times a record, a batch, and a record with an event, and looks whether all is there, under ids that
/// are unique and rise.
pub(super) fn write(
    plain: &mut Plain,
    mut writers: Vec<Writer<'_>>,
    times: u64,
    turns: bool,
) -> Result<(), Stop> {
    let all: Vec<Vec<Written>> = if turns {
        let mut all: Vec<Vec<Written>> = writers.iter().map(|_| Vec::new()).collect();
        for number in 0..times {
            for (writer, written) in writers.iter_mut().zip(&mut all) {
                written.extend(writer.round(number)?);
            }
        }
        all
    } else {
        let rounds = |mut writer: Writer<'_>| -> Result<Vec<Written>, Stop> {
            let mut written = Vec::new();
            for number in 0..times {
                written.extend(writer.round(number)?);
            }
            Ok(written)
        };
        thread::scope(|scope| {
            let running: Vec<_> =
                writers.into_iter().map(|writer| scope.spawn(move || rounds(writer))).collect();
            let joined = running.into_iter().map(|writer| writer.join());
            let each = joined.map(|writer| writer.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            each.collect::<Result<Vec<Vec<Written>>, Stop>>()
        })?
    };
    let stream = plain.try_command(["XRANGE", STREAM, "-", "+"]).map_err(|error| error.to_string())?;
    judge(&all, &observation::entries(stream)?).map_err(Stop::Fault)
}

impl Writer<'_> {
    fn round(&mut self, number: u64) -> Result<Vec<Written>, Stop> {
        let fields =
            |what: &str| ["by", self.name, "n", &format!("{what} {number}")].map(Token::text).to_vec();
        let (single, announced) = (fields("single"), fields("announced"));
        let batch: Vec<Vec<Token>> = (0..BATCH).map(|at| fields(&format!("batch {at}"))).collect();

        let mut written = Vec::new();
        match self.ask("append", &["q", "s"], std::slice::from_ref(&single))?.as_slice() {
            [id] => written.push((id.clone(), single)),
            other => return Err(Stop::Fault(format!("append in {} answers {other:?}", self.name))),
        }
        let answer = self.ask("append_batch", &["q", "s"], &batch)?;
        let answers: Vec<&[Token]> = answer.split(|token| *token == Token::Bar).collect();
        for (record, answer) in batch.iter().zip(&answers) {
            match answer {
                [word, id] if *word == Token::text("ok") => written.push((id.clone(), record.clone())),
                other => return Err(Stop::Fault(format!("append_batch in {} answers {other:?}", self.name))),
            }
        }
        if answers.len() != BATCH {
            return Err(Stop::Fault(format!("append_batch in {} answers {answers:?}", self.name)));
        }
        let words = ["q", "s", "noted", JOB];
        match self.ask("append_and_publish", &words, std::slice::from_ref(&announced))?.as_slice() {
            [id] => written.push((id.clone(), announced)),
            other => {
                return Err(Stop::Fault(format!("append_and_publish in {} answers {other:?}", self.name)));
            }
        }
        Ok(written)
    }

    fn ask(&mut self, op: &str, words: &[&str], records: &[Vec<Token>]) -> Result<Vec<Token>, Stop> {
        let mut arguments: Vec<Token> = [self.name].iter().chain(words).map(Token::text).collect();
        for (at, record) in records.iter().enumerate() {
            if at > 0 {
                arguments.push(Token::Bar);
            }
            arguments.extend_from_slice(record);
        }
        match self.driver.ask(op, &arguments)? {
            Reply::Ok(values) => Ok(values),
            Reply::Unsupported => Err(Stop::Gap(op.to_owned())),
            Reply::Err { code, text } => {
                Err(Stop::Fault(format!("{op} in {} is refused with {code}: {}", self.name, shorten(&text))))
            }
        }
    }
}

/// Compares what each writer was answered with what the stream holds.
fn judge(writers: &[Vec<Written>], stream: &[Vec<Token>]) -> Result<(), String> {
    let mut missing = HashMap::new();
    for written in writers {
        let mut last = None;
        for (id, fields) in written {
            let Token::Value(bytes) = id else { return Err(format!("{id:?} is no id")) };
            let number = snowflake::snowflake(bytes).ok_or_else(|| format!("{id:?} is no id"))?;
            if last >= Some(number) {
                return Err(format!("{id:?} is answered behind a higher id"));
            }
            last = Some(number);
            if missing.insert(number, (id, fields)).is_some() {
                return Err(format!("{id:?} is answered twice"));
            }
        }
    }
    for entry in stream {
        let [place, name, id, fields @ ..] = entry.as_slice() else {
            return Err(format!("{entry:?} is no record"));
        };
        let number = snowflake::from_entry(&place.encode());
        match number.and_then(|number| missing.remove(&number)) {
            Some((expected, record)) if *name == Token::text("id") && id == expected && fields == record => {}
            Some((expected, record)) => {
                return Err(format!("{expected:?} was {record:?}, and the stream holds {entry:?}"));
            }
            None => return Err(format!("nobody was told of {entry:?}, which the stream holds")),
        }
    }
    match missing.into_values().next() {
        None => Ok(()),
        Some((id, fields)) => Err(format!("{id:?} {fields:?} was answered as written, and is not there")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: u64, value: &str) -> Written {
        (Token::text(snowflake::branded(number)), vec![Token::text("n"), Token::text(value)])
    }

    fn entry(number: u64, value: &str) -> Vec<Token> {
        let (entry, id) = (snowflake::entry(number), snowflake::branded(number));
        [entry.as_str(), "id", &id, "n", value].map(Token::text).to_vec()
    }

    #[test]
    fn what_is_missing_doubled_or_another_is_seen() {
        let stream = [entry(1, "a"), entry(2, "b"), entry(3, "c")];
        judge(&[vec![written(1, "a"), written(3, "c")], vec![written(2, "b")]], &stream).unwrap();
        for (writers, saying) in [
            (vec![vec![written(1, "a")], vec![written(2, "b")]], "nobody was told of"),
            (vec![vec![written(3, "c"), written(1, "a")], vec![written(2, "b")]], "behind a higher id"),
            (vec![vec![written(1, "a"), written(2, "b")], vec![written(2, "b")]], "answered twice"),
            (vec![vec![written(1, "a"), written(2, "x"), written(3, "c")]], "the stream holds"),
            (
                vec![(1..=4).map(|n| written(n, ["a", "b", "c", "d"][n as usize - 1])).collect()],
                "is not there",
            ),
        ] {
            let fault = judge(&writers, &stream).unwrap_err();
            assert!(fault.contains(saying), "{saying}: {fault}");
        }
    }
}
