//! The byte stream of a connection, with buffered writes.
//!
//! HTTP/2 writes frame by frame and flushes each of them. Here that fills a buffer; the connection writes it out when
//! it has nothing more to send for the moment: many frames, one system call.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::listen::Socket;

/// The size of the buffer; when it is full, the socket must accept some bytes first.
const BUFFER: usize = 64 << 10;

thread_local! {
    /// A spare buffer of this thread.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The byte stream of a connection. Clones share it.
#[derive(Clone)]
pub(super) struct Wire {
    inner: Rc<RefCell<Inner>>,
}

struct Inner {
    socket: Socket,
    out: Vec<u8>,
    /// The number of written bytes of `out`.
    written: usize,
    last_received: Instant,
    progress: Instant,
}

impl Wire {
    pub(super) fn new(socket: Socket) -> Wire {
        let now = Instant::now();
        let inner = Inner { socket, out: Vec::new(), written: 0, last_received: now, progress: now };
        Wire { inner: Rc::new(RefCell::new(inner)) }
    }

    /// Writes the buffer to the socket.
    pub(super) fn poll_write_out(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.borrow_mut().poll_write_out(context)
    }

    /// Returns when the peer last sent something.
    pub(super) fn last_received(&self) -> Instant {
        self.inner.borrow().last_received
    }

    /// Returns when the socket last accepted bytes.
    pub(super) fn last_progress(&self) -> Instant {
        self.inner.borrow().progress
    }
}

impl Inner {
    fn poll_write_out(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
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
            // TLS buffers bytes of its own.
            return Pin::new(&mut self.socket).poll_flush(context);
        }
        Poll::Ready(Ok(()))
    }

    fn buffer_write(&mut self, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.out.len() >= BUFFER {
            ready!(self.poll_write_out(context))?;
        }
        if self.out.capacity() == 0 {
            self.out = SPARE.take();
            self.out.reserve(BUFFER);
        }
        let before = self.out.len();
        for slice in slices {
            let length = slice.len().min(BUFFER - self.out.len());
            self.out.extend_from_slice(&slice[..length]);
        }
        Poll::Ready(Ok(self.out.len() - before))
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner.borrow_mut();
        ready!(Pin::new(&mut inner.socket).poll_read(context, buffer))?;
        inner.last_received = Instant::now();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.borrow_mut().buffer_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner.borrow_mut().buffer_write(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Only the connection knows when all frames are written.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner.borrow_mut();
        ready!(inner.poll_write_out(context))?;
        Pin::new(&mut inner.socket).poll_shutdown(context)
    }
}
