//! The consumer groups of a stream: making, looking, moving, removing.

use super::stream::Stream;
use crate::connection::door::Door;
#[cfg(doc)]
use crate::error::Code;
use crate::group::admin::consumers::{RemoveConsumer, SweepConsumers};
use crate::group::admin::existence::{CreateGroup, RemoveGroup};
use crate::group::admin::info::GroupInfo;
use crate::group::admin::look::{LookAtGroup, LookAtGroups};
use crate::group::admin::seek::Seek;
use crate::keyspace::{consumer_name, group_name};
use crate::stream::start::Start;
use std::time::Duration;

/// The administration of consumer groups (`docs/protocol.md` §6).
///
/// Names of groups and consumers are 1 to 128 bytes of `A-Z a-z 0-9 . _ -` and not `STREAMS` in any case: a call with
/// another name fails with [`Code::InvalidName`], and nothing is sent.
///
/// # Cancel safety
///
/// Dropping the answer of a call that changes something does not take the change back.
impl<D: Door> Stream<D> {
    /// Makes a consumer group, and the stream where it is missing. Answers whether this call made the group.
    ///
    /// A group that is there stays as it is, wherever it stands; [`Stream::seek`] moves it. Fails with
    /// [`Code::UnknownOutcome`] when the answer was lost: the group may be there by this call or by another's. Making it
    /// again does no harm.
    ///
    /// ```no_run
    /// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
    /// use echomq::Start;
    ///
    /// assert!(events.create_group("mailer", Start::Head).await?);
    /// assert!(!events.create_group("mailer", Start::New).await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_group(&self, group: &str, start: Start) -> D::Answer<bool> {
        self.door.run(group_name(group).map(|group| CreateGroup::new(self.key.clone(), group, start)))
    }

    /// All consumer groups with their consumers, in the server's order, as they were at one instant.
    ///
    /// A stream that is not there has none.
    ///
    /// ```no_run
    /// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
    /// let waiting: u64 = events.groups().await?.iter().map(|group| group.pending()).sum();
    /// # Ok(())
    /// # }
    /// ```
    pub fn groups(&self) -> D::Answer<Vec<GroupInfo>> {
        self.door.run(Ok(LookAtGroups::new(self.key.clone())))
    }

    /// One consumer group with its consumers, as it was at one instant.
    ///
    /// Fails with [`Code::NoGroup`] when the group or the stream is not there.
    ///
    /// ```no_run
    /// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
    /// let mailer = events.group("mailer").await?;
    /// println!("{} in hand, {:?} ahead", mailer.pending(), mailer.lag());
    /// # Ok(())
    /// # }
    /// ```
    pub fn group(&self, group: &str) -> D::Answer<GroupInfo> {
        self.door.run(group_name(group).map(|group| LookAtGroup::new(self.key.clone(), group)))
    }

    /// Moves a consumer group: what is delivered next is the first record of `start`.
    ///
    /// What is pending stays pending. Records that the group moves back over are delivered again, those it moves on over
    /// are not delivered to it. With [`Start::New`] no record that is appended after the call is passed over.
    ///
    /// Fails with [`Code::NoGroup`] when the group or the stream is not there, and with [`Code::UnknownOutcome`] when no
    /// answer came in time: the group may have been moved, and moving it again does no harm.
    ///
    /// ```no_run
    /// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
    /// use echomq::{Start, Timestamp};
    ///
    /// events.seek("mailer", Start::At(Timestamp::from_millis(1_780_444_800_000))).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn seek(&self, group: &str, start: Start) -> D::Answer<()> {
        self.door.run(group_name(group).map(|group| Seek::new(self.key.clone(), group, start)))
    }

    /// Removes a consumer for which nothing is pending; looking and removing are one step of the server's.
    ///
    /// A consumer that reads on is made again by the server, and has lost nothing.
    ///
    /// Fails with [`Code::State`], naming how many, when entries are pending for it, [`Code::Gone`] when the group has no
    /// such consumer, and [`Code::NoGroup`] when the group or the stream is not there. Fails with
    /// [`Code::UnknownOutcome`] when the answer was lost and the consumer is gone, or none came in time; asking again does
    /// no harm.
    ///
    /// ```no_run
    /// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
    /// match events.remove_consumer("mailer", "host-7").await {
    ///     Err(error) if error.code() == echomq::Code::State => println!("{error}"),
    ///     removed => removed?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_consumer(&self, group: &str, consumer: &str) -> D::Answer<()> {
        let names = group_name(group).and_then(|group| Ok((group, consumer_name(consumer)?)));
        self.door.run(names.map(|(group, consumer)| RemoveConsumer::new(self.key.clone(), group, consumer)))
    }

    /// Removes all consumers of a group for which nothing is pending and that last asked longer than `idle` ago, and
    /// answers their names. Looking and removing are one step of the server's.
    ///
    /// Times are compared in whole milliseconds of the server's clock. Servers before 7.2 do not count an attempt that
    /// found nothing, so that a consumer may go that asks in vain; it loses nothing, since the server makes it again with
    /// the next record that it receives.
    ///
    /// Fails with [`Code::NoGroup`] when the group or the stream is not there, and with [`Code::UnknownOutcome`] when the
    /// answer was lost, since a second one would name others; asking again does no harm.
    ///
    /// ```no_run
    /// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
    /// use std::time::Duration;
    ///
    /// for consumer in events.sweep_consumers("mailer", Duration::from_secs(3_600)).await? {
    ///     println!("{consumer} was removed");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn sweep_consumers(&self, group: &str, idle: Duration) -> D::Answer<Vec<String>> {
        self.door.run(group_name(group).map(|group| SweepConsumers::new(self.key.clone(), group, idle)))
    }

    /// Removes a consumer group with all that is pending in it. Answers whether the group was there.
    ///
    /// The records stay. Fails with [`Code::UnknownOutcome`] when the answer was lost: the group may have been removed by
    /// this call or by another's.
    ///
    /// ```no_run
    /// # async fn example(events: echomq::Stream) -> echomq::Result<()> {
    /// assert!(events.remove_group("mailer").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_group(&self, group: &str) -> D::Answer<bool> {
        self.door.run(group_name(group).map(|group| RemoveGroup::new(self.key.clone(), group)))
    }
}
