//! Partially downloaded blobs. They survive a failure, so that the next attempt can resume.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use fbc::scratch::{TempFile, umasked};

use crate::StoredBlob;
use crate::scratch::{PREFIX, name_full_disk};
use crate::{Digest, Hasher, Store, shared};

static SWEPT: Once = Once::new();

/// How long a partial blob is kept for a later resume.
const EXPIRY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Removes partial blobs that were not resumed for a long time.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let ours = entry.metadata().ok().filter(shared::is_ours);
        let age = ours.and_then(|about| about.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > EXPIRY)
            && let Ok(Some(file)) = shared::open(&entry.path())
            // The writer holds the lock; only its holder may remove the file.
            && file.try_lock().is_ok()
            && is_same(&file, &entry.path())
        {
            // Another process may have removed it first.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The file of a partial blob.
enum PartialFile {
    /// `partial/<hex>`; the lock holder owns the name.
    Shared { path: PathBuf, file: File },
    /// A private temporary file, removed when dropped.
    Private(TempFile),
    /// The blob has its final name.
    Done,
}

/// A blob that is being downloaded into a store: `partial/<hex>`, locked while it is written.
pub(crate) struct Partial {
    store: Store,
    digest: Digest,
    place: PartialFile,
    hasher: Hasher,
    size: u64,
}

impl Partial {
    /// Opens a partial blob and hashes its content, to resume at its end.
    pub(crate) fn open(store: &Store, digest: Digest) -> io::Result<Partial> {
        Partial::open_in(store, digest).map_err(|error| name_full_disk(store.root(), error))
    }

    fn open_in(store: &Store, digest: Digest) -> io::Result<Partial> {
        let folder = store.root().join("partial");
        shared::create_dir(&folder)?;
        SWEPT.call_once(|| sweep(&folder));
        let path = folder.join(digest.hex());
        let place = match shared::resume(&path)? {
            // If another process is downloading the blob, each continues on its own; the last rename wins, with the
            // same bytes. The file may also have become the finished blob since it was opened.
            Some(file) if file.try_lock().is_ok() && is_same(&file, &path) => PartialFile::Shared { path, file },
            // Locked by another process, or not ours.
            _ => PartialFile::Private(TempFile::create(&folder, PREFIX)?),
        };
        let mut partial = Partial { store: store.clone(), digest, place, hasher: Hasher::new(), size: 0 };
        partial.hash_existing()?;
        Ok(partial)
    }

    fn file(&mut self) -> io::Result<&mut File> {
        match &mut self.place {
            PartialFile::Shared { file, .. } => Ok(file),
            PartialFile::Private(scratch) => Ok(scratch.file()),
            PartialFile::Done => Err(io::Error::other("the blob is complete")),
        }
    }

    fn hash_existing(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 256 << 10];
        loop {
            match self.file()?.read(&mut buffer)? {
                0 => return Ok(()),
                count => {
                    self.hasher.update(&buffer[..count]);
                    self.size += count as u64;
                }
            }
        }
    }

    /// Returns the number of bytes present.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Discards the content.
    pub(crate) fn restart(&mut self) -> io::Result<()> {
        let file = self.file()?;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        self.hasher = Hasher::new();
        self.size = 0;
        Ok(())
    }

    pub(crate) fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        let at = self.size;
        let appended = crate::sparse::append(self.file()?, at, piece);
        appended.map_err(|error| name_full_disk(self.store.root(), error))?;
        self.hasher.update(piece);
        self.size += piece.len() as u64;
        Ok(())
    }

    /// Moves the blob to its final name if the digest matches; otherwise returns the actual digest.
    pub(crate) fn finish(&mut self) -> io::Result<Result<StoredBlob, Digest>> {
        let digest = self.hasher.clone().finish();
        if digest != self.digest {
            return Ok(Err(digest));
        }
        let (store, size) = (self.store.clone(), self.size);
        store.sync(self.file()?, size).map_err(|error| name_full_disk(store.root(), error))?;
        let target = self.store.path_of(&digest);
        let file = match std::mem::replace(&mut self.place, PartialFile::Done) {
            PartialFile::Shared { path, file } => {
                file.set_permissions(Permissions::from_mode(umasked(0o666)))?;
                fs::rename(&path, &target)?;
                file
            }
            PartialFile::Private(scratch) => scratch.finish(&target, umasked(0o666))?,
            PartialFile::Done => return Err(io::Error::other("the blob is complete")),
        };
        self.store.accept(digest, &file).map(Ok)
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    let number = |about: io::Result<fs::Metadata>| about.map(|about| (about.dev(), about.ino())).ok();
    number(file.metadata()).is_some_and(|it| number(fs::symlink_metadata(path)) == Some(it))
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let PartialFile::Shared { path, .. } = &self.place
            && self.size == 0
        {
            // An empty file is useless for a resume.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_blob_is_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let digest = Digest::of(b"first second");
        let mut partial = Partial::open(&store, digest).unwrap();
        partial.add(b"first ").unwrap();
        assert!(partial.finish().unwrap().is_err());
        drop(partial);
        let mut partial = Partial::open(&store, digest).unwrap();
        assert_eq!(partial.size(), 6);
        let mut second = Partial::open(&store, digest).unwrap();
        assert_eq!(second.size(), 0, "a blob in progress was taken over");
        second.add(b"first second").unwrap();
        assert_eq!(second.finish().unwrap().unwrap().digest(), digest);
        partial.add(b"second").unwrap();
        assert_eq!(partial.finish().unwrap().unwrap().digest(), digest);
        drop((partial, second));
        assert!(store.blob(&digest).unwrap().is_some());
        assert_eq!(fs::read(store.path_of(&digest)).unwrap(), b"first second");
        assert_eq!(fs::read_dir(dir.path().join("partial")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_in_place_of_a_partial_blob_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let digest = Digest::of(b"content");
        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let planted = store.root().join("partial").join(digest.hex());
        fs::create_dir(planted.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&victim, &planted).unwrap();
        let mut partial = Partial::open(&store, digest).unwrap();
        assert_eq!(partial.size(), 0, "the content of the victim is not a partial blob");
        partial.restart().unwrap();
        partial.add(b"content").unwrap();
        assert_eq!(partial.finish().unwrap().unwrap().digest(), digest);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(store.path_of(&digest).symlink_metadata().unwrap().is_file());
    }

    #[test]
    fn a_link_in_place_of_the_directory_of_partial_blobs_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        fs::create_dir(dir.path().join("documents")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("documents"), store.root().join("partial")).unwrap();
        assert!(Partial::open(&store, Digest::of(b"content")).is_err());
        assert_eq!(fs::read_dir(dir.path().join("documents")).unwrap().count(), 0);
    }
}
