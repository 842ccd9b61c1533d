//! Temporary files of images and stores, on the file system of their destination.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use fbc::scratch::{TempFile, umasked};

/// The prefix of temporary file names.
pub(crate) const PREFIX: &str = ".scratch-";

/// The age after which a temporary file counts as abandoned by a killed process.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Adds the directory to an error about a full disk: the system does not name it, and it may be a temporary one.
pub(crate) fn name_full_disk(folder: &Path, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
        }
        _ => error,
    }
}

/// Writes a file atomically: to a temporary file that is renamed into place.
pub(crate) fn write_atomic(destination: &Path, content: &[u8]) -> io::Result<()> {
    let mut scratch = TempFile::beside(destination, PREFIX)?;
    io::Write::write_all(scratch.file(), content)?;
    scratch.finish(destination, umasked(0o666)).map(|_| ())
}

/// Removes files in `folder` that killed processes left behind.
pub(crate) fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let about = entry.metadata().ok().filter(|about| hidden && about.is_file() && crate::shared::is_ours(about));
        let age = about.and_then(|about| about.modified().ok()?.elapsed().ok());
        if age.is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_old_scratch_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        for (name, age) in [(".scratch-a", 48), (".1-0", 48), (".scratch-b", 1), ("sha256", 48)] {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            let then = std::time::SystemTime::now() - Duration::from_secs(age * 60 * 60);
            file.set_modified(then).unwrap();
        }
        sweep(dir.path());
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".scratch-b", "sha256"]);
    }
}
