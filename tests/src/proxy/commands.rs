//! What a connection through the proxy is made of, where a disturbance depends on it: commands and replies.

use std::ops::Range;

use super::{Ending, Moment};
use crate::resp::{self, Command};

/// Finds the commands, or the replies, in the chunks of one direction.
///
/// It gives up on what is not made of them, for instance on TLS: from then on it finds nothing.
#[derive(Default)]
pub(super) struct Scanner {
    unfinished: Vec<u8>,
    lost: bool,
}

impl Scanner {
    /// What ends in this chunk: the bytes of each, and which bytes of the chunk belong to it.
    pub(super) fn scan(&mut self, chunk: &[u8]) -> Vec<(Vec<u8>, Range<usize>)> {
        if self.lost {
            return Vec::new();
        }
        let before = self.unfinished.len();
        self.unfinished.extend_from_slice(chunk);
        let mut found = Vec::new();
        let mut at = 0;
        loop {
            match resp::reply_length(&self.unfinished[at..]) {
                Ok(Some(length)) => {
                    let bytes = self.unfinished[at..at + length].to_vec();
                    found.push((bytes, at.saturating_sub(before)..at + length - before));
                    at += length;
                }
                Ok(None) => break,
                Err(_) => {
                    self.lost = true;
                    self.unfinished = Vec::new();
                    return found;
                }
            }
        }
        self.unfinished.drain(..at);
        found
    }
}

/// Closes the connections on which a certain command comes.
pub(super) struct Closer {
    commands: Vec<String>,
    moment: Moment,
    ending: Ending,
    times: usize,
}

impl Closer {
    /// `commands` are names with bars between them.
    pub(super) fn new(commands: &str, moment: Moment, ending: Ending, times: usize) -> Self {
        Self { commands: commands.split('|').map(str::to_owned).collect(), moment, ending, times }
    }

    /// How much of a chunk passes, and how the connection ends, where one of the commands that end in the chunk is the
    /// one that closes.
    pub(super) fn judge(&mut self, commands: &[(Vec<u8>, Range<usize>)]) -> Option<(usize, Ending)> {
        if self.times == 0 {
            return None;
        }
        let closes = |bytes: &[u8]| self.commands.iter().any(|name| is_named(bytes, name));
        let place = commands.iter().find(|(bytes, _)| closes(bytes)).map(|(_, place)| place)?;
        self.times -= 1;
        let passes = match self.moment {
            Moment::Before => place.start,
            Moment::After => place.end,
        };
        Some((passes, self.ending))
    }
}

fn is_named(bytes: &[u8], name: &str) -> bool {
    resp::parse_commands(bytes).is_ok_and(|commands| commands.iter().any(|command| command.is(name)))
}

/// How far a client has come that is to be hung up on once it was greeted.
#[derive(Default)]
pub(super) struct Greeting {
    asked: usize,
    answered: usize,
    fence_read: bool,
}

impl Greeting {
    pub(super) fn asked(&mut self, commands: &[(Vec<u8>, Range<usize>)]) {
        self.asked += commands.len();
        let reads_fence =
            |command: &Command| command.is("GET") && command.arguments[1..] == [b"{emq}:version"];
        self.fence_read |= commands.iter().any(|(bytes, _)| {
            resp::parse_commands(bytes).is_ok_and(|commands| commands.iter().any(reads_fence))
        });
    }

    /// How much of a chunk of replies passes, where the last reply of the greeting ends in it.
    pub(super) fn answered(&mut self, replies: &[(Vec<u8>, Range<usize>)]) -> Option<usize> {
        // What the server pushes answers nothing.
        self.answered += replies.iter().filter(|(bytes, _)| bytes[0] != b'>').count();
        let over = self.fence_read && self.answered >= self.asked;
        over.then(|| replies.last().map(|(_, place)| place.end))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::encode;

    #[test]
    fn commands_are_found_in_chunks_of_any_size() {
        let commands = [encode(["PING"]), encode(["XADD", "k", "1-1", "f", "v"]), encode(["TIME"])];
        let whole = commands.concat();
        for size in 1..=whole.len() {
            let mut scanner = Scanner::default();
            let mut found = Vec::new();
            for (number, chunk) in whole.chunks(size).enumerate() {
                for (bytes, place) in scanner.scan(chunk) {
                    found.push((bytes, number * size + place.end));
                }
            }
            let ends = [commands[0].len(), commands[0].len() + commands[1].len(), whole.len()];
            assert_eq!(found, commands.clone().into_iter().zip(ends).collect::<Vec<_>>(), "chunks of {size}");
        }
    }

    #[test]
    fn what_is_not_made_of_commands_is_let_be() {
        let mut scanner = Scanner::default();
        assert_eq!(scanner.scan(&[0x16, 0x03, 0x01, 0x02]), []);
        assert_eq!(scanner.scan(&encode(["PING"])), []);
    }

    #[test]
    fn a_closer_acts_so_many_times_before_or_after_its_command() {
        let chunk = [encode(["PING"]), encode(["xadd", "k"]), encode(["TIME"])].concat();
        let (start, end) = (encode(["PING"]).len(), chunk.len() - encode(["TIME"]).len());
        for (moment, passes) in [(Moment::Before, start), (Moment::After, end)] {
            let mut closer = Closer::new("XADD", moment, Ending::Reset, 2);
            let mut judge = || closer.judge(&Scanner::default().scan(&chunk));
            assert_eq!(judge(), Some((passes, Ending::Reset)));
            assert_eq!(judge(), Some((passes, Ending::Reset)));
            assert_eq!(judge(), None);
        }
        let mut either = Closer::new("EXEC|TIME", Moment::After, Ending::Close, 1);
        assert_eq!(either.judge(&Scanner::default().scan(&chunk)), Some((chunk.len(), Ending::Close)));
        let mut other = Closer::new("XREAD", Moment::Before, Ending::Close, usize::MAX);
        assert_eq!(other.judge(&Scanner::default().scan(&chunk)), None);
    }

    #[test]
    fn a_greeting_is_over_once_all_is_answered_and_the_fence_was_read() {
        let mut greeting = Greeting::default();
        greeting.asked(&Scanner::default().scan(&encode(["HELLO", "3"])));
        assert_eq!(greeting.answered(&Scanner::default().scan(b"%0\r\n")), None);
        greeting
            .asked(&Scanner::default().scan(&[encode(["GET", "{emq}:version"]), encode(["TIME"])].concat()));
        assert_eq!(greeting.answered(&Scanner::default().scan(b"_\r\n")), None);
        assert_eq!(greeting.answered(&Scanner::default().scan(b">1\r\n+x\r\n")), None);
        assert_eq!(greeting.answered(&Scanner::default().scan(b"*2\r\n:1\r\n:2\r\n")), Some(12));
    }
}
