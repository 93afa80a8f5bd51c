//! The questions for a lease: for one, for more time, and to give it back.

use super::holder::{NodeLease, ask_owner};
use super::{Lease, OnNodeConflict, lost_error};
use crate::clock::boot_ns;
use crate::error::{Code, Error, Result};
use crate::keyspace::{NODE_FLOORS_KEY, NODES_KEY};
use crate::operation::minter::Minter;
use crate::operation::{Operation, Step};
use crate::process::host_name;
use crate::record::packed::{Arguments, Packed};
use crate::record::reply;
use crate::script::{self, Form, NODE_LEASE};
use redis::Value;
use std::sync::Arc;

/// What is asked of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Acquire,
    Renew(u16),
}

/// A lease that the server gave or renewed.
pub(super) struct Held {
    pub(super) node: u16,
    /// Nothing at or before this instant may be minted.
    pub(super) from: u64,
    /// Nothing after it.
    pub(super) limit: Option<u64>,
    /// Another live owner's entry.
    pub(super) other: Option<String>,
}

/// Has the client hold its node: renews the lease, or asks for one where there is none.
pub(crate) struct Hold {
    lease: Arc<Lease>,
    asked: Asked,
    form: Form,
    /// When it was sent, on the clock of [`boot_ns`].
    sent: u64,
    /// Why the client gets no node, while it is asked who has it.
    refused: Option<Refused>,
}

struct Refused {
    why: Why,
    members: Vec<String>,
}

enum Why {
    /// Other owners have all of them.
    Full,
    /// Another owner has the one that the user gave.
    Taken,
    /// Another owner mints with it beside this client.
    Beside,
}

impl Hold {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self { lease, asked: Asked::Acquire, form: Form::Hash, sent: 0, refused: None }
    }

    fn command(&self, commands: &mut Packed) {
        let (lease, terms) = (&*self.lease, &self.lease.terms);
        let keys = [NODES_KEY, &*lease.key, NODE_FLOORS_KEY];
        let mut command = NODE_LEASE.call(self.form, &keys, 10, commands);
        let node = match self.asked {
            Asked::Renew(node) => Some(node),
            Asked::Acquire => terms.node,
        };
        command.arg(if self.asked == Asked::Acquire { "acquire" } else { "renew" }).arg(&*lease.owner);
        optional(node.map(u64::from), &mut command);
        command.number(terms.time.as_millis() as u64);
        optional(lease.minter.next_ms(), &mut command);
        optional(lease.minter.max_ahead_ms(), &mut command);
        command.number(u64::from(terms.on_conflict == OnNodeConflict::Warn));
        command.arg(host_name()).arg(std::process::id().to_string()).arg(&*lease.client_name);
    }

    fn leased(&mut self, reply: Value) -> Step<()> {
        match reply {
            Value::ServerError(error) if script::is_unknown(&error) => {
                self.form = Form::Source;
                Step::Again
            }
            reply => match read(reply) {
                Ok(Answer::Held(held)) => {
                    let other = held.other.clone();
                    self.lease.held(self.asked, self.sent, held);
                    match other {
                        Some(member) => self.ask_who(Why::Beside, vec![member]),
                        None => {
                            self.lease.conflict(None, lost_error(""));
                            Step::Done(Ok(()))
                        }
                    }
                }
                Ok(Answer::Gone) => {
                    self.lease.gone();
                    Step::Again
                }
                Ok(Answer::Taken(member)) => self.ask_who(Why::Taken, vec![member]),
                Ok(Answer::Full(members)) => self.ask_who(Why::Full, members),
                Err(error) => self.failed(error),
            },
        }
    }

    fn failed(&self, error: Error) -> Step<()> {
        let terms = &self.lease.terms;
        if error.code() == Code::Auth && terms.node.is_some() && terms.on_conflict == OnNodeConflict::Warn {
            self.lease.unregistered(&error);
            return Step::Done(Ok(()));
        }
        self.lease.waits_for(false, None);
        Step::Done(Err(Error::new(
            error.code(),
            format!(
                "{}; making ids needs the lease of a node id, and so the right to write {{emq}}:nodes*: or give `node_id` \
                 of this process's own",
                error.message()
            ),
        )
        .about(NODES_KEY)))
    }

    fn ask_who(&mut self, why: Why, members: Vec<String>) -> Step<()> {
        let refused = Refused { why, members };
        if refused.members.is_empty() {
            return self.who(refused, Vec::new());
        }
        self.refused = Some(refused);
        Step::Again
    }

    fn who(&mut self, refused: Refused, replies: Vec<Value>) -> Step<()> {
        let holders = refused.members.iter().zip(replies).map(|(member, reply)| {
            let lease = NodeLease::read(member, reply);
            lease.map_or_else(|| member.clone(), |lease| lease.to_string())
        });
        let holders: Vec<String> = holders.collect();
        let holders = holders.join("; ");
        let terms = &self.lease.terms;
        let node = terms.node.or(self.lease.state().node).unwrap_or_default();
        match refused.why {
            Why::Full if holders.is_empty() => Step::Done(Err(Error::new(
                Code::NodeLeaseLost,
                "no node id can be leased: nobody holds one, but with each of them ids were made of instants further ahead of \
                 the server's clock than `max_clock_ahead`; the clocks of the hosts or of the server have been wrong",
            )
            .about(NODES_KEY))),
            Why::Full => Step::Done(Err(Error::new(
                Code::NodeLeaseLost,
                format!(
                    "all 1023 node ids are leased, the first of them: {holders}; `nodes()` lists all. Close clients that are \
                     not needed, or share one among the threads of a process; a lease of a process that was killed ends \
                     by itself within its time"
                ),
            )
            .about(NODES_KEY))),
            Why::Taken => {
                let error = Error::new(
                    Code::NodeConflict,
                    format!(
                        "another process mints with the node id {node} that was given: {holders}; give each process its \
                         own, or none, so that each leases one"
                    ),
                )
                .about("node_id");
                match terms.on_conflict {
                    OnNodeConflict::Wait => {
                        self.lease.waits_for(true, Some(error.clone()));
                        Step::Wait(error)
                    }
                    _ => Step::Done(Err(error)),
                }
            }
            Why::Beside => {
                let error = Error::new(
                    Code::NodeConflict,
                    format!(
                        "another process mints with the node id {node} too: {holders}; if it is this one before it was \
                         killed, that ends by itself"
                    ),
                )
                .about("node_id");
                self.lease.conflict(refused.members.first().map(String::as_str), error);
                Step::Done(Ok(()))
            }
        }
    }
}

impl Operation for Hold {
    type Reply = ();

    /// It is the line's own, and counts for none of its bounds.
    fn weight(&self) -> usize {
        0
    }

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        let node = {
            let state = self.lease.state();
            if state.released {
                return Err(Error::new(Code::Closed, "the client is closed"));
            }
            state.node
        };
        if self.refused.is_none() {
            self.asked = node.map_or(Asked::Acquire, Asked::Renew);
            self.sent = boot_ns();
        }
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        match &self.refused {
            None => self.command(commands),
            Some(refused) => refused.members.iter().for_each(|member| ask_owner(member, commands)),
        }
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<()> {
        match self.refused.take() {
            None => self.leased(replies.into_iter().next().unwrap_or(Value::Nil)),
            Some(refused) => self.who(refused, replies),
        }
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<()> {
        self.refused = None;
        self.lease.waits_for(true, None);
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<()> {
        // The next server may be another one, which does not know the script.
        self.form = Form::Source;
        self.refused = None;
        self.lease.waits_for(false, None);
        Step::Again
    }

    fn abandon(&mut self, why: Error) -> Result<()> {
        Err(why)
    }
}

/// Gives the node back.
pub(crate) struct Release {
    lease: Arc<Lease>,
    node: Option<u16>,
    form: Form,
}

impl Release {
    pub(crate) fn new(lease: Arc<Lease>) -> Self {
        Self { lease, node: None, form: Form::Hash }
    }
}

impl Operation for Release {
    type Reply = ();

    /// It is the line's own, and counts for none of its bounds.
    fn weight(&self) -> usize {
        0
    }

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        if self.node.is_none() {
            self.lease.minter.forbid();
            let mut state = self.lease.state();
            state.released = true;
            self.node = state.node.take();
        }
        let released = || Error::new(Code::State, "there is no lease to give back");
        if self.node.is_none() || !self.lease.uncount() {
            return Err(released());
        }
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        let lease = &*self.lease;
        let keys = [NODES_KEY, &*lease.key, NODE_FLOORS_KEY];
        let mut command = NODE_LEASE.call(self.form, &keys, 5, commands);
        command.arg("release").arg(&*lease.owner);
        optional(self.node.map(u64::from), &mut command);
        command.number(lease.terms.time.as_millis() as u64);
        // A thread that was minting while this began makes an id of the last instant's next at most.
        optional(lease.minter.next_ms().map(|ms| ms + 1), &mut command);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<()> {
        if let Some(Value::ServerError(error)) = replies.first()
            && script::is_unknown(error)
            && self.form == Form::Hash
        {
            self.form = Form::Source;
            return Step::Again;
        }
        // What could not be given back ends by itself.
        Step::Done(Ok(()))
    }

    fn unavailable(&mut self, _: Vec<Value>, _: Error) -> Step<()> {
        Step::Done(Ok(()))
    }

    fn lost(&mut self) -> Step<()> {
        Step::Done(Ok(()))
    }
}

fn optional(value: Option<u64>, command: &mut Arguments<'_>) {
    match value {
        Some(value) => command.number(value),
        None => command.arg(""),
    };
}

/// What the script answers to a question for a lease.
enum Answer {
    Held(Held),
    Gone,
    Taken(String),
    Full(Vec<String>),
}

fn read(reply: Value) -> Result<Answer> {
    let mut parts = reply::list(reply::accepted(reply)?)?.into_iter();
    let word = text(parts.next())?;
    let number = |text: String| text.parse::<u64>().ok();
    Ok(match word.as_str() {
        "held" => {
            let node = reply::count(parts.next().unwrap_or(Value::Nil))? as u16;
            let (from, limit, other) = (text(parts.next())?, text(parts.next())?, text(parts.next())?);
            let other = (!other.is_empty()).then_some(other);
            Answer::Held(Held { node, from: number(from).unwrap_or(0), limit: number(limit), other })
        }
        "gone" => Answer::Gone,
        "taken" => Answer::Taken(text(parts.next())?),
        "full" => Answer::Full(parts.map(|part| text(Some(part))).collect::<Result<_>>()?),
        other => {
            return Err(Error::new(Code::Server, format!("the script of node leases answered `{other}`")));
        }
    })
}

pub(super) fn text(reply: Option<Value>) -> Result<String> {
    reply::bytes(reply.unwrap_or(Value::Nil)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
