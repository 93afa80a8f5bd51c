//! A process that forks while it has clients; see `tests/faults/fork.rs`.
//!
//! It writes a line `WHO WHAT ANSWER` for each call: who is `parent`, `child` or `daemon`, which is a child that closes whatever
//! it inherited, and the answer is an id or the code of an error.

use echomq::{Client, Options, Result, blocking};
use echomq_tests::{Given, Log};
use std::error::Error;
use std::fmt::Display;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A client of threads and one of tasks.
struct Clients {
    blocking: blocking::Client,
    runtime: Runtime,
    tasks: Client,
}

impl Clients {
    fn open(options: &Options) -> std::result::Result<Self, Box<dyn Error>> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let tasks = runtime.block_on(Client::connect(options))?;
        Ok(Self { blocking: blocking::Client::open(options)?, runtime, tasks })
    }

    /// Makes an id and appends a record to a stream of its own with each of them, on that runtime.
    fn call(&self, who: &str, runtime: &Runtime, log: &Log) -> std::result::Result<(), Box<dyn Error>> {
        let line = |what: &str, answer: Result<String>| {
            let answer = answer.unwrap_or_else(|error| error.code().to_string());
            log.line(&format!("{who} {what} {answer}"))
        };
        line("mint", text(self.blocking.mint()))?;
        line("append", text(self.blocking.stream("codemojex", who)?.append([("k", "v")])))?;
        line("mint-task", text(runtime.block_on(self.tasks.mint())))?;
        let append = self.tasks.stream("codemojex", who)?.append([("k", "v")]);
        line("append-task", text(runtime.block_on(append)))?;
        Ok(())
    }

    fn close(self) {
        self.blocking.close(Duration::from_secs(5));
        self.runtime.block_on(self.tasks.close(Duration::from_secs(5)));
    }
}

fn text(answer: Result<impl Display>) -> Result<String> {
    answer.map(|id| id.to_string())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut given = Given::read();
    let path = given.take("log")?;
    let options = Options::new(&given.take("url")?)?;
    let log = Log::open(&path)?;
    let parent = Clients::open(&options)?;
    parent.call("parent", &parent.runtime, &log)?;
    for who in ["child", "daemon"] {
        in_a_child(|| {
            if who == "daemon" {
                // SAFETY: closing numbers touches no memory; what used them belongs to the parent.
                unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
            }
            let log = Log::open(&path)?;
            let runtime = Builder::new_current_thread().enable_all().build()?;
            parent.call(who, &runtime, &log)?;
            let own = Clients::open(&options)?;
            own.call(&format!("{who}-own"), &own.runtime, &log)?;
            own.close();
            Ok(())
        })?;
        parent.call("parent", &parent.runtime, &log)?;
    }
    parent.close();
    Ok(())
}

/// Runs this in a forked child, which ends with it, and waits for that.
fn in_a_child(
    work: impl FnOnce() -> std::result::Result<(), Box<dyn Error>>,
) -> std::result::Result<(), Box<dyn Error>> {
    // SAFETY: the child leaves by `_exit`, so it ends nothing of its parent's; the C library's allocator outlives a fork.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error().into()),
        0 => {
            let outcome = work();
            if let Err(error) = &outcome {
                eprintln!("{error}");
            }
            // SAFETY: it ends the process.
            unsafe { libc::_exit(i32::from(outcome.is_err())) }
        }
        child => {
            let mut status = -1;
            // SAFETY: the status is this function's own.
            unsafe { libc::waitpid(child, &mut status, 0) };
            if status == 0 { Ok(()) } else { Err(format!("the child ended with {status}").into()) }
        }
    }
}
