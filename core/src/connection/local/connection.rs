//! A blocking connection, open and greeted, whose waits are cut into steps so that the host gets its turn.

use super::host::Host;
use crate::connection::handshake::Handshake;
use crate::connection::password::Password;
use crate::connection::settings::Settings;
use crate::connection::socket::{BlockingSocket, failure, is_a_pause};
use crate::error::{Error, Result};
use crate::process;
use crate::record::decoder::Decoder;
use crate::record::packed::Packed;
use redis::Value;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::time::timeout_at;

/// How long to bear a silent server.
pub(super) struct Patience<'a> {
    pub(super) host: &'a Host<'a>,
    pub(super) stall: Duration,
    pub(super) until: Instant,
}

impl Patience<'_> {
    /// Runs one read or write again until it gets somewhere.
    fn bear(&self, mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        let started = Instant::now();
        loop {
            match attempt() {
                Err(error) if is_a_pause(&error) => {
                    if self.host.says_stop() {
                        return Err(io::Error::other("the wait was interrupted"));
                    }
                    let now = Instant::now();
                    if now.duration_since(started) >= self.stall || now >= self.until {
                        return Err(io::Error::new(
                            ErrorKind::TimedOut,
                            "the server was silent for too long",
                        ));
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }
}

/// One connection, open and greeted.
pub(super) struct Connection {
    socket: BlockingSocket,
    decoder: Decoder,
    pub(super) output: Packed,
    settings: Settings,
}

impl Connection {
    /// Connects and greets, within the time for one attempt and by the deadline.
    pub(super) fn open(settings: &Settings, host: &Host<'_>, deadline: Instant) -> Result<Self> {
        let deadline = deadline.min(Instant::now() + settings.connect_timeout);
        let password = Self::password(settings, host, deadline)?;
        let socket = Self::socket(settings, host, deadline)?;
        let mut connection =
            Self { socket, decoder: Decoder::new(), output: Packed::default(), settings: settings.clone() };
        let patience = Patience { host, stall: settings.connect_timeout, until: deadline };
        let mut handshake = Handshake::new(settings, password);
        loop {
            connection.output = handshake.commands();
            connection.write(&patience)?;
            let replies: Result<Vec<Value>> =
                (0..connection.output.count()).map(|_| connection.read(&patience, || ())).collect();
            if let Some(greeting) = handshake.answered(replies?)? {
                settings.greet(&greeting);
                return Ok(connection);
            }
        }
    }

    /// The password of this attempt; a function is asked on the runtime, while this thread waits.
    fn password(settings: &Settings, host: &Host<'_>, deadline: Instant) -> Result<Option<String>> {
        match &settings.password {
            None => Ok(None),
            Some(Password::Text(password)) => Ok(Some(password.clone())),
            Some(asked) => {
                let (asked, endpoint) = (asked.clone(), settings.endpoint.clone());
                let by = async move {
                    match timeout_at(deadline.into(), asked.get()).await {
                        Ok(password) => password.map(Some),
                        Err(_) => {
                            let late = "the function that is asked for the password took too long";
                            Err(failure(&endpoint, &io::Error::new(ErrorKind::TimedOut, late)))
                        }
                    }
                };
                host.wait_for(by)
            }
        }
    }

    /// Connects on a thread of its own, since neither the search for an address nor a connect can be interrupted.
    fn socket(settings: &Settings, host: &Host<'_>, deadline: Instant) -> Result<BlockingSocket> {
        let (endpoint, tls) = (settings.endpoint.clone(), settings.tls.clone());
        let (sender, receiver) = mpsc::channel();
        let connect = move || {
            // Whoever asked may have given up meanwhile.
            let _ = sender.send(BlockingSocket::connect(&endpoint, tls.as_deref(), deadline));
        };
        process::start_thread("echomq-connect", connect)?;
        loop {
            match receiver.recv_timeout(BlockingSocket::STEP) {
                Ok(connected) => return connected,
                Err(RecvTimeoutError::Timeout) if !host.says_stop() && Instant::now() < deadline => {}
                Err(_) => {
                    let gave_up = io::Error::new(ErrorKind::TimedOut, "the attempt took too long");
                    return Err(failure(&settings.endpoint, &gave_up));
                }
            }
        }
    }

    /// Whether the server has not hung up yet, as far as this host knows.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    /// Sends the whole output.
    pub(super) fn write(&mut self, patience: &Patience<'_>) -> Result<()> {
        let mut written = 0;
        while written < self.output.bytes().len() {
            match patience.bear(|| self.socket.write(&self.output.bytes()[written..])) {
                Ok(0) => return Err(self.failed(ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(error) => return Err(self.failed(error)),
            }
        }
        patience.bear(|| self.socket.flush().map(|()| 0)).map_err(|error| self.failed(error))?;
        Ok(())
    }

    /// Reads one reply, and before each wait for the server does something else.
    pub(super) fn read(&mut self, patience: &Patience<'_>, before_waiting: impl Fn()) -> Result<Value> {
        loop {
            match self.decoder.next() {
                // Nothing here asks for pushed messages; one that comes all the same answers no command.
                Ok(Some(Value::Push { .. })) => {}
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {
                    before_waiting();
                    let room = self.decoder.room();
                    match patience.bear(|| self.socket.read(room)) {
                        Ok(0) => {
                            return Err(self.failed(io::Error::other("the server closed the connection")));
                        }
                        Ok(bytes) => self.decoder.filled(bytes),
                        Err(error) => return Err(self.failed(error)),
                    }
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        failure(&self.settings.endpoint, &error)
    }
}
