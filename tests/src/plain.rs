//! A plain client: what the keys hold, found without the crate under test.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use redis::{Connection, ConnectionLike, FromRedisValue, RedisResult, Value};

use crate::give_up;
use crate::resp;
use crate::server::Server;
use crate::wait::DEADLINE;

/// A connection of redis-rs, on the calling thread, that says nothing but what it is told.
pub struct Plain {
    address: SocketAddr,
    password: Option<String>,
    connection: Connection,
}

impl Plain {
    /// Connects to the plain port of `server`. Panics when that fails.
    #[track_caller]
    pub fn connect(server: &Server) -> Self {
        let connection = redis::Client::open(server.url()).and_then(|client| client.get_connection());
        Self {
            address: server.address(),
            password: server.password().map(String::from),
            connection: answer("connecting", connection),
        }
    }

    /// Sends a command and gives its reply. An error reply panics.
    #[track_caller]
    pub fn command(&mut self, arguments: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Value {
        answer("a command", self.try_command(arguments))
    }

    /// Sends a command and gives its reply, or the error that the server answered.
    pub fn try_command(
        &mut self,
        arguments: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> RedisResult<Value> {
        self.connection.req_packed_command(&resp::encode(arguments)).and_then(Value::extract_error)
    }

    /// Sends a command and gives its reply as the type asked for. An error, or a reply of another type, panics.
    #[track_caller]
    pub fn query<T: FromRedisValue>(&mut self, arguments: impl IntoIterator<Item = impl AsRef<[u8]>>) -> T {
        let reply = self.command(arguments);
        match redis::from_redis_value(reply) {
            Ok(value) => value,
            Err(error) => give_up(format_args!("a reply is not what the test expects: {error}")),
        }
    }

    /// `XLEN`: how many records a stream holds; 0 where there is none.
    #[track_caller]
    pub fn xlen(&mut self, key: &str) -> u64 {
        self.query(["XLEN", key])
    }

    /// The exact bytes of the reply to `XRANGE key - +`, in RESP2.
    #[track_caller]
    pub fn xrange_bytes(&self, key: &str) -> Vec<u8> {
        self.reply_bytes(["XRANGE", key, "-", "+"])
    }

    /// `DUMP`: the server's own serialisation of a key; nothing where there is none.
    #[track_caller]
    pub fn dump(&mut self, key: &str) -> Option<Vec<u8>> {
        self.query(["DUMP", key])
    }

    /// Sends a command over a connection of its own and gives the exact bytes of the reply, in RESP2.
    #[track_caller]
    pub fn reply_bytes(&self, arguments: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
        match reply_bytes(self.address, self.password.as_deref(), &resp::encode(arguments), DEADLINE) {
            Ok(bytes) => bytes,
            Err(error) => give_up(format_args!("a raw command failed: {error}")),
        }
    }
}

/// A plain subscription to channels, under RESP2.
pub struct Ear {
    connection: Connection,
}

impl Ear {
    /// Subscribes to a channel, and waits for the server to confirm it. Panics when that fails.
    #[track_caller]
    pub fn subscribe(server: &Server, channel: &str) -> Self {
        answer("a plain subscription", Self::try_subscribe(&server.url(), [channel], DEADLINE))
    }

    /// Subscribes to channels, and waits for the server to confirm each. `patience` is how long it waits for anything.
    pub fn try_subscribe<'a>(
        url: &str,
        channels: impl IntoIterator<Item = &'a str>,
        patience: Duration,
    ) -> RedisResult<Self> {
        let channels: Vec<&str> = channels.into_iter().collect();
        let mut connection = redis::Client::open(url)?.get_connection()?;
        connection.set_read_timeout(Some(patience))?;
        connection.send_packed_command(&resp::encode(["SUBSCRIBE"].iter().chain(&channels)))?;
        for _ in channels {
            connection.recv_response()?;
        }
        Ok(Self { connection })
    }

    /// The payload of the next message. Panics where none comes in time.
    #[track_caller]
    pub fn hear(&mut self) -> Vec<u8> {
        answer("a plain message", self.try_hear()).1
    }

    /// The channel and the payload of the next message.
    pub fn try_hear(&mut self) -> RedisResult<(String, Vec<u8>)> {
        let message = self.connection.recv_response()?;
        let (_, channel, payload): (String, String, Vec<u8>) = redis::from_redis_value(message)?;
        Ok((channel, payload))
    }
}

#[track_caller]
fn answer<T>(what: &str, result: RedisResult<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => give_up(format_args!("{what} failed: {error}")),
    }
}

/// Sends the bytes of one command and gives the exact bytes of its reply.
fn reply_bytes(
    address: SocketAddr,
    password: Option<&str>,
    command: &[u8],
    timeout: Duration,
) -> io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect_timeout(&address, timeout)?;
    socket.set_read_timeout(Some(timeout))?;
    if let Some(password) = password {
        socket.write_all(&resp::encode(["AUTH", password]))?;
        let reply = one_reply(&mut socket)?;
        if reply != b"+OK\r\n" {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the server refused the password"));
        }
    }
    socket.write_all(command)?;
    one_reply(&mut socket)
}

fn one_reply(socket: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut reply = Vec::new();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = socket.read(&mut chunk)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reply.extend_from_slice(&chunk[..read]);
        if resp::reply_length(&reply)? == Some(reply.len()) {
            return Ok(reply);
        }
    }
}

/// The reply to one command as text, error replies included.
pub(crate) fn ask(address: SocketAddr, password: Option<&str>, words: &[&str]) -> io::Result<String> {
    let reply = reply_bytes(address, password, &resp::encode(words), DEADLINE)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

/// The process id that the server at `address` gives as its own, once it is ready for commands.
pub(crate) fn process_id(address: SocketAddr, password: Option<&str>) -> io::Result<u32> {
    let pong = reply_bytes(address, password, &resp::encode(["PING"]), Duration::from_secs(5))?;
    if pong != b"+PONG\r\n" {
        return Err(io::Error::other("the server is not ready"));
    }
    let info = reply_bytes(address, password, &resp::encode(["INFO", "server"]), Duration::from_secs(5))?;
    String::from_utf8_lossy(&info)
        .lines()
        .find_map(|line| line.strip_prefix("process_id:"))
        .and_then(|id| id.trim().parse().ok())
        .ok_or_else(|| io::Error::other("the server names no process id"))
}
