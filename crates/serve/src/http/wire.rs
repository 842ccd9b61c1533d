//! The byte stream of an HTTP connection, with timeouts.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::listen::{FIRST_BYTES_TIMEOUT, Socket};
use crate::slots::Usage;

/// Time limit for reading [`PROGRESS`] bytes of a reply.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(30);
/// A client that reads less in that time is disconnected.
const PROGRESS: usize = 16 << 10;

/// A connection that closes when the client is too slow.
///
/// A request must be complete within [`FIRST_BYTES_TIMEOUT`] of its first byte, the first request within that time of
/// the connection.
pub(super) struct Wire {
    socket: Socket,
    usage: Usage,
    request_timeout: Option<Pin<Box<Sleep>>>,
    reply_timeout: Option<(Pin<Box<Sleep>>, usize)>,
}

impl Wire {
    pub(super) fn new(socket: Socket, usage: Usage) -> Wire {
        Wire {
            socket,
            usage,
            request_timeout: Some(Box::pin(tokio::time::sleep(FIRST_BYTES_TIMEOUT))),
            reply_timeout: None,
        }
    }

    /// Enforces the time limit on a write.
    fn pace<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>, sent: usize) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            if let Some((_, left)) = &mut self.reply_timeout {
                *left = left.saturating_sub(sent);
                if *left == 0 {
                    self.reply_timeout = None;
                    self.usage.set_stalled(false);
                }
            }
            return polled;
        }
        self.usage.set_stalled(true);
        let start = || (Box::pin(tokio::time::sleep(PROGRESS_TIMEOUT)), PROGRESS);
        let (sleep, _) = self.reply_timeout.get_or_insert_with(start);
        match sleep.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Records that everything is sent.
    fn sent(&mut self) {
        if self.reply_timeout.take().is_some() {
            self.usage.set_stalled(false);
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.socket).poll_read(context, buffer);
        if !this.usage.is_idle() {
            this.request_timeout = None;
        } else if this.request_timeout.is_none() && buffer.filled().len() > before {
            this.request_timeout = Some(Box::pin(tokio::time::sleep(FIRST_BYTES_TIMEOUT)));
        }
        if let (Poll::Pending, Some(sleep)) = (&polled, &mut this.request_timeout)
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
