//! Whether what an operation asks may have been carried out: one rule for all of them.

/// What is known of the sendings of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// It is on its way, or was, and may have been carried out.
    open: bool,
    /// An answer was lost, so that an earlier sending may have been carried out.
    again: bool,
}

impl Sent {
    /// It is about to be sent.
    pub(crate) fn begin(&mut self) {
        self.open = true;
    }

    /// The last sending was certainly not carried out: the server refused it, or nothing of it had left.
    pub(crate) fn take_back(&mut self) {
        self.open = false;
    }

    /// The answer to the last sending was lost.
    pub(crate) fn lost(&mut self) {
        self.again |= self.open;
    }

    /// Whether an answer was lost before.
    pub(crate) fn is_again(self) -> bool {
        self.again
    }

    /// Whether any sending may have been carried out without its answer being known.
    pub(crate) fn is_open(self) -> bool {
        self.open || self.again
    }
}
