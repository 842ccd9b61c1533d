//! Connections: where they are accepted, how many, and how long they may be silent.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

use crate::live::Live;

/// How long a new connection may take to say something, a TLS handshake included.
pub(crate) const FIRST_BYTES: Duration = Duration::from_secs(10);
/// How long accepting rests after the system refuses more.
pub(crate) const REST: Duration = Duration::from_millis(100);
/// A connection has said something once there is anything.
const ANYTHING: usize = 1;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and port; every interface when the host is empty.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A socket that connections come in on.
pub enum Listener {
    /// On the network.
    Tcp(TcpListener),
    /// In the file system; removed again at the end.
    Unix(UnixListener, PathBuf),
}

impl Address {
    /// Starts to listen.
    ///
    /// # Errors
    /// Fails when the address is taken or cannot be used.
    pub async fn bind(&self) -> io::Result<Listener> {
        match self {
            Address::Tcp(host, port) if host.is_empty() => {
                // Both families where there are both.
                match TcpListener::bind((std::net::Ipv6Addr::UNSPECIFIED, *port)).await {
                    Ok(listener) => Ok(Listener::Tcp(listener)),
                    Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
                    Err(_) => TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, *port)).await.map(Listener::Tcp),
                }
            }
            Address::Tcp(host, port) => TcpListener::bind((host.as_str(), *port)).await.map(Listener::Tcp),
            Address::Unix(path) => {
                // A socket that a server left behind is in the way; one in use is not to be taken.
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
    /// Returns the port, if there is one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok().map(|address: SocketAddr| address.port()),
            Listener::Unix(..) => None,
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(Socket, Peer)> {
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

/// Who is at the other end.
#[derive(Debug, Clone)]
pub struct Peer(pub(crate) String);

/// The way to a peer.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<tokio_rustls::server::TlsStream<Socket>>),
}

/// An accepted connection.
pub(crate) struct Connection {
    socket: Socket,
    peer: Peer,
    /// Runs until the other end has said this many bytes more.
    patience: Option<(Pin<Box<Sleep>>, usize)>,
    live: Arc<Live>,
    _permit: OwnedSemaphorePermit,
}

/// Takes a connection in, if there is room for it.
async fn admit(
    accepted: io::Result<(Socket, Peer)>,
    slots: &Arc<Semaphore>,
    live: &Arc<Live>,
    first_bytes: usize,
) -> Option<Connection> {
    let (socket, peer) = match accepted {
        Ok(accepted) => accepted,
        Err(error) => {
            tracing::warn!(%error, "connection could not be accepted");
            tokio::time::sleep(REST).await;
            return None;
        }
    };
    live.metrics.accepted.fetch_add(1, Relaxed);
    let Ok(permit) = Arc::clone(slots).try_acquire_owned() else {
        live.metrics.turned_away.fetch_add(1, Relaxed);
        return None;
    };
    live.metrics.open.fetch_add(1, Relaxed);
    let patience = Some((Box::pin(tokio::time::sleep(FIRST_BYTES)), first_bytes));
    Some(Connection { socket, peer, patience, live: Arc::clone(live), _permit: permit })
}

/// A socket that HTTP is spoken on, with the same limits as the other.
pub(crate) struct HttpListener {
    listener: Listener,
    slots: Arc<Semaphore>,
    live: Arc<Live>,
}

impl HttpListener {
    pub(crate) fn new(listener: Listener, limit: usize, live: Arc<Live>) -> HttpListener {
        HttpListener { listener, slots: Arc::new(Semaphore::new(limit)), live }
    }
}

impl axum::serve::Listener for HttpListener {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        loop {
            let accepted = self.listener.accept().await;
            if let Some(connection) = admit(accepted, &self.slots, &self.live, ANYTHING).await {
                let peer = connection.peer.clone();
                return (connection, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer(self.listener.to_string()))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.live.metrics.open.fetch_sub(1, Relaxed);
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.socket).poll_read(context, buffer);
        if let Some((sleep, wanted)) = &mut this.patience {
            match &polled {
                Poll::Ready(_) => {
                    *wanted = wanted.saturating_sub(buffer.filled().len() - before);
                    if *wanted == 0 {
                        this.patience = None;
                    }
                }
                Poll::Pending => {
                    if sleep.as_mut().poll(context).is_ready() {
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                }
            }
        }
        polled
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

/// Does the same to whatever kind of socket it is.
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
