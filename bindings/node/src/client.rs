//! A client of the core.

use crate::answer::{IntoJs, Spoken, Value, array, value};
use crate::completion::{Queue, Ticket};
use crate::error::{make_error, or_throw};
use crate::events::NativeEvents;
use crate::host::NativeCopy;
use crate::notice::NativeNotices;
use crate::packed::Packed;
use crate::password::NativeQuestions;
use crate::stream::NativeStream;
use crate::time::patience;
use echomq::{Client, NodeLease, Options, Writers};
use napi::bindgen_prelude::Unknown;
use napi::{Env, Result};
use napi_derive::napi;
use std::sync::Arc;

/// A client.
#[napi]
pub struct NativeClient {
    client: Client,
    queue: Arc<Queue>,
}

/// Connects, with options by name and text; answers a client. Where it asks for its password, its questions are what is
/// returned at once.
#[napi(catch_unwind)]
pub fn connect(
    env: Env,
    copy: &NativeCopy,
    slot: u32,
    url: String,
    names: Vec<String>,
    values: Vec<String>,
    asks: bool,
) -> Result<Option<NativeQuestions>> {
    let queue = copy.queue.clone();
    let options = || {
        let mut options = Options::new(&url)?;
        for (name, value) in names.iter().zip(&values) {
            options.set(name, value)?;
        }
        Ok(options)
    };
    let options = or_throw(&env, options())?;
    let (options, questions) = match asks {
        true => {
            let (options, questions) = NativeQuestions::of(options, queue.clone());
            (options, Some(questions))
        }
        false => (options, None),
    };
    Ticket::new(&queue, slot).answer_from(async move {
        let client = Client::connect(&options).await?;
        Ok(NativeClient { client, queue })
    });
    Ok(questions)
}

impl IntoJs for NativeClient {
    fn into_js(self, env: &Env) -> Result<Value> {
        value(env, self)
    }
}

#[napi]
impl NativeClient {
    /// A stream of a queue, with the writers that a word says, if one is given.
    #[napi(catch_unwind)]
    pub fn stream(
        &self,
        env: Env,
        queue: String,
        name: String,
        writers: Option<String>,
    ) -> Result<NativeStream> {
        let writers = or_throw(&env, writers.as_deref().map(Writers::parse).transpose())?;
        let stream = or_throw(&env, self.client.stream(&queue, &name))?.writers(writers.unwrap_or_default());
        Ok(NativeStream::new(stream, self.queue.clone()))
    }

    /// The events of a queue.
    #[napi(catch_unwind)]
    pub fn events(&self, env: Env, queue: String) -> Result<NativeEvents> {
        let events = or_throw(&env, self.client.events(&queue))?;
        Ok(NativeEvents::new(events, self.queue.clone()))
    }

    /// What it tells of its connection, its clock and its node.
    #[napi(catch_unwind)]
    pub fn notices(&self) -> NativeNotices {
        NativeNotices::new(self.client.notices(), self.queue.clone())
    }

    /// Makes one id; answers it.
    #[napi(catch_unwind)]
    pub fn mint(&self, slot: u32) {
        Ticket::new(&self.queue, slot).answer_with(self.client.mint());
    }

    /// Who holds which node; answers a list.
    #[napi(catch_unwind)]
    pub fn nodes(&self, slot: u32) {
        Ticket::new(&self.queue, slot).answer_with(self.client.nodes());
    }

    /// Sends one command; answers its reply.
    #[napi(catch_unwind)]
    pub fn command(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
        raw: bool,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let pending = self.client.command(packed.lists().flatten());
        let ticket = Ticket::new(&self.queue, slot);
        pending.on_complete(move |reply| ticket.answer(reply.map(|reply| Spoken { reply, raw })));
        Ok(())
    }

    /// Sends many commands; answers a reply or an error for each.
    #[napi(catch_unwind)]
    pub fn pipeline(
        &self,
        env: Env,
        slot: u32,
        content: Unknown<'_>,
        table: Unknown<'_>,
        length: u32,
        raw: bool,
    ) -> Result<()> {
        let packed = Packed::read(&env, content, table, length)?;
        let spoken = move |reply: echomq::Result<_>| reply.map(|reply| Spoken { reply, raw });
        let pending = self.client.pipeline(packed.lists());
        let ticket = Ticket::new(&self.queue, slot);
        pending.on_complete(move |replies| {
            ticket.answer(replies.map(|replies| replies.into_iter().map(spoken).collect::<Vec<_>>()));
        });
        Ok(())
    }

    /// Closes the client, within that many milliseconds or however long it takes; answers how many calls were given up.
    #[napi(catch_unwind)]
    pub fn close(&self, slot: u32, within: Option<f64>) -> Result<()> {
        let within = patience(within)?;
        let client = self.client.clone();
        Ticket::new(&self.queue, slot).answer_from(async move { Ok(client.close(within).await) });
        Ok(())
    }

    /// How the connection stands: whether there is one, how often there was a new one, and why there is none.
    #[napi(catch_unwind)]
    pub fn status(&self, env: Env) -> Result<Value> {
        let status = self.client.status();
        let error = match &status.error {
            Some(error) => make_error(&env, error),
            None => value(&env, ()),
        };
        let parts = [value(&env, status.connected), value(&env, status.reconnects as f64), error];
        array(&env, parts.into_iter())
    }
}

/// A lease of a node.
#[napi(object)]
pub struct LeaseParts {
    /// The node.
    pub node: u32,
    /// The token that it is held under.
    pub owner: String,
    /// How many milliseconds longer it holds.
    pub left: f64,
    /// The host of the process.
    pub host: String,
    /// The number of the process.
    pub process: String,
    /// The client's name.
    pub client_name: String,
}

impl IntoJs for NodeLease {
    fn into_js(self, env: &Env) -> Result<Value> {
        let Self { node, owner, left, host, process, client_name, .. } = self;
        let left = left.as_millis() as f64;
        value(env, LeaseParts { node: node.into(), owner, left, host, process, client_name })
    }
}
