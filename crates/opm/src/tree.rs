//! Output directories: what a command writes never replaces what is there.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fbc::scratch::is_empty_or_absent;
use fbc::{Members, Unportable};

use crate::exit::{CommandResult, Failure};
use crate::interrupt::Unfinished;
use crate::printer::Printer;

/// Checks that an output directory is empty or absent.
pub(crate) fn check_empty(directory: &Path) -> CommandResult {
    match is_empty_or_absent(directory).map_err(|error| in_path(directory, &error))? {
        true => Ok(()),
        false => Err(Failure::message(format!("output dir \"{}\" must be empty", directory.display()))),
    }
}

/// A directory of new files next to other files: it receives all of them or none, and replaces nothing.
pub(crate) struct NewFiles {
    aside: Unfinished,
    target: PathBuf,
}

impl NewFiles {
    /// Creates a temporary directory for files that belong below `target`, which need not exist.
    ///
    /// # Errors
    /// Fails if the temporary directory cannot be created.
    pub(crate) fn start(target: &Path) -> io::Result<NewFiles> {
        // On the device of the target, so that files can be linked.
        let place = match target.is_dir() {
            true => target,
            false => parent(target),
        };
        fs::create_dir_all(place).map_err(|error| in_path(place, &error))?;
        let aside = Unfinished::create(place, ".opm-new-").map_err(|error| in_path(place, &error))?;
        Ok(NewFiles { aside, target: target.to_path_buf() })
    }

    /// Returns the temporary directory.
    pub(crate) fn path(&self) -> &Path {
        self.aside.path()
    }

    /// Moves the files to their place.
    ///
    /// # Errors
    /// Fails if one of them exists, or something is in its way, and names all of these. Then nothing has changed.
    pub(crate) fn finish(self) -> CommandResult {
        let files = list(self.path())?;
        let taken: BTreeSet<PathBuf> = files.iter().filter_map(|path| self.in_the_way(path)).collect();
        if !taken.is_empty() {
            let lines: Vec<String> = taken.iter().map(|path| path.display().to_string()).collect();
            return Err(Failure::message(format!(
                "opm does not overwrite existing files:\n  {}\nhelp: remove them, or choose another directory",
                lines.join("\n  ")
            )));
        }
        self.aside.uninterrupted(|| {
            let mut made = Vec::new();
            for path in &files {
                if let Err(error) = self.place(path, &mut made) {
                    for path in made.iter().rev() {
                        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
                    }
                    return Err(in_path(&self.target.join(path), &error).into());
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

/// Writes a file that the user names, atomically.
pub(crate) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    fbc::scratch::write_file(path, text.as_bytes()).map_err(|error| in_path(path, &error))
}

/// Lists the files below a directory that this program wrote, relative to it and sorted.
fn list(root: &Path) -> io::Result<Vec<PathBuf>> {
    let everything = Members::below(root, &[PathBuf::new()], usize::MAX)?;
    Ok(everything.paths().map(Path::to_path_buf).collect())
}

/// Leaves hidden files out of a bundle, with a warning. Anything else that an image cannot contain is an error.
pub(crate) fn leave_out_hidden(members: &mut Members, root: &Path, printer: &Printer) -> CommandResult {
    for (path, reason) in members.remove_unportable(root)? {
        let shown = root.join(path);
        match reason {
            Unportable::Hidden => printer.warning(&format!("{}: left out: {reason}", shown.display())),
            _ => return Err(Failure::message(format!("{} {reason}", shown.display()))),
        }
    }
    Ok(())
}

/// Warns of files that cannot leave an image.
pub(crate) fn warn_of_unportable(files: &[(PathBuf, Unportable)], printer: &Printer) {
    for (path, reason) in files {
        printer.warning(&format!("{}: left out: {reason}", path.display()));
    }
}

/// Returns the parent directory of a path.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != OsStr::new("") => parent,
        _ => Path::new("."),
    }
}

pub(crate) fn in_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
