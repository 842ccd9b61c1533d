//! Compresses gzip on all cores, with the same bytes on every machine.
//!
//! The input is split into chunks of a fixed size. Each chunk is compressed separately, with the end of its
//! predecessor as its dictionary, and the results form one stream. Neither the number of cores nor the features of
//! the processor change the output.

use std::io::{self, Write};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use rayon::prelude::*;

use crate::{Digest, Hasher};

/// The size of a chunk, compressed by one core.
const CHUNK: usize = 256 << 10;
/// The number of chunks compressed concurrently.
const CHUNKS: usize = 16;
/// The deflate window: how far back a chunk may refer.
const WINDOW: usize = 32 << 10;
/// The default level of `gzip`.
const LEVEL: u32 = 6;

/// No time, no name, no flags, unknown operating system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// A writer that compresses its input and computes the input's digest.
pub(crate) struct GzipWriter<W> {
    out: W,
    /// The window of compressed input, then the pending input.
    buffer: Vec<u8>,
    /// The length of the compressed part of the buffer.
    done: usize,
    crc: Crc,
    hasher: Hasher,
    size: u64,
}

impl<W: Write> GzipWriter<W> {
    pub(crate) fn new(mut out: W) -> io::Result<GzipWriter<W>> {
        out.write_all(&HEADER)?;
        let buffer = Vec::with_capacity(WINDOW + CHUNK * CHUNKS);
        Ok(GzipWriter { out, buffer, done: 0, crc: Crc::new(), hasher: Hasher::new(), size: 0 })
    }

    /// Writes the rest; returns the inner writer, and the digest and length of the uncompressed input.
    pub(crate) fn finish(mut self) -> io::Result<(W, Digest, u64)> {
        self.compress(true)?;
        self.out.write_all(&self.crc.sum().to_le_bytes())?;
        // gzip stores the length modulo 2^32.
        self.out.write_all(&(self.size as u32).to_le_bytes())?;
        Ok((self.out, self.hasher.finish(), self.size))
    }

    fn compress(&mut self, last: bool) -> io::Result<()> {
        let waiting = &self.buffer[self.done..];
        let mut starts: Vec<usize> = (self.done..self.buffer.len()).step_by(CHUNK).collect();
        if starts.is_empty() && last {
            starts.push(self.done);
        }
        let final_start = starts.last().copied();
        let buffer = &self.buffer;
        let (crc, hasher) = (&mut self.crc, &mut self.hasher);
        let (pieces, ()) = rayon::join(
            || {
                let pieces = starts.par_iter().with_max_len(1).map(|start| {
                    let piece = &buffer[*start..buffer.len().min(start + CHUNK)];
                    let before = &buffer[start.saturating_sub(WINDOW)..*start];
                    deflate(before, piece, last && Some(*start) == final_start)
                });
                pieces.collect::<io::Result<Vec<Vec<u8>>>>()
            },
            || {
                crc.update(waiting);
                hasher.update(waiting);
            },
        );
        self.size += waiting.len() as u64;
        for piece in pieces? {
            self.out.write_all(&piece)?;
        }
        let keep = self.buffer.len().saturating_sub(WINDOW);
        self.buffer.drain(..keep);
        self.done = self.buffer.len();
        Ok(())
    }
}

impl<W: Write> Write for GzipWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = CHUNK * CHUNKS - (self.buffer.len() - self.done);
        let taken = bytes.len().min(room);
        self.buffer.extend_from_slice(&bytes[..taken]);
        if taken == room {
            self.compress(false)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // No early output: chunk boundaries must not depend on the caller.
        Ok(())
    }
}

/// Compresses one chunk; all but the last can be continued.
fn deflate(before: &[u8], piece: &[u8], last: bool) -> io::Result<Vec<u8>> {
    let mut compress = Compress::new(Compression::new(LEVEL), false);
    if !before.is_empty() {
        compress.set_dictionary(before).map_err(io::Error::other)?;
    }
    let flush = if last { FlushCompress::Finish } else { FlushCompress::Sync };
    // Reserve the maximum size: the output must not depend on where the compressor runs out of space.
    let mut out = Vec::with_capacity(piece.len() + piece.len() / 8 + 1024);
    let status = compress.compress_vec(piece, &mut out, flush).map_err(io::Error::other)?;
    let whole = compress.total_in() == piece.len() as u64 && out.len() < out.capacity();
    if whole && (!last || status == Status::StreamEnd) {
        Ok(out)
    } else {
        Err(io::Error::other("the compressed chunk exceeds its maximum size"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Returns text that is neither constant nor noise.
    fn text(length: usize) -> Vec<u8> {
        (0_u64..).flat_map(|n| format!("{} {}, ", n, n.wrapping_mul(n) % 977).into_bytes()).take(length).collect()
    }

    fn gzip(text: &[u8], step: usize) -> Vec<u8> {
        let mut writer = GzipWriter::new(Vec::new()).unwrap();
        text.chunks(step.max(1)).for_each(|chunk| writer.write_all(chunk).unwrap());
        let (out, digest, size) = writer.finish().unwrap();
        assert_eq!((digest, size), (Digest::of(text), text.len() as u64));
        out
    }

    #[test]
    fn compressed_data_is_decompressed_to_the_same() {
        let noise: Vec<u8> = text(CHUNK * 3).chunks(7).flat_map(|part| Digest::of(part).hex().into_bytes()).collect();
        let packed = gzip(&noise, 1 << 20);
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut read).unwrap();
        assert!(read == noise);
        for length in [0, 1, 1000, CHUNK - 1, CHUNK, CHUNK + 1, CHUNK * CHUNKS, CHUNK * CHUNKS * 2 + 12345] {
            let text = text(length);
            let packed = gzip(&text, 1 << 20);
            let mut read = Vec::new();
            // A decoder of a single stream: the output must be one stream.
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut read).unwrap();
            assert!(read == text, "{length}");
        }
    }

    #[test]
    fn chunks_and_threads_do_not_affect_the_output() {
        let text = text(CHUNK * 5 + 77);
        let packed = gzip(&text, 1 << 20);
        assert!(packed == gzip(&text, 777));
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert!(packed == one.install(|| gzip(&text, 4096)));
    }

    #[test]
    fn the_output_is_the_same_on_any_machine() {
        let digest = Digest::of(&gzip(&text(CHUNK * 2 + 5), 1 << 20));
        assert_eq!(digest.to_string(), "sha256:2faef3c0d2733d35274aba06cec1583326f739b4e05a50dc6e59837ac60d2e6a");
    }
}
