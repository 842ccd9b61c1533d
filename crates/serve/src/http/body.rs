//! Response bodies, produced chunk by chunk as the client reads.
//!
//! A client that does not read costs one chunk and no thread. Each chunk is compressed on its own, so that no state is
//! kept between them: consecutive zstd frames, or one gzip member of independent deflate blocks.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};
use http_body::{Frame, SizeHint};
use tokio::sync::Semaphore;

use super::events::Events;
use super::spool::Spool;
use crate::caught::blocking;
use crate::content::ContentReader;
use crate::slots::Usage;

/// The size of a chunk.
const CHUNK: usize = 64 << 10;
/// The size of a chunk before compression.
const COMPRESSED_CHUNK: usize = 256 << 10;
const ZSTD_LEVEL: i32 = 3;
/// A gzip header without name and time, from an unknown system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// An empty final deflate block.
const DEFLATE_END: [u8; 2] = [3, 0];

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    None,
    Gzip,
    Zstd,
}

/// The body of a reply.
pub(crate) struct ReplyBody {
    kind: BodyKind,
    /// Notified when the body has been sent.
    usage: Option<Usage>,
}

enum BodyKind {
    Whole(Option<Bytes>),
    Streamed { state: BodyState, left: Option<u64>, workers: Arc<Semaphore> },
    Events(Events),
}

type Produced = (Chunks, io::Result<Option<Bytes>>);

enum BodyState {
    Idle(Box<Chunks>),
    Producing(Pin<Box<dyn Future<Output = io::Result<Produced>> + Send>>),
    Done,
}

impl ReplyBody {
    pub(super) fn empty() -> ReplyBody {
        ReplyBody::from(Bytes::new())
    }

    /// Streams the bytes of `source`; `exact` is their number, if it is known.
    ///
    /// `workers` bounds the number of bodies in progress.
    pub(super) fn streamed(
        source: StreamSource,
        coding: Coding,
        exact: Option<u64>,
        workers: &Arc<Semaphore>,
    ) -> ReplyBody {
        let chunks = Chunks { source, coding, crc: Crc::new(), started: false, headed: false, ended: false };
        let state = BodyState::Idle(Box::new(chunks));
        ReplyBody { kind: BodyKind::Streamed { state, left: exact, workers: Arc::clone(workers) }, usage: None }
    }

    /// Streams server-sent events.
    pub(super) fn events(events: Events) -> ReplyBody {
        ReplyBody { kind: BodyKind::Events(events), usage: None }
    }

    /// Updates `usage` when the body has been sent.
    pub(super) fn with_usage(mut self, usage: Usage) -> ReplyBody {
        self.usage = Some(usage);
        self
    }
}

impl From<Bytes> for ReplyBody {
    fn from(bytes: Bytes) -> ReplyBody {
        ReplyBody { kind: BodyKind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())), usage: None }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        if let Some(usage) = &self.usage {
            usage.set_idle();
        }
    }
}

impl http_body::Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let (state, left, workers) = match &mut self.kind {
            BodyKind::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodyKind::Events(events) => {
                return events.poll(context).map(|news| news.map(|bytes| Ok(Frame::data(bytes))));
            }
            BodyKind::Streamed { state, left, workers } => (state, left, workers),
        };
        loop {
            match state {
                BodyState::Done => return Poll::Ready(None),
                BodyState::Producing(producing) => {
                    let Poll::Ready(produced) = producing.as_mut().poll(context) else { return Poll::Pending };
                    *state = BodyState::Done;
                    let (chunks, produced) = produced?;
                    let Some(bytes) = produced? else { return Poll::Ready(None) };
                    *state = BodyState::Idle(Box::new(chunks));
                    if let Some(left) = left {
                        *left = left.saturating_sub(bytes.len() as u64);
                    }
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                BodyState::Idle(_) => {
                    let BodyState::Idle(chunks) = std::mem::replace(state, BodyState::Done) else { continue };
                    *state = BodyState::Producing(Box::pin(produce(*chunks, Arc::clone(workers))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Whole(bytes) => bytes.is_none(),
            BodyKind::Events(_) => false,
            BodyKind::Streamed { state, left, .. } => matches!(state, BodyState::Done) || *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            BodyKind::Events(_) => SizeHint::default(),
            BodyKind::Streamed { left, .. } => left.map(SizeHint::with_exact).unwrap_or_default(),
        }
    }
}

/// Produces the next chunk on a thread that may block on the disk.
///
/// The first chunk does not queue: most bodies have no other, and must not wait for those that have hundreds.
async fn produce(mut chunks: Chunks, workers: Arc<Semaphore>) -> io::Result<Produced> {
    let _permit = match std::mem::replace(&mut chunks.started, true) {
        false => None,
        true => Some(workers.acquire_owned().await.map_err(io::Error::other)?),
    };
    let producing = blocking(move || {
        let produced = chunks.next();
        (chunks, produced)
    });
    Ok(producing.await)
}

/// Where the bytes of a streamed body come from.
pub(super) enum StreamSource {
    /// A part of the catalog.
    Content(ContentReader),
    /// An answer, from an offset on.
    Spool(Arc<Spool>, u64),
}

impl StreamSource {
    /// Reads the next bytes: `size` of them, or fewer at the end.
    fn read(&mut self, size: usize) -> io::Result<Vec<u8>> {
        match self {
            StreamSource::Content(reader) => reader.read(size),
            StreamSource::Spool(spool, offset) => {
                let bytes = spool.read(*offset, size)?;
                *offset += bytes.len() as u64;
                Ok(bytes)
            }
        }
    }
}

/// The chunks of a streamed body.
struct Chunks {
    source: StreamSource,
    coding: Coding,
    crc: Crc,
    started: bool,
    /// Whether the gzip header is sent.
    headed: bool,
    ended: bool,
}

impl Chunks {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self.coding {
            Coding::None => Ok(Some(self.source.read(CHUNK)?).filter(|chunk| !chunk.is_empty()).map(Bytes::from)),
            Coding::Zstd => match self.source.read(COMPRESSED_CHUNK)? {
                chunk if chunk.is_empty() => Ok(None),
                chunk => Ok(Some(zstd::bulk::compress(&chunk, ZSTD_LEVEL)?.into())),
            },
            Coding::Gzip if self.ended => Ok(None),
            Coding::Gzip => {
                let mut out = Vec::new();
                if !std::mem::replace(&mut self.headed, true) {
                    out.extend_from_slice(&GZIP_HEADER);
                }
                let chunk = self.source.read(COMPRESSED_CHUNK)?;
                self.crc.update(&chunk);
                if chunk.is_empty() {
                    self.ended = true;
                    out.extend_from_slice(&DEFLATE_END);
                    out.extend_from_slice(&self.crc.sum().to_le_bytes());
                    out.extend_from_slice(&self.crc.amount().to_le_bytes());
                } else {
                    deflate(&chunk, &mut out)?;
                }
                Ok(Some(out.into()))
            }
        }
    }
}

/// Compresses a whole body.
///
/// # Errors
/// Fails when memory cannot be allocated.
pub(super) fn compressed(bytes: Vec<u8>, coding: Coding) -> io::Result<Bytes> {
    match coding {
        Coding::None => Ok(bytes.into()),
        Coding::Zstd => Ok(zstd::bulk::compress(&bytes, ZSTD_LEVEL)?.into()),
        Coding::Gzip => {
            use std::io::Write;
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&bytes)?;
            Ok(encoder.finish()?.into())
        }
    }
}

/// Appends the deflate blocks of `chunk`, none of them final, aligned to a byte.
fn deflate(chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let mut compress = Compress::new(Compression::fast(), false);
    loop {
        out.reserve(CHUNK);
        let done = usize::try_from(compress.total_in()).unwrap_or(usize::MAX).min(chunk.len());
        compress.compress_vec(&chunk[done..], out, FlushCompress::Sync).map_err(io::Error::other)?;
        // Space left in the buffer means that all output is flushed.
        if compress.total_in() == chunk.len() as u64 && out.len() < out.capacity() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn independent_blocks_form_one_gzip_member() {
        let mut crc = Crc::new();
        let mut out = GZIP_HEADER.to_vec();
        let text: Vec<u8> = (0..900_000u32).flat_map(|number| (number % 997).to_string().into_bytes()).collect();
        for chunk in text.chunks(COMPRESSED_CHUNK) {
            crc.update(chunk);
            deflate(chunk, &mut out).unwrap();
        }
        out.extend_from_slice(&DEFLATE_END);
        out.extend_from_slice(&crc.sum().to_le_bytes());
        out.extend_from_slice(&crc.amount().to_le_bytes());
        let mut back = Vec::new();
        // A decoder of a single member, which verifies length and checksum.
        flate2::read::GzDecoder::new(&out[..]).read_to_end(&mut back).unwrap();
        assert!(back == text);
        assert!(out.len() < text.len() / 2);
    }
}
