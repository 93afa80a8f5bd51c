//! Options that were checked, and what all connections of one client share.

use super::demotion::Demotions;
use super::endpoint::Endpoint;
use super::handshake::Greeting;
use super::password::Password;
use super::tls::Tls;
use crate::error::{Code, Error, Result};
use crate::notice::Board;
use crate::operation::lease::Lease;
use crate::operation::line::{Bounds, Line};
use crate::operation::minter::Minter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// Which protocol version to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP3, or RESP2 where the server knows no other.
    Auto,
    Resp2,
    Resp3,
}

/// How a client is connected for the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Connect {
    /// It is waited for a server that is not there yet, or not ready yet, for at most `connect_timeout`. A server that
    /// refuses the client ends the wait at once.
    #[default]
    Wait,
    /// Nothing is waited for: the client is there at once and connects by itself, like after an outage. Its calls wait
    /// until their deadlines.
    Lazy,
    /// One attempt is made.
    Once,
}

/// Everything a door needs to know. Clones are of the same client.
#[derive(Clone)]
pub struct Settings {
    pub(crate) endpoint: Endpoint,
    pub(crate) connect: Connect,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Password>,
    pub(crate) database: u32,
    pub(crate) client_name: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) claim_version: Option<String>,
    /// What makes the client's ids, on whichever of its connections they leave.
    pub(crate) minter: Arc<Minter>,
    /// Whether a server has greeted the client before.
    pub(crate) greeted: Arc<AtomicBool>,
    /// The right to make them.
    pub(crate) lease: Arc<Lease>,
    /// Whether the connection is one beside the client's, which keeps the lease when it ends.
    pub(crate) beside: bool,
    /// Where the client's notices wait.
    pub(crate) notices: Board,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) reconnect_min: Duration,
    pub(crate) reconnect_max: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) max_record_bytes: usize,
    pub(crate) max_in_flight: usize,
    pub(crate) max_in_flight_bytes: usize,
    /// How often a connection of the client's found that its server is no primary any more: those opened before are left.
    pub(crate) demotions: Demotions,
}

impl Settings {
    /// The password for one connection, asked for where it is asked for each time. Fails with `auth`, and with `disconnected`
    /// where it does not come in time.
    pub(crate) async fn password(&self, deadline: Instant) -> Result<Option<String>> {
        let Some(password) = &self.password else { return Ok(None) };
        match timeout_at(deadline.into(), password.get()).await {
            Ok(password) => password.map(Some),
            Err(_) => Err(Error::new(
                Code::Disconnected,
                "the function that is asked for the password did not answer within the time to connect",
            )
            .about(self.endpoint.to_string())),
        }
    }

    /// Whether a server has greeted the client before.
    pub(crate) fn greeted(&self) -> bool {
        self.greeted.load(Ordering::Relaxed)
    }

    /// Takes what a handshake found.
    pub(crate) fn greet(&self, greeting: &Greeting) {
        let (server_ms, at) = greeting.server_time;
        self.minter.set_server_time(server_ms, at);
        self.greeted.store(true, Ordering::Relaxed);
        if let Some(eviction) = &greeting.eviction {
            self.notices.post(eviction.clone());
        }
    }

    /// Those of a connection beside the client's. What is told of the connection is that of the client's own.
    pub(crate) fn beside(&self) -> Self {
        Self { beside: true, notices: Board::new(), ..self.clone() }
    }

    /// The line of one of the client's connections.
    pub(crate) fn line(&self) -> Line {
        let bounds = Bounds { weight: self.max_in_flight, bytes: self.max_in_flight_bytes };
        Line::leasing(bounds, self.lease.clone(), !self.beside)
    }
}
