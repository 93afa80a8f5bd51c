//! The thread for what takes long: reading and copying large records.
//!
//! It is started when it is needed first. Where the system gives no thread, the work is done on the runtime instead: it
//! holds up others then, and is done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use tokio::runtime::Runtime;

pub(crate) type Work = Box<dyn FnOnce() + Send>;

static WORKER: Mutex<Option<Sender<Work>>> = Mutex::new(None);

/// Has work done that takes long.
pub(crate) fn run(runtime: &Runtime, work: Work) {
    let mut worker = WORKER.lock().unwrap_or_else(PoisonError::into_inner);
    if worker.is_none() {
        *worker = start();
    }
    let refused = match &*worker {
        Some(sender) => sender.send(work).err().map(|refused| refused.0),
        None => Some(work),
    };
    drop(worker);
    if let Some(work) = refused {
        runtime.spawn(async { guarded(work) });
    }
}

fn start() -> Option<Sender<Work>> {
    let (sender, receiver) = channel::<Work>();
    let started = Builder::new().name("echomq-copy".to_owned()).spawn(move || {
        receiver.into_iter().for_each(guarded);
    });
    started.ok().map(|_| sender)
}

/// Does work that may panic, which the process reports.
pub(crate) fn guarded(work: Work) {
    let _reported = catch_unwind(AssertUnwindSafe(work));
}
