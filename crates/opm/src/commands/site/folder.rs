//! A directory of pages: written aside, then put in place.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

use crate::exit::Failure;

/// The file that says that a directory is ours.
pub(super) const MARK: &str = "-/site.json";

/// Pages on their way to a directory.
pub(super) struct Folder {
    target: PathBuf,
    aside: TempDir,
    /// What is there, if this command wrote it.
    old: Option<PathBuf>,
    pages: Mutex<BTreeSet<String>>,
    /// Directories that are there already.
    made: Mutex<HashSet<PathBuf>>,
}

impl Folder {
    /// Starts beside `target`.
    ///
    /// # Errors
    /// Fails when something else is there, or nothing can be written.
    pub(super) fn start(target: &Path) -> Result<Folder, Failure> {
        let named = |error: io::Error| Failure::message(format!("{}: {error}", target.display()));
        let old = match fs::read_dir(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(named(error)),
            Ok(mut entries) => match target.join(MARK).is_file() {
                true => Some(target.to_path_buf()),
                false if entries.next().is_none() => None,
                false => {
                    let reason = "it is not empty, and 'opm site build' did not write it";
                    return Err(Failure::message(format!("{}: {reason}", target.display())));
                }
            },
        };
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(named)?;
        let aside = tempfile::Builder::new().prefix(".opm-site-").tempdir_in(parent).map_err(named)?;
        Ok(Folder { target: target.to_path_buf(), aside, old, pages: Mutex::default(), made: Mutex::default() })
    }

    /// Writes one file; one that did not change stays the same file.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub(super) fn put(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let place = self.aside.path().join(path);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
        if let Some(parent) = place.parent() {
            let known = self.made.lock().unwrap_or_else(PoisonError::into_inner).contains(parent);
            if !known {
                fs::create_dir_all(parent).map_err(named)?;
                self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(parent.to_path_buf());
            }
        }
        if path.ends_with(".html") {
            self.pages.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        }
        if let Some(before) = self.old.as_ref().map(|old| old.join(path))
            && fs::metadata(&before).is_ok_and(|file| file.is_file() && file.len() == bytes.len() as u64)
            && fs::read(&before).is_ok_and(|old| old == bytes)
            && fs::hard_link(&before, &place).is_ok()
        {
            return Ok(());
        }
        fs::write(&place, bytes).map_err(named)
    }

    /// Returns the paths of all pages so far.
    pub(super) fn pages(&self) -> Vec<String> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Puts the directory in place.
    ///
    /// # Errors
    /// Fails when that is not possible; what was there stays then.
    pub(super) fn finish(self) -> io::Result<()> {
        let Folder { target, aside, .. } = self;
        fs::set_permissions(aside.path(), fs::Permissions::from_mode(0o755))?;
        let made = aside.keep();
        let mut before = None;
        if target.exists() {
            let parent = made.parent().unwrap_or(Path::new("."));
            let old = tempfile::Builder::new().prefix(".opm-site-old-").tempdir_in(parent)?;
            let place = old.path().join("old");
            fs::rename(&target, &place)?;
            before = Some((old, place));
        }
        if let Err(error) = fs::rename(&made, &target) {
            if let Some((_, place)) = &before {
                let _ = fs::rename(place, &target);
            }
            let _ = fs::remove_dir_all(&made);
            return Err(error);
        }
        Ok(())
    }
}
