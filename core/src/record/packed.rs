//! Commands in the form in which they leave.
//!
//! An append is written once, straight behind those that leave with it. Making a command of redis-rs first would copy
//! every record twice more.

use std::fmt;

/// Commands, packed as the protocol has them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Packed {
    bytes: Vec<u8>,
    count: usize,
    /// How many bytes there were before those that are kept.
    dropped: u64,
    /// The scripts that the pipeline sends whole.
    scripts: Vec<&'static str>,
}

impl Packed {
    /// How many commands there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// All of them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What follows is sent together.
    pub(crate) fn begin_pipeline(&mut self) {
        self.scripts.clear();
    }

    /// Whether the pipeline sends that script whole already, so that the server knows it by its hash in what follows. From
    /// now on it does.
    pub(crate) fn sends_whole(&mut self, source: &'static str) -> bool {
        let sends = self.scripts.iter().any(|script| std::ptr::eq(*script, source));
        if !sends {
            self.scripts.push(source);
        }
        sends
    }

    /// Starts a command of that many arguments, its name included.
    pub(crate) fn command(&mut self, arguments: usize) -> Arguments<'_> {
        self.count += 1;
        line(&mut self.bytes, b'*', arguments);
        Arguments { bytes: &mut self.bytes, missing: arguments }
    }

    /// Adds the commands of another.
    pub(crate) fn extend(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
        self.count += other.count;
    }

    /// Where the next command begins, counted in bytes from the very first.
    pub(crate) fn position(&self) -> u64 {
        self.dropped + self.bytes.len() as u64
    }

    /// Forgets all commands, and keeps that much memory for the next.
    pub(crate) fn clear(&mut self, kept: usize) {
        self.dropped = self.position();
        self.bytes.clear();
        self.bytes.shrink_to(kept);
        self.count = 0;
        self.begin_pipeline();
    }

    /// Forgets that many bytes at the front, which have left, and keeps not much more memory than the rest needs.
    pub(crate) fn drop_front(&mut self, bytes: usize) {
        self.bytes.drain(..bytes);
        self.dropped += bytes as u64;
        if self.bytes.capacity() / 4 > self.bytes.len() {
            self.bytes.shrink_to(2 * self.bytes.len());
        }
    }

    /// How much memory it has.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The commands as they were given, for tests.
    #[cfg(test)]
    pub(crate) fn unpacked(&self) -> Vec<Vec<Vec<u8>>> {
        use redis::Value;
        let mut decoder = super::decoder::Decoder::new();
        decoder.put(&self.bytes);
        let argument = |argument| match argument {
            Value::BulkString(argument) => argument,
            other => panic!("{other:?}"),
        };
        let command = |command| match command {
            Value::Array(arguments) => arguments.into_iter().map(argument).collect(),
            other => panic!("{other:?}"),
        };
        std::iter::from_fn(|| decoder.next().unwrap()).map(command).collect()
    }

    /// The commands as text, for tests.
    #[cfg(test)]
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |command: Vec<Vec<u8>>| {
            let parts: Vec<String> =
                command.into_iter().map(|part| String::from_utf8(part).unwrap()).collect();
            parts.join(" ")
        };
        self.unpacked().into_iter().map(text).collect()
    }
}

/// Shows no argument: there may be a password among them.
impl fmt::Debug for Packed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands of {} bytes", self.count, self.bytes.len())
    }
}

/// The arguments of the command that was started last.
pub(crate) struct Arguments<'a> {
    bytes: &'a mut Vec<u8>,
    missing: usize,
}

impl Arguments<'_> {
    /// Adds an argument.
    pub(crate) fn arg(&mut self, argument: impl AsRef<[u8]>) -> &mut Self {
        let argument = argument.as_ref();
        debug_assert!(self.missing > 0, "a command has as many arguments as it says");
        self.missing = self.missing.saturating_sub(1);
        self.bytes.reserve(argument.len() + 32);
        line(self.bytes, b'$', argument.len());
        self.bytes.extend_from_slice(argument);
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.arg(itoa::Buffer::new().format(number))
    }
}

impl Drop for Arguments<'_> {
    fn drop(&mut self) {
        debug_assert!(
            self.missing == 0 || std::thread::panicking(),
            "{} arguments are missing",
            self.missing
        );
    }
}

fn line(bytes: &mut Vec<u8>, kind: u8, number: usize) {
    bytes.push(kind);
    bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn commands_are_packed_as_redis_rs_packs_them(commands: Vec<Vec<Vec<u8>>>) {
            let mut packed = Packed::default();
            let mut expected = Vec::new();
            for arguments in &commands {
                let mut command = packed.command(arguments.len());
                let mut same = redis::Cmd::new();
                for argument in arguments {
                    command.arg(argument);
                    same.arg(argument.as_slice());
                }
                same.write_packed_command(&mut expected);
            }
            prop_assert_eq!(packed.bytes(), expected);
            prop_assert_eq!(packed.count(), commands.len());
            prop_assert_eq!(packed.unpacked(), commands);
        }
    }
}
