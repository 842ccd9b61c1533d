//! The content of blobs. There is one way to read it, and it hashes what it reads.
//!
//! Files can change at any time: others may write to a shared image cache, a set or a medium. So the bytes that were
//! hashed must be the bytes that are used. [`BlobReader`] hashes while it reads, and holds back the end of a blob whose
//! digest differs. Whoever uses a part of a blob calls [`BlobReader::finish`] before they publish what they made of it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Digest, Error, ErrorKind, Hasher, shared};

/// A byte range of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRange {
    /// The file.
    pub path: PathBuf,
    /// The offset of the range.
    pub offset: u64,
    /// The length of the range.
    pub size: u64,
}

/// A blob and the files that should have its content. Reading it shows whether they have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlob {
    digest: Digest,
    size: u64,
    pieces: Arc<[FileRange]>,
    /// Whether links are followed: the user named the files.
    named: bool,
}

/// Why a blob cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The file is missing, or not a regular file.
    #[error("{}: there is no such file", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// The files have other content.
    #[error("{}: {digest} is damaged", list(files))]
    Damaged {
        /// The digest of the blob.
        digest: Digest,
        files: BTreeSet<PathBuf>,
    },
}

fn list(files: &BTreeSet<PathBuf>) -> String {
    files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl BlobError {
    /// Returns the cause of an error of a [`BlobReader`].
    pub fn of(error: &io::Error) -> Option<&BlobError> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<BlobError> for io::Error {
    fn from(error: BlobError) -> io::Error {
        let kind = match &error {
            BlobError::Missing { .. } => io::ErrorKind::NotFound,
            BlobError::Unreadable { error, .. } => error.kind(),
            BlobError::Damaged { .. } => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

impl Error {
    /// Describes why a blob cannot be read.
    pub(crate) fn blob(error: &io::Error) -> Error {
        let kind = match BlobError::of(error) {
            Some(BlobError::Damaged { .. }) => ErrorKind::Digest,
            _ => ErrorKind::File,
        };
        Error::new(kind, error.to_string())
    }
}

impl StoredBlob {
    /// Describes a blob that is a file. Links are not followed.
    pub fn file(digest: Digest, path: &Path, size: u64) -> StoredBlob {
        let piece = FileRange { path: path.into(), offset: 0, size };
        StoredBlob { named: false, ..StoredBlob::new(digest, vec![piece]) }
    }

    /// Describes a blob in ranges of files that the user names.
    pub fn new(digest: Digest, pieces: Vec<FileRange>) -> StoredBlob {
        let size = pieces.iter().map(|piece| piece.size).sum();
        StoredBlob { digest, size, pieces: pieces.into(), named: true }
    }

    /// Returns the digest of its content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns its length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns a reader of its content.
    pub fn open(&self) -> BlobReader {
        BlobReader {
            blob: self.clone(),
            at: 0,
            piece: 0,
            within: 0,
            file: None,
            hasher: Hasher::new(),
            verified: false,
        }
    }

    /// Returns a reader of its content that starts with an opened file.
    pub(crate) fn open_file(&self, file: File) -> BlobReader {
        BlobReader { file: Some(Arc::new(file)), ..self.open() }
    }

    fn damaged(&self) -> io::Error {
        let files = self.pieces.iter().map(|piece| piece.path.clone()).collect();
        BlobError::Damaged { digest: self.digest, files }.into()
    }
}

/// Reads and hashes a blob. Fails instead of returning its last bytes if the digest differs. A clone continues at the
/// same position.
#[derive(Debug, Clone)]
pub struct BlobReader {
    blob: StoredBlob,
    /// The position in the blob.
    at: u64,
    /// The number of the current piece and the position in it.
    piece: usize,
    within: u64,
    /// The file of the current piece.
    file: Option<Arc<File>>,
    hasher: Hasher,
    verified: bool,
}

impl BlobReader {
    /// Returns the number of bytes read.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Reads up to a position without returning the bytes.
    ///
    /// # Errors
    /// Fails as reading does.
    pub fn advance_to(&mut self, position: u64) -> io::Result<()> {
        let left = position.saturating_sub(self.at);
        io::copy(&mut self.take(left), &mut io::sink()).map(|_| ())
    }

    /// Reads the rest of the blob, and verifies the digest.
    ///
    /// # Errors
    /// Fails when the digest differs or the rest cannot be read.
    pub fn finish(mut self) -> io::Result<()> {
        let mut buffer = vec![0; 256 << 10];
        while self.read(&mut buffer)? > 0 {}
        Ok(())
    }

    fn verify(&mut self) -> io::Result<()> {
        self.verified = self.verified || self.hasher.clone().finish() == self.blob.digest;
        if self.verified { Ok(()) } else { Err(self.blob.damaged()) }
    }

    fn read_piece(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = loop {
            match self.blob.pieces.get(self.piece) {
                None => return Ok(0),
                Some(piece) if self.within < piece.size => break piece,
                Some(_) => (self.piece, self.within, self.file) = (self.piece + 1, 0, None),
            }
        };
        let unreadable = |error| BlobError::Unreadable { path: piece.path.clone(), error };
        let file = match &self.file {
            Some(file) => file,
            None => {
                let open = if self.blob.named { shared::open_named } else { shared::open };
                let file = open(&piece.path).map_err(unreadable)?;
                let file = file.ok_or_else(|| BlobError::Missing { path: piece.path.clone() })?;
                self.file.insert(Arc::new(file))
            }
        };
        let wanted = buffer.len().min(usize::try_from(piece.size - self.within).unwrap_or(usize::MAX));
        let count =
            file.read_at(&mut buffer[..wanted], piece.offset.saturating_add(self.within)).map_err(unreadable)?;
        self.within += count as u64;
        Ok(count)
    }
}

impl Read for BlobReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at < self.blob.size && !buffer.is_empty() {
            let count = self.read_piece(buffer)?;
            if count == 0 {
                return Err(self.blob.damaged());
            }
            self.hasher.update(&buffer[..count]);
            self.at += count as u64;
            if self.at == self.blob.size {
                self.verify()?;
            }
            return Ok(count);
        }
        if self.at == self.blob.size {
            self.verify()?;
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn content_of(mut reader: BlobReader) -> io::Result<String> {
        let mut content = String::new();
        reader.read_to_string(&mut content).map(|_| content)
    }

    #[test]
    fn a_blob_may_span_several_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let piece = |name: &str, content: &str, offset| {
            fs::write(dir.path().join(name), content).unwrap();
            FileRange { path: dir.path().join(name), offset, size: content.len() as u64 - offset - 1 }
        };
        let pieces = vec![piece("a", "..first.", 2), piece("b", ".", 0), piece("c", "second.", 0)];
        let blob = StoredBlob::new(Digest::of(b"firstsecond"), pieces.clone());
        assert_eq!(content_of(blob.open()).unwrap(), "firstsecond");
        let mut reader = blob.open();
        reader.advance_to(7).unwrap();
        assert_eq!((reader.position(), content_of(reader.clone()).unwrap()), (7, "cond".to_owned()));
        reader.finish().unwrap();
        let error = content_of(StoredBlob::new(Digest::of(b"another"), pieces).open()).unwrap_err();
        assert!(matches!(BlobError::of(&error), Some(BlobError::Damaged { .. })), "{error}");
    }

    #[test]
    fn wrong_bytes_never_come_to_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blob");
        let blob = |content: &[u8], size| {
            fs::write(&path, content).unwrap();
            StoredBlob::file(Digest::of(b"right"), &path, size)
        };
        assert_eq!(content_of(blob(b"right", 5).open()).unwrap(), "right");
        for (content, size) in [(&b"wrong"[..], 5), (b"", 5), (b"righ", 5), (b"", 0), (b"right", 4)] {
            let blob = blob(content, size);
            let mut read = Vec::new();
            blob.open().read_to_end(&mut read).unwrap_err();
            assert!((read.len() as u64) < size.max(1), "{read:?}");
            blob.open().finish().unwrap_err();
        }
    }

    #[test]
    fn a_file_that_is_replaced_while_it_is_read_changes_nothing_or_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("blob");
        fs::write(&path, "right content").unwrap();
        let blob = StoredBlob::file(Digest::of(b"right content"), &path, 13);
        let mut begun = blob.open();
        begun.read_exact(&mut [0; 5]).unwrap();
        let mut written = begun.clone();
        // Another file under the same name is another file.
        fs::write(dir.path().join("other"), "wrong content").unwrap();
        fs::rename(dir.path().join("other"), &path).unwrap();
        assert_eq!(content_of(begun).unwrap(), " content");
        // A write to the same file is noticed.
        fs::write(&path, "right content").unwrap();
        written.file = None;
        fs::write(&path, "right malware").unwrap();
        content_of(written).unwrap_err();
        // A link is not followed.
        fs::write(dir.path().join("other"), "right content").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("other", &path).unwrap();
        let error = content_of(blob.open()).unwrap_err();
        assert!(matches!(BlobError::of(&error), Some(BlobError::Missing { .. })), "{error}");
    }
}
