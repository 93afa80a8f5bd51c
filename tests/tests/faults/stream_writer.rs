//! A writer that goes on while things fail.

use crate::bus::{Bus, STREAM};
use echomq::EventId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Appends on a thread of its own until it is told to end.
pub struct Writer {
    ids: Arc<Mutex<Vec<EventId>>>,
    ending: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Appends batches so that so many records a second come about, and makes up for time lost. Nothing may fail.
    pub fn at_rate(bus: &Bus, per_second: u32) -> Self {
        const BATCH: u32 = 20;
        let (stream, begun) = (bus.stream(STREAM), Instant::now());
        let mut batches = 0;
        Self::start(move |ids| {
            let records =
                (0..BATCH).map(|n| [("n", (batches * BATCH + n).to_string()), ("payload", "x".repeat(80))]);
            let appended = stream.append_batch_atomic(records).unwrap();
            ids.lock().unwrap().extend(appended);
            batches += 1;
            let next = begun + Duration::from_secs(1) * (batches * BATCH) / per_second;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        })
    }

    /// Appends one record after the other, and goes on where one fails.
    pub fn regardless(bus: &Bus) -> Self {
        let stream = bus.stream(STREAM);
        Self::start(move |ids| {
            if let Ok(id) = stream.append([("payload", "x".repeat(80))]) {
                ids.lock().unwrap().push(id);
            }
            // The consumers are to keep up.
            thread::sleep(Duration::from_millis(2));
        })
    }

    fn start(mut write: impl FnMut(&Mutex<Vec<EventId>>) + Send + 'static) -> Self {
        let (ids, ending) = (Arc::<Mutex<Vec<EventId>>>::default(), Arc::<AtomicBool>::default());
        let thread = thread::spawn({
            let (ids, ending) = (ids.clone(), ending.clone());
            move || {
                while !ending.load(Ordering::Relaxed) {
                    write(&ids);
                }
            }
        });
        Self { ids, ending, thread }
    }

    /// How many records were acknowledged as appended.
    pub fn appended(&self) -> usize {
        self.ids.lock().unwrap().len()
    }

    /// Those acknowledged from the one of that number on.
    pub fn ids_from(&self, first: usize) -> Vec<EventId> {
        self.ids.lock().unwrap()[first..].to_vec()
    }

    /// Ends it, and answers the ids of all records acknowledged as appended.
    pub fn end(self) -> Vec<EventId> {
        self.ending.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        Arc::try_unwrap(self.ids).unwrap().into_inner().unwrap()
    }
}
