//! The files that belong to a catalog or a bundle.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::walk::IGNORE_FILE;

/// The names of the metadata of version control systems: files or directories, at any depth.
const VERSION_CONTROL: [&str; 9] = [".git", ".hg", ".svn", ".bzr", ".jj", ".sl", ".pijul", "_darcs", "CVS"];

/// Returns whether a package, a bundle or a version can name a file or directory of a catalog: it must be a single name
/// that is neither hidden nor version control.
pub fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']) && !is_version_control(OsStr::new(name))
}

/// Returns whether a file or directory with this name is metadata of version control, which is never content.
pub fn is_version_control(name: &OsStr) -> bool {
    // Some file systems ignore case. A package can be named like the directories without a dot.
    VERSION_CONTROL.iter().any(|known| name == *known || known.starts_with('.') && name.eq_ignore_ascii_case(known))
}

/// The files that belong to a catalog or a bundle.
///
/// To a catalog belong the files that the loader reads, those that bundles refer to, and ignore files. To a bundle
/// belong the files in its directories. A command that copies, packs, unpacks or edits one of them touches these files
/// and no others. Loading a catalog returns its list, so it cannot differ from what was loaded.
#[derive(Debug, Clone, Default)]
pub struct Members {
    root: PathBuf,
    paths: BTreeSet<PathBuf>,
}

/// Why a file can neither enter nor leave an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unportable {
    /// Its name, or that of a directory, starts with a dot.
    #[error("is hidden")]
    Hidden,
    /// It is a link to a file that the image would not contain.
    #[error("is a symbolic link that leads out of the directory")]
    LeadsOut,
    /// It is a link to a file of version control.
    #[error("is a symbolic link to a file of version control")]
    VersionControl,
    /// It is a device, a pipe, a socket, or a link to something other than a file.
    #[error("is neither a file nor a directory")]
    NotAFile,
}

impl Members {
    pub(crate) fn new(root: &Path) -> Members {
        Members { root: root.to_path_buf(), paths: BTreeSet::new() }
    }

    /// Returns everything in these directories below `root` that is neither a directory nor version control.
    ///
    /// Directories that do not exist are empty. Links to directories are listed, but not followed.
    ///
    /// # Errors
    /// Fails if a directory cannot be read, or if they contain more than `limit` files.
    pub fn below(root: &Path, directories: &[PathBuf], limit: usize) -> io::Result<Members> {
        let mut members = Members::new(root);
        let mut pending: Vec<PathBuf> = directories.to_vec();
        while let Some(directory) = pending.pop() {
            let full = root.join(&directory);
            let entries = match fs::read_dir(&full) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries.map_err(|error| in_path(&full, &error))?,
            };
            for entry in entries {
                let entry = entry.map_err(|error| in_path(&full, &error))?;
                let path = directory.join(entry.file_name());
                if is_version_control(&entry.file_name()) {
                    continue;
                }
                match entry.file_type().map_err(|error| in_path(&full, &error))?.is_dir() {
                    true => pending.push(path),
                    false => drop(members.paths.insert(path)),
                }
                if members.paths.len() + pending.len() > limit {
                    return Err(in_path(root, &io::Error::other(format!("more than {limit} files"))));
                }
            }
        }
        Ok(members)
    }

    /// Returns these files below `root`.
    pub fn of(root: &Path, paths: impl IntoIterator<Item = PathBuf>) -> Members {
        Members { root: root.to_path_buf(), paths: paths.into_iter().collect() }
    }

    pub(crate) fn extend(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.paths.extend(paths);
    }

    /// Adds files that bundles refer to, as far as they exist.
    pub(crate) fn extend_existing(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        let root = self.root.clone();
        self.extend(paths.into_iter().filter(|path| root.join(path).is_file()));
    }

    /// Returns the paths of the files relative to the root, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// Returns what else is below the root, sorted: files, and directories of version control as a whole.
    ///
    /// # Errors
    /// Fails if a directory cannot be read.
    pub fn others(&self) -> io::Result<BTreeSet<PathBuf>> {
        let mut others = BTreeSet::new();
        let mut pending = vec![PathBuf::new()];
        while let Some(directory) = pending.pop() {
            let full = self.root.join(&directory);
            for entry in fs::read_dir(&full).map_err(|error| in_path(&full, &error))? {
                let entry = entry.map_err(|error| in_path(&full, &error))?;
                let path = directory.join(entry.file_name());
                let kind = entry.file_type().map_err(|error| in_path(&full, &error))?;
                if kind.is_dir() && !is_version_control(&entry.file_name()) {
                    pending.push(path);
                } else if !self.paths.contains(&path) {
                    others.insert(path);
                }
            }
        }
        Ok(others)
    }

    /// Removes what can neither enter nor leave an image, and returns it with the reason.
    ///
    /// The loader reads hidden files, and follows links to files, as the existing tools do. In an image, a link to a
    /// file inside `boundary` becomes a copy of that file. Everything else could surprise whoever unpacks the image,
    /// or disclose files of whoever builds it.
    ///
    /// # Errors
    /// Fails if `boundary` cannot be read.
    pub fn remove_unportable(&mut self, boundary: &Path) -> io::Result<Vec<(PathBuf, Unportable)>> {
        let boundary = boundary.canonicalize().map_err(|error| in_path(boundary, &error))?;
        let mut removed = Vec::new();
        for path in std::mem::take(&mut self.paths) {
            let target = self.root.join(&path).canonicalize();
            let unportable = match &target {
                _ if is_hidden(&path) => Some(Unportable::Hidden),
                Ok(target) => match target.strip_prefix(&boundary) {
                    Err(_) => Some(Unportable::LeadsOut),
                    Ok(inside) if inside.iter().any(is_version_control) => Some(Unportable::VersionControl),
                    Ok(_) => (!target.is_file()).then_some(Unportable::NotAFile),
                },
                Err(_) => Some(Unportable::NotAFile),
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

/// Returns whether a path relative to the root is hidden. Ignore files are not.
fn is_hidden(path: &Path) -> bool {
    let is_dotted = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
    let directories = path.parent().into_iter().flatten();
    directories.chain(path.file_name().filter(|name| *name != OsStr::new(IGNORE_FILE))).any(is_dotted)
}

fn in_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_control_is_recognised_on_file_systems_that_ignore_case() {
        for name in [".git", ".GIT", ".Git", ".Hg", "CVS"] {
            assert!(is_version_control(OsStr::new(name)), "{name}");
        }
        for name in ["git", ".gitignore", "cvs", "_DARCS"] {
            assert!(!is_version_control(OsStr::new(name)), "{name}");
        }
    }
}
