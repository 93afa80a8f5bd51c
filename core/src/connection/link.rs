//! One asynchronous connection, open and greeted.

use super::handshake::Handshake;
use super::outage::FirstAttempts;
use super::settings::{Connect, Settings};
use super::socket::{self, AsyncSocket, failure};
use crate::error::{Code, Error, Result};
use crate::record::decoder::Decoder;
use crate::record::packed::Packed;
use redis::Value;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, timeout, timeout_at};

/// How much memory the output keeps for the next commands.
const KEPT: usize = 256 * 1024;

/// An open connection. Dropping it closes it, whatever it is waiting for.
pub(crate) struct Link {
    socket: Box<dyn AsyncSocket>,
    output: Packed,
    /// How much of the output has left.
    sent: usize,
    decoder: Decoder,
}

impl Link {
    /// The first connection of a client, as its option `connect` asks for it; nothing where it is not waited for. Fails as
    /// [`Link::open`] does.
    pub(crate) async fn first(settings: &Settings) -> Result<Option<Self>> {
        if settings.connect == Connect::Lazy {
            return Ok(None);
        }
        let mut attempts = FirstAttempts::new(settings);
        loop {
            let opened = timeout_at(attempts.deadline().into(), Self::open(settings)).await;
            match opened.unwrap_or_else(|_| Err(took_too_long(settings))) {
                Ok(link) => return Ok(Some(link)),
                Err(error) => sleep(attempts.failed(error)?).await,
            }
        }
    }

    /// Connects and greets, within the time for one attempt, and tells the minter the server's time.
    ///
    /// Fails with `disconnected`, `unavailable`, `tls`, `auth`, `version_fence` or `unsupported_server`.
    pub(crate) async fn open(settings: &Settings) -> Result<Self> {
        match timeout(settings.connect_timeout, Self::open_unbounded(settings)).await {
            Ok(opened) => opened,
            Err(_) => Err(took_too_long(settings)),
        }
    }

    async fn open_unbounded(settings: &Settings) -> Result<Self> {
        let password = settings.password().await?;
        let mut handshake = Handshake::new(settings, password);
        let socket = socket::connect(&settings.endpoint, settings.tls.as_deref()).await?;
        let mut link = Self { socket, output: Packed::default(), sent: 0, decoder: Decoder::new() };
        loop {
            let replies = link.request(&handshake.commands()).await;
            let replies = replies.map_err(|error| failure(&settings.endpoint, &error))?;
            if let Some(greeting) = handshake.answered(replies)? {
                settings.greet(&greeting);
                return Ok(link);
            }
        }
    }

    /// What has not left yet; more can be added behind it.
    pub(crate) fn output(&mut self) -> &mut Packed {
        &mut self.output
    }

    /// Sends as much of the output as goes at once.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        poll_fn(|context| Poll::Ready(self.poll_send(context))).await
    }

    /// How many bytes have not left yet.
    pub(crate) fn unsent(&self) -> usize {
        self.output.bytes().len() - self.sent
    }

    /// Sends what has not left yet, and adds the replies that come in, at least one.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn exchange(&mut self, replies: &mut Vec<Value>) -> io::Result<()> {
        self.exchange_with(|decoder| {
            while let Some(reply) = decoder.next()? {
                // A pushed message that nobody asked for answers no command.
                if !matches!(reply, Value::Push { .. }) {
                    replies.push(reply);
                    return Ok(true);
                }
            }
            Ok(false)
        })
        .await
    }

    /// Sends what has not left yet, and has `take` take all that came in, one by one; it answers whether there was one. At
    /// least one is waited for.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn exchange_with(
        &mut self,
        mut take: impl FnMut(&mut Decoder) -> io::Result<bool>,
    ) -> io::Result<()> {
        poll_fn(|context| self.poll_exchange(context, &mut take)).await
    }

    /// Sends commands and waits for their replies, one each.
    pub(crate) async fn request(&mut self, commands: &Packed) -> io::Result<Vec<Value>> {
        let mut replies = Vec::with_capacity(commands.count());
        self.output.extend(commands);
        while replies.len() < commands.count() {
            self.exchange(&mut replies).await?;
        }
        Ok(replies)
    }

    fn poll_exchange(
        &mut self,
        context: &mut Context<'_>,
        mut take: impl FnMut(&mut Decoder) -> io::Result<bool>,
    ) -> Poll<io::Result<()>> {
        self.poll_send(context)?;
        let mut any = false;
        while !any {
            let mut room = ReadBuf::new(self.decoder.room());
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut room))?;
            match room.filled().len() {
                0 => return Poll::Ready(Err(io::Error::other("the server closed the connection"))),
                bytes => self.decoder.filled(bytes),
            }
            while take(&mut self.decoder)? {
                any = true;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends as much as goes; the rest goes when the socket has room again.
    fn poll_send(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.unsent() > 0 {
            match Pin::new(&mut self.socket).poll_write(context, &self.output.bytes()[self.sent..])? {
                Poll::Ready(0) => return Err(ErrorKind::WriteZero.into()),
                Poll::Ready(bytes) => self.sent += bytes,
                Poll::Pending => return Ok(()),
            }
        }
        if self.sent > 0 {
            self.output.clear(KEPT);
            self.sent = 0;
        }
        // TLS keeps bytes back until it is flushed; where nothing is kept back this does nothing.
        let _ = Pin::new(&mut self.socket).poll_flush(context)?;
        Ok(())
    }
}

fn took_too_long(settings: &Settings) -> Error {
    let within = settings.connect_timeout.as_millis();
    Error::new(Code::Disconnected, format!("no connection to the server within {within} ms"))
        .about(settings.endpoint.to_string())
}
