//! Blobs by digest, in a directory laid out as an OCI image layout.
//!
//! ```text
//! oci-layout              {"imageLayoutVersion":"1.0.0"}
//! index.json              what was pulled or built, by name
//! blobs/sha256/<hex>      content; a file with such a name is whole and has that digest
//! ```
//!
//! A blob appears under its name only when all of it is written and its digest is right, so any
//! number of processes can share a store.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Digest, Hasher};

/// A directory of blobs.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

static SCRATCH: AtomicU64 = AtomicU64::new(0);

impl Store {
    /// Opens the store at `root`, making it if there is none.
    ///
    /// # Errors
    /// Fails when the directory cannot be made or written to.
    pub fn open(root: &Path) -> io::Result<Store> {
        fs::create_dir_all(root.join("blobs/sha256"))?;
        let layout = root.join("oci-layout");
        if !layout.exists() {
            write_whole(&layout, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        }
        Ok(Store { root: root.into() })
    }

    /// Returns the directory of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns where the blob lies, if it is here.
    pub fn blob(&self, digest: &Digest) -> Option<PathBuf> {
        let path = self.path_of(digest);
        path.is_file().then_some(path)
    }

    /// Returns where the blob would lie.
    pub fn path_of(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(digest.hex())
    }

    /// Reads a blob of at most `limit` bytes into memory.
    ///
    /// # Errors
    /// Fails when it is not here, larger, or damaged.
    pub fn read(&self, digest: &Digest, limit: u64) -> io::Result<Vec<u8>> {
        let path = self.path_of(digest);
        let mut content = Vec::new();
        File::open(&path)?.take(limit + 1).read_to_end(&mut content)?;
        if content.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{digest} is larger than {limit} bytes")));
        }
        if Digest::of(&content) != *digest {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display())));
        }
        Ok(content)
    }

    /// Stores content that is at hand.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn put(&self, content: &[u8]) -> io::Result<Digest> {
        let mut writer = self.writer()?;
        writer.write_all(content)?;
        writer.finish(None)
    }

    /// Starts a blob that comes piece by piece.
    ///
    /// # Errors
    /// Fails when no scratch file can be made.
    pub fn writer(&self) -> io::Result<BlobWriter> {
        let number = SCRATCH.fetch_add(1, Ordering::Relaxed);
        let path = self.root.join(format!("blobs/.{}-{number}", std::process::id()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        Ok(BlobWriter { store: self.clone(), file, scratch: Some(path), hasher: Hasher::new(), size: 0 })
    }
}

/// A blob on its way into a store. Dropped, it leaves nothing behind.
pub struct BlobWriter {
    store: Store,
    file: File,
    scratch: Option<PathBuf>,
    hasher: Hasher,
    size: u64,
}

impl BlobWriter {
    /// Returns how much is written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Puts the blob under its digest, which must be `expected` if that is given.
    ///
    /// # Errors
    /// Fails when the digest is another, or the file cannot be put in place.
    pub fn finish(mut self, expected: Option<&Digest>) -> io::Result<Digest> {
        let digest = std::mem::take(&mut self.hasher).finish();
        if let Some(expected) = expected
            && digest != *expected
        {
            let text = format!("content has digest {digest} instead of {expected}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        if let Some(scratch) = &self.scratch {
            fs::rename(scratch, self.store.path_of(&digest))?;
            self.scratch = None;
        }
        Ok(digest)
    }
}

impl Write for BlobWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = self.file.write(piece)?;
        self.hasher.update(&piece[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            // Nothing can be done about a scratch file that stays; the next run does not mind it.
            let _ = fs::remove_file(scratch);
        }
    }
}

/// Writes a file aside and puts it in place.
fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let number = SCRATCH.fetch_add(1, Ordering::Relaxed);
    let aside = path.with_file_name(format!(".{}-{number}", std::process::id()));
    fs::write(&aside, content)?;
    fs::rename(&aside, path)
}
