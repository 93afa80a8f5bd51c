//! The host of a blocking call: whatever language calls, and may want the call to end.

use crate::connection::socket::BlockingSocket;
use crate::error::{Code, Error, Result};
use crate::process;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Asked at least every 100 ms while a call waits, on the waiting thread; true ends the call.
///
/// A host language looks for its signals here.
pub type Interrupt = Arc<dyn Fn() -> bool + Send + Sync>;

/// The host, which may want a call to end. What it said once holds for the rest of the call.
pub(super) struct Host<'a> {
    interrupt: &'a Interrupt,
    said_stop: Cell<bool>,
}

impl<'a> Host<'a> {
    pub(super) fn new(interrupt: &'a Interrupt) -> Self {
        Self { interrupt, said_stop: Cell::new(false) }
    }

    pub(super) fn says_stop(&self) -> bool {
        let stop = self.said_stop.get() || (self.interrupt)();
        self.said_stop.set(stop);
        stop
    }

    /// Sleeps, in steps, for as long as the host does not want the call to end.
    pub(super) fn sleep_until(&self, instant: Instant) {
        while !self.says_stop() {
            match instant.saturating_duration_since(Instant::now()) {
                Duration::ZERO => break,
                left => thread::sleep(left.min(BlockingSocket::STEP)),
            }
        }
    }
}

impl Host<'_> {
    /// Has the runtime carry a future out while this thread waits for it.
    pub(super) fn wait_for<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // Nobody receives any longer once the wait was interrupted.
        process::runtime()?.spawn(async move { drop(sender.send(future.await)) });
        loop {
            match receiver.recv_timeout(BlockingSocket::STEP) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if self.says_stop() => {
                    return Err(Error::new(Code::Timeout, "the wait was interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::new(Code::Closed, "the runtime ended before the answer came"));
                }
            }
        }
    }
}
