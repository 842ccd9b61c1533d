//! What is sent: nothing, some bytes, or parts of files.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::pace::Pace;
use crate::payload::Piece;

/// How much of a file is in memory at once.
const PIECE: usize = 256 << 10;

/// How many connections can share a pace.
const SHARING: usize = 64;

/// A body that can be sent again: a clone starts from the beginning.
pub(crate) enum Body {
    Empty,
    Bytes(Bytes),
    /// Bytes that only the server they are made for may read: no redirect takes them elsewhere.
    Private(Bytes),
    /// Parts of files, one after the other.
    Pieces {
        pieces: Vec<Piece>,
        /// The number of the piece that is being sent, and how much of it is.
        at: (usize, u64),
        file: Option<File>,
        pace: Option<Arc<Pace>>,
        /// How long the next piece has to wait.
        pause: Option<Pin<Box<Sleep>>>,
    },
}

impl Body {
    /// Returns parts of files, one after the other, no faster than `pace`; none of them is empty.
    pub(crate) fn pieces(pieces: Vec<Piece>, pace: Option<Arc<Pace>>) -> Body {
        Body::Pieces { pieces, at: (0, 0), file: None, pace, pause: None }
    }

    /// Returns how much longer than usual it may take to send, if somebody wants it to be slow.
    pub(crate) fn delay(&self) -> Duration {
        match self {
            Body::Pieces { pace: Some(pace), .. } => pace.time_for(self.size(), SHARING),
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            Body::Empty => 0,
            Body::Bytes(bytes) | Body::Private(bytes) => bytes.len() as u64,
            Body::Pieces { pieces, .. } => pieces.iter().map(|piece| piece.size).sum(),
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
            Body::Pieces { pieces, pace, .. } => Body::pieces(pieces.clone(), pace.clone()),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match self.get_mut() {
            Body::Empty => None,
            Body::Bytes(bytes) | Body::Private(bytes) if bytes.is_empty() => None,
            Body::Bytes(bytes) | Body::Private(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
            Body::Pieces { pieces, at, .. } if at.0 == pieces.len() => None,
            Body::Pieces { pieces, at, file, pace, pause } => {
                if let Some(waiting) = pause {
                    ready!(waiting.as_mut().poll(context));
                    *pause = None;
                }
                let piece = &pieces[at.0];
                // Files of a store are read as fast as memory, so this does not hold others up.
                let mut next = || {
                    if file.is_none() {
                        let mut opened = File::open(&piece.path)?;
                        opened.seek(SeekFrom::Start(piece.offset))?;
                        *file = Some(opened);
                    }
                    let size = PIECE.min(usize::try_from(piece.size - at.1).unwrap_or(PIECE));
                    let mut bytes = Vec::with_capacity(size);
                    if let Some(file) = file {
                        file.by_ref().take(size as u64).read_to_end(&mut bytes)?;
                    }
                    if bytes.len() < size {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    at.1 += bytes.len() as u64;
                    let wait = pace.as_ref().map(|pace| pace.take(bytes.len() as u64)).unwrap_or_default();
                    *pause = (!wait.is_zero()).then(|| Box::pin(sleep(wait)));
                    if at.1 == piece.size {
                        *at = (at.0 + 1, 0);
                        *file = None;
                    }
                    Ok(Frame::data(Bytes::from(bytes)))
                };
                Some(next())
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Empty => true,
            Body::Bytes(bytes) | Body::Private(bytes) => bytes.is_empty(),
            Body::Pieces { pieces, at, .. } => at.0 == pieces.len(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Body::Empty => 0,
            Body::Bytes(bytes) | Body::Private(bytes) => bytes.len() as u64,
            Body::Pieces { pieces, at, .. } => pieces.iter().skip(at.0).map(|piece| piece.size).sum::<u64>() - at.1,
        })
    }
}
