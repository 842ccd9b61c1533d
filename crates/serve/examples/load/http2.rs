//! A minimal HTTP/2 client: one request at a time per connection, replies counted but not decoded.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::thread::{CpuSet, sched_setaffinity};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const FRAME: usize = 9;
/// The largest window, and the number of bytes after which it is enlarged again.
const WINDOW: u32 = (1 << 31) - 1;
const HALF: usize = 1 << 30;

/// Pins this process to one core; the server has the others to itself.
pub(crate) fn stay_on_the_last_core() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut set = CpuSet::new();
    set.set(cores - 1);
    let _ = sched_setaffinity(None, &set);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

/// The message of a request, with its prefix.
pub(crate) struct Request(Vec<u8>);

impl Request {
    pub(crate) fn new(message: &[u8]) -> Request {
        let mut payload = vec![0];
        payload.extend_from_slice(&(message.len() as u32).to_be_bytes());
        payload.extend_from_slice(message);
        Request(frame(DATA, END_STREAM, 0, &payload))
    }
}

/// A received reply.
pub(crate) struct Reply {
    pub(crate) took: Duration,
    pub(crate) bytes: usize,
}

/// A connection with one request in flight at a time.
pub(crate) struct Client {
    socket: TcpStream,
    path: &'static str,
    stream: u32,
    asked: Instant,
    /// Bytes of the current reply.
    bytes: usize,
    /// Bytes received since the connection window was last enlarged.
    taken: usize,
    buffer: Vec<u8>,
    filled: usize,
    /// Remaining bytes of a payload to skip.
    skip: usize,
    kept: Option<Vec<u8>>,
    out: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: &str, path: &'static str) -> io::Result<Client> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut settings = vec![0, 4];
        settings.extend_from_slice(&WINDOW.to_be_bytes());
        hello.extend(frame(SETTINGS, 0, 0, &settings));
        hello.extend(frame(WINDOW_UPDATE, 0, 0, &(WINDOW - 65_535).to_be_bytes()));
        socket.write_all(&hello)?;
        socket.set_nonblocking(true)?;
        Ok(Client {
            socket,
            path,
            stream: 1,
            asked: Instant::now(),
            bytes: 0,
            taken: 0,
            buffer: vec![0; 256 << 10],
            filled: 0,
            skip: 0,
            kept: None,
            out: Vec::new(),
        })
    }

    /// Records the bytes of the next reply.
    pub(crate) fn keep(&mut self) {
        self.kept = Some(Vec::new());
    }

    pub(crate) fn kept(&self) -> &[u8] {
        self.kept.as_deref().unwrap_or_default()
    }

    pub(crate) fn ask(&mut self, request: &Request) -> io::Result<()> {
        let headers = if self.stream == 1 { first_headers(self.path) } else { LATER_HEADERS.to_vec() };
        self.out.extend(frame(HEADERS, END_HEADERS, self.stream, &headers));
        let start = self.out.len();
        self.out.extend_from_slice(&request.0);
        self.out[start + 5..start + FRAME].copy_from_slice(&self.stream.to_be_bytes());
        (self.asked, self.bytes) = (Instant::now(), 0);
        self.send()
    }

    /// Sends the buffered frames. They are few, and always fit.
    fn send(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Receives available bytes; returns the reply when it is complete.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Reply>> {
        let mut whole = false;
        loop {
            let room = self.buffer.len() - self.filled;
            let count = match self.socket.read(&mut self.buffer[self.filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            self.filled += count;
            whole |= self.frames()?;
            if whole || count < room {
                break;
            }
        }
        if !self.out.is_empty() {
            self.send()?;
        }
        if !whole {
            return Ok(None);
        }
        self.stream += 2;
        Ok(Some(Reply { took: self.asked.elapsed(), bytes: self.bytes }))
    }

    /// Parses the buffered frames; returns whether one of them ended the reply.
    fn frames(&mut self) -> io::Result<bool> {
        let (mut at, mut whole) = (0, false);
        loop {
            let skipped = self.skip.min(self.filled - at);
            if let Some(kept) = &mut self.kept {
                kept.extend_from_slice(&self.buffer[at..at + skipped]);
            }
            (at, self.skip) = (at + skipped, self.skip - skipped);
            let Some(header) = self.buffer[at..self.filled].first_chunk::<FRAME>() else { break };
            let [a, b, c, kind, flags, ..] = *header;
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            if kind == DATA {
                self.bytes += length;
                self.taken += length;
                self.skip = length;
                whole |= flags & END_STREAM != 0;
                at += FRAME;
                continue;
            }
            let Some(payload) = self.buffer[at + FRAME..self.filled].get(..length) else { break };
            match kind {
                HEADERS => whole |= flags & END_STREAM != 0,
                SETTINGS if flags & ACK == 0 => self.out.extend(frame(SETTINGS, ACK, 0, &[])),
                PING if flags & ACK == 0 => self.out.extend(frame(PING, ACK, 0, payload)),
                RST_STREAM | GOAWAY => return Err(io::Error::other("the server reset the stream or connection")),
                _ => {}
            }
            at += FRAME + length;
        }
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        if self.taken > HALF {
            self.out.extend(frame(WINDOW_UPDATE, 0, 0, &(self.taken as u32).to_be_bytes()));
            self.taken = 0;
        }
        if whole && self.bytes == 0 {
            return Err(io::Error::other("a call failed"));
        }
        Ok(whole)
    }
}

/// Encodes the headers of the first request, which the server adds to its HPACK table.
fn first_headers(path: &str) -> Vec<u8> {
    let mut out = vec![0x83, 0x86];
    let text = |out: &mut Vec<u8>, text: &str| {
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    };
    out.push(0x44);
    text(&mut out, path);
    out.push(0x41);
    text(&mut out, "catalog");
    out.push(0x5f);
    text(&mut out, "application/grpc");
    out.push(0x40);
    text(&mut out, "te");
    text(&mut out, "trailers");
    out
}

/// POST, http, and the four indexed headers.
const LATER_HEADERS: [u8; 6] = [0x83, 0x86, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62];

/// Waits for many clients at once.
pub(crate) struct Events {
    poll: OwnedFd,
    ready: Vec<epoll::Event>,
}

impl Events {
    pub(crate) fn new(clients: &[Client]) -> io::Result<Events> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (place, client) in clients.iter().enumerate() {
            epoll::add(&poll, &client.socket, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
        }
        Ok(Events { poll, ready: Vec::with_capacity(clients.len().max(1)) })
    }

    /// Returns the indexes of the clients that have something to read.
    pub(crate) fn wait(&mut self) -> io::Result<impl Iterator<Item = usize> + use<>> {
        self.ready.clear();
        epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut self.ready), None)?;
        let places: Vec<usize> = self.ready.iter().map(|event| event.data.u64() as usize).collect();
        Ok(places.into_iter())
    }
}
