//! The content of a blob to upload: a file of the store, or ranges of other files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use crate::store::Blob;
use crate::{Digest, Error, ErrorKind, Hasher};

/// A byte range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The file.
    pub path: PathBuf,
    /// The offset of the range.
    pub offset: u64,
    /// The length of the range.
    pub size: u64,
}

/// The verified content of a blob, wherever it is stored. Only hashing creates one.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    digest: Digest,
    size: u64,
    pieces: Vec<Piece>,
}

impl From<Blob> for Payload {
    fn from(blob: Blob) -> Payload {
        let piece = Piece { path: blob.path().to_owned(), offset: 0, size: blob.size() };
        Payload { digest: blob.digest(), size: blob.size(), pieces: vec![piece] }
    }
}

impl Payload {
    /// Reads the pieces and verifies that they form this blob.
    pub(crate) fn check(digest: Digest, size: u64, pieces: Vec<Piece>) -> Result<Payload, Error> {
        let named = |piece: &Piece, error: &io::Error| Error::file(piece.path.display(), error);
        let mut hasher = Hasher::new();
        let mut total = 0;
        let mut buffer = vec![0; 256 << 10];
        for piece in &pieces {
            let mut file = File::open(&piece.path).map_err(|error| named(piece, &error))?;
            file.seek(SeekFrom::Start(piece.offset)).map_err(|error| named(piece, &error))?;
            let mut file = file.take(piece.size);
            loop {
                match file.read(&mut buffer).map_err(|error| named(piece, &error))? {
                    0 => break,
                    count => {
                        hasher.update(&buffer[..count]);
                        total += count as u64;
                    }
                }
            }
        }
        if total != size || hasher.finish() != digest {
            let files: Vec<String> = pieces.iter().map(|piece| piece.path.display().to_string()).collect();
            return Err(Error::new(ErrorKind::Digest, format!("blob {digest} is damaged in {}", files.join(", "))));
        }
        Ok(Payload { digest, size, pieces })
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the file ranges of `size` bytes from `start`.
    pub(crate) fn part(&self, start: u64, size: u64) -> Vec<Piece> {
        let (mut at, end) = (0, start + size);
        let mut parts = Vec::new();
        for piece in &self.pieces {
            let (from, to) = (start.max(at), end.min(at + piece.size));
            if from < to {
                parts.push(Piece { path: piece.path.clone(), offset: piece.offset + from - at, size: to - from });
            }
            at += piece.size;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_may_span_several_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let piece = |name: &str, content: &str, offset| {
            std::fs::write(dir.path().join(name), content).unwrap();
            Piece { path: dir.path().join(name), offset, size: content.len() as u64 - offset - 1 }
        };
        let pieces = vec![piece("a", "..first.", 2), piece("b", "second.", 0)];
        let payload = Payload::check(Digest::of(b"firstsecond"), 11, pieces.clone()).unwrap();
        let read = |start, size| {
            let parts = payload.part(start, size).into_iter().map(|part| {
                let text = std::fs::read_to_string(part.path).unwrap();
                text[part.offset as usize..][..part.size as usize].to_owned()
            });
            parts.collect::<Vec<_>>().join("|")
        };
        assert_eq!((read(0, 11), read(3, 4), read(5, 2)), ("first|second".into(), "st|se".into(), "se".into()));
        let error = Payload::check(Digest::of(b"another"), 11, pieces).unwrap_err();
        assert!(error.to_string().contains("is damaged in"), "{error}");
    }
}
