//! What drives a tail: it reads ahead on a lane, and opens another when that breaks.

use super::edge::Place;
use super::read::ReadAfter;
use super::{Ahead, Inner, Tailed};
use crate::connection::backoff::Backoff;
use crate::connection::door::{Door, closed};
use crate::connection::lane::Lane;
use crate::connection::shared::Attendance;
use crate::error::{Code, Error, Result};
use crate::id::entry_id::EntryId;
use crate::record::Record;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// How long the server waits for an entry before it is asked again.
const BLOCK: Duration = Duration::from_secs(1);

/// Follows a stream until its tail is closed.
pub(super) struct Follower {
    inner: Arc<Inner>,
    attendance: Attendance,
    lane: Option<Lane>,
    place: Place,
}

impl Follower {
    pub(super) fn new(inner: Arc<Inner>, attendance: Attendance, lane: Lane, place: Place) -> Self {
        Self { inner, attendance, lane: Some(lane), place }
    }

    pub(super) async fn run(mut self) {
        let inner = self.inner.clone();
        let closing = std::mem::replace(&mut self.attendance, inner.door.attend());
        let end = tokio::select! {
            biased;
            () = inner.monitor.until(|ahead| ahead.ended.then_some(())) => None,
            error = client_closes(closing) => Some(error),
            error = self.follow() => Some(error),
        };
        inner.monitor.change(|ahead| ahead.end(end));
    }

    /// Reads until there is no way on.
    async fn follow(&mut self) -> Error {
        let settings = self.inner.door.settings().clone();
        let new_backoff = || Backoff::new(settings.reconnect_min, settings.reconnect_max);
        let mut backoff = new_backoff();
        loop {
            match self.turn().await {
                Ok(()) => backoff = new_backoff(),
                Err(error) if matches!(error.code(), Code::WrongType | Code::VersionFence | Code::Closed) => {
                    return error;
                }
                Err(_) => sleep(backoff.wait()).await,
            }
        }
    }

    async fn turn(&mut self) -> Result<()> {
        let count = self.inner.monitor.until(|ahead| ahead.room()).await;
        let lane = match &mut self.lane {
            Some(open) if open.is_open() => open,
            closed => {
                *closed = None;
                closed.insert(Lane::open(self.inner.door.settings().clone()).await?)
            }
        };
        let read = ReadAfter { key: self.inner.key.clone(), after: self.place.after(), count, block: BLOCK };
        let (records, edge) = lane.run(read, BLOCK).await.inspect_err(|error| {
            if matches!(error.code(), Code::Disconnected | Code::Timeout) {
                self.inner.monitor.with(|ahead| ahead.size.cut(count));
            }
        })?;
        let read: Vec<EntryId> = records.iter().map(Record::entry_id).collect();
        let gap = self.place.advance(&read, &edge);
        if gap.is_some() || !records.is_empty() {
            // How the stream stands was read with it, and two entries are in that.
            let bytes = edge.size() + records.iter().map(Record::size).sum::<usize>();
            self.inner.monitor.change(|ahead: &mut Ahead| {
                ahead.size.came(records.len(), bytes);
                ahead.put(gap.map(Tailed::Gap));
                ahead.put(records.into_iter().map(Tailed::Record));
            });
        }
        Ok(())
    }
}

async fn client_closes(mut attendance: Attendance) -> Error {
    attendance.closing().await;
    closed()
}

/// Whatever ends the follower, the end of its runtime included, nobody waits for it any longer.
impl Drop for Follower {
    fn drop(&mut self) {
        if self.inner.origin.is_here() {
            self.inner.monitor.change(|ahead| ahead.end(Some(closed())));
        }
    }
}
