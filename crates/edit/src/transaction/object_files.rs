//! Object files of bundles: added with new bundles and deleted with removed ones.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use fbc::indexignore::IndexIgnore;
use fbc::json::Raw;
use fbc::limits::MAX_DEPTH;
use fbc::{Blob, FileId, is_version_control};

use super::{ChangedFile, EditableCatalog, NewContent, NewFileBlobs};
use crate::changes::FileChanges;
use crate::error::{EditError, in_path};
use crate::new_blob::{AttachedContent, NewBlob};
use crate::rewrite::BlobChange;

/// The name of the ignore files in a catalog.
pub const IGNORE_FILE: &str = ".indexignore";
/// The content of an ignore file that excludes object files.
pub const OBJECTS_IGNORED: &str = "# Manifests that bundles refer to.\n**/objects/*\n";

/// The object files of new bundles.
#[derive(Default)]
pub(super) struct Placed {
    pub(super) files: Vec<ChangedFile>,
    /// The paths of these files and of reused existing files, relative to the catalog.
    pub(super) used: BTreeSet<PathBuf>,
}

/// Places every file that a new blob refers to next to the file of the blob.
///
/// If another file has the same path, the new file gets another name and the blob a new reference. The `.indexignore`
/// file of each package lists its files, so that the folder can be copied unchanged.
pub(super) fn place(
    catalog: &EditableCatalog,
    changes: &mut FileChanges,
    new: &mut NewFileBlobs,
) -> Result<Placed, EditError> {
    let mut placing = Placing {
        root: &catalog.root,
        taken: new.keys().map(|path| (path.clone(), AttachedContent::Bytes(Vec::new()))).collect(),
        placed: Placed::default(),
        ignored: BTreeMap::new(),
    };
    let mut added: Vec<(PathBuf, &mut NewBlob)> = Vec::new();
    for (file, change) in &mut changes.files {
        let full = catalog.fbc.full_path_of(*file).unwrap_or_default();
        let directory = full.strip_prefix(&catalog.root).ok().and_then(Path::parent).unwrap_or(Path::new(""));
        added.extend(change.added.values_mut().flatten().map(|added| (directory.to_path_buf(), added)));
    }
    for (path, blobs) in new {
        let directory = path.parent().unwrap_or(Path::new(""));
        added.extend(blobs.iter_mut().map(|added| (directory.to_path_buf(), added)));
    }
    for (directory, added) in added {
        placing.attach(&directory, added)?;
    }
    placing.write_ignore_files()?;
    Ok(placing.placed)
}

struct Placing<'a> {
    root: &'a Path,
    /// The future content of paths, relative to the catalog.
    taken: BTreeMap<PathBuf, AttachedContent>,
    placed: Placed,
    /// The patterns to add to `.indexignore` files, by directory.
    ignored: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl Placing<'_> {
    fn attach(&mut self, directory: &Path, added: &mut NewBlob) -> Result<(), EditError> {
        for file in added.files.clone() {
            let wanted = match stays_below(&file.reference) {
                true => file.reference.clone(),
                false => elsewhere(added, &file.reference),
            };
            let mut name = wanted.clone();
            let mut number = 2;
            let path = loop {
                let path = directory.join(&name);
                match self.there(&path, &file.content)? {
                    None => {
                        let content = match &file.content {
                            AttachedContent::Bytes(bytes) => NewContent::Text(bytes.clone()),
                            AttachedContent::CopyOf { path, .. } => NewContent::CopyOf(path.clone()),
                        };
                        let changed = ChangedFile { path: path.clone(), exists: false, content, splices: Vec::new() };
                        self.placed.files.push(changed);
                        self.taken.insert(path.clone(), file.content.clone());
                        break path;
                    }
                    Some(true) => break path,
                    Some(false) => {
                        name = numbered(&wanted, number);
                        number += 1;
                    }
                }
            };
            if name != file.reference {
                added.rename(&file.reference, &name);
            }
            self.ignore(directory, &path, &name)?;
            self.placed.used.insert(path);
        }
        Ok(())
    }

    /// Returns `None` if the path is free, or whether it already has the wanted content.
    fn there(&self, path: &Path, content: &AttachedContent) -> Result<Option<bool>, EditError> {
        if let Some(there) = self.taken.get(path) {
            return Ok(Some(there.same_as(content)));
        }
        let full = self.root.join(path);
        match fs::symlink_metadata(&full) {
            Ok(metadata) if metadata.is_file() => {
                let bytes = fs::read(&full).map_err(|error| in_path(&full, error))?;
                Ok(Some(content.is(&bytes)))
            }
            Ok(_) => Ok(Some(false)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(in_path(&full, error)),
        }
    }

    /// Adds an ignore pattern for a file, so that tools which rely on `.indexignore` do not load it as catalog content.
    fn ignore(&mut self, directory: &Path, path: &Path, name: &str) -> Result<(), EditError> {
        let mut ignore = IndexIgnore::default();
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.reverse();
        for above in above {
            if let Some(text) = read_ignore_file(&self.root.join(above))? {
                ignore.add(&components(above), &text);
            }
        }
        if !ignore.is_ignored(&components(path)) {
            let pattern = if name.starts_with("objects/") { "**/objects/*".to_owned() } else { format!("/{name}") };
            self.ignored.entry(directory.to_path_buf()).or_default().insert(pattern);
        }
        Ok(())
    }

    fn write_ignore_files(&mut self) -> Result<(), EditError> {
        for (directory, patterns) in std::mem::take(&mut self.ignored) {
            let there = read_ignore_file(&self.root.join(&directory))?;
            let exists = there.is_some();
            let mut text = there.unwrap_or_default();
            if !text.is_empty() && !text.ends_with(b"\n") {
                text.push(b'\n');
            }
            text.extend_from_slice(b"# Manifests that bundles refer to.\n");
            for pattern in patterns {
                text.extend_from_slice(pattern.as_bytes());
                text.push(b'\n');
            }
            let path = directory.join(IGNORE_FILE);
            let content = NewContent::Text(text);
            self.placed.files.push(ChangedFile { path, exists, content, splices: Vec::new() });
        }
        Ok(())
    }
}

/// Removes the files that only removed bundles refer to, and `.indexignore` files in otherwise empty directories.
pub(super) fn remove(
    catalog: &EditableCatalog,
    changes: &FileChanges,
    used: &BTreeSet<PathBuf>,
    files: &mut Vec<ChangedFile>,
) -> Result<(), EditError> {
    let removed = |blob: &Blob| {
        let change = |(file, start): &(FileId, u64)| changes.files.get(file)?.changed.get(start);
        blob.origin.as_ref().and_then(change) == Some(&BlobChange::Remove)
    };
    let mut gone: BTreeSet<PathBuf> = BTreeSet::new();
    let mut kept: BTreeSet<PathBuf> = used.clone();
    for blob in catalog.fbc.blobs() {
        if removed(blob) { &mut gone } else { &mut kept }.extend(catalog.fbc.referenced(blob));
    }
    for path in gone.into_iter().filter(|path| !kept.contains(path)) {
        // Only regular files of the catalog are deleted.
        if fs::symlink_metadata(catalog.root.join(&path)).is_ok_and(|metadata| metadata.is_file()) {
            files.push(ChangedFile { path, exists: true, content: NewContent::Removed, splices: Vec::new() });
        }
    }
    let outcome: HashMap<PathBuf, bool> =
        files.iter().map(|file| (file.path.clone(), file.content == NewContent::Removed)).collect();
    let directories: BTreeSet<PathBuf> = outcome
        .iter()
        .filter(|(_, gone)| **gone)
        .flat_map(|(path, _)| path.ancestors().skip(1))
        .filter(|directory| !directory.as_os_str().is_empty())
        .map(Path::to_path_buf)
        .collect();
    // The directories of files that remain or are added.
    let filled: HashSet<&Path> =
        outcome.iter().filter(|(_, gone)| !**gone).flat_map(|(path, _)| path.ancestors().skip(1)).collect();
    for directory in directories {
        let mut left = Vec::new();
        let full = catalog.root.join(&directory);
        list(&catalog.root, &directory, 0, &mut left).map_err(|error| in_path(&full, error))?;
        left.retain(|path| outcome.get(path) != Some(&true));
        if let [ignore] = left.as_slice()
            && !filled.contains(directory.as_path())
            && *ignore == directory.join(IGNORE_FILE)
        {
            let path = ignore.clone();
            files.push(ChangedFile { path, exists: true, content: NewContent::Removed, splices: Vec::new() });
        }
    }
    Ok(())
}

/// Lists all files below a directory, whether they belong to the catalog or not, without version control.
fn list(root: &Path, directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("directories nested more than {MAX_DEPTH} levels deep")));
    }
    for entry in fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if !entry.file_type()?.is_dir() {
            found.push(path);
        } else if !is_version_control(&entry.file_name()) {
            list(root, &path, depth + 1, found)?;
        }
    }
    Ok(())
}

fn read_ignore_file(directory: &Path) -> Result<Option<Vec<u8>>, EditError> {
    let path = directory.join(IGNORE_FILE);
    match fs::read(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(in_path(&path, error)),
    }
}

fn components(path: &Path) -> Vec<&[u8]> {
    path.iter().map(std::ffi::OsStr::as_encoded_bytes).collect()
}

/// Returns whether a reference stays within the folder of its file.
fn stays_below(reference: &str) -> bool {
    let normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    !reference.is_empty() && !reference.ends_with('/') && Path::new(reference).components().all(normal)
}

/// Returns a new name for a file that a bundle refers to outside its folder.
fn elsewhere(added: &NewBlob, reference: &str) -> String {
    let name = Path::new(reference).file_name().map_or("object".into(), |name| name.to_string_lossy());
    let bundle = Raw::parse(&added.json, MAX_DEPTH).ok().and_then(|blob| blob.get("name")?.as_str());
    let bundle = bundle.unwrap_or_default().replace(['/', '\0'], "-");
    let bundle = if matches!(bundle.as_str(), "" | "." | "..") { "bundle" } else { &bundle };
    format!("objects/{bundle}/{name}")
}

/// Inserts a number before the extension of a name.
fn numbered(name: &str, number: usize) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !extension.contains('/') && !stem.is_empty() => {
            format!("{stem}-{number}.{extension}")
        }
        _ => format!("{name}-{number}"),
    }
}
