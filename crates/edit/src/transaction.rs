//! The steps of an edit of a catalog directory: load, change, stage, verify and replace.
//!
//! [`Transaction::open`] locks the catalog, completes an interrupted edit and loads the catalog. The caller changes a
//! copy of its outline. [`Transaction::commit`] applies the difference to the text of the files in a staging directory
//! next to the catalog, loads and verifies the result, and only then replaces the files.

mod check;
mod object_files;
pub(crate) mod stage;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fbc::json::Raw;
use fbc::scratch::{self, TempFolder};
use fbc::{Blob, Fbc, FileId, Limits, LoadOptions, Members, Problem};
use rayon::prelude::*;
use resolve::input::{CatalogInput, InputReader};

use self::check::{Accepted, Expected, check};
use crate::changes::FileChanges;
use crate::edited::{Edited, FileReport, changed_entries};
use crate::error::{EditError, in_path};
use crate::journal;
use crate::new_blob::NewBlob;
use crate::outline::Outline;
use crate::refusal::EditRefusal;
use crate::rewrite::{self, FileChange, RewrittenFile};
use crate::summary::summary;
use crate::text::{self, Splice};
use crate::unified::unified;
use crate::upgrades::Offered;
use crate::verify::{BlobDigests, Purpose, Stranded};

pub use self::object_files::{IGNORE_FILE, OBJECTS_IGNORED};
pub(crate) use self::texts::Texts;

/// The name prefix of staging directories.
pub(crate) const STAGING_PREFIX: &str = ".opm-edit-";
/// The directory of the edited catalog in a staging directory.
pub(crate) const TREE: &str = "tree";

/// The catalog to edit, and what becomes of the result.
#[derive(Debug, Clone)]
pub struct EditOptions {
    /// The directory of the catalog.
    pub catalog: PathBuf,
    /// Where the result goes.
    pub write: Write,
    /// Whether nothing is written; the report has the changes as a unified diff.
    pub dry_run: bool,
    /// Whether installed versions may lose their path to the channel head.
    pub allow_stranded: bool,
    /// The limits for what is read.
    pub limits: Limits,
}

/// Where the result of an edit goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// The changed files replace the old ones.
    InPlace,
    /// The whole changed catalog is written to this directory, which must be empty or absent.
    To(PathBuf),
}

/// The file of a new package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewPackageLayout {
    /// `catalog.json` or `catalog.yaml`, the format of most files of the catalog.
    Usual,
    /// A JSON file with the name of the package, the layout of the first file-based catalogs.
    Legacy,
}

/// Receives what the user should know at once, even if the edit fails later.
pub trait Notices {
    /// Receives a warning.
    fn warn(&self, warning: &str);
}

/// Ignores all notices.
#[derive(Debug, Clone, Copy)]
pub struct NoNotices;

impl Notices for NoNotices {
    fn warn(&self, _: &str) {}
}

/// A catalog that can be edited: loaded, but not validated.
pub struct EditableCatalog {
    root: PathBuf,
    /// Its blobs.
    pub fbc: Fbc,
    /// Its editable content.
    pub outline: Outline,
    /// What clusters see of it.
    pub(crate) source: CatalogInput,
    digests: BlobDigests,
    /// The files that belong to it.
    members: Members,
}

impl EditableCatalog {
    /// Loads a catalog directory, and keeps the text of its blobs for `keep_text`.
    ///
    /// # Errors
    /// Fails if the directory cannot be read, or has files that are not part of a catalog.
    pub fn load(root: &Path, limits: &Limits, keep_text: bool) -> Result<EditableCatalog, EditError> {
        let metadata = fs::metadata(root).map_err(|error| in_path(root, error))?;
        if !metadata.is_dir() {
            return Err(EditRefusal::new(format!("{:?} is not a directory", root.display().to_string())).into());
        }
        let (digests, reader) = (BlobDigests::default(), InputReader::default());
        let inspect = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| {
            digests.note(blob, text);
            reader.add(blob, text);
        };
        let mut fbc = Fbc::default();
        let options =
            LoadOptions { limits: limits.clone(), keep_text, inspect: Some(&inspect), ..LoadOptions::default() };
        let loaded = fbc.load_dir(root, &options).map_err(|error| in_path(root, error))?;
        if !loaded.problems.is_empty() {
            return Err(EditError::Unreadable { fbc: Box::new(fbc), problems: loaded.problems });
        }
        let (outline, source) = (Outline::new(&fbc), reader.finish(&fbc));
        Ok(EditableCatalog { root: root.to_path_buf(), fbc, outline, source, digests, members: loaded.members })
    }
}

/// A changed file.
pub(crate) struct ChangedFile {
    /// Its path relative to the catalog.
    pub(crate) path: PathBuf,
    /// Whether it exists already.
    pub(crate) exists: bool,
    pub(crate) content: NewContent,
    pub(crate) splices: Vec<Splice>,
}

/// The new content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NewContent {
    /// This text.
    Text(Vec<u8>),
    /// A copy of this file.
    CopyOf(PathBuf),
    /// The file is removed.
    Removed,
}

/// An edit that is under way. An edit in place holds the lock of the catalog.
pub(crate) struct Transaction<'a> {
    options: &'a EditOptions,
    catalog: EditableCatalog,
    _lock: Option<fs::File>,
}

impl<'a> Transaction<'a> {
    /// Locks the catalog for an edit in place, completes an interrupted edit, and loads the catalog, for `keep_text` with
    /// the text of its blobs.
    pub(crate) fn open(
        options: &'a EditOptions,
        keep_text: bool,
        notices: &dyn Notices,
    ) -> Result<Transaction<'a>, EditError> {
        let root = &options.catalog;
        let lock = match &options.write {
            Write::InPlace if options.dry_run => None,
            Write::InPlace => Some(journal::lock(root, notices)?),
            Write::To(to) => {
                scratch::check_empty(to)?;
                None
            }
        };
        let catalog = EditableCatalog::load(root, &options.limits, keep_text)?;
        Ok(Transaction { options, catalog, _lock: lock })
    }

    /// Returns the catalog before the edit.
    pub(crate) fn catalog(&self) -> &EditableCatalog {
        &self.catalog
    }

    /// Returns a copy of the outline to change.
    pub(crate) fn outline(&self) -> Outline {
        self.catalog.outline.clone()
    }

    /// Makes the catalog have this outline. `notes` are about the changes; `purpose` is what they may remove.
    pub(crate) fn commit(
        &self,
        outline: &Outline,
        notes: Vec<String>,
        purpose: Purpose<'_>,
        layout: NewPackageLayout,
    ) -> Result<Edited, EditError> {
        let EditOptions { catalog: root, write, dry_run, allow_stranded, limits } = self.options;
        let catalog = &self.catalog;
        let mut changes = FileChanges::between(&catalog.fbc, &catalog.outline, outline)?;
        changes.remove_emptied(|file| read(&catalog.fbc.full_path_of(file).unwrap_or_default()))?;
        let elsewhere = matches!(write, Write::To(_));
        let mut edited = Edited { notes, diff: dry_run.then(String::new), ..Edited::default() };
        if changes.is_empty() && !elsewhere {
            return Ok(edited);
        }
        let mut new = new_files(&catalog.fbc, root, &changes, layout)?;
        let objects = object_files::place(catalog, &mut changes, &mut new)?;
        let mut files = rewrite_files(&catalog.fbc, root, &changes, &new)?;
        files.extend(objects.files);
        object_files::remove(catalog, &changes, &objects.used, &mut files)?;
        let staging = self.staging()?;
        let tree = staging.path().join(TREE);
        let members: Vec<&Path> = catalog.members.paths().collect();
        stage::stage(root, &members, &tree, &files, !elsewhere)?;
        let expected = Expected { before: catalog, outline, changes: &changes, new: &new };
        let Accepted { staging, source, problems } = check(staging, root, &expected, limits)?;
        if problems > 0 {
            let them =
                if problems == 1 { "1 problem that was".to_owned() } else { format!("{problems} problems that were") };
            let shown = root.display();
            edited.notes.push(format!("the catalog has {them} there before; 'opm validate {shown}' shows them"));
        }
        if !catalog.fbc.is_current() {
            return Err(EditError::CatalogChanged { catalog: root.clone() });
        }
        let (was, is) = (Offered::catalog(&catalog.outline, &catalog.source), Offered::catalog(outline, &source));
        let stranded = Stranded::new(was, is, purpose);
        let result = if let Write::To(to) = write { to } else { root };
        if let Some(refusal) = stranded.refusal(&result.display().to_string()).filter(|_| !allow_stranded) {
            return Err(refusal.into());
        }
        edited.stranded = stranded.versions(*allow_stranded);
        edited.entries = changed_entries(&catalog.outline, outline);
        edited.summary = summary(&catalog.outline, outline);
        match write {
            _ if *dry_run => edited.diff = Some(diff(root, &files)?),
            Write::To(to) => scratch::move_folder(&tree, to).map_err(|error| in_path(to, error))?,
            Write::InPlace => journal::replace(root, &staging, &files)?,
        }
        edited.files = files.iter().map(FileReport::new).collect();
        edited.files.sort();
        Ok(edited)
    }

    /// Creates the staging directory: on the device of the result, so that files can be renamed.
    fn staging(&self) -> Result<TempFolder, EditError> {
        let EditOptions { catalog, write, dry_run, .. } = self.options;
        let directory = journal::parent(if let Write::To(to) = write { to } else { catalog });
        let in_place = *write == Write::InPlace && !dry_run;
        match dry_run {
            true => TempFolder::inside(&directory, STAGING_PREFIX).or_else(|_| TempFolder::private("opm-edit-")),
            false => fs::create_dir_all(&directory).and_then(|()| TempFolder::inside(&directory, STAGING_PREFIX)),
        }
        .map_err(|source| EditError::Staging { directory, in_place, source })
    }
}

/// The blobs of new files, by path relative to the catalog.
pub(crate) type NewFileBlobs = BTreeMap<PathBuf, Vec<NewBlob>>;

/// Assigns the blobs of new packages to new files.
fn new_files(
    fbc: &Fbc,
    root: &Path,
    changes: &FileChanges,
    layout: NewPackageLayout,
) -> Result<NewFileBlobs, EditError> {
    let mut new = NewFileBlobs::new();
    if changes.new_packages.is_empty() {
        return Ok(new);
    }
    let json = mostly_json(fbc);
    for (package, blobs) in &changes.new_packages {
        if !package.is_empty() && !fbc::is_file_name(package) {
            let message = format!("invalid package name {package:?}: must be a single local path element");
            return Err(EditRefusal::new(message).into());
        }
        let path = match layout {
            NewPackageLayout::Legacy if !package.is_empty() => Path::new(package).join(format!("{package}.json")),
            _ => FileChanges::path_for(package, json),
        };
        if fs::symlink_metadata(root.join(&path)).is_ok() {
            let message = format!("package {package:?} would be written to {}, which already exists", path.display());
            return Err(EditRefusal::new(message).into());
        }
        new.insert(path, blobs.clone());
    }
    Ok(new)
}

/// Applies the changes to the text of the files.
fn rewrite_files(
    fbc: &Fbc,
    root: &Path,
    changes: &FileChanges,
    new: &NewFileBlobs,
) -> Result<Vec<ChangedFile>, EditError> {
    let mut files = changes
        .files
        .par_iter()
        .map(|(file, change)| rewrite_file(fbc, root, *file, change))
        .collect::<Result<Vec<_>, _>>()?;
    for (path, blobs) in new {
        let json = path.extension().is_some_and(|extension| extension == "json");
        let content = NewContent::Text(rewrite::new_file(blobs, json).into_bytes());
        files.push(ChangedFile { path: path.clone(), exists: false, content, splices: Vec::new() });
    }
    Ok(files)
}

fn rewrite_file(fbc: &Fbc, root: &Path, file: FileId, change: &FileChange) -> Result<ChangedFile, EditError> {
    let full = fbc.full_path_of(file).unwrap_or_default();
    let path = full.strip_prefix(root).unwrap_or(&full).to_path_buf();
    let named =
        |refusal: EditRefusal| EditRefusal { message: format!("{}: {}", full.display(), refusal.message), ..refusal };
    let old = read(&full)?;
    let (content, splices) = match rewrite::rewrite(&old, change).map_err(named)? {
        RewrittenFile::Deleted => (NewContent::Removed, Vec::new()),
        RewrittenFile::Spliced(splices) => {
            let text = text::apply(old.as_bytes(), &splices)
                .ok_or_else(|| named(EditRefusal::new("changes overlap").help("apply them one at a time")))?;
            (NewContent::Text(text), splices)
        }
    };
    Ok(ChangedFile { path, exists: true, content, splices })
}

fn read(path: &Path) -> Result<String, EditError> {
    let bytes = fs::read(path).map_err(|error| in_path(path, error))?;
    String::from_utf8(bytes).map_err(|_| EditRefusal::new(format!("{}: is not UTF-8", path.display())).into())
}

/// Returns whether most files of a catalog are JSON, judged by the first byte of up to ten files.
fn mostly_json(fbc: &Fbc) -> bool {
    let mut formats: BTreeMap<FileId, bool> = BTreeMap::new();
    for blob in fbc.blobs() {
        let Some((file, start)) = blob.origin else { continue };
        if formats.len() >= 10 {
            break;
        }
        formats.entry(file).or_insert_with(|| {
            use std::os::unix::fs::FileExt;
            let mut first = [0];
            let path = fbc.full_path_of(file).unwrap_or_default();
            fs::File::open(path).and_then(|file| file.read_exact_at(&mut first, start)).is_ok() && first == *b"{"
        });
    }
    let json = formats.values().filter(|json| **json).count();
    json * 2 > formats.len()
}

/// Returns the changes as a unified diff.
fn diff(root: &Path, files: &[ChangedFile]) -> Result<String, EditError> {
    let mut files: Vec<&ChangedFile> = files.iter().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut diff = String::new();
    for file in files {
        let old = if file.exists { Some(read(&root.join(&file.path))?) } else { None };
        let copied;
        let new = match &file.content {
            NewContent::Text(text) => Some(String::from_utf8_lossy(text)),
            NewContent::CopyOf(path) => {
                copied = fs::read(path).map_err(|error| in_path(path, error))?;
                Some(String::from_utf8_lossy(&copied))
            }
            NewContent::Removed => None,
        };
        diff += &unified(&file.path, old.as_deref(), new.as_deref(), &file.splices);
    }
    Ok(diff)
}
