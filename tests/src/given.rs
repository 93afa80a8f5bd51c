//! What a program in Rust that the fault tests start was given.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// The arguments `name=value` of this process.
#[derive(Debug)]
pub struct Given(BTreeMap<String, String>);

impl Given {
    /// Reads them.
    pub fn read() -> Self {
        let arguments = std::env::args().skip(1);
        let pair = |argument: String| {
            argument.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        Self(arguments.filter_map(pair).collect())
    }

    /// Takes one; fails with a sentence where it is missing.
    pub fn take(&mut self, name: &str) -> Result<String, String> {
        self.0.remove(name).ok_or(format!("{name} is missing"))
    }

    /// Those that were not taken.
    pub fn rest(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// The file that a program writes lines to, each with one write.
#[derive(Clone, Debug)]
pub struct Log(Arc<File>);

impl Log {
    /// Opens the file, which is made where it is missing.
    pub fn open(path: &str) -> io::Result<Self> {
        File::options().append(true).create(true).open(path).map(|file| Self(Arc::new(file)))
    }

    /// Writes a line.
    pub fn line(&self, text: &str) -> io::Result<()> {
        (&*self.0).write_all(format!("{text}\n").as_bytes())
    }
}

static TERMINATED: AtomicBool = AtomicBool::new(false);

/// Whether this process was told to end, by SIGTERM.
///
/// It is not tokio's: that comes with a pipe which every runtime of the process reads, the core's own too.
#[derive(Debug)]
pub struct Terminated(());

impl Terminated {
    /// Has the signal noted from now on, instead of ending the process.
    pub fn watch() -> io::Result<Self> {
        extern "C" fn note(_: libc::c_int) {
            TERMINATED.store(true, Ordering::Relaxed);
        }
        let note: extern "C" fn(libc::c_int) = note;
        // SAFETY: the handler only sets an atomic, which is allowed in a handler.
        match unsafe { libc::signal(libc::SIGTERM, note as libc::sighandler_t) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(Self(())),
        }
    }

    /// Waits for it.
    pub async fn wait(&self) {
        while !TERMINATED.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(5)).await;
        }
    }
}
