//! Blobs by digest in a directory, in the form of an OCI image layout.
//!
//! ```text
//! oci-layout              {"imageLayoutVersion":"1.0.0"}
//! index.json              what was pulled or built, by name
//! blobs/sha256/<hex>      content
//! ```
//!
//! A blob gets its final name only when it is complete and its digest matches, so processes can share a store. Names
//! are not trusted, because others may write to the store, at any time: all that is read is hashed ([`StoredBlob`]).
//!
//! A power failure can leave a name without its bytes. Such a blob is fetched again, since all are hashed before use.
//! [`Store::durable`] avoids that for large blobs, which are synced before they get their names, and [`Store::seal`]
//! syncs all of them.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fbc::scratch::{TempFile, umasked};
use rayon::prelude::*;

use crate::scratch::{self, PREFIX, name_full_disk};
use crate::{BlobError, Descriptor, Digest, Hasher, StoredBlob, shared};

/// A store: a directory of blobs.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Another store, whose blobs are read and never changed.
    below: Option<PathBuf>,
    /// Syncs large blobs before renaming them.
    durable: bool,
    /// Files that were hashed and match their digest.
    verified: Arc<Mutex<HashMap<Digest, Stamp>>>,
}

/// Identifies one state of a file: a different stamp means that the file changed.
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

/// Blobs of at least this size are synced individually. Fetching a smaller one again is cheaper than a sync.
const SYNC_THRESHOLD: u64 = 64 << 10;

impl Store {
    /// Opens the store at `root`, creating it if needed.
    ///
    /// # Errors
    /// Fails when the directory cannot be created or written.
    pub fn open(root: &Path) -> io::Result<Store> {
        fs::create_dir_all(root)?;
        shared::create_dir(&root.join("blobs"))?;
        shared::create_dir(&root.join("blobs/sha256"))?;
        let layout = root.join("oci-layout");
        if !layout.exists() {
            scratch::write_atomic(&layout, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        }
        scratch::sweep(&root.join("blobs"));
        Ok(Store { root: root.into(), below: None, durable: false, verified: Arc::default() })
    }

    /// Returns the store at `root` if it exists.
    pub(crate) fn existing(root: &Path) -> Option<Store> {
        let there = root.join("oci-layout").is_file() && root.join("blobs/sha256").is_dir();
        there.then(|| Store { root: root.into(), below: None, durable: false, verified: Arc::default() })
    }

    /// Returns the store with protection against power failures.
    #[must_use]
    pub fn durable(self) -> Store {
        Store { durable: true, ..self }
    }

    /// Returns the store with the blobs of another one, which may be on a read-only medium: new blobs are written to
    /// this store only.
    #[must_use]
    pub fn over(self, below: &Path) -> Store {
        Store { below: Some(below.to_owned()), ..self }
    }

    /// Syncs the store, including the names of all blobs.
    ///
    /// # Errors
    /// Fails when the sync fails.
    pub fn seal(&self) -> io::Result<()> {
        let root = File::open(&self.root)?;
        rustix::fs::syncfs(&root)?;
        Ok(())
    }

    /// Syncs a blob that must be on disk before it gets its name.
    pub(crate) fn sync(&self, file: &File, size: u64) -> io::Result<()> {
        if self.durable && size >= SYNC_THRESHOLD { file.sync_data() } else { Ok(()) }
    }

    /// Returns the directory of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a blob if it is present and undamaged. Hashes the content, unless that was done before and the file
    /// has not changed.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub fn blob(&self, digest: &Digest) -> io::Result<Option<StoredBlob>> {
        let path = self.find_path(digest);
        let Some(file) = shared::open(&path)? else { return Ok(None) };
        let stamp = Stamp::of(&file.metadata()?);
        let blob = StoredBlob::file(*digest, &path, stamp.size);
        if self.verified_files().get(digest) == Some(&stamp) {
            return Ok(Some(blob));
        }
        match blob.open_file(file.try_clone()?).finish() {
            Err(error) if matches!(BlobError::of(&error), Some(BlobError::Damaged { .. })) => return Ok(None),
            outcome => outcome?,
        }
        // Concurrent pulls of one image replace the file.
        if Stamp::of(&file.metadata()?) == stamp {
            self.verified_files().insert(*digest, stamp);
        }
        Ok(Some(blob))
    }

    /// Returns a blob to read, if there is a file of its name and size. Only reading it shows whether it is undamaged.
    ///
    /// # Errors
    /// Fails when the file cannot be opened.
    pub fn find(&self, blob: &Descriptor) -> io::Result<Option<StoredBlob>> {
        let path = self.find_path(&blob.digest);
        let Some(file) = shared::open(&path)? else { return Ok(None) };
        Ok((file.metadata()?.len() == blob.size).then(|| StoredBlob::file(blob.digest, &path, blob.size)))
    }

    /// Returns the blobs that the store lacks. Hashes all others, several concurrently: a file that cannot be read, or
    /// has other content, counts as missing.
    pub fn lacking(&self, blobs: &[Descriptor]) -> Vec<Descriptor> {
        let lacks = |blob: &&Descriptor| !self.blob_for(blob).is_ok_and(|found| found.is_some());
        blobs.par_iter().filter(lacks).cloned().collect()
    }

    /// Returns a blob if it is present and undamaged and has the size of its descriptor.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub(crate) fn blob_for(&self, blob: &Descriptor) -> io::Result<Option<StoredBlob>> {
        // A file of another length needs no hashing.
        Ok(if self.find(blob)?.is_some() { self.blob(&blob.digest)?.filter(|it| it.size() == blob.size) } else { None })
    }

    /// Returns the path that a blob is written to. It may be missing or damaged: see [`Store::blob`].
    pub fn path_of(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs/sha256").join(digest.hex())
    }

    /// Returns whether there is a file with the name of a blob. Only reading it shows whether it is undamaged.
    pub fn has_name(&self, digest: &Digest) -> bool {
        self.find_path(digest).is_file()
    }

    /// Returns the path to read a blob from, which may be missing or damaged.
    pub(crate) fn find_path(&self, digest: &Digest) -> PathBuf {
        let own = self.path_of(digest);
        match &self.below {
            Some(below) if own.symlink_metadata().is_err() => below.join("blobs/sha256").join(digest.hex()),
            _ => own,
        }
    }

    /// Reads a blob of at most `limit` bytes into memory.
    ///
    /// # Errors
    /// Fails when the blob is missing, larger or damaged.
    pub fn read(&self, digest: &Digest, limit: u64) -> io::Result<Vec<u8>> {
        let path = self.find_path(digest);
        let mut content = Vec::new();
        let file = shared::open(&path)?.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        file.take(limit + 1).read_to_end(&mut content)?;
        if content.len() as u64 > limit {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{digest} is larger than {limit} bytes")));
        }
        if Digest::of(&content) != *digest {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display())));
        }
        Ok(content)
    }

    /// Stores content.
    ///
    /// # Errors
    /// Fails when the content cannot be written.
    pub fn put(&self, content: &[u8]) -> io::Result<Digest> {
        let mut writer = self.writer()?;
        writer.write_all(content)?;
        writer.finish(None).map(|blob| blob.digest())
    }

    /// Starts a blob that is written incrementally.
    ///
    /// # Errors
    /// Fails when no temporary file can be created.
    pub fn writer(&self) -> io::Result<BlobWriter> {
        let scratch = TempFile::create(&self.root.join("blobs"), PREFIX);
        let scratch = scratch.map_err(|error| name_full_disk(&self.root, error))?;
        Ok(BlobWriter { store: self.clone(), scratch, hasher: Hasher::new(), size: 0 })
    }

    /// Registers a blob that has its final name: `file` is the hashed file.
    pub(crate) fn accept(&self, digest: Digest, file: &File) -> io::Result<StoredBlob> {
        let stamp = Stamp::of(&file.metadata()?);
        self.verified_files().insert(digest, stamp);
        Ok(StoredBlob::file(digest, &self.path_of(&digest), stamp.size))
    }

    fn verified_files(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Stamp>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A blob that is being written into a store. Dropping it removes the temporary file.
pub struct BlobWriter {
    store: Store,
    scratch: TempFile,
    hasher: Hasher,
    size: u64,
}

impl BlobWriter {
    /// Returns the number of bytes written.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Moves the blob to its final name; its digest must be `expected`, if given.
    ///
    /// # Errors
    /// Fails when the digest differs or the rename fails.
    pub fn finish(mut self, expected: Option<&Digest>) -> io::Result<StoredBlob> {
        let digest = std::mem::take(&mut self.hasher).finish();
        if let Some(expected) = expected
            && digest != *expected
        {
            let text = format!("content has digest {digest} instead of {expected}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let synced = self.store.sync(self.scratch.file(), self.size);
        synced.map_err(|error| name_full_disk(&self.store.root, error))?;
        let file = self.scratch.finish(&self.store.path_of(&digest), umasked(0o666))?;
        self.store.accept(digest, &file)
    }
}

impl Write for BlobWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = self.scratch.file().write(piece);
        let written = written.map_err(|error| name_full_disk(&self.store.root, error))?;
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
    fn a_blob_is_trusted_only_while_its_file_is_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let digest = store.put(b"right").unwrap();
        assert_eq!(store.blob(&digest).unwrap().unwrap().size(), 5);
        let path = store.path_of(&digest);
        // File system clocks are coarse.
        std::thread::sleep(std::time::Duration::from_millis(30));
        fs::write(&path, b"wrong").unwrap();
        assert_eq!(store.blob(&digest).unwrap(), None);
        fs::write(dir.path().join("aside"), b"wrong").unwrap();
        fs::rename(dir.path().join("aside"), &path).unwrap();
        assert_eq!(store.blob(&digest).unwrap(), None);
        store.put(b"right").unwrap();
        assert!(store.blob(&digest).unwrap().is_some());
        assert_eq!(store.blob_for(&Descriptor::new("", digest, 6)).unwrap(), None);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(store.blob(&digest).unwrap(), None);
    }

    #[test]
    fn a_blob_of_the_right_length_is_hashed_before_it_counts() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap().durable();
        let large = vec![7; SYNC_THRESHOLD as usize];
        let all = [Descriptor::of("", b"right"), Descriptor::of("", &large)];
        assert_eq!(store.lacking(&all), all);
        store.put(b"right").unwrap();
        store.put(&large).unwrap();
        assert_eq!(store.lacking(&all), []);
        store.seal().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(30));
        for blob in &all {
            fs::write(store.path_of(&blob.digest), vec![0; blob.size as usize]).unwrap();
        }
        assert_eq!(store.lacking(&all), all);
    }
    #[test]
    fn a_store_over_another_reads_from_both_and_writes_to_itself() {
        let dir = tempfile::tempdir().unwrap();
        let below = Store::open(&dir.path().join("below")).unwrap();
        let old = below.put(b"old").unwrap();
        let store = Store::open(&dir.path().join("own")).unwrap().over(below.root());
        let new = store.put(b"new").unwrap();
        assert_eq!(store.put(b"old").unwrap(), old);
        assert!(store.path_of(&old).is_file() && !below.has_name(&new));
        fs::remove_file(store.path_of(&old)).unwrap();
        assert!(store.has_name(&old) && store.blob(&old).unwrap().is_some());
        assert_eq!((store.read(&old, 9).unwrap(), store.read(&new, 9).unwrap()), (b"old".to_vec(), b"new".to_vec()));
        assert_eq!(store.lacking(&[Descriptor::of("", b"old"), Descriptor::of("", b"new")]), []);
    }
}
