//! The bytes of a cache file, mapped into memory.

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::Mmap;

/// The bytes of a cache: a mapped file, or memory where no file could be written.
pub(super) enum Map {
    File(Mmap),
    Memory(Vec<u8>),
}

impl Map {
    /// Maps `file` for reading.
    ///
    /// # Errors
    /// Fails when the file cannot be mapped.
    #[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
    pub(super) fn file(file: &File) -> io::Result<Map> {
        if file.metadata()?.len() == 0 {
            return Ok(Map::Memory(Vec::new()));
        }
        // SAFETY: the slice must not change while it is borrowed. Cache files are written under
        // another name and renamed into place, and no code of ours opens one for writing
        // afterwards; replacing one makes a new file and leaves the mapped one alone. Bytes that
        // somebody else changes in place are only ever read as integers and byte strings, for
        // which every value is valid, and are checked against checksums at each use.
        unsafe { Mmap::map(file) }.map(Map::File)
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Map::File(map) => map,
            Map::Memory(bytes) => bytes,
        }
    }
}
