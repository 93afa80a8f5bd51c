//! Consumers of a stream's groups.

use super::Stream;
use crate::connection::door::Door;
#[cfg(doc)]
use crate::error::Code;
use crate::group::consumer::Consumer;
use crate::group::options::ConsumerOptions;

impl<D: Door> Stream<D> {
    /// Starts a consumer of one of the stream's groups, which is made where it does not exist yet.
    ///
    /// When it answers, the group exists and its place is pinned on the server: what is appended from then on is seen.
    ///
    /// With [`blocking::Client`](crate::blocking::Client) the consumer reads on the process's
    /// [`runtime`](crate::runtime), over connections of its own.
    ///
    /// Fails with [`Code::InvalidOption`] for options that do not fit together, [`Code::WrongType`], [`Code::OutOfMemory`]
    /// and whatever else keeps the group from being made, and as [`Client::connect`](crate::Client::connect) does.
    pub fn consumer(&self, options: ConsumerOptions) -> D::Answer<Consumer> {
        let (door, key) = (self.door.clone(), self.key.clone());
        self.door.spawn(async move {
            let subject = key.to_string();
            let started = async { Consumer::start(door.shared().await?, key, options).await };
            started.await.map_err(|error| error.about(subject))
        })
    }
}
