//! A job's progress, written into its row and published in one step (`lua/update_progress.lua`).

use super::Channel;
use super::publish::{refused, unknown};
use super::signal::Signal;
use crate::error::{Code, Error, Result};
use crate::id::branded::BrandedId;
use crate::operation::minter::Minter;
use crate::operation::sent::Sent;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use crate::script::{self, Form, UPDATE_PROGRESS};
use redis::Value;

/// Updates a job's progress. Its event is delivered at most once, so it is sent once.
pub(crate) struct UpdateProgress {
    channel: Channel,
    job: BrandedId,
    progress: Vec<u8>,
    form: Form,
    sent: Sent,
}

impl UpdateProgress {
    /// Fails as [`Signal::new`] and [`Signal::with`] do, and with `too_large`.
    pub(crate) fn new(channel: Channel, job: &[u8], progress: &[u8], max_bytes: usize) -> Result<Self> {
        let signal = Signal::new("progress", job)?.with("progress", progress)?;
        signal.checked_payload(max_bytes).map_err(|error| error.about(&*channel))?;
        let job = BrandedId::parse(job)?;
        Ok(Self { channel, job, progress: progress.to_vec(), form: Form::Hash, sent: Sent::default() })
    }

    fn gone(&self) -> Error {
        Error::new(Code::Gone, format!("the job {} has no row; nothing was changed", self.job))
            .about(self.channel.job(self.job))
    }
}

impl Operation for UpdateProgress {
    type Reply = u64;

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        self.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        let mut command = UPDATE_PROGRESS.call(self.form, &[&self.channel.job(self.job)], 3, commands);
        command.arg(&*self.channel).arg(self.job.as_bytes()).arg(&self.progress);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        Step::Done(match replies.into_iter().next().unwrap_or(Value::Nil) {
            Value::ServerError(error) if script::is_unknown(&error) => {
                self.form = Form::Source;
                self.sent.take_back();
                return Step::Again;
            }
            Value::Int(-1) => Err(self.gone()),
            reply => reply::count(reply).map_err(|error| match error.code() {
                Code::WrongType => error.about(self.channel.job(self.job)),
                _ => refused(error, &self.channel),
            }),
        })
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.sent.take_back();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        Step::Done(Err(unknown("the connection broke before the answer came", &self.channel)))
    }

    fn unsent(&mut self) {
        self.sent.take_back();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        let open = self.sent.is_open();
        Err(if open { unknown(why.message(), &self.channel) } else { why.about(&*self.channel) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;

    const A_JOB: &[u8] = b"JOB000xY9Wvvcd";

    fn update(job: &[u8], progress: &[u8]) -> Result<UpdateProgress> {
        UpdateProgress::new(Channel::new(Keyspace::new("q").unwrap()), job, progress, 1_000)
    }

    fn answered(operation: &mut UpdateProgress, reply: &[u8]) -> Step<u64> {
        operation.answered(vec![redis::parse_redis_value(reply).unwrap()])
    }

    #[test]
    fn the_row_is_its_key_and_everything_else_a_value() {
        let mut commands = Packed::default();
        let mut operation = update(A_JOB, b"50").unwrap();
        operation.commands(&mut commands);
        let called = "1 emq:{q}:job:JOB000xY9Wvvcd emq:{q}:events JOB000xY9Wvvcd 50";
        assert_eq!(commands.texts(), [format!("EVALSHA {} {called}", UPDATE_PROGRESS.hash())]);
        assert!(matches!(answered(&mut operation, b"-NOSCRIPT No matching script.\r\n"), Step::Again));
        commands.clear(0);
        operation.commands(&mut commands);
        assert!(commands.texts()[0].starts_with("EVAL --[["));
        assert!(commands.texts()[0].ends_with(called));
        assert!(matches!(answered(&mut operation, b":0\r\n"), Step::Done(Ok(0))));
    }

    #[test]
    fn a_job_without_a_row_is_gone() {
        let Step::Done(Err(error)) = answered(&mut update(A_JOB, b"50").unwrap(), b":-1\r\n") else {
            panic!("the job has no row")
        };
        assert_eq!((error.code(), error.subject()), (Code::Gone, Some("emq:{q}:job:JOB000xY9Wvvcd")));
    }

    #[test]
    fn what_cannot_be_published_is_refused() {
        for (job, progress, code) in [
            (&b"x"[..], &b"50"[..], Code::MalformedId),
            (A_JOB, b"\xff", Code::InvalidOption),
            (A_JOB, &[b'x'; 1_000], Code::TooLarge),
        ] {
            assert_eq!(update(job, progress).err().unwrap().code(), code);
        }
    }
}
