//! Options that were checked, and what all connections of one client share.

use super::demotion::Demotions;
use super::endpoint::Endpoint;
use super::tls::Tls;
use crate::notice::Board;
use crate::operation::line::Bounds;
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
    /// Whether the server was found to be no primary any more.
    pub(crate) demotions: Demotions,
}

impl Settings {
    /// How much may wait for answers at once.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { weight: self.max_in_flight, bytes: self.max_in_flight_bytes }
    }
}
