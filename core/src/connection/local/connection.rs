//! A blocking connection, open and greeted. Each of its waits is short, so that the thread which waits looks at its
//! deadline and asks its host in between, and another thread can go on where this one left.

use super::host::Host;
use crate::connection::demotion::Opened;
use crate::connection::handshake::Handshake;
use crate::connection::password::Password;
use crate::connection::progress::Progress;
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

/// How much memory the output keeps for the next commands.
const KEPT: usize = 256 * 1024;

/// One connection, open and greeted.
pub(super) struct Connection {
    socket: BlockingSocket,
    decoder: Decoder,
    output: Packed,
    /// How much of the output has left.
    written: usize,
    /// How many replies are still to come.
    missing: usize,
    progress: Progress,
    /// When a thread looked last.
    looked: Instant,
    opened: Opened,
    settings: Settings,
}

/// What a short wait came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Moved,
    /// Nothing came or went for [`BlockingSocket::STEP`].
    Paused,
}

impl Connection {
    /// Connects and greets, within the time for one attempt and by the deadline.
    pub(super) fn open(settings: &Settings, host: &Host<'_>, deadline: Instant) -> Result<Self> {
        let deadline = deadline.min(Instant::now() + settings.connect_timeout);
        let opened = settings.demotions.opening();
        let password = Self::password(settings, host, deadline)?;
        let socket = Self::socket(settings, host, deadline)?;
        let mut connection = Self {
            socket,
            decoder: Decoder::new(),
            output: Packed::default(),
            written: 0,
            missing: 0,
            progress: Progress::new(Progress::patience_for(settings.timeout), Instant::now()),
            looked: Instant::now(),
            opened,
            settings: settings.clone(),
        };
        let mut handshake = Handshake::new(settings, password);
        loop {
            let commands = handshake.commands();
            let mut replies = Vec::with_capacity(commands.count());
            if let Err(error) = connection.request(&commands, &mut replies, host, deadline) {
                return Err(handshake.turned_away(&replies).unwrap_or(error));
            }
            if let Some(greeting) = handshake.answered(replies)? {
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
            Some(Password::Asked(_)) => {
                let settings = settings.clone();
                host.wait_for(async move { settings.password(deadline).await })
            }
        }
    }

    /// Sends commands and waits for their replies, one each; those that came before a failure are there too.
    fn request(
        &mut self,
        commands: &Packed,
        replies: &mut Vec<Value>,
        host: &Host<'_>,
        deadline: Instant,
    ) -> Result<()> {
        let mut looked = Instant::now();
        self.output().extend(commands);
        self.sending(commands.count());
        while self.is_busy() {
            self.step(replies)?;
            let now = Instant::now();
            let stop = now.duration_since(looked) >= BlockingSocket::STEP && host.says_stop();
            if stop || now >= deadline {
                return Err(self.failed(io::Error::new(ErrorKind::TimedOut, "the attempt took too long")));
            }
            if now.duration_since(looked) >= BlockingSocket::STEP {
                looked = now;
            }
        }
        Ok(())
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

    /// What is known about the server's being a primary.
    pub(super) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Whether something is still to be sent or to come.
    pub(super) fn is_busy(&self) -> bool {
        self.missing > 0 || self.unsent() > 0
    }

    fn unsent(&self) -> usize {
        self.output.bytes().len() - self.written
    }

    /// How many bytes have left since the beginning.
    pub(super) fn left(&self) -> u64 {
        self.output.position() - self.unsent() as u64
    }

    /// What has not left yet; more can be added behind it, which is told by [`Connection::sending`].
    pub(super) fn output(&mut self) -> &mut Packed {
        &mut self.output
    }

    /// So many commands were added to the output.
    pub(super) fn sending(&mut self, commands: usize) {
        if self.missing == 0 {
            self.progress.asked(Instant::now(), Duration::ZERO);
        }
        self.missing += commands;
    }

    /// A thread goes on with it. Silence does not count while nobody listened.
    pub(super) fn taken_over(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.looked) > 2 * BlockingSocket::STEP {
            self.progress.asked(now, Duration::ZERO);
        }
    }

    /// How its silence stands.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// One short wait: sends what has not left yet, else reads what comes, and adds the whole replies to those given, the
    /// ones before a failure included.
    pub(super) fn step(&mut self, replies: &mut Vec<Value>) -> Result<Waited> {
        let waited = if self.unsent() > 0 { self.write() } else { self.read(replies) };
        self.looked = Instant::now();
        match waited {
            Ok(waited) => Ok(waited),
            Err(error) if is_a_pause(&error) => Ok(Waited::Paused),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Waited::Moved),
            Err(error) => {
                // A socket that takes nothing more may still hold answers.
                while self.unsent() > 0 && self.read(replies).is_ok() {}
                Err(self.failed(error))
            }
        }
    }

    fn write(&mut self) -> io::Result<Waited> {
        let began = Instant::now();
        match self.socket.write(&self.output.bytes()[self.written..])? {
            0 => return Err(ErrorKind::WriteZero.into()),
            more => self.written += more,
        }
        // It had to wait for room, so the other side has taken something.
        if began.elapsed() >= Duration::from_millis(1) {
            self.progress.sign_of_life(Instant::now());
        }
        if self.unsent() == 0 {
            self.socket.flush()?;
            self.output.clear(KEPT);
            self.written = 0;
        }
        Ok(Waited::Moved)
    }

    fn read(&mut self, replies: &mut Vec<Value>) -> io::Result<Waited> {
        match self.socket.read(self.decoder.room())? {
            0 => return Err(io::Error::other("the server closed the connection")),
            bytes => self.decoder.filled(bytes),
        }
        self.progress.sign_of_life(Instant::now());
        while let Some(reply) = self.decoder.next()? {
            // Nothing here asks for pushed messages; one that comes all the same answers no command.
            if !matches!(reply, Value::Push { .. }) {
                self.missing = self.missing.saturating_sub(1);
                replies.push(reply);
            }
        }
        Ok(Waited::Moved)
    }

    fn failed(&self, error: io::Error) -> Error {
        failure(&self.settings.endpoint, &error)
    }
}
