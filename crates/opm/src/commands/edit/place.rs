//! Putting changed files in place, all of them or none.
//!
//! The changed catalog is written aside, next to the catalog. In place, its files are then renamed over the old
//! ones, under a journal: a failure puts back what was moved, and after a crash the next edit of that catalog
//! finishes what the journal says before it does anything else.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::{Value, json};

use super::workbench::{ASIDE, Becomes, ChangedFile, by_path};
use crate::exit::{Failure, Outcome, in_path};
use crate::interrupt::Unfinished;
use crate::printer::Printer;

/// The name of the journal; it has that name only when it is complete.
const JOURNAL: &str = "journal";
/// The directory with the new files, beside the journal.
const TREE: &str = "tree";
/// The directory with the old files, beside the journal.
const OLD: &str = "old";
/// Deeper directories are a mistake.
const DEEPEST: usize = 100;

/// Returns the directory that a path is in.
pub(super) fn parent(path: &Path) -> PathBuf {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Keeps other edits of the catalog out until the file is dropped, and finishes one that was cut short.
pub(super) fn lock(root: &Path, printer: &Printer) -> Result<File, Failure> {
    let directory = File::open(root).map_err(|error| in_path(root, &error))?;
    if directory.try_lock().is_err() {
        let message = format!("{} is being edited by somebody else; try again when they are done", root.display());
        return Err(Failure::message(message));
    }
    for path in unfinished(root) {
        finish(root, &path).map_err(|error| in_path(&path, &error))?;
        printer.warning("an earlier edit of this catalog was cut short; it is finished now");
    }
    Ok(directory)
}

/// Finds the journals of edits of the catalog that were cut short.
fn unfinished(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent(root)) else { return Vec::new() };
    let named = entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(ASIDE.as_bytes()));
    let mut found: Vec<PathBuf> =
        named.map(|entry| entry.path()).filter(|path| read_journal(root, path).is_some()).collect();
    found.sort();
    found
}

/// Reads the journal in `aside`, if there is one for the catalog.
fn read_journal(root: &Path, aside: &Path) -> Option<Vec<(PathBuf, bool)>> {
    let text = fs::read_to_string(aside.join(JOURNAL)).ok()?;
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

/// Writes a path for a journal: as text, or as its bytes where it is none.
fn path_value(path: &Path) -> Value {
    path.to_str().map_or_else(|| json!(path.as_os_str().as_bytes()), Value::from)
}

/// Reads what [`path_value`] wrote.
fn path_of(value: &Value) -> Option<PathBuf> {
    if let Some(text) = value.as_str() {
        return Some(text.into());
    }
    let bytes = value.as_array()?.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
    Some(OsString::from_vec(bytes.collect::<Option<_>>()?).into())
}

/// Does what is left to do of a journal.
fn finish(root: &Path, aside: &Path) -> io::Result<()> {
    for (path, removed) in read_journal(root, aside).unwrap_or_default() {
        let (new, target) = (aside.join(TREE).join(&path), root.join(&path));
        match removed {
            true => match fs::remove_file(&target) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            },
            // A file that is not aside any more is in place.
            false if new.exists() => {
                fs::create_dir_all(target.parent().unwrap_or(root))?;
                swap_in(&new, &target)?;
            }
            false => {}
        }
    }
    fs::remove_dir_all(aside)
}

/// Makes a tree like the catalog at `root` with the changes of `files` in it.
///
/// Files that do not change are shared with the catalog if `link` says so, else copied.
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
        let made = make_parent(&to).and_then(|()| match link && plain && fs::hard_link(&from, &to).is_ok() {
            true => Ok(()),
            // The content of links, so that the tree needs nothing beside it.
            false => fs::copy(&from, &to).map(|_| ()),
        });
        made.map_err(|error| in_path(&from, &error))
    })?;
    files.par_iter().try_for_each(|file| {
        let to = tree.join(&file.path);
        let from = root.join(&file.path);
        let written = match &file.becomes {
            Becomes::Text(text) => make_parent(&to).and_then(|()| fs::write(&to, text)),
            Becomes::CopyOf(path) => make_parent(&to).and_then(|()| fs::write(&to, fs::read(path)?)),
            Becomes::Gone => return Ok(()),
        };
        let written = written.and_then(|()| match fs::metadata(&from) {
            Ok(metadata) if file.exists => fs::set_permissions(&to, metadata.permissions()),
            _ => Ok(()),
        });
        written.map_err(|error| in_path(&to, &error))
    })
}

/// Lists the files below a directory. What version control keeps is none of them.
pub(super) fn list(root: &Path, directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::other(format!("more than {DEEPEST} directories within each other")));
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

/// Puts the files that change from the tree in `aside` into the catalog: all of them or none.
pub(super) fn replace(root: &Path, aside: &Unfinished, files: &[ChangedFile]) -> Outcome {
    let root = fs::canonicalize(root).map_err(|error| in_path(root, &error))?;
    let tree = aside.path().join(TREE);
    let mut listed = Vec::new();
    for file in files {
        let target = root.join(&file.path);
        let odd = |why: &str| {
            Failure::message(format!("{}: {why}; --to writes the changed catalog elsewhere", target.display()))
        };
        if file.exists {
            let metadata = fs::symlink_metadata(&target).map_err(|error| in_path(&target, &error))?;
            if metadata.file_type().is_symlink() {
                return Err(odd("is a symbolic link"));
            }
        }
        listed.push(json!({"path": path_value(&file.path), "removed": file.becomes == Becomes::Gone}));
    }
    let journal = json!({"catalog": path_value(&root), "files": listed}).to_string();
    let prepared = || -> io::Result<()> {
        files
            .par_iter()
            .filter(|file| file.becomes != Becomes::Gone)
            .try_for_each(|file| sync(&tree.join(&file.path)))?;
        fs::create_dir(aside.path().join(OLD))?;
        // One file is moved in one step and needs no journal.
        if files.len() > 1 {
            let draft = aside.path().join("journal.part");
            fs::write(&draft, journal)?;
            sync(&draft)?;
            fs::rename(draft, aside.path().join(JOURNAL))?;
            sync(aside.path())?;
        }
        Ok(())
    };
    prepared().map_err(|error| in_path(aside.path(), &error))?;
    aside.uninterrupted(|| {
        for (i, file) in files.iter().enumerate() {
            if let Err(error) = move_one(&root, aside.path(), i, file) {
                let failure = in_path(&root.join(&file.path), &error);
                put_back(&root, aside.path(), &files[..=i]);
                return Err(failure);
            }
        }
        // From here on there is nothing to finish.
        let _ = fs::remove_file(aside.path().join(JOURNAL));
        Ok(())
    })
}

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn move_one(root: &Path, aside: &Path, number: usize, file: &ChangedFile) -> io::Result<()> {
    let target = root.join(&file.path);
    if file.exists {
        let old = aside.join(OLD).join(number.to_string());
        if fs::hard_link(&target, &old).is_err() {
            fs::copy(&target, &old)?;
        }
    } else {
        fs::create_dir_all(target.parent().unwrap_or(root))?;
    }
    match file.becomes {
        Becomes::Gone => fs::remove_file(&target),
        _ => swap_in(&aside.join(TREE).join(&file.path), &target),
    }
}

/// Puts a file in the place of another in one step.
///
/// Where the catalog is a mount point, or part of it is one, a copy beside the old file takes its place.
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

/// Puts back what was there before the first files were moved.
fn put_back(root: &Path, aside: &Path, files: &[ChangedFile]) {
    for (i, file) in files.iter().enumerate().rev() {
        let target = root.join(&file.path);
        let old = aside.join(OLD).join(i.to_string());
        // There is nothing better to do with what cannot be put back than to go on with the others.
        let _ = match file.exists {
            true if old.exists() => swap_in(&old, &target),
            true => Ok(()),
            false => fs::remove_file(&target),
        };
    }
    let _ = fs::remove_file(aside.join(JOURNAL));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(path: &str, exists: bool, text: Option<&str>) -> ChangedFile {
        let becomes = text.map_or(Becomes::Gone, |text| Becomes::Text(text.into()));
        ChangedFile { path: path.into(), exists, becomes, splices: Vec::new() }
    }

    fn read(root: &Path) -> Vec<(PathBuf, String)> {
        let mut paths = Vec::new();
        list(root, Path::new(""), 0, &mut paths).unwrap();
        paths.sort();
        paths.into_iter().map(|path| (path.clone(), fs::read_to_string(root.join(path)).unwrap())).collect()
    }

    #[test]
    fn a_failure_in_the_middle_puts_everything_back() {
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
        let aside = Unfinished::create(scratch.path(), ASIDE).unwrap();
        stage(&root, &aside.path().join(TREE), &files, true).unwrap();
        // The last one cannot be moved, though it could be read a moment ago.
        fs::create_dir(aside.path().join("kept")).unwrap();
        let last = aside.path().join(TREE).join("c");
        let kept = aside.path().join("kept/c");
        fs::rename(&last, &kept).unwrap();
        fs::create_dir(&last).unwrap();
        assert!(replace(&root, &aside, &files).is_err());
        assert_eq!(read(&root), before);
        assert!(!aside.path().join(JOURNAL).exists());

        fs::remove_dir(&last).unwrap();
        fs::rename(&kept, &last).unwrap();
        drop(aside);
        let aside = Unfinished::create(scratch.path(), ASIDE).unwrap();
        stage(&root, &aside.path().join(TREE), &files, true).unwrap();
        replace(&root, &aside, &files).unwrap();
        drop(aside);
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        assert_eq!([text("a"), text("c"), text("d/d")].map(Option::unwrap), ["new a", "new c", "new d"]);
        assert_eq!(text("b"), None);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_crash_at_any_step_is_finished_by_the_next_edit() {
        for done in 0..3 {
            let scratch = tempfile::tempdir().unwrap();
            let root = scratch.path().join("catalog");
            fs::create_dir(&root).unwrap();
            fs::write(root.join("a"), "old a").unwrap();
            fs::write(root.join("b"), "old b").unwrap();
            let files =
                [changed("a", true, Some("new a")), changed("b", true, None), changed("d/d", false, Some("new d"))];
            let aside = scratch.path().join(format!("{ASIDE}x"));
            stage(&root, &aside.join(TREE), &files, true).unwrap();
            fs::create_dir(aside.join(OLD)).unwrap();
            let canonical = fs::canonicalize(&root).unwrap();
            let listed: Vec<Value> = files
                .iter()
                .map(|file| json!({"path": file.path.to_str(), "removed": file.becomes == Becomes::Gone}))
                .collect();
            fs::write(aside.join(JOURNAL), json!({"catalog": canonical.to_str(), "files": listed}).to_string())
                .unwrap();
            for (i, file) in files.iter().enumerate().take(done) {
                move_one(&root, &aside, i, file).unwrap();
            }
            lock(&root, &Printer::new()).unwrap();
            let text = |path: &str| fs::read_to_string(root.join(path)).ok();
            assert_eq!([text("a"), text("b"), text("d/d")], [Some("new a".into()), None, Some("new d".into())]);
            assert!(!aside.exists());
        }
    }

    #[test]
    fn one_edit_at_a_time() {
        let scratch = tempfile::tempdir().unwrap();
        let first = lock(scratch.path(), &Printer::new()).unwrap();
        assert!(lock(scratch.path(), &Printer::new()).is_err());
        drop(first);
        lock(scratch.path(), &Printer::new()).unwrap();
    }
}
