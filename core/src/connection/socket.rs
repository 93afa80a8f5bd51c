//! Sockets: connected, tuned, and wrapped in TLS where the endpoint asks for it.

use super::addresses;
use super::endpoint::Endpoint;
use super::tls::{self, Tls};
use crate::error::{Code, Error, Result};
use crate::process::on_thread;
use rustls::{ClientConnection, StreamOwned};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

/// A connected socket for asynchronous use.
pub(crate) trait AsyncSocket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> AsyncSocket for S {}

/// After how long without a sign of life the system asks the other side for one, and how often.
const KEEPALIVE: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;

/// After how long unacknowledged bytes mean that the other side is gone.
#[cfg(target_os = "linux")]
const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// Connects. The caller bounds the time.
pub(crate) async fn connect(endpoint: &Endpoint, tls: Option<&Tls>) -> Result<Box<dyn AsyncSocket>> {
    match endpoint {
        Endpoint::Tcp { host, port, .. } => {
            let config = tls.map(Tls::config).transpose()?;
            let found = look_up(host, *port).await?.map_err(|error| failure(endpoint, &error))?;
            let socket = addresses::connect(found).await.map_err(|error| failure(endpoint, &error))?;
            tune(&SockRef::from(&socket)).map_err(|error| failure(endpoint, &error))?;
            match tls.zip(config) {
                None => Ok(Box::new(socket)),
                Some((tls, config)) => {
                    let socket = TlsConnector::from(config).connect(tls.name.clone(), socket).await;
                    Ok(Box::new(socket.map_err(|error| no_handshake(endpoint, tls, &error))?))
                }
            }
        }
        #[cfg(unix)]
        Endpoint::Unix(path) => {
            let socket = tokio::net::UnixStream::connect(path).await;
            Ok(Box::new(socket.map_err(|error| failure(endpoint, &error))?))
        }
        #[cfg(not(unix))]
        Endpoint::Unix(_) => Err(no_unix(endpoint)),
    }
}

/// The addresses of a host, a name or an address.
async fn look_up(host: &str, port: u16) -> Result<io::Result<Vec<SocketAddr>>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Ok(vec![(address, port).into()]));
    }
    let host = host.to_owned();
    on_thread("echomq-lookup", move || (&*host, port).to_socket_addrs().map(Iterator::collect)).await
}

/// No delay for small writes, and a bound on how long a dead peer goes unnoticed.
fn tune(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
    #[cfg(unix)]
    let keepalive = keepalive.with_interval(KEEPALIVE).with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(())
}

/// What a failed socket means.
pub(crate) fn failure(endpoint: &Endpoint, error: &io::Error) -> Error {
    let code = if tls::is_cause(error) { Code::Tls } else { Code::Disconnected };
    Error::new(code, format!("no connection to the server: {error}")).about(endpoint.to_string())
}

/// What a TLS handshake that failed means. A server that hangs up before it has said anything has refused no certificate.
fn no_handshake(endpoint: &Endpoint, tls: &Tls, error: &io::Error) -> Error {
    tls.forget();
    let code = if tls::is_cause(error) { Code::Tls } else { Code::Disconnected };
    Error::new(code, format!("the TLS handshake failed: {error}")).about(endpoint.to_string())
}

/// Whether a read or write gave up only to give its caller a turn.
pub(crate) fn is_a_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(not(unix))]
fn no_unix(endpoint: &Endpoint) -> Error {
    Error::new(Code::InvalidOption, "this system has no unix sockets").about(endpoint.to_string())
}

/// A connected socket for use on the caller's thread, whose reads give up after [`BlockingSocket::STEP`].
pub(crate) enum BlockingSocket {
    Plain(Raw),
    Tls(Box<StreamOwned<ClientConnection, Raw>>),
}

/// The socket below TLS.
pub(crate) enum Raw {
    Tcp(std::net::TcpStream),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
}

impl BlockingSocket {
    /// How long a read waits before it gives the caller a turn.
    pub(crate) const STEP: Duration = Duration::from_millis(100);

    /// Connects by the deadline.
    pub(crate) fn connect(endpoint: &Endpoint, tls: Option<&Tls>, deadline: Instant) -> Result<Self> {
        let config = tls.map(Tls::config).transpose()?;
        let raw = Raw::connect(endpoint, deadline).map_err(|error| failure(endpoint, &error))?;
        match tls.zip(config) {
            None => Ok(Self::Plain(raw)),
            Some((tls, config)) => {
                let mut raw = raw;
                let mut session = ClientConnection::new(config, tls.name.clone())
                    .map_err(|error| Error::new(Code::Tls, error.to_string()).about(endpoint.to_string()))?;
                while session.is_handshaking() {
                    match session.complete_io(&mut raw) {
                        Ok(_) => {}
                        Err(error) if is_a_pause(&error) && Instant::now() < deadline => {}
                        Err(error) => return Err(no_handshake(endpoint, tls, &error)),
                    }
                }
                Ok(Self::Tls(Box::new(StreamOwned::new(session, raw))))
            }
        }
    }

    /// Whether the other side has not hung up yet, as far as this host knows. It reads nothing and does not wait.
    #[cfg(unix)]
    pub(crate) fn is_open(&self) -> bool {
        let raw = match self {
            Self::Plain(raw) => raw,
            Self::Tls(stream) => stream.get_ref(),
        };
        let looked =
            raw.socket().recv_with_flags(&mut [MaybeUninit::uninit()], libc::MSG_PEEK | libc::MSG_DONTWAIT);
        match looked {
            Ok(bytes) => bytes > 0,
            Err(error) => is_a_pause(&error) || error.kind() == io::ErrorKind::Interrupted,
        }
    }

    /// Whether the other side has not hung up yet: the next exchange tells.
    #[cfg(not(unix))]
    pub(crate) fn is_open(&self) -> bool {
        true
    }
}

impl Raw {
    fn connect(endpoint: &Endpoint, deadline: Instant) -> io::Result<Self> {
        let raw = match endpoint {
            Endpoint::Tcp { host, port, .. } => {
                let found = (&**host, *port).to_socket_addrs()?.collect();
                let socket = addresses::connect_blocking(found, deadline)?;
                tune(&SockRef::from(&socket))?;
                Self::Tcp(socket)
            }
            #[cfg(unix)]
            Endpoint::Unix(path) => Self::Unix(std::os::unix::net::UnixStream::connect(path)?),
            #[cfg(not(unix))]
            Endpoint::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        raw.socket().set_read_timeout(Some(BlockingSocket::STEP))?;
        raw.socket().set_write_timeout(Some(BlockingSocket::STEP))?;
        Ok(raw)
    }

    fn socket(&self) -> SockRef<'_> {
        match self {
            Self::Tcp(socket) => socket.into(),
            #[cfg(unix)]
            Self::Unix(socket) => socket.into(),
        }
    }
}

impl Read for Raw {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(buffer),
            #[cfg(unix)]
            Self::Unix(socket) => socket.read(buffer),
        }
    }
}

impl Write for Raw {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(buffer),
            #[cfg(unix)]
            Self::Unix(socket) => socket.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for BlockingSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(socket) => socket.read(buffer),
        }
    }
}

impl Write for BlockingSocket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(buffer),
            Self::Tls(socket) => socket.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(socket) => socket.flush(),
        }
    }
}
