//! Writes gzip on all cores, the same bytes on any machine.
//!
//! The text is cut into pieces of a fixed length, each compressed by itself with the end of the one
//! before as its dictionary, and put together to one stream. Neither the number of cores nor what
//! the processor can do changes the outcome.

use std::io::{self, Write};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use rayon::prelude::*;

use crate::{Digest, Hasher};

/// How much is compressed at a time by one core.
const PIECE: usize = 256 << 10;
/// How many pieces are compressed together.
const TOGETHER: usize = 16;
/// How far back a piece may refer.
const WINDOW: usize = 32 << 10;
/// The default of `gzip`.
const LEVEL: u32 = 6;

/// No time, no name, no flags, an unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// A writer that compresses, and computes the digest of what is written to it.
pub(crate) struct GzipWriter<W> {
    out: W,
    /// The end of what was compressed already, then what waits for it.
    buffer: Vec<u8>,
    /// How much of the buffer is compressed already.
    done: usize,
    crc: Crc,
    hasher: Hasher,
    size: u64,
}

impl<W: Write> GzipWriter<W> {
    pub(crate) fn new(mut out: W) -> io::Result<GzipWriter<W>> {
        out.write_all(&HEADER)?;
        let buffer = Vec::with_capacity(WINDOW + PIECE * TOGETHER);
        Ok(GzipWriter { out, buffer, done: 0, crc: Crc::new(), hasher: Hasher::new(), size: 0 })
    }

    /// Writes what is left; returns the writer below, the digest of all that was written here, and its length.
    pub(crate) fn finish(mut self) -> io::Result<(W, Digest, u64)> {
        self.compress(true)?;
        self.out.write_all(&self.crc.sum().to_le_bytes())?;
        // The length is kept modulo 2^32.
        self.out.write_all(&(self.size as u32).to_le_bytes())?;
        Ok((self.out, self.hasher.finish(), self.size))
    }

    fn compress(&mut self, last: bool) -> io::Result<()> {
        let waiting = &self.buffer[self.done..];
        let mut starts: Vec<usize> = (self.done..self.buffer.len()).step_by(PIECE).collect();
        if starts.is_empty() && last {
            starts.push(self.done);
        }
        let final_start = starts.last().copied();
        let buffer = &self.buffer;
        let (crc, hasher) = (&mut self.crc, &mut self.hasher);
        let (pieces, ()) = rayon::join(
            || {
                let pieces = starts.par_iter().with_max_len(1).map(|start| {
                    let piece = &buffer[*start..buffer.len().min(start + PIECE)];
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
        let room = PIECE * TOGETHER - (self.buffer.len() - self.done);
        let taken = bytes.len().min(room);
        self.buffer.extend_from_slice(&bytes[..taken]);
        if taken == room {
            self.compress(false)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Nothing is given away early: where pieces end must not depend on who asks.
        Ok(())
    }
}

/// Compresses a piece so that another can follow, unless it is the last.
fn deflate(before: &[u8], piece: &[u8], last: bool) -> io::Result<Vec<u8>> {
    let mut compress = Compress::new(Compression::new(LEVEL), false);
    if !before.is_empty() {
        compress.set_dictionary(before).map_err(io::Error::other)?;
    }
    let flush = if last { FlushCompress::Finish } else { FlushCompress::Sync };
    // Room for all of it: what comes out must not depend on where it is interrupted.
    let mut out = Vec::with_capacity(piece.len() + piece.len() / 8 + 1024);
    let status = compress.compress_vec(piece, &mut out, flush).map_err(io::Error::other)?;
    let whole = compress.total_in() == piece.len() as u64 && out.len() < out.capacity();
    if whole && (!last || status == Status::StreamEnd) {
        Ok(out)
    } else {
        Err(io::Error::other("compressed text is larger than it can be"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Text that is neither all the same nor noise.
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
    fn what_is_written_is_read_again() {
        let noise: Vec<u8> = text(PIECE * 3).chunks(7).flat_map(|part| Digest::of(part).hex().into_bytes()).collect();
        let packed = gzip(&noise, 1 << 20);
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut read).unwrap();
        assert!(read == noise);
        for length in [0, 1, 1000, PIECE - 1, PIECE, PIECE + 1, PIECE * TOGETHER, PIECE * TOGETHER * 2 + 12345] {
            let text = text(length);
            let packed = gzip(&text, 1 << 20);
            let mut read = Vec::new();
            // Not the decoder of many streams: this is one.
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut read).unwrap();
            assert!(read == text, "{length}");
        }
    }

    #[test]
    fn it_does_not_matter_how_the_bytes_come_or_who_compresses() {
        let text = text(PIECE * 5 + 77);
        let packed = gzip(&text, 1 << 20);
        assert!(packed == gzip(&text, 777));
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert!(packed == one.install(|| gzip(&text, 4096)));
    }

    #[test]
    fn the_bytes_are_these_on_any_machine() {
        let digest = Digest::of(&gzip(&text(PIECE * 2 + 5), 1 << 20));
        assert_eq!(digest.to_string(), "sha256:2faef3c0d2733d35274aba06cec1583326f739b4e05a50dc6e59837ac60d2e6a");
    }
}
