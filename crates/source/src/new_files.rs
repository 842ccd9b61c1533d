//! New files next to other files: all of them appear, or none, and they replace nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fbc::Members;
use fbc::scratch::{TempFolder, parent, uninterrupted};

use crate::error::{SourceError, at};

/// A directory of new files next to other files: it receives all of them or none, and replaces nothing.
pub struct NewFiles {
    aside: TempFolder,
    target: PathBuf,
}

impl NewFiles {
    /// Creates a temporary directory for files that belong below `target`, which need not exist.
    ///
    /// # Errors
    /// Fails if the temporary directory cannot be created.
    pub fn start(target: &Path) -> Result<NewFiles, SourceError> {
        // On the device of the target, so that files can be linked.
        let place = match target.is_dir() {
            true => target,
            false => parent(target),
        };
        fs::create_dir_all(place).map_err(at(place))?;
        let aside = TempFolder::inside(place, ".opm-new-").map_err(at(place))?;
        Ok(NewFiles { aside, target: target.to_path_buf() })
    }

    /// Returns the temporary directory.
    pub fn path(&self) -> &Path {
        self.aside.path()
    }

    /// Moves the files to their place.
    ///
    /// # Errors
    /// Fails if one of them exists, or something is in its way, and names all of these. Then nothing has changed.
    pub fn finish(self) -> Result<(), SourceError> {
        let files = Members::below(self.path(), &[PathBuf::new()], usize::MAX)?;
        let taken: BTreeSet<PathBuf> = files.paths().filter_map(|path| self.in_the_way(path)).collect();
        if !taken.is_empty() {
            return Err(SourceError::Exist(taken.into_iter().collect()));
        }
        uninterrupted(|| {
            let mut made = Vec::new();
            for path in files.paths() {
                if let Err(error) = self.place(path, &mut made) {
                    for path in made.iter().rev() {
                        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
                    }
                    return Err(at(&self.target.join(path))(error));
                }
            }
            Ok(())
        })
    }

    /// Returns what prevents that a new file gets its path: a file, or something other than a directory above it.
    fn in_the_way(&self, path: &Path) -> Option<PathBuf> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()).collect();
        above.reverse();
        let blocked = above
            .into_iter()
            .map(|directory| self.target.join(directory))
            .find(|full| fs::symlink_metadata(full).is_ok_and(|metadata| !metadata.is_dir()));
        let full = self.target.join(path);
        blocked.or_else(|| fs::symlink_metadata(&full).is_ok().then_some(full))
    }

    fn place(&self, path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
        let (from, to) = (self.path().join(path), self.target.join(path));
        let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
        let mut missing: Vec<&Path> = to.ancestors().skip(1).take_while(is_missing).collect();
        while let Some(directory) = missing.pop() {
            fs::create_dir(directory)?;
            made.push(directory.to_path_buf());
        }
        // Unlike a rename, a link never replaces a file that appeared meanwhile.
        if fs::hard_link(&from, &to).is_err() {
            let mut file = fs::File::create_new(&to)?;
            made.push(to);
            io::copy(&mut fs::File::open(&from)?, &mut file)?;
            return Ok(());
        }
        made.push(to);
        Ok(())
    }
}
