//! Nobody who waits on a monitor is forgotten: on real threads and tasks, and in every order that loom finds.

use super::monitor::{Monitor, Polled};
use std::future::Future;
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
        let mut polled = modelled::Polled::default();
        let found = monitor.poll(&mut Context::from_waker(&waker), &mut polled, taken);
        changing.join().unwrap();
        match found {
            Poll::Ready(()) => {}
            Poll::Pending => assert!(flag.0.load(Ordering::SeqCst), "nobody woke the task"),
        }
    });
}

/// A task looks again and again, and gives up in the end, while two changes are made and another task waits: nobody is forgotten,
/// and nothing is left of the one that gave up.
#[test]
fn a_task_that_gives_up_keeps_no_wake_up_from_another() {
    loom::model(|| {
        let monitor = loom::sync::Arc::new(modelled::Monitor::new(0));
        let flags = [(); 2].map(|()| Arc::new(Flag(AtomicBool::new(false))));
        let [gives_up, waits] = flags.each_ref().map(|flag| Waker::from(flag.clone()));
        let mut left = modelled::Polled::default();
        // It waits before anything changes, and gives up while the change is made.
        assert!(monitor.poll(&mut Context::from_waker(&gives_up), &mut left, taken).is_pending());
        let changing = loom::thread::spawn({
            let monitor = monitor.clone();
            move || monitor.change(|state| *state += 1)
        });
        let mut polled = modelled::Polled::default();
        let found = monitor.poll(&mut Context::from_waker(&waits), &mut polled, taken);
        monitor.forget(&mut left);
        changing.join().unwrap();
        if found.is_pending() {
            assert!(flags[1].0.load(Ordering::SeqCst), "nobody woke the task");
            let mut context = Context::from_waker(&waits);
            assert!(monitor.poll(&mut context, &mut polled, taken).is_ready(), "what was put there is gone");
        }
        assert_eq!(monitor.waiting(), 0);
    });
}

#[test]
fn waits_that_are_given_up_leave_nothing_behind() {
    let monitor = Monitor::new(0);
    let mut context = Context::from_waker(Waker::noop());
    let mut waits: Vec<_> = (0..40_000).map(|_| Box::pin(monitor.until(taken))).collect();
    for wait in &mut waits {
        assert!(wait.as_mut().poll(&mut context).is_pending());
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(monitor.waiting(), 40_000);
    // Some of them after they were woken.
    monitor.change(|_| ());
    waits.truncate(20_000);
    for wait in &mut waits[..10_000] {
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(monitor.waiting(), 10_000);
    drop(waits);
    assert_eq!(monitor.waiting(), 0);
    // A handle that is polled again and again, by whatever task, waits once.
    let mut polled = Polled::default();
    for _ in 0..1_000 {
        let flag = Waker::from(Arc::new(Flag(AtomicBool::new(false))));
        assert!(monitor.poll(&mut Context::from_waker(&flag), &mut polled, taken).is_pending());
    }
    assert_eq!(monitor.waiting(), 1);
    monitor.forget(&mut polled);
    assert_eq!(monitor.waiting(), 0);
}
