//! Options that were checked, and what all connections of one client share.

use super::endpoint::Endpoint;
use super::tls::Tls;
use crate::notice::Board;
use crate::operation::lease::Lease;
use crate::operation::line::Line;
use crate::operation::minter::Minter;
use std::sync::Arc;
use std::time::Duration;

/// Which protocol version to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP3, or RESP2 where the server knows no other.
    Auto,
    Resp2,
    Resp3,
}

/// Everything a door needs to know. Clones are of the same client.
#[derive(Clone)]
pub struct Settings {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<Tls>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
    pub(crate) client_name: Option<String>,
    pub(crate) protocol: Protocol,
    pub(crate) claim_version: Option<String>,
    /// What makes the client's ids, on whichever of its connections they leave.
    pub(crate) minter: Arc<Minter>,
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
}

impl Settings {
    /// Those of a connection beside the client's.
    pub(crate) fn beside(&self) -> Self {
        Self { beside: true, ..self.clone() }
    }

    /// The line of one of the client's connections.
    pub(crate) fn line(&self) -> Line {
        Line::leasing(self.max_in_flight, self.lease.clone(), !self.beside)
    }
}
