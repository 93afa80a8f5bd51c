//! Nobody who waits on a monitor is forgotten: on real threads and tasks, and in every order that loom finds.

use super::monitor::Monitor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// What the copy of the monitor below locks with.
mod locks {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
}

#[allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "the same code with other locks, of which the models use some"
)]
#[path = "monitor.rs"]
mod modelled;

fn taken(state: &mut i32) -> Option<()> {
    (*state > 0).then(|| *state -= 1)
}

#[test]
fn a_change_reaches_threads_and_tasks() {
    let monitor = Arc::new(Monitor::new(0));
    let waiting = std::thread::spawn({
        let monitor = monitor.clone();
        move || monitor.wait(Duration::from_secs(60), taken)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let adding = std::thread::spawn({
        let monitor = monitor.clone();
        move || (0..2).for_each(|_| monitor.change(|state| *state += 1))
    });
    runtime.block_on(monitor.until(taken));
    assert_eq!(waiting.join().unwrap(), Some(()));
    adding.join().unwrap();
    assert_eq!(monitor.with(|state| *state), 0);
    assert_eq!(monitor.wait(Duration::ZERO, taken), None);
}

/// A wait that is forgotten would be a deadlock, which loom finds: in its models no time passes.
#[test]
fn every_thread_that_waits_gets_what_is_put_there() {
    loom::model(|| {
        let monitor = loom::sync::Arc::new(modelled::Monitor::new(0));
        let waiting = [(); 2].map(|()| {
            let monitor = monitor.clone();
            loom::thread::spawn(move || monitor.wait(Duration::from_secs(3_600), taken))
        });
        monitor.change(|state| *state += 1);
        monitor.change(|state| *state += 1);
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Some(()));
        }
    });
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn every_task_that_found_nothing_is_woken_by_the_change() {
    loom::model(|| {
        let monitor = loom::sync::Arc::new(modelled::Monitor::new(0));
        let changing = loom::thread::spawn({
            let monitor = monitor.clone();
            move || monitor.change_if(|state| (*state += 1, true))
        });
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(flag.clone());
        let found = monitor.poll(&mut Context::from_waker(&waker), taken);
        changing.join().unwrap();
        match found {
            Poll::Ready(()) => {}
            Poll::Pending => assert!(flag.0.load(Ordering::SeqCst), "nobody woke the task"),
        }
    });
}
