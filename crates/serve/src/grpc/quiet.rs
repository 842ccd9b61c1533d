//! A connection before its first call.
//!
//! Clients open connections long before they call, and keep them. Until the first call, settings and pings are answered
//! here, with a few bytes of state; the HTTP/2 state, some 16 KB, is created with the first call. It replays everything
//! the client sent and sends its own settings and their acknowledgement, as if the connection were new; both have been
//! sent already, and [`Hidden`] removes them from the output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::listen::Socket;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The length of a frame header.
const HEADER: usize = 9;
/// Maximum number of bytes from a client before its first call; beyond that, HTTP/2 takes over.
const MAX_RECEIVED: usize = 512;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
/// The payload of our pings.
const OURS: [u8; 8] = *b"opm.ping";

/// The settings of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) streams: u32,
    pub(super) window: u32,
    pub(super) header_list: u32,
}

impl Settings {
    /// Returns the frame that HTTP/2 would send.
    fn frame(self) -> Vec<u8> {
        let values = [(3u16, self.streams), (4, self.window), (6, self.header_list)];
        let mut frame = header(values.len() * 6, SETTINGS, 0).to_vec();
        for (name, value) in values {
            frame.extend(name.to_be_bytes());
            frame.extend(value.to_be_bytes());
        }
        frame
    }
}

fn header(length: usize, kind: u8, flags: u8) -> [u8; HEADER] {
    [(length >> 16) as u8, (length >> 8) as u8, length as u8, kind, flags, 0, 0, 0, 0]
}

/// An event on a quiet connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuietEvent {
    /// The settings of the client: the connection is open.
    Open,
    /// A frame that needs HTTP/2, or the end of the stream.
    Call,
}

/// A connection without any call so far.
pub(super) struct Quiet {
    socket: Socket,
    settings: Settings,
    /// The bytes that HTTP/2 will replay.
    received: Vec<u8>,
    /// The length of the complete frames that were parsed.
    parsed: usize,
    out: Vec<u8>,
    open: bool,
    ended: bool,
    pub(super) last_received: Instant,
}

impl Quiet {
    pub(super) fn new(socket: Socket, settings: Settings) -> Quiet {
        let (received, out) = (Vec::new(), Vec::new());
        Quiet { socket, settings, received, parsed: 0, out, open: false, ended: false, last_received: Instant::now() }
    }

    /// Sends a ping.
    pub(super) fn ping(&mut self) {
        self.out.extend(header(OURS.len(), PING, 0));
        self.out.extend(OURS);
    }

    /// Answers the client until it opens the connection or needs HTTP/2.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<QuietEvent>> {
        loop {
            // Nothing is read while the client does not read the answers.
            ready!(self.poll_write(context))?;
            if self.ended {
                return Poll::Ready(Ok(QuietEvent::Call));
            }
            let mut bytes = [0; MAX_RECEIVED];
            let mut buffer = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer))?;
            self.last_received = Instant::now();
            self.received.extend_from_slice(buffer.filled());
            let was_open = self.open;
            self.ended = buffer.filled().is_empty() || self.answer() || self.received.len() > MAX_RECEIVED;
            if self.open && !was_open {
                return Poll::Ready(Ok(QuietEvent::Open));
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while !self.out.is_empty() {
            let written = ready!(Pin::new(&mut self.socket).poll_write(context, &self.out))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.drain(..written);
        }
        self.out = Vec::new();
        Pin::new(&mut self.socket).poll_flush(context)
    }

    /// Answers the complete frames that were received; returns `true` if HTTP/2 must take over.
    fn answer(&mut self) -> bool {
        if self.parsed == 0 {
            let length = self.received.len().min(PREFACE.len());
            if self.received[..length] != PREFACE[..length] {
                return true;
            }
            if length < PREFACE.len() {
                return false;
            }
            self.parsed = PREFACE.len();
        }
        while let Some(frame) = self.received.get(self.parsed..).filter(|rest| rest.len() >= HEADER) {
            let length = usize::from(frame[0]) << 16 | usize::from(frame[1]) << 8 | usize::from(frame[2]);
            let (kind, flags, on_connection) = (frame[3], frame[4], frame[5..HEADER] == [0; 4]);
            let known = match kind {
                SETTINGS if flags & ACK == 0 => !self.open && length.is_multiple_of(6),
                SETTINGS => self.open && length == 0,
                PING => self.open && length == 8,
                WINDOW_UPDATE => self.open && length == 4,
                _ => false,
            };
            if !known || !on_connection || length > MAX_RECEIVED {
                return true;
            }
            let end = self.parsed + HEADER + length;
            if self.received.len() < end {
                return false;
            }
            if kind == PING {
                if flags & ACK == 0 {
                    self.out.extend(header(8, PING, ACK));
                    self.out.extend_from_slice(&self.received[end - 8..end]);
                }
                self.received.drain(self.parsed..end);
                continue;
            }
            if kind == SETTINGS && flags & ACK == 0 {
                self.out.extend(self.settings.frame());
                self.out.extend(header(0, SETTINGS, ACK));
                self.open = true;
            }
            self.parsed = end;
        }
        false
    }

    /// Returns the socket, the bytes that HTTP/2 must replay, and the frames to remove from its output.
    pub(super) fn end(self) -> (Socket, Vec<u8>, Hidden) {
        let hidden = if self.open { Hidden::new(&self.settings) } else { Hidden::default() };
        (self.socket, self.received, hidden)
    }
}

/// Frames that were sent before HTTP/2 began, and are removed from its output.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// The frames, the next one last.
    frames: Vec<Vec<u8>>,
    /// The start of an incomplete frame.
    partial: Vec<u8>,
    /// The remaining bytes of a frame that passes through.
    pass: usize,
}

impl Hidden {
    fn new(settings: &Settings) -> Hidden {
        let frames = vec![header(0, SETTINGS, ACK).to_vec(), settings.frame()];
        Hidden { frames, ..Hidden::default() }
    }

    /// Returns whether no frame is left to remove.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.partial.is_empty()
    }

    /// Appends `bytes` to `out` without the hidden frames.
    pub(super) fn filter(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            if self.is_empty() || self.pass > 0 {
                let count = if self.is_empty() { bytes.len() } else { self.pass.min(bytes.len()) };
                out.extend_from_slice(&bytes[..count]);
                self.pass = self.pass.saturating_sub(count);
                bytes = &bytes[count..];
                continue;
            }
            self.partial.push(bytes[0]);
            bytes = &bytes[1..];
            if self.frames.last().is_some_and(|next| *next == self.partial) {
                self.frames.pop();
                self.partial.clear();
            } else if !self.frames.last().is_some_and(|next| next.starts_with(&self.partial))
                && let [a, b, c, _, _, _, _, _, _, rest @ ..] = &*self.partial
            {
                let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
                self.pass = length.saturating_sub(rest.len());
                out.append(&mut self.partial);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> (Vec<u8>, Vec<u8>, Hidden) {
        let settings = Settings { streams: 7, window: 65_536, header_list: 100 };
        (settings.frame(), header(0, SETTINGS, ACK).to_vec(), Hidden::new(&settings))
    }

    #[test]
    fn only_sent_frames_are_hidden_in_chunks_of_any_size() {
        let (settings, ack, _) = frames();
        let update = [&header(4, WINDOW_UPDATE, 0)[..], &[0, 0, 1, 0]].concat();
        let other = [&header(6, SETTINGS, 0)[..], &[0, 4, 0, 0, 1, 0]].concat();
        let data = [&header(20, 0, 0)[..], &ack, &[1; 11]].concat();
        let sent = [&*settings, &*update, &*ack, &*other, &*ack, &*data].concat();
        let expected = [&*update, &*other, &*ack, &*data].concat();
        for step in 1..sent.len() {
            let (_, _, mut hidden) = frames();
            let mut out = Vec::new();
            for part in sent.chunks(step) {
                hidden.filter(part, &mut out);
            }
            assert_eq!(out, expected, "in pieces of {step}");
            assert!(hidden.is_empty());
        }
    }

    async fn pair() -> (Quiet, tokio::net::UnixStream) {
        let (ours, theirs) = tokio::net::UnixStream::pair().expect("sockets");
        let settings = Settings { streams: 7, window: 65_536, header_list: 100 };
        (Quiet::new(Socket::Unix(ours), settings), theirs)
    }

    #[tokio::test]
    async fn settings_and_pings_are_acknowledged_and_calls_are_passed_on() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut quiet, mut client) = pair().await;
        let (settings, ack, _) = frames();
        let opening = [PREFACE, &header(0, SETTINGS, 0)].concat();
        for byte in &opening {
            client.write_all(&[*byte]).await.expect("sent");
        }
        let last_received = std::future::poll_fn(|context| quiet.poll(context)).await.expect("open");
        assert_eq!(last_received, QuietEvent::Open);
        let update = [&header(4, WINDOW_UPDATE, 0)[..], &[0, 0, 1, 0]].concat();
        let ping = [&header(8, PING, 0)[..], b"abcdefgh"].concat();
        let call = [&header(5, 1, 4)[..], b"hello"].concat();
        client.write_all(&[&*update, &*ping, &*ack, &*call].concat()).await.expect("sent");
        let last_received = std::future::poll_fn(|context| quiet.poll(context)).await.expect("called");
        assert_eq!(last_received, QuietEvent::Call);
        let (_socket, received, _) = quiet.end();
        assert_eq!(received, [&*opening, &*update, &*ack, &*call].concat());
        let mut replies = vec![0; settings.len() + ack.len() + ping.len()];
        client.read_exact(&mut replies).await.expect("replies");
        assert_eq!(replies, [&*settings, &*ack, &header(8, PING, ACK)[..], b"abcdefgh"].concat());
    }

    #[tokio::test]
    async fn other_bytes_than_a_preface_are_passed_on_unchanged() {
        use tokio::io::AsyncWriteExt as _;
        for sent in [&b"GET / HTTP/1.1\r\n"[..], &PREFACE[..10]] {
            let (mut quiet, mut client) = pair().await;
            client.write_all(sent).await.expect("sent");
            drop(client);
            let last_received = std::future::poll_fn(|context| quiet.poll(context)).await.expect("the end");
            assert_eq!(last_received, QuietEvent::Call);
            let (_socket, received, hidden) = quiet.end();
            assert!(received == sent && hidden.is_empty());
        }
    }

    #[tokio::test]
    async fn endless_settings_are_passed_on_to_http2() {
        use tokio::io::AsyncWriteExt as _;
        let (mut quiet, mut client) = pair().await;
        let update = [&header(4, WINDOW_UPDATE, 0)[..], &[0, 0, 0, 1]].concat();
        let sent = [PREFACE, &header(0, SETTINGS, 0), &update.repeat(100)].concat();
        client.write_all(&sent).await.expect("sent");
        for expected in [QuietEvent::Open, QuietEvent::Call] {
            let last_received = std::future::poll_fn(|context| quiet.poll(context)).await.expect("a response");
            assert_eq!(last_received, expected);
        }
        assert!(quiet.end().1.len() <= 2 * MAX_RECEIVED);
    }
}
