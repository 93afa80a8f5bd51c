//! Tails of a stream.

use super::Stream;
use crate::connection::door::Door;
#[cfg(doc)]
use crate::error::Code;
use crate::stream::start::Start;
use crate::stream::tail::Tail;

impl<D: Door> Stream<D> {
    /// Follows the stream from a place on, for ever.
    ///
    /// When it answers, its place is pinned: what is appended from then on is seen.
    ///
    /// With [`blocking::Client`](crate::blocking::Client) the tail reads on the process's
    /// [`runtime`](crate::runtime()), over a connection of its own.
    ///
    /// Fails with [`Code::WrongType`], and as [`Client::connect`](crate::Client::connect) does.
    pub fn tail(&self, start: Start) -> D::Answer<Tail> {
        let (door, key) = (self.door.clone(), self.key.clone());
        self.door.spawn(async move { Tail::start(door.shared().await?, key, start).await })
    }
}
