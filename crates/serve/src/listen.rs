//! Listeners and sockets: addresses, accepting, timeouts.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::live::LiveCatalog;
use crate::slots::{Slot, Slots};

/// Time limit for the first bytes of a new connection, including a TLS handshake.
pub(crate) const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause before accepting again after the system reported a lack of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address that a server listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and port; every interface when the host is empty.
    Tcp(String, u16),
    /// A Unix domain socket.
    Unix(PathBuf),
}

/// Why a text is not an address.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("expected HOST:PORT or unix:PATH")]
    Syntax,
    #[error("invalid port {0:?}")]
    Port(String),
}

impl FromStr for Address {
    type Err = AddressError;

    /// Parses `HOST:PORT` or `unix:PATH`.
    fn from_str(text: &str) -> Result<Address, AddressError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::Syntax)?;
        let port = port.parse().map_err(|_| AddressError::Port(port.to_owned()))?;
        Ok(Address::Tcp(host.trim_matches(['[', ']']).to_owned(), port))
    }
}

/// A bound socket.
pub enum Listener {
    /// A TCP socket.
    Tcp(TcpListener),
    /// A Unix domain socket; its file is removed on drop.
    Unix(UnixListener, PathBuf),
}

impl Address {
    /// Returns whether the address is reachable from this machine only.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Address::Tcp(host, _) => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
            Address::Unix(_) => false,
        }
    }

    /// Binds the address.
    ///
    /// # Errors
    /// Fails when the address is in use or cannot be bound; the error names it.
    pub async fn bind(&self) -> io::Result<Listener> {
        self.try_bind().await.map_err(|error| io::Error::new(error.kind(), format!("{self}: {error}")))
    }

    async fn try_bind(&self) -> io::Result<Listener> {
        match self {
            Address::Tcp(host, port) if host.is_empty() => {
                // Dual-stack where the system supports it.
                match TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, *port)).await {
                    Ok(listener) => Ok(Listener::Tcp(listener)),
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
                    Err(_) => TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, *port)).await.map(Listener::Tcp),
                }
            }
            Address::Tcp(host, port) => TcpListener::bind((host.as_str(), *port)).await.map(Listener::Tcp),
            Address::Unix(path) => {
                // A stale socket file of a server that ended is replaced; one in use is not.
                let left_behind = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
                    && std::os::unix::net::UnixStream::connect(path).is_err();
                if left_behind {
                    std::fs::remove_file(path)?;
                }
                Ok(Listener::Unix(UnixListener::bind(path)?, path.clone()))
            }
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl std::fmt::Display for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => write!(f, "{address}"),
                Err(_) => f.write_str("unknown address"),
            },
            Listener::Unix(_, path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listener {
    /// Returns the port of a TCP listener.
    pub fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok().map(|address: SocketAddr| address.port()),
            Listener::Unix(..) => None,
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// Fails when the socket can accept no further connections; transient errors are retried.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, Peer)> {
        loop {
            match self.try_accept().await {
                Err(error) if is_transient(&error) => {
                    tracing::warn!(%error, "connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                accepted => return accepted,
            }
        }
    }

    async fn try_accept(&self) -> io::Result<(Socket, Peer)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                Ok((Socket::Tcp(stream), Peer(peer.to_string())))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Socket::Unix(stream), Peer("unix".into())))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The address of the peer, for logs.
#[derive(Debug, Clone)]
pub struct Peer(pub(crate) String);

/// The byte stream of a connection.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<tokio_rustls::server::TlsStream<Socket>>),
}

/// Returns whether the next `accept` may succeed after this error.
///
/// An error of one connection does not concern the socket, and a lack of resources may pass.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, NotConnected, Unsupported};
    const EBADF: i32 = 9;
    const ENOTSOCK: i32 = 88;
    !matches!(error.kind(), InvalidInput | NotConnected | Unsupported)
        && !matches!(error.raw_os_error(), Some(EBADF | ENOTSOCK))
}

/// Acquires a slot for a connection, or one of the reserve, and counts evictions; returns whether it is within the limit.
pub(crate) async fn acquire_slot(slots: &Arc<Slots>, reserve: &Arc<Slots>, live: &LiveCatalog) -> Option<(Slot, bool)> {
    for (slots, within_limit) in [(slots, true), (reserve, false)] {
        let before = slots.evicted.load(Relaxed);
        let slot = slots.acquire().await;
        live.metrics.evicted.fetch_add(slots.evicted.load(Relaxed) - before, Relaxed);
        if let Some(slot) = slot {
            return Some((slot, within_limit));
        }
    }
    live.metrics.turned_away.fetch_add(1, Relaxed);
    None
}

/// Runs the TLS handshake on a connection, within a time limit.
pub(crate) async fn secure(socket: Socket, peer: &Peer, acceptor: tokio_rustls::TlsAcceptor) -> Option<Socket> {
    match tokio::time::timeout(FIRST_BYTES_TIMEOUT, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => Some(Socket::Tls(Box::new(stream))),
        Ok(Err(error)) => {
            tracing::debug!(peer = peer.0, %error, "TLS handshake failed");
            None
        }
        Err(_) => None,
    }
}

/// Applies an expression to any kind of socket.
macro_rules! each {
    ($socket:expr, $stream:ident => $call:expr) => {
        match $socket {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
            Socket::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        each!(self, stream => stream.is_write_vectored())
    }
}
