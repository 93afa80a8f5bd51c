//! One asynchronous connection, open and greeted.

use super::demotion::Opened;
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
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, timeout_at};

/// How much memory the output keeps for the next commands.
const KEPT: usize = 256 * 1024;

/// After so many bytes of an answer that is not whole yet, other work has its turn.
const TURN: usize = 4 << 20;

/// How many bytes that have left are kept before those that have not, at least.
const LEFT: usize = 256 * 1024;

/// An open connection. Dropping it closes it, whatever it is waiting for.
pub(crate) struct Link {
    socket: Box<dyn AsyncSocket>,
    output: Packed,
    /// How much of the output has left.
    sent: usize,
    decoder: Decoder,
    /// The number that the server gives the connection, where it said it.
    number: Option<u64>,
    /// The last sign of life: bytes came, or left where there had been no room for them.
    heard: Instant,
    /// The socket had no room for all of the output.
    full: bool,
    /// Why nothing more can be sent. What came before is read first.
    refused: Option<io::Error>,
    opened: Opened,
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
            match Self::open_by(settings, attempts.deadline()).await {
                Ok(link) => return Ok(Some(link)),
                Err(error) => sleep(attempts.failed(error)?).await,
            }
        }
    }

    /// Connects and greets, within the time for one attempt, and tells the minter the server's time.
    ///
    /// Fails with `disconnected`, `unavailable`, `tls`, `auth`, `version_fence` or `unsupported_server`.
    pub(crate) async fn open(settings: &Settings) -> Result<Self> {
        Self::open_by(settings, Instant::now() + settings.connect_timeout).await
    }

    async fn open_by(settings: &Settings, deadline: Instant) -> Result<Self> {
        let opened = settings.demotions.opening();
        let password = settings.password(deadline).await?;
        match timeout_at(deadline.into(), Self::greeted(settings, opened, password)).await {
            Ok(greeted) => greeted,
            Err(_) => Err(took_too_long(settings)),
        }
    }

    async fn greeted(settings: &Settings, opened: Opened, password: Option<String>) -> Result<Self> {
        let mut handshake = Handshake::new(settings, password);
        let socket = socket::connect(&settings.endpoint, settings.tls.as_deref()).await?;
        let mut link = Self::new(socket, opened);
        loop {
            let commands = handshake.commands();
            link.output.extend(&commands);
            let mut replies = Vec::with_capacity(commands.count());
            while replies.len() < commands.count() {
                if let Err(error) = link.exchange(&mut replies).await {
                    let turned_away = handshake.turned_away(&replies);
                    return Err(turned_away.unwrap_or_else(|| failure(&settings.endpoint, &error)));
                }
            }
            if let Some(greeting) = handshake.answered(replies)? {
                settings.greet(&greeting);
                link.number = greeting.connection;
                return Ok(link);
            }
        }
    }

    fn new(socket: Box<dyn AsyncSocket>, opened: Opened) -> Self {
        Self {
            socket,
            output: Packed::default(),
            sent: 0,
            decoder: Decoder::new(),
            number: None,
            heard: Instant::now(),
            full: false,
            refused: None,
            opened,
        }
    }

    /// The number that the server gives the connection, where it said it.
    pub(crate) fn number(&self) -> Option<u64> {
        self.number
    }

    /// What has not left yet; more can be added behind it.
    pub(crate) fn output(&mut self) -> &mut Packed {
        &mut self.output
    }

    /// Sends as much of the output as goes at once. Where the socket refuses, the next exchange fails.
    pub(crate) async fn send(&mut self) {
        poll_fn(|context| {
            self.poll_send(context);
            Poll::Ready(())
        })
        .await;
    }

    /// How many bytes have not left yet.
    pub(crate) fn unsent(&self) -> usize {
        self.output.bytes().len() - self.sent
    }

    /// How many bytes have left since the beginning.
    pub(crate) fn left(&self) -> u64 {
        self.output.position() - self.unsent() as u64
    }

    /// When there was a sign of life last.
    pub(crate) fn heard(&self) -> Instant {
        self.heard
    }

    /// What is known about the server's being a primary.
    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
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

    fn poll_exchange(
        &mut self,
        context: &mut Context<'_>,
        mut take: impl FnMut(&mut Decoder) -> io::Result<bool>,
    ) -> Poll<io::Result<()>> {
        self.poll_send(context);
        let (mut any, mut bytes) = (false, 0);
        while !any {
            // Other work, a deadline among it, has its turn while a long answer comes in.
            if bytes >= TURN {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut room = ReadBuf::new(self.decoder.room());
            match Pin::new(&mut self.socket).poll_read(context, &mut room) {
                Poll::Ready(read) => read?,
                Poll::Pending => {
                    return self.refused.take().map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
                }
            }
            match room.filled().len() {
                0 => return Poll::Ready(Err(io::Error::other("the server closed the connection"))),
                read => {
                    bytes += read;
                    self.decoder.filled(read);
                }
            }
            self.heard = Instant::now();
            while take(&mut self.decoder)? {
                any = true;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends as much as goes; the rest goes when the socket has room again.
    fn poll_send(&mut self, context: &mut Context<'_>) {
        if self.refused.is_none()
            && let Err(error) = self.try_send(context)
        {
            self.refused = Some(error);
        }
    }

    fn try_send(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while self.unsent() > 0 {
            match Pin::new(&mut self.socket).poll_write(context, &self.output.bytes()[self.sent..])? {
                Poll::Ready(0) => return Err(ErrorKind::WriteZero.into()),
                Poll::Ready(bytes) => {
                    self.sent += bytes;
                    if std::mem::take(&mut self.full) {
                        self.heard = Instant::now();
                    }
                }
                Poll::Pending => {
                    self.full = true;
                    // As much is moved as has left at most, so it costs no more than the sending.
                    if self.sent >= LEFT && self.sent >= self.unsent() {
                        self.output.drop_front(self.sent);
                        self.sent = 0;
                    }
                    return Ok(());
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::demotion::Demotions;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    fn link(room: usize) -> (Link, tokio::io::DuplexStream) {
        let (ours, theirs) = duplex(room);
        (Link::new(Box::new(ours), Demotions::default().opening()), theirs)
    }

    #[tokio::test]
    async fn what_has_left_is_not_kept_behind_a_slow_socket() {
        let (mut link, mut server) = link(64 * 1024);
        link.output().command(2).arg("SET").arg(vec![b'x'; 8 << 20]);
        let all = link.output().position();
        let mut read = vec![0; 64 * 1024];
        while link.unsent() > 0 {
            tokio::task::yield_now().await;
            link.send().await;
            let left = link.left();
            let bytes = server.read(&mut read).await.unwrap();
            assert!(bytes > 0);
            let kept = link.output().bytes().len() as u64;
            assert!(
                kept <= 2 * (all - left) + LEFT as u64,
                "{kept} bytes are kept of {} to send",
                all - left
            );
        }
        assert_eq!(link.left(), all);
        assert!(link.output().capacity() <= KEPT);
    }

    /// A socket that always has something to read.
    struct Always;

    impl tokio::io::AsyncRead for Always {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            room: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let bytes = room.remaining().min(64 * 1024);
            room.put_slice(&vec![b'x'; bytes]);
            Poll::Ready(Ok(()))
        }
    }

    /// A deadline holds while a long answer comes in faster than it is read.
    #[tokio::test]
    async fn other_work_has_its_turn_while_a_long_answer_comes_in() {
        let answer = AsyncReadExt::chain(&b"$100000000\r\n"[..], Always);
        let socket = tokio::io::join(answer, tokio::io::sink());
        let mut link = Link::new(Box::new(socket), Demotions::default().opening());
        let mut replies = Vec::new();
        let exchange = tokio::time::timeout(Duration::ZERO, link.exchange(&mut replies));
        assert!(tokio::task::coop::unconstrained(exchange).await.is_err());
    }

    #[tokio::test]
    async fn replies_that_came_are_read_before_a_refused_write_is_told() {
        let (mut link, mut server) = link(64 * 1024);
        server.write_all(b":7\r\n").await.unwrap();
        drop(server);
        link.output().command(1).arg("PING");
        let mut replies = Vec::new();
        link.exchange(&mut replies).await.unwrap();
        assert_eq!(replies, [Value::Int(7)]);
        assert!(link.exchange(&mut replies).await.is_err());
    }
}
