//! The directory of a static site: written to a temporary directory, then renamed.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use fbc::fault::{Class, Fault};
use fbc::scratch::{TempFolder, parent, uninterrupted};

use crate::error::{SourceError, at};

/// The marker file of directories that this command wrote.
pub const SITE_MARK: &str = "-/site.json";

/// The maximum number of foreign files to name.
const NAMED: usize = 10;

/// Why a site cannot replace a directory.
#[derive(Debug, thiserror::Error)]
pub enum SiteFolderError {
    /// Another program wrote it.
    #[error("{}: the directory is not empty, and 'opm site build' did not write it", .0.display())]
    NotOurs(PathBuf),
    /// It has files of others.
    #[error(
        "{}: the directory contains files that 'opm site build' did not write, and would be replaced:\n  {}{}",
        target.display(),
        foreign.join("\n  "),
        if *more > 0 { format!("\n  and {more} more") } else { String::new() }
    )]
    Foreign {
        target: PathBuf,
        /// The first of these files.
        foreign: Vec<String>,
        /// The number of the others.
        more: usize,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Fault for SiteFolderError {
    fn class(&self) -> Class {
        match self {
            SiteFolderError::Source(error) => error.class(),
            _ => Class::Refused,
        }
    }

    fn hint(&self) -> Option<Cow<'_, str>> {
        matches!(self, SiteFolderError::Foreign { .. }).then(|| "move them, or write to another directory".into())
    }
}

/// Checks that a directory with a marker contains only files that this command wrote, because it will be replaced.
fn check_own(target: &Path) -> Result<(), SiteFolderError> {
    let mark = target.join(SITE_MARK);
    let text = fs::read(&mark).map_err(at(&mark))?;
    let mark: Value = serde_json::from_slice(&text).unwrap_or_default();
    let listed = mark["files"].as_array();
    let listed: Option<HashSet<&str>> = listed.map(|files| files.iter().filter_map(Value::as_str).collect());
    // Markers of earlier versions list nothing. This command writes no hidden files.
    let is_own = |path: &Path| match (&listed, path.to_str()) {
        (_, Some(SITE_MARK)) => true,
        (Some(listed), Some(path)) => listed.contains(path),
        (Some(_), None) => false,
        (None, _) => !path.iter().any(|name| name.as_encoded_bytes().starts_with(b".")),
    };
    let mut foreign = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        let full = target.join(&directory);
        for entry in fs::read_dir(&full).map_err(at(&full))? {
            let entry = entry.map_err(at(&full))?;
            let path = directory.join(entry.file_name());
            match entry.file_type().map_err(at(&full))?.is_dir() {
                true => pending.push(path),
                false if !is_own(&path) => foreign.push(path.display().to_string()),
                false => {}
            }
        }
    }
    if foreign.is_empty() {
        return Ok(());
    }
    foreign.sort();
    let more = foreign.len().saturating_sub(NAMED);
    foreign.truncate(NAMED);
    Err(SiteFolderError::Foreign { target: target.to_path_buf(), foreign, more })
}

/// The directory of a site that is being written.
pub struct SiteFolder {
    target: PathBuf,
    aside: TempFolder,
    /// The existing directory, if this command wrote it.
    old: Option<PathBuf>,
    files: Mutex<BTreeSet<String>>,
    /// Directories created so far.
    created: Mutex<HashSet<PathBuf>>,
}

impl SiteFolder {
    /// Creates a temporary directory next to `target`.
    ///
    /// # Errors
    /// Fails if `target` has other content, or cannot be written.
    pub fn start(target: &Path) -> Result<SiteFolder, SiteFolderError> {
        let named = at(target);
        let old = match fs::read_dir(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(named(error).into()),
            Ok(mut entries) => match target.join(SITE_MARK).is_file() {
                true => {
                    check_own(target)?;
                    Some(target.to_path_buf())
                }
                false if entries.next().is_none() => None,
                false => return Err(SiteFolderError::NotOurs(target.to_path_buf())),
            },
        };
        let parent = parent(target);
        fs::create_dir_all(parent).map_err(&named)?;
        let aside = TempFolder::inside(parent, ".opm-site-").map_err(&named)?;
        Ok(SiteFolder { target: target.to_path_buf(), aside, old, files: Mutex::default(), created: Mutex::default() })
    }

    /// Writes one file. An unchanged file becomes a hard link to the old one, so that it keeps its times.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn put(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let place = self.aside.path().join(path);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
        if let Some(parent) = place.parent() {
            let known = self.created.lock().unwrap_or_else(PoisonError::into_inner).contains(parent);
            if !known {
                // Creating it after an interrupt would create the removed directory again.
                uninterrupted(|| fs::create_dir_all(parent)).map_err(named)?;
                self.created.lock().unwrap_or_else(PoisonError::into_inner).insert(parent.to_path_buf());
            }
        }
        self.files.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        if let Some(before) = self.old.as_ref().map(|old| old.join(path))
            && fs::metadata(&before).is_ok_and(|file| file.is_file() && file.len() == bytes.len() as u64)
            && fs::read(&before).is_ok_and(|old| old == bytes)
            && fs::hard_link(&before, &place).is_ok()
        {
            return Ok(());
        }
        fs::write(&place, bytes).map_err(named)
    }

    /// Returns the paths of all files written so far, sorted.
    pub fn files(&self) -> Vec<String> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Renames the directory to its final name.
    ///
    /// # Errors
    /// Fails if a rename fails; the old directory then stays.
    pub fn finish(self) -> io::Result<()> {
        let SiteFolder { target, aside, .. } = self;
        if !target.exists() {
            return aside.finish(&target);
        }
        let parent = aside.path().parent().unwrap_or(Path::new("."));
        let old = TempFolder::inside(parent, ".opm-site-old-")?;
        aside.open_to_others()?;
        let place = old.path().join("old");
        uninterrupted(|| {
            fs::rename(&target, &place)?;
            fs::rename(aside.path(), &target).inspect_err(|_| {
                let _ = fs::rename(&place, &target);
            })
        })
    }
}
