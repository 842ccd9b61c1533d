//! The output directory: written to a temporary directory, then renamed.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::exit::Failure;
use crate::interrupt::Unfinished;

/// The marker file of directories that this command wrote.
pub(super) const MARK: &str = "-/site.json";

/// An output directory that is being written.
pub(super) struct Folder {
    target: PathBuf,
    aside: Unfinished,
    /// The existing directory, if this command wrote it.
    old: Option<PathBuf>,
    pages: Mutex<BTreeSet<String>>,
    /// Directories created so far.
    created: Mutex<HashSet<PathBuf>>,
}

impl Folder {
    /// Creates a temporary directory next to `target`.
    ///
    /// # Errors
    /// Fails if `target` has other content, or cannot be written.
    pub(super) fn start(target: &Path) -> Result<Folder, Failure> {
        let named = |error: io::Error| Failure::message(format!("{}: {error}", target.display()));
        let old = match fs::read_dir(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(named(error)),
            Ok(mut entries) => match target.join(MARK).is_file() {
                true => Some(target.to_path_buf()),
                false if entries.next().is_none() => None,
                false => {
                    let reason = "the directory is not empty, and 'opm site build' did not write it";
                    return Err(Failure::message(format!("{}: {reason}", target.display())));
                }
            },
        };
        let parent = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(named)?;
        let aside = Unfinished::create(parent, ".opm-site-").map_err(named)?;
        Ok(Folder { target: target.to_path_buf(), aside, old, pages: Mutex::default(), created: Mutex::default() })
    }

    /// Writes one file. An unchanged file becomes a hard link to the old one, so that it keeps its times.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn put(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let place = self.aside.path().join(path);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
        if let Some(parent) = place.parent() {
            let known = self.created.lock().unwrap_or_else(PoisonError::into_inner).contains(parent);
            if !known {
                // Creating it after an interrupt would create the removed directory again.
                self.aside.uninterrupted(|| fs::create_dir_all(parent)).map_err(named)?;
                self.created.lock().unwrap_or_else(PoisonError::into_inner).insert(parent.to_path_buf());
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

    /// Returns the paths of all pages written so far.
    pub(super) fn pages(&self) -> Vec<String> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Renames the directory to its final name.
    ///
    /// # Errors
    /// Fails if a rename fails; the old directory then stays.
    pub(super) fn finish(self) -> io::Result<()> {
        let Folder { target, aside, .. } = self;
        if !target.exists() {
            return aside.finish(&target);
        }
        let parent = aside.path().parent().unwrap_or(Path::new("."));
        let old = Unfinished::create(parent, ".opm-site-old-")?;
        aside.open_to_others()?;
        let place = old.path().join("old");
        aside.uninterrupted(|| {
            fs::rename(&target, &place)?;
            fs::rename(aside.path(), &target).inspect_err(|_| {
                let _ = fs::rename(&place, &target);
            })
        })
    }
}
