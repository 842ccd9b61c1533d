//! Temporary files and directories: private, with random names, and removed on every exit.
//!
//! Each is registered while it exists. Dropping it removes it, and [`Guard::remove_all`] removes all of them when a
//! signal ends the process. Temporary files without a name need none of this: the system removes them.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use tempfile::{NamedTempFile, TempDir, TempPath};

use crate::Members;
use crate::fault::{Class, Fault};

/// The temporary files and directories of this process.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
/// Called before the first one is created.
static ON_FIRST: OnceLock<fn()> = OnceLock::new();

fn live() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets a function that is called before a temporary file or directory is created, to handle signals from then on.
pub fn before_creating(start: fn()) {
    let _ = ON_FIRST.set(start);
}

/// Creates and registers a path. A signal handler must not run in between, so the lock is held.
fn register<T>(create: impl FnOnce() -> io::Result<T>, path: impl Fn(&T) -> &Path) -> io::Result<T> {
    if let Some(start) = ON_FIRST.get() {
        start();
    }
    let mut live = live();
    let created = create()?;
    live.insert(path(&created).to_owned());
    Ok(created)
}

/// A guard: while it exists, this process has no temporary files.
pub struct Guard(MutexGuard<'static, BTreeSet<PathBuf>>);

impl Guard {
    /// Removes all temporary files and directories of this process before it exits. Writers fail, and new files wait
    /// until the guard is dropped.
    pub fn remove_all() -> Guard {
        let mut live = live();
        for path in std::mem::take(&mut *live) {
            // A thread that still writes to the old path of a directory fails.
            let doomed = path.with_extension("interrupted");
            let path = if path.is_dir() && fs::rename(&path, &doomed).is_ok() { doomed } else { path };
            // It may be gone; nothing can be done about other errors.
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
        Guard(live)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.clear();
    }
}

/// Runs work without interruption: a signal takes effect afterwards.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    let _held = live();
    work()
}

/// A temporary file.
#[derive(Debug)]
pub struct TempFile {
    file: Option<NamedTempFile>,
    path: PathBuf,
}

impl TempFile {
    /// Creates a file in `folder` that only this user can read.
    ///
    /// # Errors
    /// Fails when the file cannot be created.
    pub fn create(folder: &Path, prefix: &str) -> io::Result<TempFile> {
        let file = register(|| tempfile::Builder::new().prefix(prefix).tempfile_in(folder), NamedTempFile::path)?;
        let path = file.path().to_owned();
        Ok(TempFile { file: Some(file), path })
    }

    /// Creates a file in the directory of `destination`.
    ///
    /// # Errors
    /// Fails when the file cannot be created.
    pub fn beside(destination: &Path, prefix: &str) -> io::Result<TempFile> {
        TempFile::create(parent(destination), prefix)
    }

    /// Returns the open file.
    pub fn file(&mut self) -> &mut File {
        match &mut self.file {
            Some(file) => file.as_file_mut(),
            None => unreachable!("only `finish` takes the file, and consumes self"),
        }
    }

    /// Renames the file into place with the given mode, and returns it.
    ///
    /// # Errors
    /// Fails when the rename fails, or the process is exiting.
    pub fn finish(mut self, destination: &Path, mode: u32) -> io::Result<File> {
        self.file().set_permissions(Permissions::from_mode(mode))?;
        let mut live = live();
        let file = self.file.take().filter(|_| live.remove(&self.path));
        let file = file.ok_or_else(|| io::Error::new(io::ErrorKind::Interrupted, "the process is exiting"))?;
        Ok(file.persist(destination)?)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let mut live = live();
        live.remove(&self.path);
        // Removed while the lock is held, or already renamed.
        self.file.take();
    }
}

/// A temporary directory.
#[derive(Debug)]
pub struct TempFolder {
    folder: Option<TempDir>,
    path: PathBuf,
}

impl TempFolder {
    /// Creates a directory for temporary files that only this user can read.
    ///
    /// # Errors
    /// Fails when the directory cannot be created.
    pub fn private(prefix: &str) -> io::Result<TempFolder> {
        TempFolder::inside(&std::env::temp_dir(), prefix)
    }

    /// Creates a directory in `parent` that only this user can read.
    ///
    /// # Errors
    /// Fails when the directory cannot be created.
    pub fn inside(parent: &Path, prefix: &str) -> io::Result<TempFolder> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix).permissions(Permissions::from_mode(0o700));
        let folder = register(|| builder.tempdir_in(parent), TempDir::path)?;
        let path = folder.path().to_owned();
        Ok(TempFolder { folder: Some(folder), path })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the directory the mode of new directories, for a caller that renames it.
    ///
    /// # Errors
    /// Fails when the mode cannot be changed.
    pub fn open_to_others(&self) -> io::Result<()> {
        fs::set_permissions(self.path(), Permissions::from_mode(umasked(0o777)))
    }

    /// Moves the directory to `target` with the mode of new directories, and keeps it.
    ///
    /// # Errors
    /// Fails as [`move_folder`] does.
    pub fn finish(self, target: &Path) -> io::Result<()> {
        self.open_to_others()?;
        move_folder(self.path(), target)
    }

    /// Keeps the directory, and returns its path. Its parent should be temporary too.
    pub fn keep(mut self) -> PathBuf {
        live().remove(&self.path);
        self.folder.take().map_or_else(PathBuf::new, TempDir::keep)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let mut live = live();
        live.remove(&self.path);
        self.folder.take();
    }
}

/// Moves a directory that this program wrote to `target`, which must be empty or absent.
///
/// A mount point cannot be replaced, so its content is: copied to a temporary directory inside it, then renamed entry
/// by entry. A link stays: the directory that it points to is the target.
///
/// # Errors
/// Fails when the directory cannot be moved; `target` is then as it was.
pub fn move_folder(folder: &Path, target: &Path) -> io::Result<()> {
    if target.is_symlink() {
        return move_folder(folder, &target.canonicalize()?);
    }
    match fs::rename(folder, target) {
        Err(error) if matches!(error.kind(), io::ErrorKind::ResourceBusy | io::ErrorKind::CrossesDevices) => {
            fill(folder, target)
        }
        moved => moved,
    }
}

fn fill(folder: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    let part = TempFolder::inside(target, ".opm-part-")?;
    Members::below(folder, &[PathBuf::new()], usize::MAX)?.copy_to(part.path())?;
    uninterrupted(|| {
        let mut moved = Vec::new();
        for entry in fs::read_dir(part.path())? {
            let entry = entry?;
            let place = target.join(entry.file_name());
            if let Err(error) = fs::rename(entry.path(), &place) {
                for (from, to) in moved {
                    let _ = fs::rename(to, from);
                }
                return Err(error);
            }
            moved.push((entry.path(), place));
        }
        Ok(())
    })
}

/// Why a directory cannot receive the output of a command.
#[derive(Debug, thiserror::Error)]
pub enum OutputDirError {
    /// It has entries, which a command must not mix with its own.
    #[error("output dir \"{}\" must be empty", .0.display())]
    NotEmpty(PathBuf),
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

impl Fault for OutputDirError {
    fn class(&self) -> Class {
        match self {
            OutputDirError::NotEmpty(_) => Class::Refused,
            OutputDirError::Unreadable { .. } => Class::World,
        }
    }
}

/// Checks that an output directory is empty or absent.
///
/// # Errors
/// Fails when it has entries or cannot be read.
pub fn check_empty(directory: &Path) -> Result<(), OutputDirError> {
    let unreadable = |source| OutputDirError::Unreadable { path: directory.to_owned(), source };
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        entries => match entries.map_err(unreadable)?.next() {
            None => Ok(()),
            Some(_) => Err(OutputDirError::NotEmpty(directory.to_owned())),
        },
    }
}

/// Renames a file to `destination`, which must not exist.
///
/// # Errors
/// Fails when the destination exists or the rename fails; the file is then removed.
pub fn rename_new(file: PathBuf, destination: &Path) -> io::Result<()> {
    Ok(TempPath::try_from_path(file)?.persist_noclobber(destination)?)
}

/// Writes a file atomically: a failure leaves an existing file as it was. A pipe or device is written to, not replaced,
/// and a link stays: the file that it points to is written.
///
/// # Errors
/// Fails when the file cannot be written.
pub fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    write_file_with(path, ".opm-", 0o644, |file| file.write_all(content))
}

/// Writes a file like [`write_file`], in pieces. The name of the temporary file begins with `prefix`; `mode` is that of
/// a new file.
///
/// # Errors
/// Fails when `write` fails, or the file cannot be written.
pub fn write_file_with(
    path: &Path,
    prefix: &str,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let target = match path.canonicalize() {
        Ok(target) if target.is_file() => target,
        Err(_) if path.symlink_metadata().is_err() => path.to_owned(),
        _ => return write(&mut File::create(path)?),
    };
    let mode = target.metadata().map_or(umasked(mode), |about| about.permissions().mode() & 0o777);
    let mut file = TempFile::beside(&target, prefix)?;
    write(file.file())?;
    file.file().sync_all()?;
    file.finish(&target, mode)?;
    Ok(())
}

/// Returns the directory of a file.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the mode of new files or directories: without the bits that the umask of this process removes.
pub fn umasked(mode: u32) -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    let umask = UMASK.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        // If the umask is unknown, files stay private.
        line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o077)
    });
    mode & !umask
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn temporary_files_are_private_and_removed_unless_they_are_finished() {
        let dir = tempfile::tempdir().unwrap();
        let count = || fs::read_dir(dir.path()).unwrap().count();
        let one = TempFile::create(dir.path(), ".x-").unwrap();
        let two = TempFile::beside(&dir.path().join("kept"), ".x-").unwrap();
        let folder = TempFolder::inside(dir.path(), ".x-").unwrap();
        assert_ne!(one.path, two.path);
        assert_eq!((mode(&one.path), mode(folder.path())), (0o600, 0o700));
        assert_eq!(mode(TempFolder::private("scratch-test-").unwrap().path()), 0o700);
        drop((one, folder));
        assert_eq!(count(), 1);
        two.finish(&dir.path().join("kept"), 0o640).unwrap();
        assert_eq!((count(), mode(&dir.path().join("kept"))), (1, 0o640));
        let kept = TempFolder::inside(dir.path(), ".x-").unwrap().keep();
        assert!(kept.is_dir());
    }

    #[test]
    fn a_link_to_a_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::os::unix::fs::symlink("file", &link).unwrap();
        for (content, mode_before) in [("new", None), ("newer", Some(0o600))] {
            if let Some(mode) = mode_before {
                fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            }
            write_file(&link, content.as_bytes()).unwrap();
            assert!(link.is_symlink());
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
        }
        assert_eq!(mode(&file), 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_link_to_a_directory_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (new, empty, link) = (dir.path().join("new"), dir.path().join("empty"), dir.path().join("link"));
        fs::create_dir(&new).unwrap();
        fs::write(new.join("file"), "content").unwrap();
        fs::create_dir(&empty).unwrap();
        std::os::unix::fs::symlink("empty", &link).unwrap();
        move_folder(&new, &link).unwrap();
        assert!(link.is_symlink() && empty.join("file").is_file() && !new.exists());
    }

    #[test]
    fn an_existing_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        fs::write(&new, "new").unwrap();
        fs::write(&old, "old").unwrap();
        assert_eq!(rename_new(new, &old).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&old).unwrap(), "old");
    }
}
