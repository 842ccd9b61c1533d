//! Files with holes: zeros take no room on a disk. Layers that are not compressed are full of them.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

/// What is left out at a time, at multiples of itself: what file systems call a block.
const BLOCK: usize = 4 << 10;

static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// A file that is written from its beginning to its end, with holes where only zeros are.
#[derive(Debug)]
pub struct Holes {
    file: File,
    at: u64,
}

impl Holes {
    /// Takes a file that is empty.
    pub fn new(file: File) -> Holes {
        Holes { file, at: 0 }
    }

    /// Returns the file.
    pub fn into_file(self) -> File {
        self.file
    }
}

impl Write for Holes {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        append(&mut self.file, self.at, piece)?;
        self.at += piece.len() as u64;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes to the end of a file, which is at `at`. The file has its full length at any moment, holes or not.
pub(crate) fn append(file: &mut File, at: u64, piece: &[u8]) -> io::Result<()> {
    let past = (at % BLOCK as u64) as usize;
    // What is written as it is starts here.
    let mut start = 0;
    let mut next = (BLOCK - past) % BLOCK;
    while next + BLOCK <= piece.len() {
        let begin = next;
        while next + BLOCK <= piece.len() && piece[next] == 0 && piece[next..next + BLOCK] == ZEROS {
            next += BLOCK;
        }
        if next > begin {
            file.write_all(&piece[start..begin])?;
            file.set_len(at + next as u64)?;
            file.seek(SeekFrom::Start(at + next as u64))?;
            start = next;
        } else {
            next += BLOCK;
        }
    }
    file.write_all(&piece[start..])
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn zeros_are_read_back_and_take_no_room() {
        let dir = tempfile::tempdir().unwrap();
        let mut content = vec![0; 3 << 20];
        content[..5000].fill(7);
        content[1_000_000..1_000_100].fill(8);
        content[(2 << 20) + 17..(2 << 20) + 4200].fill(9);
        for step in [1000, 4096, 70_000, content.len()] {
            let path = dir.path().join(step.to_string());
            let mut holes = Holes::new(File::create(&path).unwrap());
            let mut length = 0;
            for piece in content.chunks(step) {
                holes.write_all(piece).unwrap();
                length += piece.len() as u64;
                assert_eq!(path.metadata().unwrap().len(), length);
            }
            assert!(std::fs::read(&path).unwrap() == content, "{step}");
            let room = holes.into_file().metadata().unwrap().blocks() * 512;
            // File systems without holes exist, and pieces that are smaller than a block leave none.
            assert!(step < BLOCK || room <= content.len() as u64 / 8, "{step}: {room}");
        }
    }
}
