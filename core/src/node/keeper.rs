//! What renews the lease of a client's node, beside its calls.

use crate::connection::door::Door;
use crate::error::Code;
use crate::operation::lease::{Hold, Lease};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::sleep;

/// The longest sleep between two looks: timers stand still while a host is suspended.
const LONGEST: Duration = Duration::from_secs(1);

const SHORTEST: Duration = Duration::from_millis(1);

/// Has the client's lease renewed from when it has one until it is closed.
pub(crate) fn keep<D: Door>(door: &D) {
    let (door, lease) = (Arc::new(door.weak()), &door.settings().lease);
    let weak = Arc::downgrade(lease);
    lease.kept_by(Box::new(move || {
        let (again, weak) = (door.clone(), weak.clone());
        // Without a runtime the lease runs out, and whoever mints next asks for it anew.
        let Some(Ok(runtime)) = again().map(|door| door.runtime()) else { return false };
        runtime.spawn(async move {
            while let Some((wait, due)) = look(&weak) {
                sleep(wait).await;
                if !due {
                    continue;
                }
                let (Some(door), Some(lease)) = (again(), weak.upgrade()) else { break };
                // A failure is tried again, and told once the lease has run out.
                let answer = door.run_aside(Hold::new(lease)).await;
                if answer.is_err_and(|error| error.code() == Code::Closed) {
                    break;
                }
            }
            if let Some(lease) = weak.upgrade() {
                lease.no_longer_kept();
            }
        });
        true
    }));
}

/// How long to sleep, and whether the lease is to be renewed then; nothing once there is none to keep.
fn look(lease: &Weak<Lease>) -> Option<(Duration, bool)> {
    let lease = lease.upgrade().filter(|lease| !lease.is_released())?;
    let due = lease.look();
    let wait = if due { Duration::ZERO } else { lease.next_look().clamp(SHORTEST, LONGEST) };
    Some((wait, due))
}
