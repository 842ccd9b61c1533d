//! Finds the files of a catalog.

use std::ffi::OsStr;
use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

use super::members::is_version_control;
use crate::indexignore::IndexIgnore;
use crate::limits::Limits;

/// The name of ignore files.
pub(super) const IGNORE_FILE: &str = ".indexignore";
/// The maximum size of an ignore file.
const IGNORE_FILE_LIMIT: u64 = 1 << 20;

/// A file of a catalog, or the error for it.
pub(crate) struct WalkedFile {
    /// The path relative to the root.
    pub(crate) path: PathBuf,
    /// Whether this is a directory or ignore file, whose errors cannot be ignored by a pattern.
    directory: bool,
    /// The size in bytes.
    pub(crate) outcome: Result<u64, io::Error>,
}

/// The files of a catalog directory.
pub(crate) struct Walked {
    /// The content, sorted by path.
    pub(crate) found: Vec<WalkedFile>,
    /// The paths of the ignore files, relative to the root.
    pub(crate) ignore_files: Vec<PathBuf>,
}

/// Lists the files of the catalog in `root`.
///
/// Every file is content unless an `.indexignore` file excludes it or it belongs to version control. Ignored directories are walked
/// too, since a later pattern may include their files again.
///
/// # Errors
/// Fails only if `root` itself cannot be read; other errors are reported with their file.
pub(crate) fn walk(root: &Path, limits: &Limits) -> io::Result<Walked> {
    let mut walk =
        Walk { root, found: Vec::new(), ignore: IndexIgnore::default(), ignore_files: Vec::new(), limit: limits.files };
    walk.directory(Path::new(""))?;
    let Walk { mut found, ignore, ignore_files, .. } = walk;
    found.retain(|file| file.directory || !ignore.is_ignored(&components(&file.path)));
    Ok(Walked { found, ignore_files })
}

/// Returns a file as the only one of its catalog.
///
/// # Errors
/// Fails if it is not a file.
pub(crate) fn single(root: &Path, name: &OsStr) -> io::Result<Walked> {
    let metadata = fs::metadata(root.join(name))?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a file"));
    }
    let found = WalkedFile { path: PathBuf::from(name), directory: false, outcome: Ok(metadata.len()) };
    Ok(Walked { found: vec![found], ignore_files: Vec::new() })
}

struct Walk<'a> {
    root: &'a Path,
    found: Vec<WalkedFile>,
    ignore: IndexIgnore,
    ignore_files: Vec<PathBuf>,
    limit: usize,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.root.join(directory))? {
            let entry = entry?;
            entries.push((entry.file_name(), entry.file_type()?));
        }
        entries.sort_by(|a, b| a.0.as_encoded_bytes().cmp(b.0.as_encoded_bytes()));
        for (name, kind) in entries {
            if is_version_control(&name) {
                continue;
            }
            let path = directory.join(&name);
            if kind.is_dir() {
                if let Err(error) = self.directory(&path) {
                    self.add(path, true, Err(error))?;
                }
            } else if name == OsStr::new(IGNORE_FILE) {
                match self.read_ignore_file(&path) {
                    Ok(text) => {
                        self.ignore.add(&components(directory), &text);
                        self.ignore_files.push(path);
                    }
                    Err(error) => self.add(path, true, Err(error))?,
                }
            } else {
                let outcome = self.content(&path, kind);
                self.add(path, false, outcome)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: PathBuf, directory: bool, outcome: io::Result<u64>) -> io::Result<()> {
        if self.found.len() == self.limit {
            return Err(io::Error::other(format!("more than {} files", self.limit)));
        }
        self.found.push(WalkedFile { path, directory, outcome });
        Ok(())
    }

    /// Checks that a directory entry can be read as a file, following links.
    fn content(&self, path: &Path, kind: FileType) -> io::Result<u64> {
        let metadata = fs::metadata(self.root.join(path)).map_err(|error| match kind.is_symlink() {
            true => io::Error::new(error.kind(), format!("broken symbolic link: {error}")),
            false => error,
        })?;
        if metadata.is_dir() {
            Err(io::Error::new(io::ErrorKind::IsADirectory, "is a directory (links to directories are not followed)"))
        } else if !metadata.is_file() {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "is neither a file nor a directory"))
        } else {
            Ok(metadata.len())
        }
    }

    fn read_ignore_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let kind = fs::symlink_metadata(self.root.join(path))?.file_type();
        if self.content(path, kind)? > IGNORE_FILE_LIMIT {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "exceeds the size limit of an ignore file"));
        }
        fs::read(self.root.join(path))
    }
}

/// Returns the components of a relative path as bytes: names need not be UTF-8.
fn components(path: &Path) -> Vec<&[u8]> {
    path.iter().map(OsStr::as_encoded_bytes).collect()
}
