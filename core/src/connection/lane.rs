//! A lane: a connection of one caller's own, for commands that make the server wait.

use super::link::Link;
use super::settings::Settings;
use super::socket::failure;
use crate::error::{Code, Error, Result};
use crate::operation::command::{Command, Reply};
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use redis::Value;
use std::time::{Duration, Instant};
use tokio::time::{timeout, timeout_at};

/// How much longer than it was asked to wait the server may take to answer.
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
    /// Fails with [`Code::UnknownOutcome`] when the connection breaks or the server takes five seconds longer than that,
    /// with [`Code::Closed`] on a lane that is closed, and with the code of what the server answered.
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
        self.run(Command::new(arguments)?, wait).await
    }

    /// Whether it can be used: it is closed by whatever ended a command early.
    pub(crate) fn is_open(&self) -> bool {
        self.link.is_some()
    }

    /// Carries an operation out whose commands make the server wait for at most `wait`. See [`Lane::command`].
    pub(crate) async fn run<O: Operation>(&mut self, mut operation: O, wait: Duration) -> Result<O::Reply> {
        // The link is given back only by an answer, so whatever ends this early closes it.
        let mut link = self.link.take().ok_or_else(lane_closed)?;
        loop {
            let mut commands = Packed::default();
            operation.prepare(&self.settings.minter)?;
            operation.commands(&mut commands);
            match timeout(wait + MARGIN, link.request(&commands)).await {
                Err(_) => {
                    let late = format!("no answer came within {} ms", (wait + MARGIN).as_millis());
                    return operation.abandon(Error::new(Code::Timeout, late));
                }
                Ok(Err(error)) => match operation.lost() {
                    Step::Done(answer) => return answer,
                    Step::Again | Step::Later(_) => return Err(failure(&self.settings.endpoint, &error)),
                },
                Ok(Ok(replies)) => {
                    if let Step::Done(answer) = operation.answered(replies) {
                        self.link = Some(link);
                        return answer;
                    }
                }
            }
        }
    }

    /// Sends commands whose replies are taken by [`Lane::receive`], so that several are on their way at once.
    ///
    /// What the socket does not take at once leaves with the next call.
    pub(crate) async fn send(&mut self, commands: &Packed) -> Result<()> {
        let link = self.link.as_mut().ok_or_else(lane_closed)?;
        link.output().extend(commands);
        if let Err(error) = link.send().await {
            self.link = None;
            return Err(failure(&self.settings.endpoint, &error));
        }
        Ok(())
    }

    /// The reply to the oldest command that was sent and not answered, which the server answers by `deadline`.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn receive(&mut self, deadline: Instant) -> Result<Value> {
        let link = self.link.as_mut().ok_or_else(lane_closed)?;
        while self.received.is_empty() {
            let why = match timeout_at((deadline + MARGIN).into(), link.exchange(&mut self.received)).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => failure(&self.settings.endpoint, &error),
                Err(_) => Error::new(Code::Timeout, "the server did not answer a read in time"),
            };
            self.link = None;
            return Err(why);
        }
        Ok(self.received.remove(0))
    }
}

fn lane_closed() -> Error {
    Error::new(Code::Closed, "the lane is closed")
}
