//! Writing a changed catalog: all of it or nothing.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Catalog;
use crate::exit::{Failure, Outcome};
use crate::interrupt::Unfinished;
use crate::tree;

/// Something that was done, and how it is undone.
enum Done {
    /// A directory was made.
    Made(PathBuf),
    /// A file or directory was put where there was none.
    Put(PathBuf),
    /// A file was put in the place of another, which is kept here.
    Replaced(PathBuf, PathBuf),
}

/// Writes the files of a catalog that change, and the new objects.
pub(super) fn write(catalog: &Catalog) -> Outcome {
    let aside = Unfinished::create(&catalog.root, ".opm-add-").map_err(|error| tree::in_path(&catalog.root, &error))?;
    let mut done = Vec::new();
    let outcome = stage(catalog, aside.path()).and_then(|staged| {
        staged.iter().enumerate().try_for_each(|(number, (from, to))| {
            let backup = aside.path().join(format!("old-{number}"));
            put(from, to, &backup, &mut done).map_err(|error| tree::in_path(to, &error))
        })
    });
    outcome.map_err(|error| {
        // What cannot be undone was not ours to begin with.
        for step in done.into_iter().rev() {
            let _ = match step {
                Done::Made(path) => fs::remove_dir(path),
                Done::Put(path) if path.is_dir() => fs::remove_dir_all(path),
                Done::Put(path) => fs::remove_file(path),
                Done::Replaced(path, backup) => fs::rename(backup, path),
            };
        }
        Failure::from(error)
    })
}

/// Writes everything aside; returns what goes where, in an order in which no file names what is not there.
fn stage(catalog: &Catalog, aside: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut staged = Vec::new();
    if let Some((path, text)) = &catalog.ignore {
        staged.push(stage_file(path, text, aside.join("ignore"))?);
    }
    for (number, (directory, objects)) in catalog.objects.iter().enumerate() {
        let place = aside.join(format!("objects-{number}"));
        fs::create_dir(&place)?;
        for (name, content) in objects {
            fs::write(place.join(name), content)?;
        }
        staged.push((place, directory.clone()));
    }
    for (number, (path, file)) in catalog.files.iter().enumerate() {
        staged.push(stage_file(path, &file.text(), aside.join(format!("file-{number}")))?);
    }
    Ok(staged)
}

fn stage_file(path: &Path, text: &[u8], place: PathBuf) -> io::Result<(PathBuf, PathBuf)> {
    fs::write(&place, text)?;
    // A link stays one; what it leads to is written.
    let path = path.canonicalize().unwrap_or_else(|_| path.into());
    if let Ok(metadata) = path.metadata() {
        fs::set_permissions(&place, Permissions::from_mode(metadata.permissions().mode()))?;
    }
    Ok((place, path))
}

fn put(from: &Path, to: &Path, backup: &Path, done: &mut Vec<Done>) -> io::Result<()> {
    let mut missing: Vec<&Path> =
        to.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty() && !above.exists()).collect();
    while let Some(directory) = missing.pop() {
        fs::create_dir(directory)?;
        done.push(Done::Made(directory.into()));
    }
    if to.symlink_metadata().is_ok() {
        fs::hard_link(to, backup).or_else(|_| fs::copy(to, backup).map(|_| ()))?;
        fs::rename(from, to)?;
        done.push(Done::Replaced(to.into(), backup.into()));
    } else {
        fs::rename(from, to)?;
        done.push(Done::Put(to.into()));
    }
    Ok(())
}
