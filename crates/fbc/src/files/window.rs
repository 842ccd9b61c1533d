//! A file, a stretch at a time.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};

/// Larger buffers are given back when their file is done.
const SPARE_LIMIT: usize = 8 << 20;

/// A stretch of a file in memory.
pub(crate) struct Window {
    file: io::Take<File>,
    buffer: Vec<u8>,
    /// How much of the buffer's start is done with.
    done: usize,
    /// Where the rest of the buffer stands in the file.
    pub(crate) offset: u64,
    /// Whether the file has no more.
    pub(crate) ended: bool,
}

thread_local! {
    /// The buffer of the last file, for the next one: fresh memory costs more than reading into it.
    static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Window {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.capacity() <= SPARE_LIMIT {
            buffer.clear();
            SPARE.set(buffer);
        }
    }
}

impl Window {
    pub(super) fn new(file: io::Take<File>) -> Window {
        Window { file, buffer: SPARE.take(), done: 0, offset: 0, ended: false }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.done..]
    }

    /// Reads until there are `wanted` bytes or no more.
    pub(crate) fn fill(&mut self, wanted: usize) -> io::Result<()> {
        let have = self.bytes().len();
        if self.ended || have >= wanted {
            return Ok(());
        }
        self.buffer.drain(..self.done);
        self.done = 0;
        let missing = (wanted - have) as u64;
        let read = (&mut self.file).take(missing).read_to_end(&mut self.buffer)?;
        self.ended = (read as u64) < missing;
        Ok(())
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.done += count;
        self.offset += count as u64;
    }
}
