//! Tails of a stream.

use super::Stream;
use crate::connection::door::Door;
#[cfg(doc)]
use crate::error::Code;
use crate::stream::tail::Tail;
use crate::stream::tail::options::TailOptions;

impl<D: Door> Stream<D> {
    /// Follows the stream from a place on, for ever: a [`Start`](crate::Start), or [`TailOptions`].
    ///
    /// When it answers, its place is pinned: what is appended from then on is seen.
    ///
    /// With [`blocking::Client`](crate::blocking::Client) the tail reads on the process's
    /// [`runtime`](crate::runtime()), over a connection of its own.
    ///
    /// Fails with [`Code::WrongType`], with [`Code::InvalidOption`] for pages of no byte, and as [`Client::connect`](crate::Client::connect) does.
    pub fn tail(&self, options: impl Into<TailOptions>) -> D::Answer<Tail> {
        let (door, key, options) = (self.door.clone(), self.key.clone(), options.into());
        self.door.spawn(async move { Tail::start(door.shared().await?, key, options).await })
    }
}
