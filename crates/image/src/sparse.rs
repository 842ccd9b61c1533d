//! Sparse files: zeros take no disk space. Uncompressed layers are full of zeros.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// The size and alignment of a hole: the block size of common file systems.
const HOLE_SIZE: usize = 4 << 10;

static ZEROS: [u8; HOLE_SIZE] = [0; HOLE_SIZE];

/// Writes a file sequentially, with holes in place of zero blocks.
#[derive(Debug)]
pub struct SparseWriter {
    file: File,
    at: u64,
}

impl SparseWriter {
    /// Wraps an empty file.
    pub fn new(file: File) -> SparseWriter {
        SparseWriter { file, at: 0 }
    }

    /// Returns the file.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl Write for SparseWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        append(&mut self.file, self.at, piece)?;
        self.at += piece.len() as u64;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Appends to a file whose length is `at`. The file always has its full length, even if it ends with a hole.
pub(crate) fn append(file: &mut File, at: u64, piece: &[u8]) -> io::Result<()> {
    let past = (at % HOLE_SIZE as u64) as usize;
    // The start of the pending data.
    let mut start = 0;
    let mut next = (HOLE_SIZE - past) % HOLE_SIZE;
    while next + HOLE_SIZE <= piece.len() {
        let begin = next;
        while next + HOLE_SIZE <= piece.len() && piece[next] == 0 && piece[next..next + HOLE_SIZE] == ZEROS {
            next += HOLE_SIZE;
        }
        if next > begin {
            file.write_all(&piece[start..begin])?;
            file.set_len(at + next as u64)?;
            file.seek(SeekFrom::Start(at + next as u64))?;
            start = next;
        } else {
            next += HOLE_SIZE;
        }
    }
    file.write_all(&piece[start..])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn zeros_are_read_back_and_take_no_disk_space() {
        let dir = tempfile::tempdir().unwrap();
        let mut content = vec![0; 3 << 20];
        content[..5000].fill(7);
        content[1_000_000..1_000_100].fill(8);
        content[(2 << 20) + 17..(2 << 20) + 4200].fill(9);
        for step in [1000, 4096, 70_000, content.len()] {
            let path = dir.path().join(step.to_string());
            let mut holes = SparseWriter::new(File::create(&path).unwrap());
            let mut length = 0;
            for piece in content.chunks(step) {
                holes.write_all(piece).unwrap();
                length += piece.len() as u64;
                assert_eq!(path.metadata().unwrap().len(), length);
            }
            assert!(std::fs::read(&path).unwrap() == content, "{step}");
            let room = holes.into_file().metadata().unwrap().blocks() * 512;
            // Some file systems have no holes, and chunks smaller than a block leave none.
            assert!(step < HOLE_SIZE || room <= content.len() as u64 / 8, "{step}: {room}");
        }
    }
}
