//! The bytes of an HTTP connection, and how long it may be silent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::listen::{FIRST_BYTES, Socket};
use crate::slots::Usage;

/// How long a client may take to take [`PROGRESS`] bytes of a reply.
const TAKING: Duration = Duration::from_secs(30);
/// A client that takes less in that time is as good as gone.
const PROGRESS: usize = 16 << 10;

/// A connection that ends when the client does not do its part.
///
/// A request must be whole [`FIRST_BYTES`] after the first byte of it, the first one after the connection was made.
pub(super) struct Wire {
    socket: Socket,
    usage: Usage,
    asking: Option<Pin<Box<Sleep>>>,
    taking: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Wire {
    pub(super) fn new(socket: Socket, usage: Usage) -> Wire {
        Wire { socket, usage, asking: Some(Box::pin(tokio::time::sleep(FIRST_BYTES))), taking: None }
    }

    /// Watches over something that is sent: it may be held up only for so long.
    fn pace<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>, sent: usize) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if let Some((_, left)) = &mut self.taking {
                *left = left.saturating_sub(sent);
                if *left == 0 {
                    self.taking = None;
                    self.usage.stall(false);
                }
            }
            return polled;
        }
        self.usage.stall(true);
        let start = || (Box::pin(tokio::time::sleep(TAKING)), PROGRESS);
        let (sleep, _) = self.taking.get_or_insert_with(start);
        match sleep.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Says that everything is sent.
    fn sent(&mut self) {
        if self.taking.take().is_some() {
            self.usage.stall(false);
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.socket).poll_read(context, buffer);
        if !this.usage.is_waiting() {
            this.asking = None;
        } else if this.asking.is_none() && buffer.filled().len() > before {
            this.asking = Some(Box::pin(tokio::time::sleep(FIRST_BYTES)));
        }
        if let (Poll::Pending, Some(sleep)) = (&polled, &mut this.asking)
            && sleep.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.socket).poll_write(context, bytes);
        let sent = if let Poll::Ready(Ok(sent)) = &polled { *sent } else { 0 };
        if sent == bytes.len() {
            this.sent();
        }
        this.pace(context, polled, sent)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.socket).poll_flush(context);
        this.pace(context, polled, 0)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.socket).poll_shutdown(context);
        this.pace(context, polled, 0)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.socket).poll_write_vectored(context, slices);
        let sent = if let Poll::Ready(Ok(sent)) = &polled { *sent } else { 0 };
        if sent == slices.iter().map(|slice| slice.len()).sum::<usize>() {
            this.sent();
        }
        this.pace(context, polled, sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
