//! Request bodies: empty, bytes, or a part of a blob.

use std::fmt;
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::blob::BlobReader;
use crate::rate_limit::RateLimiter;

/// The chunk size for reading files.
const CHUNK: usize = 256 << 10;

/// Maximum number of connections that share a rate limit.
const SHARING_CONNECTIONS: usize = 64;

/// Receives the number of bytes that have left before each chunk.
pub(crate) type SentReport = Arc<dyn Fn(u64) + Send + Sync>;

/// Where a body left the reader of its blob, once all of it was read.
#[derive(Clone, Default)]
pub(crate) struct Reached(Arc<Mutex<Option<BlobReader>>>);

impl Reached {
    pub(crate) fn take(&self) -> Option<BlobReader> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, reader: BlobReader) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
    }
}

/// A request body that can be sent again: a clone starts from the beginning.
pub(crate) enum RequestBody {
    Empty,
    Bytes(Bytes),
    /// Bytes for one server only: redirects to another server fail.
    Private(Bytes),
    /// A part of a blob.
    Blob {
        /// At the start of the part.
        start: Box<BlobReader>,
        size: u64,
        reader: Box<BlobReader>,
        /// The number of bytes that are not read yet.
        left: u64,
        reached: Reached,
        sent: SentReport,
        rate_limiter: Option<Arc<RateLimiter>>,
        /// The delay before the next chunk, from the rate limiter.
        pause: Option<Pin<Box<Sleep>>>,
    },
}

impl RequestBody {
    /// Creates a body of the next `size` bytes of a blob, sent no faster than `rate_limiter`.
    pub(crate) fn blob(
        start: BlobReader,
        size: u64,
        reached: Reached,
        rate_limiter: Option<Arc<RateLimiter>>,
        sent: SentReport,
    ) -> RequestBody {
        let (start, reader) = (Box::new(start.clone()), Box::new(start));
        RequestBody::Blob { start, size, reader, left: size, reached, sent, rate_limiter, pause: None }
    }

    /// Returns how much the rate limit may delay the body.
    pub(crate) fn delay(&self) -> Duration {
        match self {
            RequestBody::Blob { rate_limiter: Some(rate_limiter), .. } => {
                rate_limiter.time_for(self.size(), SHARING_CONNECTIONS)
            }
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match self {
            RequestBody::Empty => 0,
            RequestBody::Bytes(bytes) | RequestBody::Private(bytes) => bytes.len() as u64,
            RequestBody::Blob { size, .. } => *size,
        }
    }
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.size())
    }
}

impl Clone for RequestBody {
    fn clone(&self) -> RequestBody {
        match self {
            RequestBody::Empty => RequestBody::Empty,
            RequestBody::Bytes(bytes) => RequestBody::Bytes(bytes.clone()),
            RequestBody::Private(bytes) => RequestBody::Private(bytes.clone()),
            RequestBody::Blob { start, size, reached, rate_limiter, sent, .. } => {
                RequestBody::blob((**start).clone(), *size, reached.clone(), rate_limiter.clone(), Arc::clone(sent))
            }
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(match self.get_mut() {
            RequestBody::Empty => None,
            RequestBody::Bytes(bytes) | RequestBody::Private(bytes) if bytes.is_empty() => None,
            RequestBody::Bytes(bytes) | RequestBody::Private(bytes) => Some(Ok(Frame::data(std::mem::take(bytes)))),
            RequestBody::Blob { left: 0, .. } => None,
            RequestBody::Blob { size, reader, left, reached, sent, rate_limiter, pause, .. } => {
                if let Some(waiting) = pause {
                    ready!(waiting.as_mut().poll(context));
                    *pause = None;
                }
                // The connection asks for the next chunk when it has room, so the earlier ones are on their way.
                sent(*size - *left);
                // Files of the store are usually in the page cache, so this blocks the task only briefly.
                let mut next = || {
                    let mut bytes = vec![0; CHUNK.min(usize::try_from(*left).unwrap_or(CHUNK))];
                    // The last bytes of a blob are only read if its digest matches.
                    reader.read_exact(&mut bytes)?;
                    *left -= bytes.len() as u64;
                    let wait = rate_limiter
                        .as_ref()
                        .map(|rate_limiter| rate_limiter.reserve(bytes.len() as u64))
                        .unwrap_or_default();
                    *pause = (!wait.is_zero()).then(|| Box::pin(sleep(wait)));
                    if *left == 0 {
                        reached.set((**reader).clone());
                    }
                    Ok(Frame::data(Bytes::from(bytes)))
                };
                Some(next())
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        match self {
            RequestBody::Empty => true,
            RequestBody::Bytes(bytes) | RequestBody::Private(bytes) => bytes.is_empty(),
            RequestBody::Blob { left, .. } => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            RequestBody::Empty => 0,
            RequestBody::Bytes(bytes) | RequestBody::Private(bytes) => bytes.len() as u64,
            RequestBody::Blob { left, .. } => *left,
        })
    }
}
