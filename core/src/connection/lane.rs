//! A lane: a connection of one caller's own, for commands that make the server wait.

use super::door::demoted;
use super::link::Link;
use super::progress::{Progress, Verdict};
use super::settings::Settings;
use super::socket::failure;
use crate::error::{Code, Error, Result};
use crate::operation::command::{Command, Reply};
use crate::operation::{Operation, Step, with_cause};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;
use std::io;
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// How long the server may be silent beyond the time that it was asked to wait.
const MARGIN: Duration = Duration::from_secs(5);

/// A connection for one caller, on which a blocking command holds up nobody else.
///
/// A lane does not connect again by itself: after an error of code [`Code::UnknownOutcome`] it is closed, and its owner
/// opens another.
///
/// ```no_run
/// # async fn example(client: echomq::Client) -> echomq::Result<()> {
/// use std::time::Duration;
///
/// let mut lane = client.lane().await?;
/// let popped = lane.command(["BLPOP", "jobs", "2"], Duration::from_secs(2)).await?;
/// # Ok(())
/// # }
/// ```
pub struct Lane {
    settings: Settings,
    link: Option<Link>,
    /// Replies to what was sent by [`Lane::send`] that nobody has taken yet.
    received: Vec<Value>,
}

impl Lane {
    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        let link = Link::open(&settings).await?;
        Ok(Self { settings, link: Some(link), received: Vec::new() })
    }

    /// Sends one command that makes the server wait for at most `wait`, and gives its reply.
    ///
    /// Fails with [`Code::UnknownOutcome`] when the connection breaks or the server is silent for five seconds longer than that;
    /// an answer that has begun may take as long as it arrives. Fails with [`Code::Closed`] on a lane that is closed, with
    /// [`Code::InvalidOption`] for a command that has not one answer, such as `SUBSCRIBE`, and with the code of what the server
    /// answered, [`Code::Unavailable`] among them.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the lane, so that a reply which comes later can not be taken for another's; the
    /// command may have been carried out.
    pub async fn command<A: AsRef<[u8]>>(
        &mut self,
        arguments: impl IntoIterator<Item = A>,
        wait: Duration,
    ) -> Result<Reply> {
        self.run(Command::for_lane(arguments)?, wait).await
    }

    /// Whether it can be used: it is closed by whatever ended a command early, and where the client has learnt that its server
    /// is no primary any more.
    pub(crate) fn is_open(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.opened().is_current())
    }

    /// Carries an operation out whose commands make the server wait for at most `wait`. See [`Lane::command`].
    pub(crate) async fn run<O: Operation>(&mut self, mut operation: O, wait: Duration) -> Result<O::Reply> {
        // The link is given back only by an answer, so whatever ends this early closes it.
        let mut link = self.link.take().ok_or_else(lane_closed)?;
        if !link.opened().is_current() {
            return Err(demoted(&self.settings));
        }
        loop {
            let commands = link.output();
            commands.begin_pipeline();
            let before = commands.count();
            operation.prepare(&self.settings.minter)?;
            operation.commands(commands);
            let expected = commands.count() - before;
            let mut progress = Progress::new(MARGIN, Instant::now());
            progress.asked(Instant::now(), wait);
            let mut replies = Vec::with_capacity(expected);
            while replies.len() < expected {
                match heard(&mut link, &mut progress, &mut replies).await {
                    Ok(()) => {}
                    Err(Silent::TooLong(late)) => {
                        return with_cause(operation.abandon(late.clone()), &late);
                    }
                    Err(Silent::Broken(error)) => {
                        let error = failure(&self.settings.endpoint, &error);
                        return match operation.cut(replies) {
                            Step::Done(answer) => with_cause(answer, &error),
                            Step::Again | Step::Later(_) | Step::Wait(_) => Err(error),
                        };
                    }
                }
            }
            let demoted = replies.iter().any(reply::is_demoted);
            let step = match replies.iter().find_map(reply::unavailable) {
                Some(why) => operation.unavailable(replies, why),
                None => operation.answered(replies),
            };
            let answer = match step {
                Step::Done(answer) => answer,
                Step::Later(why) | Step::Wait(why) => Err(why),
                Step::Again => continue,
            };
            if demoted {
                link.opened().demoted();
            } else {
                self.link = Some(link);
            }
            return answer;
        }
    }

    /// The number by which another connection can end a blocked read of this one, where the server said it.
    pub(crate) fn number(&self) -> Option<u64> {
        self.link.as_ref()?.number()
    }

    /// Sends commands whose replies are taken by [`Lane::receive`], so that several are on their way at once.
    ///
    /// What the socket does not take at once leaves with the next call.
    pub(crate) async fn send(&mut self, commands: &Packed) -> Result<()> {
        let link = self.link.as_mut().ok_or_else(lane_closed)?;
        if !link.opened().is_current() {
            self.link = None;
            return Err(demoted(&self.settings));
        }
        link.output().extend(commands);
        // What the socket refuses is told by the next `receive`, behind the replies that came.
        link.send().await;
        Ok(())
    }

    /// The reply to the oldest command that was sent and not answered, which the server answers by `deadline`.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn receive(&mut self, deadline: Instant) -> Result<Value> {
        let link = self.link.as_mut().ok_or_else(lane_closed)?;
        let mut progress = Progress::new(MARGIN, deadline);
        while self.received.is_empty() {
            let why = match heard(link, &mut progress, &mut self.received).await {
                Ok(()) => continue,
                Err(Silent::Broken(error)) => failure(&self.settings.endpoint, &error),
                Err(Silent::TooLong(late)) => late,
            };
            self.link = None;
            return Err(why);
        }
        let reply = self.received.remove(0);
        if reply::is_demoted(&reply) {
            link.opened().demoted();
        }
        Ok(reply)
    }

    /// Waits until the connection is gone while nothing is asked on it, and answers why.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn lost(&mut self) -> Error {
        let Some(link) = self.link.as_mut() else { return lane_closed() };
        loop {
            if let Err(error) = link.exchange(&mut self.received).await {
                self.link = None;
                return failure(&self.settings.endpoint, &error);
            }
        }
    }
}

/// Why there are no further replies.
enum Silent {
    TooLong(Error),
    Broken(io::Error),
}

/// Waits for further replies, for as long as the server shows that it lives.
async fn heard(link: &mut Link, progress: &mut Progress, replies: &mut Vec<Value>) -> Result<(), Silent> {
    loop {
        match timeout_at(progress.give_up_at().into(), link.exchange(replies)).await {
            Ok(exchanged) => return exchanged.map_err(Silent::Broken),
            Err(_) => progress.sign_of_life(link.heard()),
        }
        if let Verdict::GiveUp(silence) = progress.verdict(Instant::now()) {
            let late =
                format!("the server was silent for {} ms when its answer was due", silence.as_millis());
            return Err(Silent::TooLong(Error::new(Code::Timeout, late)));
        }
    }
}

fn lane_closed() -> Error {
    Error::new(Code::Closed, "the lane is closed")
}
