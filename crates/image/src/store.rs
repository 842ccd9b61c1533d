//! Blobs by digest, in a directory laid out as an OCI image layout.
//!
//! ```text
//! oci-layout              {"imageLayoutVersion":"1.0.0"}
//! index.json              what was pulled or built, by name
//! blobs/sha256/<hex>      content
//! ```
//!
//! A blob appears under its name only when all of it is written and its digest is right, so any number of processes can
//! share a store. Still nobody believes a name: others may write there, too. Content is read before a [`Blob`] exists.
//!
//! A power failure can leave a name without the bytes behind it. A store that outlives one is [`Store::durable`]: a large
//! blob gets its name when the disk has its bytes, small ones are read before they count, and [`Store::seal`] brings
//! all of them to the disk.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::scratch::{self, Scratch};
use crate::{Descriptor, Digest, Hasher};

/// A directory of blobs.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Large blobs are on the disk before they get their names.
    durable: bool,
    /// Files that were read, and have the digest they are named by.
    verified: Arc<Mutex<HashMap<Digest, Stamp>>>,
}

/// Distinguishes one state of a file from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    file: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Stamp {
        Stamp {
            device: about.dev(),
            file: about.ino(),
            size: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        }
    }
}

/// A blob in a store whose content was read and has this digest and this size. Only hashing makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    digest: Digest,
    size: u64,
    path: PathBuf,
}

impl Blob {
    /// Returns the digest of its content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns its length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The smallest blob that is brought to the disk by itself. To read a smaller one again costs less than to wait for the
/// disk.
const LARGE: u64 = 64 << 10;

/// How often a file is read that others replace meanwhile: pulls of one image put the same blob there.
const READS: usize = 8;

/// What reading a blob has found.
enum Found {
    Whole(Blob),
    /// There is none, or it is damaged.
    Wrong,
    /// The file is not the one it was when reading began.
    Changed,
}

impl Store {
    /// Opens the store at `root`, making it if there is none.
    ///
    /// # Errors
    /// Fails when the directory cannot be made or written to.
    pub fn open(root: &Path) -> io::Result<Store> {
        fs::create_dir_all(root.join("blobs/sha256"))?;
        let layout = root.join("oci-layout");
        if !layout.exists() {
            scratch::write_whole(&layout, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        }
        scratch::sweep(&root.join("blobs"));
        Ok(Store { root: root.into(), durable: false, verified: Arc::default() })
    }

    /// Returns the store at `root` if there is one. Nothing is made.
    pub(crate) fn existing(root: &Path) -> Option<Store> {
        let there = root.join("oci-layout").is_file() && root.join("blobs/sha256").is_dir();
        there.then(|| Store { root: root.into(), durable: false, verified: Arc::default() })
    }

    /// Returns the store as one that outlives a power failure.
    #[must_use]
    pub fn durable(self) -> Store {
        Store { durable: true, ..self }
    }

    /// Brings everything in the store to the disk, with the names of all blobs.
    ///
    /// # Errors
    /// Fails when the disk does not take it.
    pub fn seal(&self) -> io::Result<()> {
        let root = File::open(&self.root)?;
        rustix::fs::syncfs(&root)?;
        Ok(())
    }

    /// Brings the bytes of a blob to the disk, if it may not get its name before.
    pub(crate) fn sync(&self, file: &File, size: u64) -> io::Result<()> {
        if self.durable && size >= LARGE { file.sync_data() } else { Ok(()) }
    }

    /// Returns whether a blob of a durable store is here: a large one is if its file has the right length, a small one
    /// is read.
    pub fn holds(&self, blob: &Descriptor) -> bool {
        let long = self.path_of(&blob.digest).metadata().is_ok_and(|it| it.is_file() && it.len() == blob.size);
        long && (blob.size >= LARGE || self.blob(&blob.digest).is_ok_and(|found| found.is_some()))
    }

    /// Returns the directory of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a blob if it is here and undamaged. Its content is read, unless that was done before and the file did
    /// not change since.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub fn blob(&self, digest: &Digest) -> io::Result<Option<Blob>> {
        for _ in 0..READS {
            match self.read_whole(digest)? {
                Found::Whole(blob) => return Ok(Some(blob)),
                Found::Wrong => return Ok(None),
                Found::Changed => {}
            }
        }
        Ok(None)
    }

    fn read_whole(&self, digest: &Digest) -> io::Result<Found> {
        let path = self.path_of(digest);
        let Some(mut file) = open_file(&path)? else { return Ok(Found::Wrong) };
        let stamp = Stamp::of(&file.metadata()?);
        let found = Blob { digest: *digest, size: stamp.size, path };
        if self.known().get(digest) == Some(&stamp) {
            return Ok(Found::Whole(found));
        }
        let mut hasher = Hasher::new();
        let mut buffer = vec![0; 256 << 10];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => hasher.update(&buffer[..count]),
            }
        }
        if Stamp::of(&file.metadata()?) != stamp {
            return Ok(Found::Changed);
        }
        if hasher.finish() != *digest {
            return Ok(Found::Wrong);
        }
        self.known().insert(*digest, stamp);
        Ok(Found::Whole(found))
    }

    /// Returns what is described if it is here, of that size and undamaged.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub(crate) fn described(&self, blob: &Descriptor) -> io::Result<Option<Blob>> {
        // What has another length needs no reading.
        let likely = self.path_of(&blob.digest).metadata().is_ok_and(|about| about.len() == blob.size);
        Ok(if likely { self.blob(&blob.digest)?.filter(|found| found.size == blob.size) } else { None })
    }

    /// Returns where the blob would lie. Whether it does, and what is there, is another matter: see [`Store::blob`].
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
        let file = open_file(&path)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        file.take(limit + 1).read_to_end(&mut content)?;
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
        writer.finish(None).map(|blob| blob.digest)
    }

    /// Starts a blob that comes piece by piece.
    ///
    /// # Errors
    /// Fails when no scratch file can be made.
    pub fn writer(&self) -> io::Result<BlobWriter> {
        let scratch = Scratch::create(&self.root.join("blobs"))?;
        Ok(BlobWriter { store: self.clone(), scratch, hasher: Hasher::new(), size: 0 })
    }

    /// Takes a file for a blob that now lies under its name: `file` is the one whose bytes were hashed.
    pub(crate) fn accept(&self, digest: Digest, file: &File) -> io::Result<Blob> {
        let stamp = Stamp::of(&file.metadata()?);
        self.known().insert(digest, stamp);
        Ok(Blob { digest, size: stamp.size, path: self.path_of(&digest) })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Stamp>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a file, if there is one; what is no file, and could keep us for ever, counts as none.
pub(crate) fn open_file(path: &Path) -> io::Result<Option<File>> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A blob on its way into a store. Dropped, it leaves nothing behind.
pub struct BlobWriter {
    store: Store,
    scratch: Scratch,
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
    pub fn finish(mut self, expected: Option<&Digest>) -> io::Result<Blob> {
        let digest = std::mem::take(&mut self.hasher).finish();
        if let Some(expected) = expected
            && digest != *expected
        {
            let text = format!("content has digest {digest} instead of {expected}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.store.sync(self.scratch.file(), self.size)?;
        let file = self.scratch.finish(&self.store.path_of(&digest))?;
        self.store.accept(digest, &file)
    }
}

impl Write for BlobWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = self.scratch.file().write(piece)?;
        self.hasher.update(&piece[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.scratch.file().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_believed_only_as_long_as_its_file_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let digest = store.put(b"right").unwrap();
        assert_eq!(store.blob(&digest).unwrap().unwrap().size(), 5);
        let path = store.path_of(&digest);
        // Clocks of file systems are coarse.
        std::thread::sleep(std::time::Duration::from_millis(30));
        fs::write(&path, b"wrong").unwrap();
        assert_eq!(store.blob(&digest).unwrap(), None);
        fs::write(dir.path().join("aside"), b"wrong").unwrap();
        fs::rename(dir.path().join("aside"), &path).unwrap();
        assert_eq!(store.blob(&digest).unwrap(), None);
        store.put(b"right").unwrap();
        assert!(store.blob(&digest).unwrap().is_some());
        assert_eq!(store.described(&Descriptor::new("", digest, 6)).unwrap(), None);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(store.blob(&digest).unwrap(), None);
    }

    #[test]
    fn a_small_blob_of_the_right_length_is_read_before_it_counts() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap().durable();
        let small = Descriptor::of("", b"right");
        let large = Descriptor::of("", &vec![7; LARGE as usize]);
        assert!(!store.holds(&small) && !store.holds(&large));
        store.put(b"right").unwrap();
        store.put(&vec![7; LARGE as usize]).unwrap();
        assert!(store.holds(&small) && store.holds(&large));
        store.seal().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        // What a power failure leaves of a file that no disk had.
        fs::write(store.path_of(&small.digest), [0; 5]).unwrap();
        fs::write(store.path_of(&large.digest), [0; 5]).unwrap();
        assert!(!store.holds(&small) && !store.holds(&large));
    }
}
