//! The bytes of a connection: what is written is gathered, and given to the system at once.
//!
//! The layer above writes frame by frame and flushes each of them. Here that fills a buffer; the connection
//! empties it when it has nothing more to say for the moment: many frames, one call of the system.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::quiet::{Hidden, Quiet};
use crate::listen::Socket;

/// How much is gathered; then the system has to take some of it first.
const ROOM: usize = 64 << 10;

thread_local! {
    /// A buffer that no connection needs for now.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// One end of a connection. Clones are of the same one.
#[derive(Clone)]
pub(super) struct Wire {
    inner: Rc<RefCell<Inner>>,
}

struct Inner {
    socket: Socket,
    /// What was read before HTTP/2 began, and how much of it is read again.
    received: Vec<u8>,
    reread: usize,
    /// What was sent before it began.
    hidden: Hidden,
    out: Vec<u8>,
    /// How much of `out` is written.
    written: usize,
    heard: Instant,
    progress: Instant,
}

impl Wire {
    /// Goes on where a quiet connection ended.
    pub(super) fn new(quiet: Quiet) -> Wire {
        let (heard, progress) = (quiet.heard, Instant::now());
        let (socket, received, hidden) = quiet.end();
        let inner = Inner { socket, received, reread: 0, hidden, out: Vec::new(), written: 0, heard, progress };
        Wire { inner: Rc::new(RefCell::new(inner)) }
    }

    /// Gives the system what was gathered.
    pub(super) fn poll_empty(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.borrow_mut().poll_empty(context)
    }

    /// Returns when the peer last said something.
    pub(super) fn heard(&self) -> Instant {
        self.inner.borrow().heard
    }

    /// Returns when the system last took something, if something is left for it.
    pub(super) fn stuck_since(&self) -> Instant {
        self.inner.borrow().progress
    }
}

impl Inner {
    fn poll_empty(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.out.len() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(context, &self.out[self.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += written;
            self.progress = Instant::now();
        }
        self.written = 0;
        if self.out.capacity() > 0 {
            self.out.clear();
            SPARE.set(std::mem::take(&mut self.out));
            // A layer of TLS keeps bytes of its own.
            return Pin::new(&mut self.socket).poll_flush(context);
        }
        Poll::Ready(Ok(()))
    }

    fn gather(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.out.len() >= ROOM {
            ready!(self.poll_empty(context))?;
        }
        if self.out.capacity() == 0 {
            self.out = SPARE.take();
            self.out.reserve(ROOM);
        }
        if !self.hidden.is_empty() {
            let slice = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
            let length = slice.len().min(ROOM - self.out.len());
            self.hidden.filter(&slice[..length], &mut self.out);
            return Poll::Ready(Ok(length));
        }
        let before = self.out.len();
        for slice in slices {
            let length = slice.len().min(ROOM - self.out.len());
            self.out.extend_from_slice(&slice[..length]);
        }
        Poll::Ready(Ok(self.out.len() - before))
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner.borrow_mut();
        if !inner.received.is_empty() {
            let rest = &inner.received[inner.reread..];
            let length = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..length]);
            inner.reread += length;
            if inner.reread == inner.received.len() {
                inner.received = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut inner.socket).poll_read(context, buffer))?;
        inner.heard = Instant::now();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.borrow_mut().gather(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner.borrow_mut().gather(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Only the connection knows when all is said.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner.borrow_mut();
        ready!(inner.poll_empty(context))?;
        Pin::new(&mut inner.socket).poll_shutdown(context)
    }
}
