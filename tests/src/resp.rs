//! Where replies and commands end in a run of bytes of the Redis protocol (RESP2 and RESP3).

use std::io;

/// One command as it stood on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The exact bytes, from `*` to the last line end.
    pub bytes: Vec<u8>,
    /// The arguments, the command's name first.
    pub arguments: Vec<Vec<u8>>,
}

impl Command {
    /// Whether the first argument is `name`, in any case.
    ///
    /// ```
    /// let commands = echomq_tests::resp::parse_commands(b"*1\r\n$4\r\nPING\r\n").unwrap();
    /// assert!(commands[0].is("ping"));
    /// ```
    pub fn is(&self, name: &str) -> bool {
        self.arguments.first().is_some_and(|first| first.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// The bytes of a command: an array of bulk strings.
///
/// ```
/// assert_eq!(echomq_tests::resp::encode(["GET", "k"]), b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
/// ```
pub fn encode(arguments: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let mut count = 0;
    let mut body = Vec::new();
    for argument in arguments {
        let argument = argument.as_ref();
        count += 1;
        body.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        body.extend_from_slice(argument);
        body.extend_from_slice(b"\r\n");
    }
    let mut bytes = format!("*{count}\r\n").into_bytes();
    bytes.extend_from_slice(&body);
    bytes
}

/// Takes captured bytes apart into the commands they hold. An unfinished command at the end is left out.
///
/// Answers `InvalidData` where a command is not an array of bulk strings, which is how every client library sends it.
pub fn parse_commands(bytes: &[u8]) -> io::Result<Vec<Command>> {
    let mut commands = Vec::new();
    let mut at = 0;
    while let Some(length) = reply_length(&bytes[at..])? {
        let command = &bytes[at..at + length];
        commands.push(Command { bytes: command.to_vec(), arguments: arguments(command)? });
        at += length;
    }
    Ok(commands)
}

fn arguments(command: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let (count, mut at) = match header(command)? {
        Some((b'*', count, at)) => (count, at),
        _ => return Err(invalid("a command that is no array")),
    };
    let mut arguments = Vec::new();
    for _ in 0..count {
        match header(&command[at..])? {
            Some((b'$', length @ 0.., start)) => {
                let start = at + start;
                let end = start + length as usize;
                arguments.push(command[start..end].to_vec());
                at = end + 2;
            }
            _ => return Err(invalid("an argument that is no bulk string")),
        }
    }
    Ok(arguments)
}

/// How many bytes the first reply in `bytes` takes, or nothing while it is not complete.
///
/// ```
/// use echomq_tests::resp::reply_length;
/// assert_eq!(reply_length(b"*1\r\n$2\r\nab\r\n+OK\r\n").unwrap(), Some(12));
/// assert_eq!(reply_length(b"*1\r\n$2\r\na").unwrap(), None);
/// ```
pub fn reply_length(bytes: &[u8]) -> io::Result<Option<usize>> {
    let mut at = 0;
    // How many values are still to come before the reply is complete.
    let mut missing: u64 = 1;
    while missing > 0 {
        missing -= 1;
        let kind = match bytes.get(at) {
            None => return Ok(None),
            Some(kind) => *kind,
        };
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => match line_end(&bytes[at..]) {
                None => return Ok(None),
                Some(end) => at += end,
            },
            b'$' | b'!' | b'=' | b'*' | b'~' | b'>' | b'%' | b'|' => {
                let Some((_, count, start)) = header(&bytes[at..])? else { return Ok(None) };
                at += start;
                let count = u64::try_from(count).ok();
                match (kind, count) {
                    (_, None) => {}
                    (b'$' | b'!' | b'=', Some(length)) => at += length as usize + 2,
                    (b'%', Some(pairs)) => missing += 2 * pairs,
                    // An attribute stands before the value that it belongs to.
                    (b'|', Some(pairs)) => missing += 2 * pairs + 1,
                    (_, Some(values)) => missing += values,
                }
                if at > bytes.len() {
                    return Ok(None);
                }
            }
            _ => return Err(invalid("a byte that begins no value")),
        }
    }
    Ok(Some(at))
}

/// The first line: its kind, its number, and where the next line begins.
fn header(bytes: &[u8]) -> io::Result<Option<(u8, i64, usize)>> {
    let Some(end) = line_end(bytes) else { return Ok(None) };
    let number = std::str::from_utf8(&bytes[1..end - 2]).ok().and_then(|text| text.parse().ok());
    match number {
        Some(number) => Ok(Some((bytes[0], number, end))),
        None => Err(invalid("a length that is no number")),
    }
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(2).position(|pair| pair == b"\r\n").map(|at| at + 2)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the bytes hold {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_ends_where_its_last_value_ends() {
        for reply in [
            &b"+OK\r\n"[..],
            b"-ERR no\r\n",
            b":12\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"$0\r\n\r\n",
            b"$4\r\n\r\n\r\n\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            b"%1\r\n+a\r\n*2\r\n_\r\n#t\r\n",
            b"|1\r\n+ttl\r\n:3\r\n+value\r\n",
            b"=7\r\ntxt:abc\r\n",
        ] {
            let mut followed = reply.to_vec();
            followed.extend_from_slice(b"+next\r\n");
            assert_eq!(reply_length(&followed).unwrap(), Some(reply.len()), "{}", reply.escape_ascii());
            for cut in 0..reply.len() {
                assert_eq!(reply_length(&reply[..cut]).unwrap(), None, "{}", reply[..cut].escape_ascii());
            }
        }
        assert!(reply_length(b"hello\r\n").is_err());
        assert!(reply_length(b"$x\r\n").is_err());
    }

    #[test]
    fn commands_come_back_as_they_were_encoded() {
        let first = encode(["XADD", "k", "1-1", "f", ""]);
        let second = encode([&b"SET"[..], b"\r\n*", b"\x00\xff"]);
        let mut bytes = [first.clone(), second.clone()].concat();
        bytes.extend_from_slice(b"*1\r\n$4\r\nPI");

        let commands = parse_commands(&bytes).unwrap();
        assert_eq!(commands.len(), 2);
        assert_eq!(commands[0].bytes, first);
        assert_eq!(commands[0].arguments, [&b"XADD"[..], b"k", b"1-1", b"f", b""]);
        assert_eq!(commands[1].bytes, second);
        assert_eq!(commands[1].arguments, [&b"SET"[..], b"\r\n*", b"\x00\xff"]);
        assert!(commands[0].is("xadd") && !commands[0].is("x"));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        assert!(parse_commands(b"+OK\r\n").is_err());
        assert!(parse_commands(b"*1\r\n:1\r\n").is_err());
    }
}
