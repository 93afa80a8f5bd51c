//! Which process this is, and the runtime that serves all clients of a language binding.
//!
//! A forked child inherits memory but no threads: a client of its parent would wait for ever there. So every client
//! remembers the process that made it, and a child is told at once. See `docs/decisions/0003-fork.md`.

use crate::error::{Code, Error, Result, panic_text};
use std::fmt;
use std::panic::catch_unwind;
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::thread;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// The process that made something, told apart from its forked children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u32);

impl Origin {
    /// The process that runs now.
    pub(crate) fn here() -> Self {
        WATCH.call_once(watch_forks);
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this is still the process that made it.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }

    /// Fails with `closed` in a forked child.
    #[inline]
    pub(crate) fn check(self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(Error::new(
            Code::Closed,
            "this client belongs to the process that forked this one; make a new client in the child",
        ))
    }
}

/// What this host is called; empty where it does not say.
pub(crate) fn host_name() -> String {
    let mut name = [0_u8; 256];
    #[cfg(unix)]
    {
        // SAFETY: the buffer is this function's own and as long as is said. One more byte ends a name that was cut.
        unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    }
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&name[..length]).into_owned()
}

#[cfg(unix)]
fn watch_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only increments an atomic, which is allowed between fork and exec.
    let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    debug_assert_eq!(failed, 0, "pthread_atfork fails only for want of memory");
}

#[cfg(not(unix))]
fn watch_forks() {}

struct Shared {
    origin: Origin,
    runtime: Runtime,
}

static RUNTIME: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

/// The one runtime that serves every client of a language binding in this process.
///
/// It is made on first use, with one worker thread unless the environment variable `ECHOMQ_THREADS` says otherwise
/// (1 to 64), and lives as long as the process. A forked child gets a runtime of its own on its first use; its
/// parent's is left alone there, since its threads exist in the parent only. It may close every descriptor that it
/// inherited, as daemons do.
///
/// Fails with [`Code::InvalidOption`] when `ECHOMQ_THREADS` is no such number, and with [`Code::State`] when the
/// system gives no thread; a later call tries again.
pub fn runtime() -> Result<&'static Runtime> {
    let current = RUNTIME.load(Ordering::Acquire);
    // SAFETY: a pointer that was stored here came from `Box::leak` and is never freed.
    if let Some(shared) = unsafe { current.as_ref() }
        && shared.origin.is_here()
    {
        return Ok(&shared.runtime);
    }
    let made = Box::into_raw(Box::new(Shared { origin: Origin::here(), runtime: build()? }));
    match RUNTIME.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: as above; the old one, if any, is a parent's and stays where it is.
        Ok(_) => Ok(unsafe { &(*made).runtime }),
        Err(winner) => {
            // SAFETY: `made` was never shared, and `winner` is as above.
            unsafe {
                Box::from_raw(made).runtime.shutdown_background();
                Ok(&(*winner).runtime)
            }
        }
    }
}

fn build() -> Result<Runtime> {
    let workers = match std::env::var("ECHOMQ_THREADS") {
        Err(_) => 1,
        Ok(text) => match text.parse() {
            Ok(workers @ 1..=64) => workers,
            _ => {
                return Err(Error::new(
                    Code::InvalidOption,
                    format!("`{text}` is no number of threads from 1 to 64"),
                )
                .about("ECHOMQ_THREADS"));
            }
        },
    };
    // Tokio panics where it is given no thread, so one is asked for first. What happens in between is caught.
    drop(start_thread("echomq", || ())?.join());
    let built = catch_unwind(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).thread_name("echomq").enable_io().enable_time().build()
    });
    match built {
        Ok(built) => built.map_err(no_thread),
        Err(panic) => Err(no_thread(panic_text(&*panic))),
    }
}

fn no_thread(why: impl fmt::Display) -> Error {
    Error::new(Code::State, format!("the system gives no thread: {why}"))
}

/// Starts a thread. Fails with [`Code::State`] when the system gives none.
pub(crate) fn start_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(no_thread)
}

/// Has a thread of its own do what cannot be awaited: tokio's would panic where the system gives none.
///
/// Fails with [`Code::State`] when the system gives none, and when the thread panics.
pub(crate) async fn on_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = oneshot::channel();
    // Whoever asked may have given up meanwhile.
    start_thread(name, move || drop(sender.send(work())))?;
    receiver.await.map_err(|_| Error::new(Code::State, "the thread ended before it was done"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_runtime_for_all() {
        let first: *const Runtime = runtime().unwrap();
        let second: *const Runtime =
            std::thread::spawn(|| runtime().unwrap() as *const Runtime as usize).join().unwrap() as _;
        assert_eq!(first, second);
    }

    #[tokio::test]
    async fn a_thread_answers_or_is_an_error() {
        assert_eq!(on_thread("works", || 7).await, Ok(7));
        let panics = || -> u8 { panic!("no work") };
        assert_eq!(on_thread("panics", panics).await.unwrap_err().code(), Code::State);
    }

    #[test]
    #[cfg(unix)]
    fn a_forked_child_is_another_process() {
        let origin = Origin::here();
        // SAFETY: the child only reads an atomic and leaves by `_exit`.
        let status = unsafe {
            match libc::fork() {
                0 => libc::_exit(if origin.is_here() { 1 } else { 0 }),
                child => {
                    let mut status = -1;
                    libc::waitpid(child, &mut status, 0);
                    status
                }
            }
        };
        assert_eq!(status, 0);
        assert!(origin.is_here());
    }
}
