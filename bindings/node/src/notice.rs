//! What consumers and listeners tell beside what they hand out.

use crate::answer::{IntoJs, Value, value};
use crate::completion::{Queue, Ticket};
use echomq::{Notice, Notices};
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// What a consumer or a listener tells. It does not keep either from being forgotten.
#[napi]
pub struct NativeNotices {
    notices: Notices,
    queue: Arc<Queue>,
}

impl NativeNotices {
    pub(crate) fn new(notices: Notices, queue: Arc<Queue>) -> Self {
        Self { notices, queue }
    }
}

#[napi]
impl NativeNotices {
    /// Waits for the next notice; answers it, or undefined at the end.
    #[napi(catch_unwind)]
    pub fn next(&self, slot: u32) {
        let notices = self.notices.clone();
        Ticket::new(&self.queue, slot).answer_from(async move { Ok(notices.next().await) });
    }
}

/// What a notice says.
#[napi(object)]
pub struct NoticeParts {
    /// What it is about.
    pub kind: String,
    /// A sentence for people.
    pub message: String,
    /// The entry concerned.
    pub entry_id: Option<String>,
    /// The branded id that belongs to the entry's place.
    pub id: Option<String>,
    /// How often the entry was delivered.
    pub attempts: Option<f64>,
    /// The cause of a trouble.
    pub code: Option<String>,
    /// How many troubles it stands for.
    pub times: f64,
}

impl IntoJs for Notice {
    fn into_js(self, env: &Env) -> Result<Value> {
        let parts = NoticeParts {
            kind: self.kind().to_string(),
            message: self.message().to_owned(),
            entry_id: self.entry_id().map(|id| id.to_string()),
            id: self.id().map(String::from),
            attempts: self.attempts().map(|attempts| attempts as f64),
            code: self.code().map(|code| code.to_string()),
            times: self.times() as f64,
        };
        value(env, parts)
    }
}
