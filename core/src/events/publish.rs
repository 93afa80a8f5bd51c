//! Publishing one event.

use super::Channel;
use super::signal::Signal;
use crate::error::{Code, Error, Result};
use crate::operation::minter::Minter;
use crate::operation::sent::Sent;
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;

/// `PUBLISH`. An event is delivered at most once, so it is sent once.
pub(crate) struct Publish {
    channel: Channel,
    payload: Vec<u8>,
    sent: Sent,
}

impl Publish {
    /// Fails with `too_large`.
    pub(crate) fn new(channel: Channel, signal: &Signal, max_bytes: usize) -> Result<Self> {
        let payload = signal.checked_payload(max_bytes).map_err(|error| error.about(&*channel))?;
        Ok(Self { channel, payload, sent: Sent::default() })
    }
}

impl Operation for Publish {
    type Reply = u64;

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        self.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        commands.command(3).arg("PUBLISH").arg(&*self.channel).arg(&self.payload);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let reply = replies.into_iter().next().unwrap_or(Value::Nil);
        Step::Done(reply::count(reply).map_err(|error| refused(error, &self.channel)))
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
        Err(if open { unknown(why.message(), &self.channel).because(why) } else { why.about(&*self.channel) })
    }

    fn bytes(&self) -> usize {
        self.payload.len()
    }
}

/// An answer that was lost: sent again, the event could be heard twice.
pub(super) fn unknown(why: &str, channel: &Channel) -> Error {
    Error::new(Code::UnknownOutcome, format!("the event may or may not have been published: {why}"))
        .about(&**channel)
}

/// The server's refusal, which names the channel rule where that is what the user lacks.
///
/// Servers give new users no channel at all (`acl-pubsub-default`, <https://valkey.io/topics/acl/>).
pub(crate) fn refused(error: Error, channel: &str) -> Error {
    if error.code() != Code::Auth || !error.message().to_ascii_lowercase().contains("channel") {
        return error.about(channel);
    }
    let message = format!("{}; the user needs the channel rule `&{channel}`", error.message());
    Error::new(Code::Auth, message).about(channel)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;

    fn publish() -> Publish {
        let channel = Channel::new(Keyspace::new("q").unwrap());
        Publish::new(channel, &Signal::new("completed", "JOB000xY9Wvvcd").unwrap(), 1_000).unwrap()
    }

    fn answered(reply: &[u8]) -> Result<u64> {
        match publish().answered(vec![redis::parse_redis_value(reply).unwrap()]) {
            Step::Done(answer) => answer,
            other => panic!("an event is sent once: {other:?}"),
        }
    }

    #[test]
    fn it_is_one_command_that_answers_how_many_listened() {
        let mut commands = Packed::default();
        publish().commands(&mut commands);
        let expected = r#"PUBLISH emq:{q}:events {"event":"completed","job":"JOB000xY9Wvvcd"}"#;
        assert_eq!(commands.texts(), [expected]);
        assert_eq!(answered(b":3\r\n").unwrap(), 3);
    }

    #[test]
    fn a_missing_channel_rule_is_named() {
        for text in [
            "NOPERM No permissions to access a channel",
            "NOPERM this user has no permissions to access one of the channels used as arguments",
        ] {
            let error = answered(format!("-{text}\r\n").as_bytes()).unwrap_err();
            assert_eq!((error.code(), error.subject()), (Code::Auth, Some("emq:{q}:events")));
            assert!(error.message().contains("`&emq:{q}:events`"), "{error}");
        }
        let error =
            answered(b"-NOPERM User u has no permissions to run the 'publish' command\r\n").unwrap_err();
        assert_eq!(error.code(), Code::Auth);
        assert!(!error.message().contains('&'), "{error}");
    }

    #[test]
    fn an_answer_that_is_lost_leaves_the_outcome_open() {
        let mut operation = publish();
        let why = || Error::new(Code::Timeout, "too late");
        assert_eq!(operation.abandon(why()).unwrap_err().code(), Code::Timeout);
        operation.sent.begin();
        assert_eq!(operation.abandon(why()).unwrap_err().code(), Code::UnknownOutcome);
        match operation.lost() {
            Step::Done(answer) => assert_eq!(answer.unwrap_err().code(), Code::UnknownOutcome),
            other => panic!("an event is sent once: {other:?}"),
        }
    }
}
