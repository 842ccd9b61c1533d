//! Decompresses a layer to tar bytes, with limits on the output.

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;

use super::{LayerProblem, UnpackLimits};
use crate::BlobError;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// Skippable frames, which some tools write first, start with one of `0x50..=0x5f` followed by these bytes.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

/// Maximum window of a zstd frame, as a power of two. Layers are written with 8 MiB at most.
const ZSTD_WINDOW: u32 = 25;

/// The uncompressed bytes of a layer.
pub(crate) struct LayerStream<'a> {
    source: Box<dyn Read + 'a>,
    compressed: Rc<Cell<u64>>,
    uncompressed: u64,
    /// The remaining budget of all layers.
    budget: &'a Cell<u64>,
    limits: &'a UnpackLimits,
}

/// A source that counts the bytes read from it.
struct Counted<'a, R> {
    source: R,
    compressed: Rc<Cell<u64>>,
    progress: &'a dyn Fn(u64),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.source.read(buffer)?;
        self.compressed.set(self.compressed.get() + length as u64);
        (self.progress)(length as u64);
        Ok(length)
    }
}

impl<'a> LayerStream<'a> {
    /// Opens a layer. The first bytes determine the compression, because media types are often wrong.
    pub(crate) fn open(
        source: impl Read + 'a,
        limits: &'a UnpackLimits,
        budget: &'a Cell<u64>,
        progress: &'a dyn Fn(u64),
    ) -> io::Result<LayerStream<'a>> {
        let compressed = Rc::new(Cell::new(0));
        let mut counted = Counted { source, compressed: Rc::clone(&compressed), progress };
        let mut magic = Vec::with_capacity(4);
        counted.by_ref().take(4).read_to_end(&mut magic)?;
        let skippable = magic.first().is_some_and(|first| first & 0xf0 == 0x50) && magic.ends_with(ZSTD_SKIPPABLE);
        let (gzip, zstd) = (magic.starts_with(GZIP), magic == ZSTD || skippable);
        let counted = BufReader::with_capacity(64 << 10, io::Cursor::new(magic).chain(counted));
        let source: Box<dyn Read + 'a> = if gzip {
            Box::new(MultiGzDecoder::new(counted))
        } else if zstd {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(counted)?;
            decoder.window_log_max(ZSTD_WINDOW)?;
            Box::new(decoder)
        } else {
            Box::new(counted)
        };
        Ok(LayerStream {
            source: Box::new(BufReader::with_capacity(128 << 10, source)),
            compressed,
            uncompressed: 0,
            budget,
            limits,
        })
    }

    /// Reads some bytes; 0 at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, LayerProblem> {
        let length = loop {
            match self.source.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(LayerProblem::Truncated),
                Err(error) if error.raw_os_error().is_some() || BlobError::of(&error).is_some() => {
                    return Err(LayerProblem::Read(error));
                }
                Err(error) => return Err(LayerProblem::Unreadable(error.to_string())),
                Ok(length) => break length,
            }
        };
        self.uncompressed += length as u64;
        let left = self.budget.get().checked_sub(length as u64);
        self.budget.set(left.ok_or(LayerProblem::TotalSize(self.limits.total_size))?);
        let allowed = self.compressed.get().saturating_mul(self.limits.ratio).max(self.limits.ratio_from);
        if self.uncompressed > allowed {
            return Err(LayerProblem::Ratio(self.limits.ratio));
        }
        Ok(length)
    }

    /// Reads a whole block; returns `false` at the end.
    pub(crate) fn read_block(&mut self, block: &mut [u8]) -> Result<bool, LayerProblem> {
        let mut filled = 0;
        while filled < block.len() {
            match self.read(&mut block[filled..])? {
                0 if filled == 0 => return Ok(false),
                0 => return Err(LayerProblem::Truncated),
                length => filled += length,
            }
        }
        Ok(true)
    }

    /// Skips padding; returns whether all of it was present.
    pub(crate) fn skip_padding(&mut self, mut count: u64) -> Result<bool, LayerProblem> {
        let mut buffer = [0; 512];
        while count > 0 {
            let wanted = buffer.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            match self.read(&mut buffer[..wanted])? {
                0 => return Ok(false),
                length => count -= length as u64,
            }
        }
        Ok(true)
    }

    /// Skips `count` bytes.
    pub(crate) fn skip(&mut self, mut count: u64) -> Result<(), LayerProblem> {
        let mut buffer = [0; 32 << 10];
        while count > 0 {
            let wanted = buffer.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            match self.read(&mut buffer[..wanted])? {
                0 => return Err(LayerProblem::Truncated),
                length => count -= length as u64,
            }
        }
        Ok(())
    }
}
