//! Blobs that are not whole yet. They outlive a failure, so that the next try can go on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Digest, Hasher, Store};

static NUMBER: AtomicU64 = AtomicU64::new(0);
static SWEPT: Once = Once::new();

/// How long a blob waits for somebody to go on with it.
const PATIENCE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Removes what nobody went on with for long.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|about| about.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > PATIENCE) {
            // Another process may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A blob on its way into a store: `partial/<hex>`, locked while somebody writes to it.
pub(crate) struct Partial {
    store: Store,
    digest: Digest,
    path: PathBuf,
    file: File,
    hasher: Hasher,
    size: u64,
    /// Nobody else would find it, so that it must not stay.
    private: bool,
}

impl Partial {
    /// Opens what is there of a blob, and reads it once, to go on from its end.
    pub(crate) fn open(store: &Store, digest: Digest) -> io::Result<Partial> {
        let folder = store.root().join("partial");
        fs::create_dir_all(&folder)?;
        SWEPT.call_once(|| sweep(&folder));
        let shared = folder.join(digest.hex());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&shared)?;
        // If another process is at it, both go on by themselves; the last one wins, with the same bytes.
        // Nor may it be a file that became a whole blob while it was opened.
        let private = file.try_lock().is_err() || !is_same(&file, &shared);
        let (path, file) = if private {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}.{}-{number}", digest.hex(), std::process::id()));
            let file = options.truncate(true).open(&path)?;
            (path, file)
        } else {
            (shared, file)
        };
        let mut partial = Partial { store: store.clone(), digest, path, file, hasher: Hasher::new(), size: 0, private };
        partial.read_on()?;
        Ok(partial)
    }

    fn read_on(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 256 << 10];
        loop {
            match self.file.read(&mut buffer)? {
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
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.hasher = Hasher::new();
        self.size = 0;
        Ok(())
    }

    pub(crate) fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(piece)?;
        self.hasher.update(piece);
        self.size += piece.len() as u64;
        Ok(())
    }

    /// Puts the blob under its name if it has the right digest; returns the one it has.
    pub(crate) fn finish(&mut self) -> io::Result<Digest> {
        let digest = self.hasher.clone().finish();
        if digest == self.digest {
            fs::rename(&self.path, self.store.path_of(&digest))?;
            self.private = false;
        }
        Ok(digest)
    }
}

fn is_same(file: &File, path: &Path) -> bool {
    let number = |about: io::Result<fs::Metadata>| about.map(|about| (about.dev(), about.ino())).ok();
    number(file.metadata()).is_some_and(|it| number(fs::metadata(path)) == Some(it))
}

impl Drop for Partial {
    fn drop(&mut self) {
        if self.private || self.size == 0 {
            // What is empty or nobody's is of no use to the next try.
            let _ = fs::remove_file(&self.path);
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
        assert_ne!(partial.finish().unwrap(), digest);
        drop(partial);
        let mut partial = Partial::open(&store, digest).unwrap();
        assert_eq!(partial.size(), 6);
        let mut second = Partial::open(&store, digest).unwrap();
        assert_eq!(second.size(), 0, "a blob that is being written is nobody else's");
        second.add(b"first second").unwrap();
        assert_eq!(second.finish().unwrap(), digest);
        partial.add(b"second").unwrap();
        assert_eq!(partial.finish().unwrap(), digest);
        drop((partial, second));
        assert_eq!(fs::read(store.blob(&digest).unwrap()).unwrap(), b"first second");
        assert_eq!(fs::read_dir(dir.path().join("partial")).unwrap().count(), 0);
    }
}
