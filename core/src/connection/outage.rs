//! What is known of the time without a connection: why there is none, who is told, and when calls that wait are.

use super::backoff::Backoff;
use super::settings::{Connect, Settings};
use crate::error::{Code, Error, Result};
use crate::notice::{Notice, NoticeKind};
use std::time::{Duration, Instant};

/// How many refusals in a row end the calls that wait. One may be a moment's: a password that is being changed, files that
/// are being exchanged.
const TOLD_AT: u32 = 2;

/// Whether a connection was refused for a reason that stays until somebody changes something.
fn is_refusal(code: Code) -> bool {
    matches!(code, Code::Auth | Code::Tls | Code::VersionFence | Code::UnsupportedServer)
}

/// Whether a call that fails for want of a connection fails with the code of the reason, and not with `disconnected`.
pub(crate) fn is_told(code: Code) -> bool {
    is_refusal(code) || code == Code::Unavailable
}

/// The time since a connection was lost.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// Refusals in a row.
    refusals: u32,
    told: Option<Code>,
}

impl Outage {
    /// A connection was lost, or an attempt to open one failed; the next is made after `next`, or never. Answers whether the calls
    /// that wait fail with the error now.
    ///
    /// A notice tells of it: once, and again when the reason becomes another one.
    pub(crate) fn failed(&mut self, settings: &Settings, error: &Error, next: Option<Duration>) -> bool {
        if self.told.replace(error.code()) != Some(error.code()) {
            let next = next.map_or_else(
                || "no other attempt is made".to_owned(),
                |next| format!("the next attempt is made after {} ms", next.as_millis()),
            );
            settings.notices.post(Notice::of_error(NoticeKind::Disconnected, error).and(&next));
        }
        self.refusals = if is_refusal(error.code()) { self.refusals.saturating_add(1) } else { 0 };
        self.refusals >= TOLD_AT
    }

    /// There is a connection.
    pub(crate) fn connected(&mut self, settings: &Settings) {
        *self = Self::default();
        let message = format!("connected to {}", settings.endpoint);
        settings.notices.post(Notice::new(NoticeKind::Connected, message));
    }
}

/// The attempts at the first connection, as `connect` asks for them.
pub(crate) struct FirstAttempts {
    connect: Connect,
    deadline: Instant,
    backoff: Backoff,
}

impl FirstAttempts {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            connect: settings.connect,
            deadline: Instant::now() + settings.connect_timeout,
            backoff: Backoff::new(settings.reconnect_min, settings.reconnect_max),
        }
    }

    /// Until when there is time.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// An attempt failed: the wait before the next. Fails with its error where no other is made.
    pub(crate) fn failed(&mut self, error: Error) -> Result<Duration> {
        let passes = matches!(error.code(), Code::Disconnected | Code::Unavailable | Code::Timeout);
        let wait = self.backoff.wait();
        if self.connect == Connect::Once || !passes || Instant::now() + wait >= self.deadline {
            return Err(error);
        }
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::options::Options;

    fn settings(options: &[(&str, &str)]) -> Settings {
        let mut all = Options::new("redis://h").unwrap();
        options.iter().for_each(|(name, value)| all.set(name, value).unwrap());
        all.settings().unwrap()
    }

    fn error(code: Code) -> Error {
        Error::new(code, "no")
    }

    #[test]
    fn the_second_refusal_in_a_row_is_told_to_calls_that_wait() {
        let settings = settings(&[]);
        let mut outage = Outage::default();
        let mut failed = |code| outage.failed(&settings, &error(code), None);
        assert!(!failed(Code::Auth));
        assert!(!failed(Code::Disconnected), "an outage is no refusal");
        assert!(!failed(Code::Tls));
        assert!(failed(Code::Auth));
        assert!(failed(Code::UnsupportedServer));
        outage.connected(&settings);
        assert!(!outage.failed(&settings, &error(Code::Auth), None));
    }

    #[test]
    fn a_reason_is_told_once_until_it_changes() {
        let settings = settings(&[]);
        let mut outage = Outage::default();
        for code in [Code::Disconnected, Code::Disconnected, Code::Auth, Code::Auth, Code::Disconnected] {
            outage.failed(&settings, &error(code), Some(Duration::from_millis(7)));
        }
        outage.connected(&settings);
        outage.failed(&settings, &error(Code::Disconnected), None);
        settings.notices.end();
        let notices = settings.notices.notices();
        let told: Vec<_> = std::iter::from_fn(|| notices.wait_next(Duration::ZERO).flatten()).collect();
        assert_eq!(
            told.iter().map(|notice| (notice.kind(), notice.code())).collect::<Vec<_>>(),
            [
                (NoticeKind::Disconnected, Some(Code::Disconnected)),
                (NoticeKind::Disconnected, Some(Code::Auth)),
                (NoticeKind::Disconnected, Some(Code::Disconnected)),
                (NoticeKind::Connected, None),
                (NoticeKind::Disconnected, Some(Code::Disconnected)),
            ]
        );
        assert!(told[0].message().contains("7 ms"), "{}", told[0]);
    }

    #[test]
    fn only_what_may_pass_is_waited_for() {
        let first = |options: &[(&str, &str)]| FirstAttempts::new(&settings(options));
        let long = [("connect_timeout", "86400000")];
        for (code, waits) in [
            (Code::Disconnected, true),
            (Code::Unavailable, true),
            (Code::Auth, false),
            (Code::Tls, false),
            (Code::VersionFence, false),
            (Code::UnsupportedServer, false),
        ] {
            assert_eq!(first(&long).failed(error(code)).is_ok(), waits, "{code}");
            let once = [long[0], ("connect", "once")];
            assert_eq!(first(&once).failed(error(code)), Err(error(code)));
        }
        assert!(first(&[("connect_timeout", "1")]).failed(error(Code::Disconnected)).is_err());
    }
}
