//! The output directory: written to a temporary directory, then renamed.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::exit::{CommandResult, Failure, in_path};
use crate::interrupt::Unfinished;
use crate::tree;

/// The marker file of directories that this command wrote.
pub(super) const MARK: &str = "-/site.json";

/// The maximum number of foreign files to name.
const NAMED: usize = 10;

/// Checks that a directory with a marker contains only files that this command wrote, because it will be replaced.
fn check_own(target: &Path) -> CommandResult {
    let mark = target.join(MARK);
    let text = fs::read(&mark).map_err(|error| in_path(&mark, &error))?;
    let mark: Value = serde_json::from_slice(&text).unwrap_or_default();
    let listed = mark["files"].as_array();
    let listed: Option<HashSet<&str>> = listed.map(|files| files.iter().filter_map(Value::as_str).collect());
    // Markers of earlier versions list nothing. This command writes no hidden files.
    let is_own = |path: &Path| match (&listed, path.to_str()) {
        (_, Some(MARK)) => true,
        (Some(listed), Some(path)) => listed.contains(path),
        (Some(_), None) => false,
        (None, _) => !path.iter().any(|name| name.as_encoded_bytes().starts_with(b".")),
    };
    let mut foreign = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        let full = target.join(&directory);
        for entry in fs::read_dir(&full).map_err(|error| in_path(&full, &error))? {
            let entry = entry.map_err(|error| in_path(&full, &error))?;
            let path = directory.join(entry.file_name());
            match entry.file_type().map_err(|error| in_path(&full, &error))?.is_dir() {
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
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    Err(Failure::message(format!(
        "{}: the directory contains files that 'opm site build' did not write, and would be replaced:\n  {}{more}\nhelp: \
         move them, or write to another directory",
        target.display(),
        foreign.join("\n  ")
    )))
}

/// An output directory that is being written.
pub(super) struct Folder {
    target: PathBuf,
    aside: Unfinished,
    /// The existing directory, if this command wrote it.
    old: Option<PathBuf>,
    files: Mutex<BTreeSet<String>>,
    /// Directories created so far.
    created: Mutex<HashSet<PathBuf>>,
}

impl Folder {
    /// Creates a temporary directory next to `target`.
    ///
    /// # Errors
    /// Fails if `target` has other content, or cannot be written.
    pub(super) fn start(target: &Path) -> Result<Folder, Failure> {
        let named = |error: io::Error| Failure::world(format!("{}: {error}", target.display()));
        let old = match fs::read_dir(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(named(error)),
            Ok(mut entries) => match target.join(MARK).is_file() {
                true => {
                    check_own(target)?;
                    Some(target.to_path_buf())
                }
                false if entries.next().is_none() => None,
                false => {
                    let reason = "the directory is not empty, and 'opm site build' did not write it";
                    return Err(Failure::message(format!("{}: {reason}", target.display())));
                }
            },
        };
        let parent = tree::parent(target);
        fs::create_dir_all(parent).map_err(named)?;
        let aside = Unfinished::create(parent, ".opm-site-").map_err(named)?;
        Ok(Folder { target: target.to_path_buf(), aside, old, files: Mutex::default(), created: Mutex::default() })
    }

    /// Writes one file. An unchanged file becomes a hard link to the old one, so that it keeps its times.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub(super) fn put(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let place = self.aside.path().join(path);
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
        if let Some(parent) = place.parent() {
            let known = self.created.lock().unwrap_or_else(PoisonError::into_inner).contains(parent);
            if !known {
                // Creating it after an interrupt would create the removed directory again.
                self.aside.uninterrupted(|| fs::create_dir_all(parent)).map_err(named)?;
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
    pub(super) fn files(&self) -> Vec<String> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Renames the directory to its final name.
    ///
    /// # Errors
    /// Fails if a rename fails; the old directory then stays.
    pub(super) fn finish(self) -> io::Result<()> {
        let Folder { target, aside, .. } = self;
        if !target.exists() {
            return aside.finish(&target);
        }
        let parent = aside.path().parent().unwrap_or(Path::new("."));
        let old = Unfinished::create(parent, ".opm-site-old-")?;
        aside.open_to_others()?;
        let place = old.path().join("old");
        aside.uninterrupted(|| {
            fs::rename(&target, &place)?;
            fs::rename(aside.path(), &target).inspect_err(|_| {
                let _ = fs::rename(&place, &target);
            })
        })
    }
}
