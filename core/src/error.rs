//! What can go wrong, one code per cause.
//!
//! There is one error type because a caller asks one question first, *which cause is it?*, and the answer must be the
//! same in every language: [`Code`] is that answer, and `docs/protocol.md` §10 is its list. The text is for people and
//! may change; the code does not.

use std::any::Any;
use std::fmt;

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The cause of an [`Error`], the same word in every language (`docs/protocol.md` §10).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code, in the order of the protocol's list.
            ///
            /// Each language binding is tested against it, so that no code can be forgotten there.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The code's word, as every language shows it.
            ///
            /// ```
            /// assert_eq!(echomq::Code::NonMonotonic.as_str(), "nonmonotonic");
            /// ```
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Code::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// A text is no branded id: wrong length, namespace, character or range.
    MalformedId = "malformed_id",
    /// A well-formed id of a namespace that has no place here.
    Kind = "kind",
    /// A queue, stream or other name breaks the rule of `docs/protocol.md` §2.
    InvalidName = "invalid_name",
    /// A field is named `id`, which the record itself uses; or a member of an event has a name that the event uses.
    ReservedField = "reserved_field",
    /// A record or an event is over the client's bound.
    TooLarge = "too_large",
    /// A window ends before it starts.
    InvalidWindow = "invalid_window",
    /// An option, a URL or an argument has a value that cannot be used.
    InvalidOption = "invalid_option",
    /// The entry id is not above the stream's top: a second writer is at work.
    NonMonotonic = "nonmonotonic",
    /// The stream's top is more than a minute ahead of the server's clock.
    StreamAhead = "stream_ahead",
    /// This host's clock is ahead of the server's by more than the bound.
    ClockAhead = "clock_ahead",
    /// The request was sent and its answer never came: it may or may not have been applied.
    UnknownOutcome = "unknown_outcome",
    /// The key holds a value of another type.
    WrongType = "wrong_type",
    /// The consumer group does not exist.
    NoGroup = "no_group",
    /// There is no connection to the server; nothing was changed by the request.
    Disconnected = "disconnected",
    /// The answer did not come in time; nothing was changed by the request.
    Timeout = "timeout",
    /// Too many requests are waiting already; this one was not taken.
    Overloaded = "overloaded",
    /// The server is out of memory and refused to write.
    OutOfMemory = "out_of_memory",
    /// The deployment speaks another version of the wire.
    VersionFence = "version_fence",
    /// The server refused the user, the password or a permission.
    Auth = "auth",
    /// The TLS handshake or its certificates failed.
    Tls = "tls",
    /// The right to mint with a node id is gone.
    NodeLeaseLost = "node_lease_lost",
    /// Another process mints with the same node id.
    NodeConflict = "node_conflict",
    /// The server is there and could not serve until the deadline: it is loading, failing over, read-only or busy.
    Unavailable = "unavailable",
    /// The server is older than the bus needs, Valkey 7.2 or Redis 7.0, or a cluster's node or a sentinel.
    UnsupportedServer = "unsupported_server",
    /// The 41 bits of an id's timestamp are used up.
    MintExhausted = "mint_exhausted",
    /// The object store failed.
    Floor = "floor",
    /// What the call names does not exist any more.
    Gone = "gone",
    /// The caller's view was overtaken by another writer's.
    Stale = "stale",
    /// Someone else holds the lock.
    Locked = "locked",
    /// The call does not fit the state of what it names.
    State = "state",
    /// The client is closed, or belongs to the process that forked this one.
    Closed = "closed",
    /// Anything else the server said, verbatim.
    Server = "server",
}

impl Code {
    /// Whether a call that failed with this code may succeed later without any change by the caller.
    ///
    /// [`Code::UnknownOutcome`] is not among them: calling again could write a second record.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Disconnected
                | Self::Timeout
                | Self::Overloaded
                | Self::OutOfMemory
                | Self::NodeLeaseLost
                | Self::Unavailable
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error: its [`Code`], a sentence that says what was refused and why, and the key or name concerned.
///
/// It never holds a password, nor a URL with one.
///
/// ```
/// let error = echomq::EventId::parse("EVT000xY9Wvv-d").unwrap_err();
/// assert_eq!(error.code(), echomq::Code::MalformedId);
/// assert_eq!(error.to_string(), "malformed_id: charset: `EVT000xY9Wvv-d` has a character outside 0-9, A-Z and a-z");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Parts>);

#[derive(Clone, PartialEq, Eq)]
struct Parts {
    code: Code,
    message: String,
    subject: Option<String>,
    id: Option<String>,
    top: Option<String>,
    cause: Option<Error>,
}

impl Error {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Parts {
            code,
            message: message.into(),
            subject: None,
            id: None,
            top: None,
            cause: None,
        }))
    }

    /// The key or name that the error is about. The first one given stays.
    pub(crate) fn about(mut self, subject: impl Into<String>) -> Self {
        self.0.subject.get_or_insert_with(|| subject.into());
        self
    }

    pub(crate) fn with_id(mut self, id: impl Into<String>) -> Self {
        self.0.id = Some(id.into());
        self
    }

    pub(crate) fn with_top(mut self, top: impl Into<String>) -> Self {
        self.0.top = Some(top.into());
        self
    }

    /// The error that led to this one. A cause that is given later stands below the first.
    pub(crate) fn because(mut self, cause: Error) -> Self {
        self.0.cause = Some(match self.0.cause.take() {
            Some(nearer) => nearer.because(cause),
            None => cause,
        });
        self
    }

    /// The cause.
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The sentence, without code and subject.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The key or name concerned, where there is one.
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// The branded id of the record concerned: with [`Code::UnknownOutcome`], the one to ask again with
    /// through `append_id`, or to read from after `append_sequenced`; with [`Code::NonMonotonic`], the one that was refused.
    pub fn id(&self) -> Option<&str> {
        self.0.id.as_deref()
    }

    /// With [`Code::NonMonotonic`], the entry id of the stream's top.
    pub fn top(&self) -> Option<&str> {
        self.0.top.as_deref()
    }

    /// The error that led to this one, where there is one: why there was no connection, for example.
    pub fn cause(&self) -> Option<&Error> {
        self.0.cause.as_ref()
    }

    /// Whether the same call may succeed later without any change by the caller; see [`Code::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        self.0.code.is_retryable()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code, self.0.message)?;
        match &self.0.subject {
            Some(subject) => write!(f, " ({subject})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_ref().map(|cause| cause as _)
    }
}

/// What a panic says.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_protocol_and_no_other() {
        let law = include_str!("../../docs/protocol.md");
        let section = law.split("## 10 · Errors").nth(1).expect("section 10");
        let list = section.split("`err.code` in Node, an enum in Rust):").nth(1).expect("the list");
        let list = list.split("Every error carries").next().expect("its end");
        let words: Vec<&str> = list
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
            .collect();
        let ours: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(ours, words);
    }

    #[test]
    fn every_code_is_documented() {
        let rows = include_str!("../../docs/errors.md").lines().filter(|line| line.starts_with("| `"));
        let documented: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
        let ours: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(documented, ours);
    }

    #[test]
    fn a_cause_is_the_source() {
        let error = Error::new(Code::UnknownOutcome, "nobody knows")
            .because(Error::new(Code::Disconnected, "no connection"))
            .because(Error::new(Code::Tls, "no certificate"));
        assert_eq!(error.cause().map(Error::code), Some(Code::Disconnected));
        let source = std::error::Error::source(&error).and_then(std::error::Error::source);
        assert_eq!(source.map(ToString::to_string).as_deref(), Some("tls: no certificate"));
    }

    #[test]
    fn an_error_is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
