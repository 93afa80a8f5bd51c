//! Waiting for a condition, instead of for a time.

use std::time::{Duration, Instant};

use crate::give_up;

/// How long a condition may take before the test has failed. Generous: it is reached only by a test that fails.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// The pause between two looks at a condition.
pub const STEP: Duration = Duration::from_millis(5);

/// Waits until `condition` holds, on the calling thread.
///
/// Panics, naming `what`, when it does not hold within [`DEADLINE`].
///
/// ```
/// let mut looks = 0;
/// echomq_tests::wait_until("a third look", || {
///     looks += 1;
///     looks == 3
/// });
/// assert_eq!(looks, 3);
/// ```
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        if Instant::now() > deadline {
            give_up(format_args!("waited {} s in vain for {what}", DEADLINE.as_secs()));
        }
        std::thread::sleep(STEP);
    }
}

/// Waits until `condition` holds, without holding up the runtime's other tasks.
///
/// Panics, naming `what`, when it does not hold within [`DEADLINE`]. Dropping the future ends the wait.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// let mut looks = 0;
/// echomq_tests::wait_until_async("a third look", async || {
///     looks += 1;
///     looks == 3
/// })
/// .await;
/// assert_eq!(looks, 3);
/// # });
/// ```
pub async fn wait_until_async(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition().await {
        if Instant::now() > deadline {
            give_up(format_args!("waited {} s in vain for {what}", DEADLINE.as_secs()));
        }
        tokio::time::sleep(STEP).await;
    }
}
