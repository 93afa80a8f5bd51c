//! A file descriptor that becomes readable when a thread rings.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::process;

#[cfg(target_os = "linux")]
mod ends {
    use super::{File, io};
    use rustix::event::{EventfdFlags, eventfd};

    /// An eventfd is both ends, and ringing twice leaves no more to read than ringing once.
    pub(super) fn make() -> io::Result<(File, File)> {
        let ring = File::from(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        Ok((ring.try_clone()?, ring))
    }

    pub(super) const RING: &[u8] = &1_u64.to_ne_bytes();
}

#[cfg(not(target_os = "linux"))]
mod ends {
    use super::{File, io};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    pub(super) fn make() -> io::Result<(File, File)> {
        let (listening, ringing) = UnixStream::pair()?;
        listening.set_nonblocking(true)?;
        ringing.set_nonblocking(true)?;
        Ok((OwnedFd::from(listening).into(), OwnedFd::from(ringing).into()))
    }

    pub(super) const RING: &[u8] = &[1];
}

/// The bell of one event loop.
///
/// In a forked child it is silent: the child may have closed what it inherited, and given the numbers to something of its
/// own.
pub(crate) struct Bell {
    /// What the loop listens to, and what rings.
    ends: Option<(File, File)>,
    process: u32,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { ends: Some(ends::make()?), process: process::id() })
    }

    fn ends(&self) -> Option<&(File, File)> {
        self.ends.as_ref().filter(|_| self.process == process::id())
    }

    /// What the loop listens to.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.ends().map(|(listening, _)| listening.as_raw_fd())
    }

    /// Makes the loop run its reader. A bell that is full of rings wakes the loop anyway.
    pub(crate) fn ring(&self) {
        if let Some((_, ringing)) = self.ends() {
            let _ = (&*ringing).write(ends::RING);
        }
    }

    /// Makes it silent again. A bell that nobody rang is silent already.
    pub(crate) fn hush(&self) {
        if let Some((listening, _)) = self.ends() {
            let mut rings = [0; 64];
            let _ = (&*listening).read(&mut rings);
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if self.ends().is_none() {
            mem::forget(self.ends.take());
        }
    }
}
