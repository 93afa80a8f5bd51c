//! Any command of the server's, for what this crate has no call for.

use super::minter::Minter;
use super::one_answer::{check_lane, check_shared};
use super::sent::Sent;
use super::{Operation, Step};
use crate::error::{Code, Error, Result};
use crate::record::packed::Packed;
use crate::record::reply;
use redis::Value;

/// Commands sent as they are, their replies given back as they come.
pub(crate) struct Commands {
    commands: Packed,
    sent: Sent,
}

impl Commands {
    /// Commands for a connection that others use too.
    ///
    /// Fails with `invalid_option` for no command at all, one without a name, and one that would change the connection.
    pub(crate) fn new<C, A>(commands: impl IntoIterator<Item = C>) -> Result<Self>
    where
        C: IntoIterator<Item = A>,
        A: AsRef<[u8]>,
    {
        Self::checked(commands, check_shared)
    }

    fn checked<C, A>(
        commands: impl IntoIterator<Item = C>,
        check: impl Fn(&[A]) -> Result<()>,
    ) -> Result<Self>
    where
        C: IntoIterator<Item = A>,
        A: AsRef<[u8]>,
    {
        let mut packed = Packed::default();
        for command in commands {
            let arguments: Vec<A> = command.into_iter().collect();
            if arguments.is_empty() {
                return Err(without_name());
            }
            check(&arguments)?;
            let mut command = packed.command(arguments.len());
            arguments.iter().for_each(|argument| {
                command.arg(argument);
            });
        }
        if packed.count() == 0 {
            Err(without_name())
        } else {
            Ok(Self { commands: packed, sent: Sent::default() })
        }
    }

    fn given_up(&self, why: Error) -> Error {
        if self.sent.is_open() { unknown(&why) } else { why }
    }
}

fn without_name() -> Error {
    Error::new(Code::InvalidOption, "a command has at least its name")
}

fn unknown(why: &Error) -> Error {
    let why_text = why.message();
    Error::new(Code::UnknownOutcome, format!("the command may or may not have been carried out: {why_text}"))
        .because(why.clone())
}

fn lost() -> Error {
    unknown(&Error::new(Code::Disconnected, "the connection broke before the answer came"))
}

/// One command.
pub(crate) struct Command(Commands);

impl Command {
    /// A command for a connection that others use too.
    ///
    /// Fails with `invalid_option` for a command without a name, and for one that would change the connection.
    pub(crate) fn new<A: AsRef<[u8]>>(arguments: impl IntoIterator<Item = A>) -> Result<Self> {
        Commands::new([arguments]).map(Self)
    }

    /// A command for a connection of the caller's own.
    ///
    /// Fails with `invalid_option` for a command without a name, and for one that has not one answer.
    pub(crate) fn for_lane<A: AsRef<[u8]>>(arguments: impl IntoIterator<Item = A>) -> Result<Self> {
        Commands::checked([arguments], check_lane).map(Self)
    }
}

impl Operation for Command {
    type Reply = Reply;

    fn prepare(&mut self, minter: &Minter) -> Result<()> {
        self.0.prepare(minter)
    }

    fn commands(&self, commands: &mut Packed) {
        self.0.commands(commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        Step::Done(Reply::read(replies.into_iter().next().unwrap_or(Value::Nil)))
    }

    fn unavailable(&mut self, _: Vec<Value>, why: Error) -> Step<Self::Reply> {
        self.0.sent.take_back();
        Step::Later(why)
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        Step::Done(Err(lost()))
    }

    fn unsent(&mut self) {
        self.0.unsent();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(self.0.given_up(why))
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl Operation for Commands {
    type Reply = Vec<Result<Reply>>;

    fn prepare(&mut self, _: &Minter) -> Result<()> {
        self.sent.begin();
        Ok(())
    }

    fn commands(&self, commands: &mut Packed) {
        commands.extend(&self.commands);
    }

    fn answered(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        Step::Done(Ok(replies.into_iter().map(Reply::read).collect()))
    }

    /// Some were carried out and some were not: sent again, some would be carried out twice.
    fn unavailable(&mut self, replies: Vec<Value>, why: Error) -> Step<Self::Reply> {
        match replies.iter().all(|reply| reply::unavailable(reply).is_some()) {
            true => {
                self.sent.take_back();
                Step::Later(why)
            }
            false => self.answered(replies),
        }
    }

    fn lost(&mut self) -> Step<Self::Reply> {
        Step::Done(Err(lost()))
    }

    fn cut(&mut self, replies: Vec<Value>) -> Step<Self::Reply> {
        let missing = self.commands.count().saturating_sub(replies.len());
        let answered = replies.into_iter().map(Reply::read);
        Step::Done(Ok(answered.chain((0..missing).map(|_| Err(lost()))).collect()))
    }

    fn unsent(&mut self) {
        self.sent.take_back();
    }

    fn abandon(&mut self, why: Error) -> Result<Self::Reply> {
        Err(self.given_up(why))
    }

    fn weight(&self) -> usize {
        self.commands.count()
    }

    fn bytes(&self) -> usize {
        self.commands.bytes().len()
    }
}

/// What the server answered to a command, the same under RESP2 and RESP3 as far as the server itself makes it so.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A number with a fraction.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A text, as bytes.
    Bytes(Vec<u8>),
    /// A list.
    List(Vec<Reply>),
    /// Names and values, in the server's order.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    pub(crate) fn read(value: Value) -> Result<Self> {
        let list = |items: Vec<Value>| items.into_iter().map(Self::read).collect::<Result<Vec<_>>>();
        Ok(match reply::accepted(value)? {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Int(number),
            Value::Double(number) => Self::Double(number),
            Value::Boolean(value) => Self::Boolean(value),
            Value::Array(items) | Value::Set(items) => Self::List(list(items)?),
            Value::Map(members) => Self::Map(
                members
                    .into_iter()
                    .map(|(name, value)| Ok((Self::read(name)?, Self::read(value)?)))
                    .collect::<Result<_>>()?,
            ),
            Value::Push { data, .. } => Self::List(list(data)?),
            Value::BigNumber(number) => Self::Bytes(number),
            text => Self::Bytes(reply::bytes(text)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reply: &[u8]) -> Result<Reply> {
        Reply::read(redis::parse_redis_value(reply).unwrap())
    }

    #[test]
    fn every_shape_of_both_protocols() {
        let text = |text: &str| Reply::Bytes(text.as_bytes().to_vec());
        for (reply, expected) in [
            (&b"+OK\r\n"[..], text("OK")),
            (b"+PONG\r\n", text("PONG")),
            (b"$3\r\na\x00b\r\n", text("a\0b")),
            (b"=5\r\ntxt:a\r\n", text("a")),
            (b"$-1\r\n", Reply::Nil),
            (b"*-1\r\n", Reply::Nil),
            (b"_\r\n", Reply::Nil),
            (b":7\r\n", Reply::Int(7)),
            (b",1.5\r\n", Reply::Double(1.5)),
            (b"#t\r\n", Reply::Boolean(true)),
            (b"*2\r\n:1\r\n$1\r\na\r\n", Reply::List(vec![Reply::Int(1), text("a")])),
            (b"~1\r\n:1\r\n", Reply::List(vec![Reply::Int(1)])),
            (b"%1\r\n$1\r\na\r\n:1\r\n", Reply::Map(vec![(text("a"), Reply::Int(1))])),
        ] {
            assert_eq!(read(reply).unwrap(), expected, "{}", reply.escape_ascii());
        }
        assert_eq!(read(b"*1\r\n-ERR no\r\n").unwrap_err().code(), Code::Server);
    }

    #[test]
    fn a_command_has_a_name() {
        assert!(Commands::new([["PING"]]).is_ok());
        assert_eq!(Commands::new([Vec::<&str>::new()]).err().unwrap().code(), Code::InvalidOption);
        assert_eq!(Commands::new(Vec::<Vec<&str>>::new()).err().unwrap().code(), Code::InvalidOption);
    }
}
