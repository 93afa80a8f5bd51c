//! Options that were checked.

use super::endpoint::Endpoint;
use super::tls::Tls;
use crate::clock::Clock;
use crate::id::mint::Mint;
use crate::operation::minter::Minter;
use std::time::Duration;

/// Which protocol version to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP3, or RESP2 where the server knows no other.
    Auto,
    Resp2,
    Resp3,
}

/// Everything a door needs to know.
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
    pub(crate) mint: Option<Mint>,
    pub(crate) clock: Clock,
    pub(crate) max_clock_ahead: Option<Duration>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) reconnect_min: Duration,
    pub(crate) reconnect_max: Duration,
    pub(crate) heartbeat: Duration,
    pub(crate) max_record_bytes: usize,
    pub(crate) max_in_flight: usize,
}

impl Settings {
    /// The minter of these settings.
    pub(crate) fn minter(&self) -> Minter {
        Minter::new(self.clock, self.mint.clone(), self.max_clock_ahead)
    }
}
