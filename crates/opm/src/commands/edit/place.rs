//! Moves changed files into place, all of them or none.
//!
//! The changed catalog is written to a staging directory next to the catalog. For an edit in place, its files are then
//! renamed over the old ones under a journal. A failure rolls back the moved files. After a crash, the next edit of
//! the catalog first completes the journal.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::{Value, json};

use super::workbench::{ChangedFile, NewContent, STAGING_PREFIX, by_path};
use crate::exit::{Failure, Outcome, in_path};
use crate::interrupt::Unfinished;
use crate::printer::Printer;

/// The name of a complete journal.
const JOURNAL: &str = "journal";
/// The directory of the new files, next to the journal.
const TREE: &str = "tree";
/// The directory of the old files, next to the journal.
const OLD: &str = "old";
/// The maximum depth of directories.
const MAX_DEPTH: usize = 100;

/// Returns the parent directory of a path.
pub(super) fn parent(path: &Path) -> PathBuf {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Locks the catalog until the file is dropped, and completes an interrupted edit.
pub(super) fn lock(root: &Path, printer: &Printer) -> Result<File, Failure> {
    let directory = File::open(root).map_err(|error| in_path(root, &error))?;
    if directory.try_lock().is_err() {
        let message = format!("{} is locked by another edit; try again when that has finished", root.display());
        return Err(Failure::message(message));
    }
    for path in interrupted(root) {
        finish(root, &path).map_err(|error| in_path(&path, &error))?;
        printer.warning("an earlier edit of this catalog was interrupted; opm has completed it now");
    }
    Ok(directory)
}

/// Returns the staging directories of interrupted edits of the catalog.
fn interrupted(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent(root)) else { return Vec::new() };
    let named =
        entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(STAGING_PREFIX.as_bytes()));
    let mut found: Vec<PathBuf> =
        named.map(|entry| entry.path()).filter(|path| read_journal(root, path).is_some()).collect();
    found.sort();
    found
}

/// Reads the journal in a staging directory, if it is for the catalog.
fn read_journal(root: &Path, staging: &Path) -> Option<Vec<(PathBuf, bool)>> {
    let text = fs::read_to_string(staging.join(JOURNAL)).ok()?;
    let journal: Value = serde_json::from_str(&text).ok()?;
    let root = fs::canonicalize(root).ok()?;
    if path_of(&journal["catalog"]).as_ref() != Some(&root) {
        return None;
    }
    let file = |file: &Value| {
        let path = path_of(&file["path"])?;
        let inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        inside.then(|| (path, file["removed"] == true))
    };
    journal["files"].as_array()?.iter().map(file).collect()
}

/// Encodes a path for a journal: as a string, or as bytes if it is not UTF-8.
fn path_value(path: &Path) -> Value {
    path.to_str().map_or_else(|| json!(path.as_os_str().as_bytes()), Value::from)
}

/// Decodes a path from [`path_value`].
fn path_of(value: &Value) -> Option<PathBuf> {
    if let Some(text) = value.as_str() {
        return Some(text.into());
    }
    let bytes = value.as_array()?.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
    Some(OsString::from_vec(bytes.collect::<Option<_>>()?).into())
}

/// Completes the remaining steps of a journal.
fn finish(root: &Path, staging: &Path) -> io::Result<()> {
    for (path, removed) in read_journal(root, staging).unwrap_or_default() {
        let (new, target) = (staging.join(TREE).join(&path), root.join(&path));
        match removed {
            true => match fs::remove_file(&target) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
            // A file that is no longer in staging is already in place.
            false if new.exists() => {
                fs::create_dir_all(target.parent().unwrap_or(root))?;
                swap_in(&new, &target)?;
            }
            false => {}
        }
    }
    fs::remove_dir_all(staging)
}

/// Writes a copy of the catalog at `root` with the changes of `files` to `tree`.
///
/// Unchanged files are hard links if `link` is set, or else copies.
pub(super) fn stage(root: &Path, tree: &Path, files: &[ChangedFile], link: bool) -> Outcome {
    let changed = by_path(files);
    let mut others: Vec<PathBuf> = Vec::new();
    list(root, Path::new(""), 0, &mut others).map_err(|error| in_path(root, &error))?;
    fs::create_dir_all(tree).map_err(|error| in_path(tree, &error))?;
    let unchanged: Vec<&PathBuf> = others.iter().filter(|path| !changed.contains_key(path.as_path())).collect();
    let make_parent = |target: &Path| fs::create_dir_all(target.parent().unwrap_or(tree));
    unchanged.par_iter().try_for_each(|path| {
        let (from, to) = (root.join(path), tree.join(path));
        let plain = fs::symlink_metadata(&from).is_ok_and(|metadata| metadata.is_file());
        let copied = make_parent(&to).and_then(|()| match link && plain && fs::hard_link(&from, &to).is_ok() {
            true => Ok(()),
            // Copies the target of a link, so that the tree is self-contained.
            false => fs::copy(&from, &to).map(|_| ()),
        });
        copied.map_err(|error| in_path(&from, &error))
    })?;
    files.par_iter().try_for_each(|file| {
        let to = tree.join(&file.path);
        let from = root.join(&file.path);
        let written = match &file.content {
            NewContent::Text(text) => make_parent(&to).and_then(|()| fs::write(&to, text)),
            NewContent::CopyOf(path) => make_parent(&to).and_then(|()| fs::write(&to, fs::read(path)?)),
            NewContent::Removed => return Ok(()),
        };
        let written = written.and_then(|()| match fs::metadata(&from) {
            Ok(metadata) if file.exists => fs::set_permissions(&to, metadata.permissions()),
            _ => Ok(()),
        });
        written.map_err(|error| in_path(&to, &error))
    })
}

/// Lists the files below a directory, without `.git`.
pub(super) fn list(root: &Path, directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("directories nested more than {MAX_DEPTH} levels deep")));
    }
    for entry in fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if !entry.file_type()?.is_dir() {
            found.push(path);
        } else if entry.file_name() != ".git" {
            list(root, &path, depth + 1, found)?;
        }
    }
    Ok(())
}

/// Moves the changed files from the tree in `staging` into the catalog, all of them or none.
pub(super) fn replace(root: &Path, staging: &Unfinished, files: &[ChangedFile]) -> Outcome {
    let root = fs::canonicalize(root).map_err(|error| in_path(root, &error))?;
    let tree = staging.path().join(TREE);
    let mut listed = Vec::new();
    for file in files {
        let target = root.join(&file.path);
        let unsupported = |why: &str| {
            Failure::message(format!("{}: {why}; --to writes the changed catalog elsewhere", target.display()))
        };
        if file.exists {
            let metadata = fs::symlink_metadata(&target).map_err(|error| in_path(&target, &error))?;
            if metadata.file_type().is_symlink() {
                return Err(unsupported("is a symbolic link"));
            }
        }
        listed.push(json!({"path": path_value(&file.path), "removed": file.content == NewContent::Removed}));
    }
    let journal = json!({"catalog": path_value(&root), "files": listed}).to_string();
    let prepared = || -> io::Result<()> {
        files
            .par_iter()
            .filter(|file| file.content != NewContent::Removed)
            .try_for_each(|file| sync(&tree.join(&file.path)))?;
        fs::create_dir(staging.path().join(OLD))?;
        // The move of a single file is atomic and needs no journal.
        if files.len() > 1 {
            let draft = staging.path().join("journal.part");
            fs::write(&draft, journal)?;
            sync(&draft)?;
            fs::rename(draft, staging.path().join(JOURNAL))?;
            sync(staging.path())?;
        }
        Ok(())
    };
    prepared().map_err(|error| in_path(staging.path(), &error))?;
    staging.uninterrupted(|| {
        for (i, file) in files.iter().enumerate() {
            if let Err(error) = move_one(&root, staging.path(), i, file) {
                let failure = in_path(&root.join(&file.path), &error);
                roll_back(&root, staging.path(), &files[..=i]);
                return Err(failure);
            }
        }
        // The edit is complete.
        let _ = fs::remove_file(staging.path().join(JOURNAL));
        Ok(())
    })
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn move_one(root: &Path, staging: &Path, number: usize, file: &ChangedFile) -> io::Result<()> {
    let target = root.join(&file.path);
    if file.exists {
        let old = staging.join(OLD).join(number.to_string());
        if fs::hard_link(&target, &old).is_err() {
            fs::copy(&target, &old)?;
        }
    } else {
        fs::create_dir_all(target.parent().unwrap_or(root))?;
    }
    match file.content {
        NewContent::Removed => fs::remove_file(&target),
        _ => swap_in(&staging.join(TREE).join(&file.path), &target),
    }
}

/// Replaces a file atomically.
///
/// If the target is on another device, because the catalog contains or is a mount point, renames a copy next to it.
fn swap_in(new: &Path, target: &Path) -> io::Result<()> {
    match fs::rename(new, target) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        moved => return moved,
    }
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".opm-edit");
    let copy = target.with_file_name(name);
    let _ = fs::remove_file(&copy);
    let mut from = File::open(new)?;
    let swapped = File::create_new(&copy)
        .and_then(|mut to| {
            io::copy(&mut from, &mut to)?;
            to.set_permissions(from.metadata()?.permissions())?;
            to.sync_all()
        })
        .and_then(|()| fs::rename(&copy, target));
    match swapped {
        Ok(()) => fs::remove_file(new),
        Err(error) => {
            let _ = fs::remove_file(&copy);
            Err(error)
        }
    }
}

/// Rolls back the files that were moved.
fn roll_back(root: &Path, staging: &Path, files: &[ChangedFile]) {
    for (i, file) in files.iter().enumerate().rev() {
        let target = root.join(&file.path);
        let old = staging.join(OLD).join(i.to_string());
        // If one file cannot be restored, still try the others.
        let _ = match file.exists {
            true if old.exists() => swap_in(&old, &target),
            true => Ok(()),
            false => fs::remove_file(&target),
        };
    }
    let _ = fs::remove_file(staging.join(JOURNAL));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(path: &str, exists: bool, text: Option<&str>) -> ChangedFile {
        let content = text.map_or(NewContent::Removed, |text| NewContent::Text(text.into()));
        ChangedFile { path: path.into(), exists, content, splices: Vec::new() }
    }

    fn read(root: &Path) -> Vec<(PathBuf, String)> {
        let mut paths = Vec::new();
        list(root, Path::new(""), 0, &mut paths).unwrap();
        paths.sort();
        paths.into_iter().map(|path| (path.clone(), fs::read_to_string(root.join(path)).unwrap())).collect()
    }

    #[test]
    fn a_failure_in_the_middle_rolls_everything_back() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("catalog");
        for (path, text) in [("a", "old a"), ("b", "old b"), ("c", "old c")] {
            fs::create_dir_all(&root).unwrap();
            fs::write(root.join(path), text).unwrap();
        }
        let before = read(&root);
        let files = [
            changed("a", true, Some("new a")),
            changed("b", true, None),
            changed("d/d", false, Some("new d")),
            changed("c", true, Some("new c")),
        ];
        let staging = Unfinished::create(scratch.path(), STAGING_PREFIX).unwrap();
        stage(&root, &staging.path().join(TREE), &files, true).unwrap();
        // The last file cannot be moved, though staging could read it.
        fs::create_dir(staging.path().join("kept")).unwrap();
        let last = staging.path().join(TREE).join("c");
        let kept = staging.path().join("kept/c");
        fs::rename(&last, &kept).unwrap();
        fs::create_dir(&last).unwrap();
        assert!(replace(&root, &staging, &files).is_err());
        assert_eq!(read(&root), before);
        assert!(!staging.path().join(JOURNAL).exists());

        fs::remove_dir(&last).unwrap();
        fs::rename(&kept, &last).unwrap();
        drop(staging);
        let staging = Unfinished::create(scratch.path(), STAGING_PREFIX).unwrap();
        stage(&root, &staging.path().join(TREE), &files, true).unwrap();
        replace(&root, &staging, &files).unwrap();
        drop(staging);
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        assert_eq!([text("a"), text("c"), text("d/d")].map(Option::unwrap), ["new a", "new c", "new d"]);
        assert_eq!(text("b"), None);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_crash_at_any_step_is_completed_by_the_next_edit() {
        for done in 0..3 {
            let scratch = tempfile::tempdir().unwrap();
            let root = scratch.path().join("catalog");
            fs::create_dir(&root).unwrap();
            fs::write(root.join("a"), "old a").unwrap();
            fs::write(root.join("b"), "old b").unwrap();
            let files =
                [changed("a", true, Some("new a")), changed("b", true, None), changed("d/d", false, Some("new d"))];
            let staging = scratch.path().join(format!("{STAGING_PREFIX}x"));
            stage(&root, &staging.join(TREE), &files, true).unwrap();
            fs::create_dir(staging.join(OLD)).unwrap();
            let canonical = fs::canonicalize(&root).unwrap();
            let listed: Vec<Value> = files
                .iter()
                .map(|file| json!({"path": file.path.to_str(), "removed": file.content == NewContent::Removed}))
                .collect();
            fs::write(staging.join(JOURNAL), json!({"catalog": canonical.to_str(), "files": listed}).to_string())
                .unwrap();
            for (i, file) in files.iter().enumerate().take(done) {
                move_one(&root, &staging, i, file).unwrap();
            }
            lock(&root, &Printer::new()).unwrap();
            let text = |path: &str| fs::read_to_string(root.join(path)).ok();
            assert_eq!([text("a"), text("b"), text("d/d")], [Some("new a".into()), None, Some("new d".into())]);
            assert!(!staging.exists());
        }
    }

    #[test]
    fn concurrent_edits_exclude_each_other() {
        let scratch = tempfile::tempdir().unwrap();
        let first = lock(scratch.path(), &Printer::new()).unwrap();
        assert!(lock(scratch.path(), &Printer::new()).is_err());
        drop(first);
        lock(scratch.path(), &Printer::new()).unwrap();
    }
}
