//! Replaces the changed files of a catalog, all of them or none.
//!
//! The files of the staging directory are renamed over the old ones under a journal. A failure rolls back the moved
//! files. After a crash, the next edit of the catalog first completes the journal. The journal has digests of the old
//! and the new files: a file that is neither was changed by somebody else, and is left alone.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use fbc::scratch::{self, TempFolder, uninterrupted};
use rayon::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::{EditError, in_path};
use crate::refusal::EditRefusal;
use crate::transaction::{ChangedFile, NewContent, Notices, STAGING_PREFIX, TREE};

/// The name of a complete journal.
const JOURNAL: &str = "journal";
/// The directory of the old files, next to the journal.
const OLD: &str = "old";

/// Returns the parent directory of the file or directory that a path leads to.
pub(crate) fn parent(path: &Path) -> PathBuf {
    scratch::parent(&fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())).to_path_buf()
}

/// Locks the catalog until the file is dropped, and completes an interrupted edit.
pub(crate) fn lock(root: &Path, notices: &dyn Notices) -> Result<File, EditError> {
    let directory = File::open(root).map_err(|error| in_path(root, error))?;
    if directory.try_lock().is_err() {
        return Err(EditError::Locked { catalog: root.to_path_buf() });
    }
    for path in interrupted(root) {
        notices.warn(match finish(root, &path)? {
            Finished::Completed => "an earlier edit of this catalog was interrupted; opm has completed it now",
            Finished::Discarded => {
                "an earlier edit of this catalog was interrupted, and its files are as before; opm has discarded it"
            }
        });
    }
    Ok(directory)
}

/// Returns the staging directories of interrupted edits of the catalog.
fn interrupted(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent(root)) else { return Vec::new() };
    let named =
        entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(STAGING_PREFIX.as_bytes()));
    let mut found: Vec<PathBuf> =
        named.map(|entry| entry.path()).filter(|path| journal_of(root, path).is_some()).collect();
    found.sort();
    found
}

/// Reads the journal in a staging directory, if it is for the catalog.
fn journal_of(root: &Path, staging: &Path) -> Option<Value> {
    let text = fs::read_to_string(staging.join(JOURNAL)).ok()?;
    let journal: Value = serde_json::from_str(&text).ok()?;
    let root = fs::canonicalize(root).ok()?;
    (path_of(&journal["catalog"])? == root).then_some(journal)
}

/// A file of a journal: its digest before and after the edit, or `None` where it does not exist.
#[derive(Debug, PartialEq, Eq)]
struct JournalFile {
    path: PathBuf,
    old: Option<String>,
    new: Option<String>,
}

impl JournalFile {
    /// Describes the step from the file in the catalog to the one in the tree of the edit.
    fn of(root: &Path, tree: &Path, file: &ChangedFile) -> io::Result<JournalFile> {
        let old = if file.exists { digest(&root.join(&file.path))? } else { None };
        let new = if file.content == NewContent::Removed { None } else { digest(&tree.join(&file.path))? };
        Ok(JournalFile { path: file.path.clone(), old, new })
    }

    fn to_json(&self) -> Value {
        json!({"path": path_value(&self.path), "old": self.old, "new": self.new})
    }

    /// Decodes a step, unless it leads out of the catalog or has no digests, as those of older versions.
    fn from_json(value: &Value) -> Option<JournalFile> {
        let path = path_of(&value["path"])?;
        let inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let digest = |name: &str| match value.get(name)? {
            Value::Null => Some(None),
            text => text.as_str().map(|text| Some(text.to_owned())),
        };
        Some(JournalFile { path, old: digest("old")?, new: digest("new")? }).filter(|_| inside)
    }
}

/// Returns the digest of a file, or `None` if it does not exist.
fn digest(path: &Path) -> io::Result<Option<String>> {
    match fs::symlink_metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_file() => Ok(Some(sha256(&fs::read(path)?))),
        // Nothing that an edit writes.
        Ok(_) => Ok(Some(String::new())),
    }
}

fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
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

/// What became of an interrupted edit.
#[derive(Debug, PartialEq, Eq)]
enum Finished {
    /// All files are as the edit wanted them.
    Completed,
    /// All files are as they were before the edit.
    Discarded,
}

/// Completes the remaining steps of a journal, or discards it if none was made.
///
/// Changes nothing if a file is neither as it was before the edit nor as the edit wanted it.
fn finish(root: &Path, staging: &Path) -> Result<Finished, EditError> {
    let stopped = |path: &Path, reason| EditError::Interrupted {
        path: path.to_path_buf(),
        reason,
        staging: staging.to_path_buf(),
    };
    let journal = journal_of(root, staging).unwrap_or_default();
    let steps: Option<Vec<JournalFile>> =
        journal["files"].as_array().and_then(|files| files.iter().map(JournalFile::from_json).collect());
    let Some(steps) = steps else {
        return Err(stopped(&staging.join(JOURNAL), "this journal was not written by this version of opm"));
    };
    let mut remaining: Vec<&JournalFile> = Vec::new();
    for step in &steps {
        let target = root.join(&step.path);
        let is = digest(&target).map_err(|error| in_path(&target, error))?;
        if is == step.new {
            continue;
        }
        if is != step.old {
            return Err(stopped(&target, "the file has changed since"));
        }
        remaining.push(step);
    }
    let finished = if remaining.len() == steps.len() { Finished::Discarded } else { Finished::Completed };
    remaining.retain(|_| finished == Finished::Completed);
    for step in &remaining {
        let new = staging.join(TREE).join(&step.path);
        if digest(&new).map_err(|error| in_path(&new, error))? != step.new {
            return Err(stopped(&new, "the new content of the file is missing"));
        }
    }
    for step in remaining {
        let target = root.join(&step.path);
        let moved = match &step.new {
            None => fs::remove_file(&target),
            Some(_) => fs::create_dir_all(target.parent().unwrap_or(root))
                .and_then(|()| swap_in(&staging.join(TREE).join(&step.path), &target)),
        };
        moved.map_err(|error| in_path(&target, error))?;
    }
    fs::remove_dir_all(staging).map_err(|error| in_path(staging, error))?;
    Ok(finished)
}

/// Gives a file the owner and group of the one that it replaces, as far as the user may do that.
pub(crate) fn keep_owner(new: &Path, old: &Metadata) {
    let _ = chown(new, Some(old.uid()), Some(old.gid()));
}

/// Moves the changed files from the tree in `staging` into the catalog, all of them or none.
pub(crate) fn replace(root: &Path, staging: &TempFolder, files: &[ChangedFile]) -> Result<(), EditError> {
    let root = fs::canonicalize(root).map_err(|error| in_path(root, error))?;
    let tree = staging.path().join(TREE);
    for file in files {
        let target = root.join(&file.path);
        if file.exists {
            let metadata = fs::symlink_metadata(&target).map_err(|error| in_path(&target, error))?;
            if metadata.file_type().is_symlink() {
                let message =
                    format!("{}: is a symbolic link; --to writes the changed catalog elsewhere", target.display());
                return Err(EditRefusal::new(message).into());
            }
        }
    }
    let prepared = || -> io::Result<()> {
        files
            .par_iter()
            .filter(|file| file.content != NewContent::Removed)
            .try_for_each(|file| sync(&tree.join(&file.path)))?;
        fs::create_dir(staging.path().join(OLD))?;
        // The move of a single file is atomic and needs no journal.
        if files.len() > 1 {
            let steps: Vec<JournalFile> =
                files.par_iter().map(|file| JournalFile::of(&root, &tree, file)).collect::<Result<_, _>>()?;
            let steps: Vec<Value> = steps.iter().map(JournalFile::to_json).collect();
            let draft = staging.path().join("journal.part");
            fs::write(&draft, json!({"catalog": path_value(&root), "files": steps}).to_string())?;
            sync(&draft)?;
            fs::rename(draft, staging.path().join(JOURNAL))?;
            sync(staging.path())?;
        }
        Ok(())
    };
    prepared().map_err(|error| in_path(staging.path(), error))?;
    uninterrupted(|| {
        for (i, file) in files.iter().enumerate() {
            if let Err(error) = move_one(&root, staging.path(), i, file) {
                let failure = in_path(&root.join(&file.path), error);
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
            keep_owner(&copy, &from.metadata()?);
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
    use crate::transaction::{NoNotices, stage};

    fn changed(path: &str, exists: bool, text: Option<&str>) -> ChangedFile {
        let content = text.map_or(NewContent::Removed, |text| NewContent::Text(text.into()));
        ChangedFile { path: path.into(), exists, content, splices: Vec::new() }
    }

    /// Reads all files of a directory without subdirectories.
    fn read(root: &Path) -> Vec<(PathBuf, String)> {
        let mut paths: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let files = paths.into_iter().filter(|path| path.is_file());
        files.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
    }

    /// Stages the changes of a catalog with the files `a`, `b` and `c`, as far as they exist.
    fn stage(root: &Path, tree: &Path, files: &[ChangedFile]) -> Result<(), EditError> {
        let members = ["a", "b", "c"].map(Path::new);
        let members: Vec<&Path> = members.into_iter().filter(|path| root.join(path).exists()).collect();
        stage::stage(root, &members, tree, files, true)
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
        let staging = TempFolder::inside(scratch.path(), STAGING_PREFIX).unwrap();
        stage(&root, &staging.path().join(TREE), &files).unwrap();
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
        let staging = TempFolder::inside(scratch.path(), STAGING_PREFIX).unwrap();
        stage(&root, &staging.path().join(TREE), &files).unwrap();
        replace(&root, &staging, &files).unwrap();
        drop(staging);
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        assert_eq!([text("a"), text("c"), text("d/d")].map(Option::unwrap), ["new a", "new c", "new d"]);
        assert_eq!(text("b"), None);
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    }

    /// An edit of a catalog that is killed after `done` of its three steps. Returns the catalog and the staging
    /// directory.
    fn killed(scratch: &Path, done: usize) -> (PathBuf, PathBuf) {
        let root = fs::canonicalize(scratch).unwrap().join("catalog");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "old a").unwrap();
        fs::write(root.join("b"), "old b").unwrap();
        let files = [changed("a", true, Some("new a")), changed("b", true, None), changed("d/d", false, Some("new d"))];
        let staging = scratch.join(format!("{STAGING_PREFIX}x"));
        stage(&root, &staging.join(TREE), &files).unwrap();
        fs::create_dir(staging.join(OLD)).unwrap();
        let steps: Vec<Value> =
            files.iter().map(|file| JournalFile::of(&root, &staging.join(TREE), file).unwrap().to_json()).collect();
        fs::write(staging.join(JOURNAL), json!({"catalog": path_value(&root), "files": steps}).to_string()).unwrap();
        for (i, file) in files.iter().enumerate().take(done) {
            move_one(&root, &staging, i, file).unwrap();
        }
        (root, staging)
    }

    fn texts(root: &Path) -> [Option<String>; 3] {
        ["a", "b", "d/d"].map(|path| fs::read_to_string(root.join(path)).ok())
    }

    #[test]
    fn a_crash_between_two_steps_is_completed_by_the_next_edit() {
        for done in 1..=3 {
            let scratch = tempfile::tempdir().unwrap();
            let (root, staging) = killed(scratch.path(), done);
            lock(&root, &NoNotices).unwrap();
            assert_eq!(texts(&root), [Some("new a".into()), None, Some("new d".into())]);
            assert!(!staging.exists());
        }
    }

    #[test]
    fn an_interrupted_edit_is_discarded_once_its_files_are_as_before() {
        for done in 0..=3 {
            let scratch = tempfile::tempdir().unwrap();
            let (root, staging) = killed(scratch.path(), done);
            // As version control restores them.
            fs::write(root.join("a"), "old a").unwrap();
            fs::write(root.join("b"), "old b").unwrap();
            let _ = fs::remove_dir_all(root.join("d"));
            fs::write(root.join("new"), "work").unwrap();
            lock(&root, &NoNotices).unwrap();
            assert_eq!(texts(&root), [Some("old a".into()), Some("old b".into()), None]);
            assert_eq!(fs::read_to_string(root.join("new")).unwrap(), "work");
            assert!(!staging.exists());
        }
    }

    #[test]
    fn an_interrupted_edit_leaves_files_alone_that_have_changed_since() {
        for (done, path, text) in [(1, "a", "work"), (1, "b", "work"), (2, "b", "new work"), (2, "d/d", "work")] {
            let scratch = tempfile::tempdir().unwrap();
            let (root, staging) = killed(scratch.path(), done);
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), text).unwrap();
            let before = texts(&root);
            let failure = lock(&root, &NoNotices).map(|_| ()).unwrap_err();
            let message = failure.to_string();
            assert!(message.contains(path) && message.contains("the file has changed since"), "{message}");
            assert_eq!(texts(&root), before);
            assert!(staging.exists());
        }
    }

    #[test]
    fn a_journal_without_digests_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let (root, staging) = killed(scratch.path(), 1);
        let journal = json!({"catalog": path_value(&root), "files": [{"path": "b", "removed": true}]});
        fs::write(staging.join(JOURNAL), journal.to_string()).unwrap();
        assert!(lock(&root, &NoNotices).is_err());
        assert_eq!(texts(&root), [Some("new a".into()), Some("old b".into()), None]);
    }

    #[test]
    fn concurrent_edits_exclude_each_other() {
        let scratch = tempfile::tempdir().unwrap();
        let first = lock(scratch.path(), &NoNotices).unwrap();
        assert!(lock(scratch.path(), &NoNotices).is_err());
        drop(first);
        lock(scratch.path(), &NoNotices).unwrap();
    }
}
