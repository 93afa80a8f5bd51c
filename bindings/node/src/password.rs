//! A password that a function of JavaScript's is asked for, whenever a connection is opened.
//!
//! JavaScript waits for the questions as for everything else that the core tells it, so that they keep no process alive.

use crate::answer::{IntoJs, Value, value};
use crate::completion::{Queue, Ticket};
use echomq::Options;
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex as AsyncMutex, oneshot};

/// A password, or why there is none, without anything that the function said.
type Answer = std::result::Result<String, String>;

/// What a client asks for its password, until it ends.
#[napi]
pub struct NativeQuestions {
    asked: Arc<AsyncMutex<UnboundedReceiver<NativeQuestion>>>,
    queue: Arc<Queue>,
}

impl NativeQuestions {
    /// The questions of a client that is to be made with the options, which ask them from then on.
    pub(crate) fn of(options: Options, queue: Arc<Queue>) -> (Options, Self) {
        let (questions, asked) = unbounded_channel();
        let options = options.password_from(move || ask(questions.clone()));
        (options, Self { asked: Arc::new(AsyncMutex::new(asked)), queue })
    }
}

async fn ask(questions: UnboundedSender<NativeQuestion>) -> Answer {
    let (sender, answer) = oneshot::channel();
    // An environment that has ended lets go of the question, and of who would answer it.
    let ended = || "it was not asked, since its environment has ended".to_owned();
    questions.send(NativeQuestion(Mutex::new(Some(sender)))).map_err(|_| ended())?;
    drop(questions);
    answer.await.unwrap_or_else(|_| Err(ended()))
}

#[napi]
impl NativeQuestions {
    /// Waits for the next question; answers it, or undefined once the client has ended.
    #[napi(catch_unwind)]
    pub fn next(&self, slot: u32) {
        let asked = self.asked.clone();
        Ticket::new(&self.queue, slot).answer_from(async move { Ok(asked.lock().await.recv().await) });
    }
}

/// Who waits for a password.
#[napi]
pub struct NativeQuestion(Mutex<Option<oneshot::Sender<Answer>>>);

impl NativeQuestion {
    fn settle(&self, answer: Answer) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // An answer that comes too late is given to nobody.
        drop(sender.map(|sender| sender.send(answer)));
    }
}

#[napi]
impl NativeQuestion {
    /// Answers with a password.
    #[napi(catch_unwind)]
    pub fn answer(&self, password: String) {
        self.settle(Ok(password));
    }

    /// There is no password, for that reason.
    #[napi(catch_unwind)]
    pub fn fail(&self, reason: String) {
        self.settle(Err(reason));
    }
}

impl IntoJs for NativeQuestion {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}
