//! The steps of an edit: load, change, stage, check and replace.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use edit::changes::Changes;
use edit::rewrite::{self, FileChange, Rewritten};
use edit::summary::summary;
use edit::text::{self, Splice};
use edit::unified::unified;
use edit::verify::{Contents, Purpose, Stranded};
use edit::{NewBlob, Outline, Refusal};
use fbc::json::Raw;
use fbc::{Blob, Fbc, FileId, Format, LoadOptions, Members, Problem};
use rayon::prelude::*;

use super::check::{Expected, check};
use super::{attached, place};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::Images;
use crate::interrupt::{self, Unfinished};
use crate::printer::{Printer, Style};
use crate::source::{self, Source};
use crate::{database, limits, report};

/// The catalog to change and the destination of the result
#[derive(Clone, clap::Args)]
pub(super) struct EditFlags {
    /// Catalog directory
    #[arg(value_name = "CATALOG")]
    pub(super) catalog: PathBuf,
    /// Write the changed catalog to a new directory instead of changing it in place
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Print the changes as a unified diff without applying them
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not print notes or the summary
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Make the edit even if it leaves installed versions without a path to the channel head
    #[arg(long)]
    pub(super) allow_stranded: bool,
}

/// The name prefix of staging directories.
pub(super) const STAGING_PREFIX: &str = ".opm-edit-";

/// A loaded catalog.
pub(crate) struct Loaded {
    /// Its directory.
    pub(super) root: PathBuf,
    pub(crate) fbc: Fbc,
    pub(crate) outline: Outline,
    /// The content of every blob.
    pub(super) contents: Contents,
    /// The files that belong to it.
    members: Members,
}

/// A changed file.
pub(super) struct ChangedFile {
    /// Its path relative to the catalog.
    pub(super) path: PathBuf,
    /// Whether it exists already.
    pub(super) exists: bool,
    pub(super) content: NewContent,
    pub(super) splices: Vec<Splice>,
}

/// The new content of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NewContent {
    /// This text.
    Text(Vec<u8>),
    /// A copy of this file.
    CopyOf(PathBuf),
    /// The file is removed.
    Removed,
}

/// The file of a new package.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layout {
    /// `catalog.json` or `catalog.yaml`, the format of most files of the catalog.
    Usual,
    /// A JSON file with the name of the package, the layout of the first file-based catalogs.
    First,
}

/// Returns a catalog directory for a reference: unpacks an image and converts a database.
///
/// Dropping the second value deletes a temporary directory.
pub(crate) fn directory(
    reference: &Path,
    images: &Images,
    printer: &Printer,
) -> Result<(PathBuf, Option<Unfinished>), Failure> {
    if reference.is_dir() {
        return Ok((reference.to_path_buf(), None));
    }
    let name = reference.to_string_lossy();
    let named = |error: String| Failure::message(format!("{name}: {error}"));
    match source::resolve_one(&name, images).map_err(named)? {
        Source::Catalog(path) => Ok((path, None)),
        Source::Bundle(..) => Err(named("is a bundle, not a catalog".to_owned())),
        Source::Database(path) => {
            let options = source::Options { keep_text: true, ..source::Options::catalogs(limits::from_env()?, images) };
            let mut fbc = Fbc::default();
            database::load(&mut fbc, &path, &options, printer).map_err(named)?;
            let staging = Unfinished::private("opm-edit-")?;
            super::super::migrate::write(&fbc, staging.path(), Format::Json)?;
            Ok((staging.path().to_path_buf(), Some(staging)))
        }
    }
}

/// Like [`directory`], for the catalog to change. An image or database does not change, so it requires `--to` or
/// `--dry-run`.
pub(super) fn fetched(
    flags: &EditFlags,
    images: &Images,
    printer: &Printer,
) -> Result<(EditFlags, Option<Unfinished>), Failure> {
    if flags.to.is_none() && !flags.dry_run {
        let name = flags.catalog.display();
        let elsewhere = image::Location::is_image(&name.to_string()) || flags.catalog.exists();
        if elsewhere && !flags.catalog.is_dir() {
            return Err(Failure::message(format!("{name} is not a directory: use --to DIR for the result")));
        }
        return Ok((flags.clone(), None));
    }
    let (catalog, staging) = directory(&flags.catalog, images, printer)?;
    Ok((EditFlags { catalog, ..flags.clone() }, staging))
}

/// Called with each blob and its text during the load.
pub(crate) type Inspect<'a> = dyn Fn(&Blob, Raw<'_>) + Sync + 'a;

/// Applies the edit `verb` to a catalog. `verb` returns notes for the user; `purpose` is what it may remove.
pub(super) fn change(
    flags: &EditFlags,
    purpose: Purpose<'_>,
    printer: &mut Printer,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    change_inspecting(flags, purpose, &|_, _| {}, printer, verb)
}

/// Like [`change`], with the text of the catalog loaded.
pub(super) fn change_with_text(
    flags: &EditFlags,
    printer: &mut Printer,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    change_loaded(flags, Layout::Usual, Purpose::Keep, printer, load_with_text, verb)
}

/// Like [`change`], with a callback for each blob during the load.
pub(super) fn change_inspecting(
    flags: &EditFlags,
    purpose: Purpose<'_>,
    inspect: &Inspect<'_>,
    printer: &mut Printer,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    change_loaded(flags, Layout::Usual, purpose, printer, |root, printer| load(root, inspect, printer), verb)
}

/// Like [`change`], in place and with [`Layout::First`]; `load` loads the catalog. Bundles declare their own edges, so
/// stranded versions are reported only.
pub(in crate::commands) fn change_first_layout(
    root: &Path,
    printer: &mut Printer,
    load: impl FnOnce(&Path, &Printer) -> Result<Loaded, Failure>,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    let flags = EditFlags { catalog: root.to_path_buf(), to: None, dry_run: false, quiet: true, allow_stranded: true };
    change_loaded(&flags, Layout::First, Purpose::Keep, printer, load, verb)
}

fn change_loaded(
    flags: &EditFlags,
    layout: Layout,
    purpose: Purpose<'_>,
    printer: &mut Printer,
    load: impl FnOnce(&Path, &Printer) -> Result<Loaded, Failure>,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    let root = &flags.catalog;
    let in_place = flags.to.is_none() && !flags.dry_run;
    let _lock = if in_place { Some(place::lock(root, printer)?) } else { None };
    if let Some(to) = &flags.to {
        crate::tree::check_empty(to)?;
    }
    let loaded = load(root, printer)?;
    let mut outline = loaded.outline.clone();
    let notes = verb(&loaded, &mut outline).map_err(refused)?;
    let mut changes = Changes::between(&loaded.fbc, &loaded.outline, &outline).map_err(refused)?;
    if changes.is_empty() && flags.to.is_none() {
        report(flags, &notes, printer);
        return Ok(());
    }
    let mut new = new_files(&loaded.fbc, root, &changes, layout)?;
    let attached = attached::place(&loaded, &mut changes, &mut new)?;
    let mut files = rewrite_files(&loaded.fbc, root, &changes, &new)?;
    files.extend(attached.files);
    attached::remove(&loaded, &changes, &attached.used, &mut files)?;
    let parent = place::parent(flags.to.as_deref().unwrap_or(root));
    let staging = match flags.dry_run {
        true => Unfinished::create(&parent, STAGING_PREFIX).or_else(|_| Unfinished::private("opm-edit-")),
        false => fs::create_dir_all(&parent).and_then(|()| Unfinished::create(&parent, STAGING_PREFIX)),
    }
    .map_err(|error| {
        let help = if in_place { "; --to writes the changed catalog elsewhere" } else { "" };
        Failure::message(format!("{}: {error}: cannot create a staging directory{help}", parent.display()))
    })?;
    let tree = staging.path().join("tree");
    let members: Vec<&Path> = loaded.members.paths().collect();
    place::stage(root, &members, &tree, &files, flags.to.is_none())?;
    check(&tree, root, &Expected { loaded: &loaded, outline: &outline, changes: &changes, new: &new }, printer)?;
    if !loaded.fbc.is_current() {
        return Err(Failure::message(format!("{}: the catalog changed during the edit; try again", root.display())));
    }
    let stranded = Stranded::new(&loaded.outline, &outline, purpose);
    let result = flags.to.as_deref().unwrap_or(root).display().to_string();
    if let Some(refusal) = stranded.refusal(&result).filter(|_| !flags.allow_stranded) {
        return Err(refused(refusal));
    }
    stranded.notes(flags.allow_stranded).iter().for_each(|note| printer.warning(note));
    report(flags, &notes, printer);
    if flags.dry_run {
        return show(root, &files, printer);
    }
    match &flags.to {
        Some(to) => interrupt::put(&tree, to).map_err(|error| in_path(to, &error))?,
        None => place::replace(root, &staging, &files)?,
    }
    if let Some(done) = summary(&loaded.outline, &outline).filter(|_| !flags.quiet) {
        printer.report(&done);
    }
    Ok(())
}

fn report(flags: &EditFlags, notes: &[String], printer: &Printer) {
    for note in notes.iter().filter(|_| !flags.quiet) {
        printer.report(&format!("{} {note}", printer.paint(Style::Note, "note:")));
    }
}

/// Loads a catalog without validating it.
pub(crate) fn load(root: &Path, inspect: &Inspect<'_>, printer: &Printer) -> Result<Loaded, Failure> {
    load_keeping(root, inspect, false, printer)
}

/// Like [`load`], with the text of blobs for [`Texts`].
pub(super) fn load_with_text(root: &Path, printer: &Printer) -> Result<Loaded, Failure> {
    load_keeping(root, &|_, _| {}, true, printer)
}

fn load_keeping(
    root: &Path,
    inspect_blob: &Inspect<'_>,
    keep_text: bool,
    printer: &Printer,
) -> Result<Loaded, Failure> {
    let metadata = fs::metadata(root).map_err(|error| in_path(root, &error))?;
    if !metadata.is_dir() {
        return Err(Failure::message(format!("{:?} is not a directory", root.display().to_string())));
    }
    let contents = Contents::default();
    let inspect = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| {
        contents.note(blob, text);
        inspect_blob(blob, text);
    };
    let mut fbc = Fbc::default();
    let options =
        LoadOptions { limits: limits::from_env()?, keep_text, inspect: Some(&inspect), ..LoadOptions::default() };
    let loaded = fbc.load_dir(root, &options).map_err(|error| in_path(root, &error))?;
    if !loaded.problems.is_empty() {
        report::show(printer, &report::find(&fbc, &loaded.problems));
        return Err(Failure::Reported);
    }
    let outline = Outline::new(&fbc);
    Ok(Loaded { root: root.to_path_buf(), fbc, outline, contents, members: loaded.members })
}

/// The blobs of new files, by path relative to the catalog.
pub(super) type NewFiles = BTreeMap<PathBuf, Vec<NewBlob>>;

/// Assigns the blobs of new packages to new files.
fn new_files(fbc: &Fbc, root: &Path, changes: &Changes, layout: Layout) -> Result<NewFiles, Failure> {
    let mut new = NewFiles::new();
    if changes.new_packages.is_empty() {
        return Ok(new);
    }
    let json = mostly_json(fbc);
    for (package, blobs) in &changes.new_packages {
        if !package.is_empty() && !fbc::is_file_name(package) {
            let message = format!("invalid package name {package:?}: must be a single local path element");
            return Err(Failure::message(message));
        }
        let path = match layout {
            Layout::First if !package.is_empty() => Path::new(package).join(format!("{package}.json")),
            _ => Changes::path_for(package, json),
        };
        if fs::symlink_metadata(root.join(&path)).is_ok() {
            let message = format!("package {package:?} would be written to {}, which already exists", path.display());
            return Err(Failure::message(message));
        }
        new.insert(path, blobs.clone());
    }
    Ok(new)
}

/// Applies the changes to the text of the files.
fn rewrite_files(fbc: &Fbc, root: &Path, changes: &Changes, new: &NewFiles) -> Result<Vec<ChangedFile>, Failure> {
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

fn rewrite_file(fbc: &Fbc, root: &Path, file: FileId, change: &FileChange) -> Result<ChangedFile, Failure> {
    let full = fbc.full_path_of(file).unwrap_or_default();
    let path = full.strip_prefix(root).unwrap_or(&full).to_path_buf();
    let named = |refusal: Refusal| {
        let refusal = Refusal { message: format!("{}: {}", full.display(), refusal.message), ..refusal };
        refused(refusal)
    };
    let old = read(&full)?;
    let (content, splices) = match rewrite::rewrite(&old, change).map_err(named)? {
        Rewritten::Deleted => (NewContent::Removed, Vec::new()),
        Rewritten::Spliced(splices) => {
            let text = text::apply(old.as_bytes(), &splices)
                .ok_or_else(|| named(Refusal::new("changes overlap").help("apply them one at a time")))?;
            (NewContent::Text(text), splices)
        }
    };
    Ok(ChangedFile { path, exists: true, content, splices })
}

fn read(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| in_path(path, &error))?;
    String::from_utf8(bytes).map_err(|_| Failure::message(format!("{}: is not UTF-8", path.display())))
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

/// Prints the changes as a unified diff.
fn show(root: &Path, files: &[ChangedFile], printer: &mut Printer) -> Outcome {
    let mut files: Vec<&ChangedFile> = files.iter().collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    for file in files {
        let old = if file.exists { Some(read(&root.join(&file.path))?) } else { None };
        let copied;
        let new = match &file.content {
            NewContent::Text(text) => Some(String::from_utf8_lossy(text)),
            NewContent::CopyOf(path) => {
                copied = fs::read(path).map_err(|error| in_path(path, &error))?;
                Some(String::from_utf8_lossy(&copied))
            }
            NewContent::Removed => None,
        };
        let text = unified(&file.path, old.as_deref(), new.as_deref(), &file.splices);
        for line in text.split_inclusive('\n') {
            let code = match line.as_bytes().first() {
                Some(b'+') => "32",
                Some(b'-') => "31",
                Some(b'@') => "36",
                _ => "",
            };
            printer.coloured_line(code, line.trim_end_matches('\n'))?;
        }
    }
    Ok(())
}

/// Indexes the changed files by path.
pub(super) fn by_path(files: &[ChangedFile]) -> HashMap<&Path, &ChangedFile> {
    files.iter().map(|file| (file.path.as_path(), file)).collect()
}

/// Converts a refusal into a failure.
pub(super) fn refused(refusal: Refusal) -> Failure {
    let help = refusal.help.map(|help| format!("\nhelp: {help}")).unwrap_or_default();
    Failure::message(format!("{}{help}", refusal.message))
}
