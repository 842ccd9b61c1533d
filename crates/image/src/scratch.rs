//! Temporary files: private, with random names, on the file system of their destination. They are removed unless they
//! are renamed into place.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The prefix of temporary file names.
const PREFIX: &str = ".scratch-";

/// The age after which a temporary file counts as abandoned by a killed process.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The temporary files of this process.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A guard: while it exists, this process has no temporary files.
pub struct ScratchGuard(MutexGuard<'static, BTreeSet<PathBuf>>);

impl ScratchGuard {
    /// Removes all temporary files of this process before it exits. Writers fail, and new files wait until the guard
    /// is dropped.
    pub fn remove_all() -> ScratchGuard {
        let mut live = live();
        for path in std::mem::take(&mut *live) {
            remove(&path);
        }
        ScratchGuard(live)
    }
}

impl Drop for ScratchGuard {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Adds the directory to an error about a full disk: the system does not name it, and it may be a temporary one.
pub(crate) fn name_full_disk(folder: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        }
        _ => error,
    }
}

fn remove(path: &Path) {
    // The file may be gone; nothing can be done about other errors.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// A temporary file.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    /// Creates a file in `folder` that only this user can read.
    pub(crate) fn create(folder: &Path) -> io::Result<Scratch> {
        // A signal handler must not run between creating and registering the file.
        let mut live = live();
        let (file, path) = tempfile::Builder::new().prefix(PREFIX).tempfile_in(folder)?.keep()?;
        live.insert(path.clone());
        Ok(Scratch { file, path })
    }

    /// Creates a file in the directory of `destination`.
    pub(crate) fn beside(destination: &Path) -> io::Result<Scratch> {
        let folder = destination.parent().filter(|folder| !folder.as_os_str().is_empty());
        Scratch::create(folder.unwrap_or(Path::new(".")))
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Renames the file into place with the default mode, and returns it.
    pub(crate) fn finish(self, destination: &Path) -> io::Result<File> {
        apply_umask(&self.file)?;
        let mut live = live();
        if !live.contains(&self.path) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the process is exiting"));
        }
        fs::rename(&self.path, destination)?;
        live.remove(&self.path);
        drop(live);
        self.file.try_clone()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if live().remove(&self.path) {
            remove(&self.path);
        }
    }
}

/// A temporary directory.
pub(crate) struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    /// Creates a directory in `folder` that only this user can read.
    pub(crate) fn create(folder: &Path) -> io::Result<ScratchDir> {
        let mut live = live();
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(folder)?.keep();
        live.insert(path.clone());
        Ok(ScratchDir { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if live().remove(&self.path) {
            remove(&self.path);
        }
    }
}

/// Writes a file atomically: to a temporary file that is renamed into place.
pub(crate) fn write_atomic(destination: &Path, content: &[u8]) -> io::Result<()> {
    let mut scratch = Scratch::beside(destination)?;
    io::Write::write_all(scratch.file(), content)?;
    scratch.finish(destination).map(|_| ())
}

/// Applies the default mode of new files.
pub(crate) fn apply_umask(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o666 & !umask()))
}

/// Removes files in `folder` that killed processes left behind.
pub(crate) fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let about = entry.metadata().ok().filter(|about| hidden && about.is_file() && crate::shared::is_ours(about));
        let age = about.and_then(|about| about.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > ABANDONED) {
            remove(&entry.path());
        }
    }
}

/// Returns the umask of this process.
fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        // If the umask is unknown, files stay private.
        line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o077)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_scratch_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let count = || fs::read_dir(dir.path()).unwrap().count();
        let one = Scratch::create(dir.path()).unwrap();
        let two = Scratch::create(dir.path()).unwrap();
        let folder = ScratchDir::create(dir.path()).unwrap();
        assert_ne!(one.path, two.path);
        drop(one);
        drop(folder);
        assert_eq!(count(), 1);
        two.finish(&dir.path().join("kept")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().file_name(), "kept");
        write_atomic(&dir.path().join("whole"), b"x").unwrap();
        assert_eq!(count(), 2);
    }

    #[test]
    fn only_old_scratch_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        for (name, age) in [(".scratch-a", 48), (".1-0", 48), (".scratch-b", 1), ("sha256", 48)] {
            let file = File::create(dir.path().join(name)).unwrap();
            let then = std::time::SystemTime::now() - Duration::from_secs(age * 60 * 60);
            file.set_modified(then).unwrap();
        }
        sweep(dir.path());
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".scratch-b", "sha256"]);
    }
}
