//! One id, made where the client first needs a lease for it.

use crate::error::{Code, Error, Result};
use crate::id::branded::EventId;
use crate::operation::minter::{Minter, Turn};
use crate::operation::{Operation, Step};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;

/// Waits in the line for the lease, and then takes an id. What it sends only asks the time.
pub(crate) struct Minted {
    id: Option<EventId>,
    turn: Option<Turn>,
}

impl Minted {
    pub(crate) fn in_turn(turn: Turn) -> Self {
        Self { id: None, turn: Some(turn) }
    }

    fn done(&mut self) -> Step<EventId> {
        match self.id {
            Some(id) => Step::Done(Ok(id)),
            None => Step::Done(Err(reply::unexpected("an id", &Value::Nil))),
        }
    }
}

impl Operation for Minted {
    type Reply = EventId;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        if self.id.is_none() {
            self.id = Some(minter.mint()?);
            self.turn = None;
        }
        Ok(())
    }

    fn mints(&self) -> bool {
        self.id.is_none()
    }

    fn commands(&self, commands: &mut Packed) {
        commands.command(1).arg("TIME");
    }

    fn answered(&mut self, _: Vec<Value>) -> Step<EventId> {
        self.done()
    }

    fn unavailable(&mut self, _: Vec<Value>, _: Error) -> Step<EventId> {
        self.done()
    }

    fn lost(&mut self) -> Step<EventId> {
        self.done()
    }

    fn abandon(&mut self, why: Error) -> Result<EventId> {
        self.id.ok_or_else(|| match why.code() {
            Code::Timeout | Code::Disconnected | Code::Unavailable => Error::new(
                Code::NodeLeaseLost,
                format!("there is no lease of a node id to make an id with: {}", why.message()),
            )
            .because(why),
            _ => why,
        })
    }
}
