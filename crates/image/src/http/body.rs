//! Request bodies: empty, bytes, or byte ranges of files.

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

use crate::payload::Piece;
use crate::rate_limit::RateLimiter;

/// The chunk size for reading files.
const CHUNK: usize = 256 << 10;

/// Maximum number of connections that share a rate limit.
const SHARING_CONNECTIONS: usize = 64;

/// Receives the number of bytes that have left before each chunk.
pub(crate) type Sent = Arc<dyn Fn(u64) + Send + Sync>;

/// A request body that can be sent again: a clone starts from the beginning.
pub(crate) enum Body {
    Empty,
    Bytes(Bytes),
    /// Bytes for one server only: redirects to another server fail.
    Private(Bytes),
    /// Byte ranges of files, concatenated.
    Pieces {
        pieces: Vec<Piece>,
        /// The index of the current piece and the offset in it.
        at: (usize, u64),
        sent: Sent,
        file: Option<File>,
        rate_limiter: Option<Arc<RateLimiter>>,
        /// The delay before the next chunk, from the rate limiter.
        pause: Option<Pin<Box<Sleep>>>,
    },
}

impl Body {
    /// Creates a body of non-empty file ranges, sent no faster than `rate_limiter`.
    pub(crate) fn pieces(pieces: Vec<Piece>, rate_limiter: Option<Arc<RateLimiter>>, sent: Sent) -> Body {
        Body::Pieces { pieces, at: (0, 0), sent, file: None, rate_limiter, pause: None }
    }

    /// Returns how much the rate limit may delay the body.
    pub(crate) fn delay(&self) -> Duration {
        match self {
            Body::Pieces { rate_limiter: Some(rate_limiter), .. } => {
                rate_limiter.time_for(self.size(), SHARING_CONNECTIONS)
            }
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
            Body::Pieces { pieces, rate_limiter, sent, .. } => {
                Body::pieces(pieces.clone(), rate_limiter.clone(), Arc::clone(sent))
            }
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
            Body::Pieces { pieces, at, sent, file, rate_limiter, pause } => {
                if let Some(waiting) = pause {
                    ready!(waiting.as_mut().poll(context));
                    *pause = None;
                }
                // The connection asks for the next chunk when it has room, so the earlier ones are on their way.
                sent(pieces.iter().take(at.0).map(|piece| piece.size).sum::<u64>() + at.1);
                let piece = &pieces[at.0];
                // Files of the store are usually in the page cache, so this blocks the task only briefly.
                let mut next = || {
                    if file.is_none() {
                        let mut opened = File::open(&piece.path)?;
                        opened.seek(SeekFrom::Start(piece.offset))?;
                        *file = Some(opened);
                    }
                    let size = CHUNK.min(usize::try_from(piece.size - at.1).unwrap_or(CHUNK));
                    let mut bytes = Vec::with_capacity(size);
                    if let Some(file) = file {
                        file.by_ref().take(size as u64).read_to_end(&mut bytes)?;
                    }
                    if bytes.len() < size {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    at.1 += bytes.len() as u64;
                    let wait = rate_limiter
                        .as_ref()
                        .map(|rate_limiter| rate_limiter.reserve(bytes.len() as u64))
                        .unwrap_or_default();
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
