//! What is sent: nothing, some bytes, or a part of a file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// How much of a file is in memory at once.
const PIECE: usize = 64 << 10;

/// A body that can be sent again: a clone starts from the beginning.
pub(crate) enum Body {
    Empty,
    Bytes(Bytes),
    /// Bytes that only the server they are made for may read: no redirect takes them elsewhere.
    Private(Bytes),
    File {
        path: PathBuf,
        start: u64,
        size: u64,
        sent: u64,
        file: Option<File>,
    },
}

impl Body {
    /// Returns `size` bytes of a file, from `start`.
    pub(crate) fn file(path: PathBuf, start: u64, size: u64) -> Body {
        Body::File { path, start, size, sent: 0, file: None }
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            Body::Empty => 0,
            Body::Bytes(bytes) | Body::Private(bytes) => bytes.len() as u64,
            Body::File { size, .. } => *size,
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.size())
    }
}

impl Clone for Body {
    fn clone(&self) -> Body {
        match self {
            Body::Empty => Body::Empty,
            Body::Bytes(bytes) => Body::Bytes(bytes.clone()),
            Body::Private(bytes) => Body::Private(bytes.clone()),
            Body::File { path, start, size, .. } => Body::file(path.clone(), *start, *size),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match self.get_mut() {
            Body::Empty => None,
            Body::Bytes(bytes) | Body::Private(bytes) if bytes.is_empty() => None,
            Body::Bytes(bytes) | Body::Private(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
            Body::File { size, sent, .. } if sent == size => None,
            Body::File { path, start, size, sent, file } => {
                // Files of a store are read as fast as memory, so this does not hold others up.
                let mut next = || {
                    if file.is_none() {
                        let mut opened = File::open(&*path)?;
                        opened.seek(SeekFrom::Start(*start))?;
                        *file = Some(opened);
                    }
                    let mut piece = vec![0; PIECE.min(usize::try_from(*size - *sent).unwrap_or(PIECE))];
                    if let Some(file) = file {
                        file.read_exact(&mut piece)?;
                    }
                    *sent += piece.len() as u64;
                    Ok(Frame::data(Bytes::from(piece)))
                };
                Some(next())
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Bytes(bytes) | Body::Private(bytes) => bytes.is_empty(),
            Body::File { size, sent, .. } => sent == size,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Body::Empty => 0,
            Body::Bytes(bytes) | Body::Private(bytes) => bytes.len() as u64,
            Body::File { size, sent, .. } => size - sent,
        })
    }
}
