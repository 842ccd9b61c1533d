//! A sliding window over a file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};

/// Larger buffers are freed after their file instead of being reused.
const SPARE_LIMIT: usize = 8 << 20;

/// A part of a file in memory.
pub(crate) struct Window {
    file: io::Take<File>,
    buffer: Vec<u8>,
    /// The number of consumed bytes at the start of the buffer.
    done: usize,
    /// The file offset of the first unconsumed byte.
    pub(crate) offset: u64,
    /// Whether the end of the file is reached.
    pub(crate) ended: bool,
}

thread_local! {
    /// The buffer of the previous file, for reuse: allocating fresh memory costs more than reading into it.
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

    /// Reads until `wanted` bytes are available or the file ends.
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
