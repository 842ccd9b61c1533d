//! The files that belong to a catalog.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::walk::IGNORE_FILE;

/// The names of the metadata of version control systems: files or directories, at any depth.
const VERSION_CONTROL: [&str; 9] = [".git", ".hg", ".svn", ".bzr", ".jj", ".sl", ".pijul", "_darcs", "CVS"];

/// Returns whether a file or directory with this name is metadata of version control, which is never content.
pub fn is_version_control(name: &OsStr) -> bool {
    VERSION_CONTROL.iter().any(|known| name == OsStr::new(known))
}

/// The files that belong to a catalog: those that the loader reads, those that bundles refer to, and ignore files.
///
/// A command that copies, packs, unpacks or edits a catalog touches these files and no others. Loading returns this
/// list, so it cannot differ from what was loaded.
#[derive(Debug, Clone, Default)]
pub struct Members {
    root: PathBuf,
    paths: BTreeSet<PathBuf>,
}

/// Why a file of a catalog can neither enter nor leave an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unportable {
    /// Its name, or that of a directory, starts with a dot.
    #[error("is hidden; rename it, or list it in .indexignore if it is not part of the catalog")]
    Hidden,
    /// It is a link to a file that the image would not contain.
    #[error("is a symbolic link that leads out of the catalog; replace it with a copy of its target")]
    LeadsOut,
    /// It is a link to a file of version control.
    #[error("is a symbolic link to a file of version control; remove it")]
    VersionControl,
}

impl Members {
    pub(crate) fn new(root: &Path) -> Members {
        Members { root: root.to_path_buf(), paths: BTreeSet::new() }
    }

    pub(crate) fn extend(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.paths.extend(paths);
    }

    /// Adds files that bundles refer to, as far as they exist.
    pub(crate) fn extend_existing(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let root = self.root.clone();
        self.extend(paths.into_iter().filter(|path| root.join(path).is_file()));
    }

    /// Returns the paths of the files relative to the catalog, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// Returns whether the file at a path relative to the catalog belongs to it.
    pub fn contains(&self, path: &Path) -> bool {
        self.paths.contains(path)
    }

    /// Removes the files that can neither enter nor leave an image, and returns them with the reason.
    ///
    /// The loader reads hidden files, and follows links to files, as the existing tools do. In an image, a link to a
    /// file inside `boundary` becomes a copy of that file. Everything else could surprise whoever unpacks the image,
    /// or disclose files of whoever builds it.
    ///
    /// # Errors
    /// Fails if a file has vanished.
    pub fn remove_unportable(&mut self, boundary: &Path) -> io::Result<Vec<(PathBuf, Unportable)>> {
        let boundary = boundary.canonicalize().map_err(|error| in_path(boundary, &error))?;
        let mut removed = Vec::new();
        for path in std::mem::take(&mut self.paths) {
            let full = self.root.join(&path);
            let target = full.canonicalize().map_err(|error| in_path(&full, &error))?;
            let unportable = match target.strip_prefix(&boundary) {
                _ if is_hidden(&path) => Some(Unportable::Hidden),
                Err(_) => Some(Unportable::LeadsOut),
                Ok(inside) if inside.iter().any(is_version_control) => Some(Unportable::VersionControl),
                Ok(_) => None,
            };
            match unportable {
                None => drop(self.paths.insert(path)),
                // An ignore file in a hidden directory is not needed without the content of that directory.
                Some(Unportable::Hidden) if path.file_name() == Some(OsStr::new(IGNORE_FILE)) => {}
                Some(reason) => removed.push((path, reason)),
            }
        }
        Ok(removed)
    }

    /// Copies the files into the directory `target`, which must not contain any of them. Links become files.
    ///
    /// # Errors
    /// Fails if a file cannot be read or written.
    pub fn copy_to(&self, target: &Path) -> io::Result<()> {
        fs::create_dir_all(target).map_err(|error| in_path(target, &error))?;
        for path in &self.paths {
            let (from, to) = (self.root.join(path), target.join(path));
            let mut content = super::open_file(&from).map_err(|error| in_path(&from, &error))?;
            let parent = to.parent().unwrap_or(target);
            fs::create_dir_all(parent).map_err(|error| in_path(parent, &error))?;
            let written = File::create_new(&to).and_then(|mut file| io::copy(&mut content, &mut file));
            written.map_err(|error| in_path(&to, &error))?;
        }
        Ok(())
    }
}

/// Returns whether a path relative to the catalog is hidden. Ignore files are not.
fn is_hidden(path: &Path) -> bool {
    let is_dotted = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
    let directories = path.parent().into_iter().flatten();
    directories.chain(path.file_name().filter(|name| *name != OsStr::new(IGNORE_FILE))).any(is_dotted)
}

fn in_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
