//! A reader of the core.

use crate::completion::{Queue, Ticket};
use echomq::Reader;
use napi_derive::napi;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A reader. Pages that are asked for at once are read one after another.
#[napi]
pub struct NativeReader {
    reader: Arc<Mutex<Reader>>,
    queue: Arc<Queue>,
}

impl NativeReader {
    pub(crate) fn new(reader: Reader, queue: Arc<Queue>) -> Self {
        Self { reader: Arc::new(Mutex::new(reader)), queue }
    }
}

#[napi]
impl NativeReader {
    /// Reads the next page; answers its records, or undefined at the end.
    #[napi(catch_unwind)]
    pub fn page(&self, slot: u32) {
        let reader = self.reader.clone();
        Ticket::new(&self.queue, slot).answer_from(async move { reader.lock().await.next_page().await });
    }
}
