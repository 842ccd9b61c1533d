//! Files that are being written: random names that nobody else can have, private, on the file system of their
//! destination, and gone on every way out but the one that puts them in place.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// How the name of a scratch file starts.
const PREFIX: &str = ".scratch-";

/// How old a scratch file is that a process left behind when it was killed.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// What exists now.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As long as this exists, no scratch file does.
pub struct NoScratch(MutexGuard<'static, BTreeSet<PathBuf>>);

impl NoScratch {
    /// Removes all scratch files of this process, which is about to end. Who writes to one fails, and who wants
    /// another waits until this is dropped.
    pub fn now() -> NoScratch {
        let mut live = live();
        for path in std::mem::take(&mut *live) {
            remove(&path);
        }
        NoScratch(live)
    }
}

impl Drop for NoScratch {
    fn drop(&mut self) {
        self.0.clear();
    }
}

fn remove(path: &Path) {
    // Gone already, or nothing can be done about it.
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Scratch {
    file: File,
    path: PathBuf,
}

impl Scratch {
    /// Makes a file in `folder`, which only this user can read.
    pub(crate) fn create(folder: &Path) -> io::Result<Scratch> {
        // No signal may come between making the file and knowing of it.
        let mut live = live();
        let (file, path) = tempfile::Builder::new().prefix(PREFIX).tempfile_in(folder)?.keep()?;
        live.insert(path.clone());
        Ok(Scratch { file, path })
    }

    /// Makes a file next to `destination`.
    pub(crate) fn beside(destination: &Path) -> io::Result<Scratch> {
        let folder = destination.parent().filter(|folder| !folder.as_os_str().is_empty());
        Scratch::create(folder.unwrap_or(Path::new(".")))
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts the file in place, in the mode that files usually get, and returns it.
    pub(crate) fn finish(self, destination: &Path) -> io::Result<File> {
        open_up(&self.file)?;
        let mut live = live();
        if !live.contains(&self.path) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "the process is about to end"));
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

/// A directory for what is of no use later.
pub(crate) struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    /// Makes a directory in `folder`, which only this user can read.
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

/// Writes a file aside and puts it in place.
pub(crate) fn write_whole(destination: &Path, content: &[u8]) -> io::Result<()> {
    let mut scratch = Scratch::beside(destination)?;
    io::Write::write_all(scratch.file(), content)?;
    scratch.finish(destination).map(|_| ())
}

/// Gives a file the mode that files usually get.
pub(crate) fn open_up(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o666 & !umask()))
}

/// Removes files from `folder` that killed processes left behind.
pub(crate) fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let about = entry.metadata().ok().filter(|about| hidden && about.is_file());
        let age = about.and_then(|about| about.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > ABANDONED) {
            remove(&entry.path());
        }
    }
}

/// Returns what this process takes away from the mode of new files.
fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        // Where the system does not know, files stay private.
        line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o077)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_files_leave_unless_they_are_finished() {
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
        write_whole(&dir.path().join("whole"), b"x").unwrap();
        assert_eq!(count(), 2);
    }

    #[test]
    fn only_old_scratch_files_are_swept() {
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
