//! Positional reads of the cache file.
//!
//! No part of the file is mapped: whatever happens to the file while a server runs, a read returns bytes, which are
//! verified against their checksum, or an error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use catalog::query::QueryError;

use super::format::{self, Extent};
use super::{Cache, damaged};

/// The storage of a cache: a file, or memory where no file could be written.
pub(super) enum DataSource {
    File(File),
    Memory(Vec<u8>),
}

impl DataSource {
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Fails when the metadata of the file cannot be read.
    pub(super) fn length(&self) -> io::Result<u64> {
        match self {
            DataSource::File(file) => Ok(file.metadata()?.len()),
            DataSource::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Errors
    /// Fails when the file is too short or cannot be read.
    pub(super) fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            DataSource::File(file) => file.read_exact_at(out, offset),
            DataSource::Memory(bytes) => {
                let start = usize::try_from(offset).ok();
                let found = start.and_then(|start| bytes.get(start..start.checked_add(out.len())?));
                out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// Larger buffers are not kept for the next read.
const MAX_REUSED: usize = 1 << 20;

/// Reads extents into a reused buffer.
#[derive(Default)]
pub(super) struct ExtentReader {
    /// The id of the cache that was read last.
    cache: u64,
    /// The offset of the buffered bytes in its data section.
    start: u64,
    length: usize,
    buffer: Vec<u8>,
}

impl ExtentReader {
    /// Returns the bytes of `extent` after verifying their checksum.
    ///
    /// A read continues `ahead` bytes past the extent, if available, so that the following extents need no read of
    /// their own. With zero, every extent is read.
    ///
    /// # Errors
    /// Fails when the bytes cannot be read or do not match their checksum.
    pub(super) fn extent(&mut self, cache: &Cache, extent: &Extent, ahead: usize) -> Result<&[u8], QueryError> {
        let length = extent.length as usize;
        let end = extent.offset.checked_add(u64::from(extent.length)).filter(|end| *end <= cache.data_length());
        let end = end.ok_or_else(damaged)?;
        let known = ahead > 0
            && self.cache == cache.id
            && extent.offset >= self.start
            && end <= self.start + self.length as u64;
        if !known {
            let rest = usize::try_from(cache.data_length() - end).unwrap_or(usize::MAX);
            self.fill(cache, extent.offset, length + ahead.min(rest))?;
        }
        let start = (extent.offset - self.start) as usize;
        let bytes = self.buffer.get(start..start + length).ok_or_else(damaged)?;
        if format::checksum(bytes) == extent.checksum { Ok(bytes) } else { Err(damaged()) }
    }

    fn fill(&mut self, cache: &Cache, offset: u64, length: usize) -> Result<(), QueryError> {
        self.length = 0;
        if self.buffer.len() > MAX_REUSED {
            self.buffer = Vec::new();
        }
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        cache.read_data(offset, &mut self.buffer[..length]).map_err(|_| damaged())?;
        (self.cache, self.start, self.length) = (cache.id, offset, length);
        Ok(())
    }
}
