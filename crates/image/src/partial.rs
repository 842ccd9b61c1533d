//! Blobs that are not whole yet. They outlive a failure, so that the next try can go on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use crate::scratch::{Scratch, open_up};
use crate::store::Blob;
use crate::{Digest, Hasher, Store};

static SWEPT: Once = Once::new();

/// How long a blob waits for somebody to go on with it.
const PATIENCE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Removes what nobody went on with for long.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|about| about.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > PATIENCE)
            && let Ok(file) = File::open(entry.path())
            // Who writes to it holds the lock, and nobody else may take its name away.
            && file.try_lock().is_ok()
            && is_same(&file, &entry.path())
        {
            // Another process may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Where the bytes of a blob are on their way.
enum Place {
    /// `partial/<hex>`, whose name is ours as long as we hold its lock.
    Shared { path: PathBuf, file: File },
    /// A file that nobody else knows, so that it must not stay.
    Private(Scratch),
    /// The blob is under its own name.
    Done,
}

/// A blob on its way into a store: `partial/<hex>`, locked while somebody writes to it.
pub(crate) struct Partial {
    store: Store,
    digest: Digest,
    place: Place,
    hasher: Hasher,
    size: u64,
}

impl Partial {
    /// Opens what is there of a blob, and reads it once, to go on from its end.
    pub(crate) fn open(store: &Store, digest: Digest) -> io::Result<Partial> {
        let folder = store.root().join("partial");
        fs::create_dir_all(&folder)?;
        SWEPT.call_once(|| sweep(&folder));
        let path = folder.join(digest.hex());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let place = match options.open(&path) {
            // If another process is at it, both go on by themselves; the last one wins, with the same bytes.
            // Nor may it be a file that became a whole blob while it was opened.
            Ok(file) if file.try_lock().is_ok() && is_same(&file, &path) => Place::Shared { path, file },
            // Another user's, or another process's.
            Ok(_) => Place::Private(Scratch::create(&folder)?),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Place::Private(Scratch::create(&folder)?),
            Err(error) => return Err(error),
        };
        let mut partial = Partial { store: store.clone(), digest, place, hasher: Hasher::new(), size: 0 };
        partial.read_on()?;
        Ok(partial)
    }

    fn file(&mut self) -> io::Result<&mut File> {
        match &mut self.place {
            Place::Shared { file, .. } => Ok(file),
            Place::Private(scratch) => Ok(scratch.file()),
            Place::Done => Err(io::Error::other("the blob is whole")),
        }
    }

    fn read_on(&mut self) -> io::Result<()> {
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

    /// Returns how much is there.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Forgets what is there.
    pub(crate) fn start_over(&mut self) -> io::Result<()> {
        let file = self.file()?;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        self.hasher = Hasher::new();
        self.size = 0;
        Ok(())
    }

    pub(crate) fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        let at = self.size;
        crate::holes::append(self.file()?, at, piece)?;
        self.hasher.update(piece);
        self.size += piece.len() as u64;
        Ok(())
    }

    /// Puts the blob under its name if it has the right digest; or else returns the one it has.
    pub(crate) fn finish(&mut self) -> io::Result<Result<Blob, Digest>> {
        let digest = self.hasher.clone().finish();
        if digest != self.digest {
            return Ok(Err(digest));
        }
        let (store, size) = (self.store.clone(), self.size);
        store.sync(self.file()?, size)?;
        let target = self.store.path_of(&digest);
        let file = match std::mem::replace(&mut self.place, Place::Done) {
            Place::Shared { path, file } => {
                open_up(&file)?;
                fs::rename(&path, &target)?;
                file
            }
            Place::Private(scratch) => scratch.finish(&target)?,
            Place::Done => return Err(io::Error::other("the blob is whole")),
        };
        self.store.accept(digest, &file).map(Ok)
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    let number = |about: io::Result<fs::Metadata>| about.map(|about| (about.dev(), about.ino())).ok();
    number(file.metadata()).is_some_and(|it| number(fs::metadata(path)) == Some(it))
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Place::Shared { path, .. } = &self.place
            && self.size == 0
        {
            // What is empty is of no use to the next try.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_blob_is_gone_on_with() {
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
        assert_eq!(second.size(), 0, "a blob that is being written is nobody else's");
        second.add(b"first second").unwrap();
        assert_eq!(second.finish().unwrap().unwrap().digest(), digest);
        partial.add(b"second").unwrap();
        assert_eq!(partial.finish().unwrap().unwrap().digest(), digest);
        drop((partial, second));
        assert_eq!(fs::read(store.blob(&digest).unwrap().unwrap().path()).unwrap(), b"first second");
        assert_eq!(fs::read_dir(dir.path().join("partial")).unwrap().count(), 0);
    }
}
