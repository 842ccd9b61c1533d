//! The bytes of a cache, read at a place when they are needed.
//!
//! No part of the file is mapped: whatever happens to it while a server runs, a read gives bytes, which are
//! compared with their checksum, or an error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use registry_api::QueryError;

use super::format::{self, Extent};
use super::{Cache, damaged};

/// Where the bytes of a cache are: in a file, or in memory where no file could be written.
pub(super) enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// Returns how many bytes there are.
    ///
    /// # Errors
    /// Fails when the system does not say.
    pub(super) fn length(&self) -> io::Result<u64> {
        match self {
            Source::File(file) => Ok(file.metadata()?.len()),
            Source::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Fails when there are not as many, or they cannot be read.
    pub(super) fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Source::File(file) => file.read_exact_at(out, offset),
            Source::Memory(bytes) => {
                let start = usize::try_from(offset).ok();
                let found = start.and_then(|start| bytes.get(start..start.checked_add(out.len())?));
                out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

/// Larger memory is not kept for the next read.
const KEPT: usize = 1 << 20;

/// Reads extents into memory of its own, which it uses again.
#[derive(Default)]
pub(super) struct Reader {
    /// The cache that was read last.
    cache: u64,
    /// Where the bytes that were read last start in its data section.
    start: u64,
    length: usize,
    buffer: Vec<u8>,
}

impl Reader {
    /// Returns the bytes of `extent`, if they are what they were.
    ///
    /// A read goes `ahead` bytes further than the extent, if there are as many: extents that follow need no
    /// read of their own then. Without, every extent is read.
    ///
    /// # Errors
    /// Fails when the bytes cannot be read or are not those that were written.
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
        if self.buffer.len() > KEPT {
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
