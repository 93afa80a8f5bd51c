//! The way to the server: options, sockets, the handshake, and the three doors.
//!
//! A *door* carries operations to the server and answers back: the shared door serves all callers of a client over one
//! connection, the local door does the same on the threads of its callers, and a lane is a connection for one caller
//! that waits for long.

pub(crate) mod addresses;
pub(crate) mod backoff;
pub(crate) mod demotion;
pub(crate) mod door;
pub(crate) mod endpoint;
pub(crate) mod handshake;
pub(crate) mod identity;
pub(crate) mod lane;
pub(crate) mod link;
pub(crate) mod local;
pub(crate) mod options;
pub(crate) mod outage;
pub(crate) mod password;
pub(crate) mod progress;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod socket;
pub(crate) mod tls;
