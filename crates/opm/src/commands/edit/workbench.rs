//! From a catalog on disk to a changed one: read, change, write aside, check, put in place.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use edit::changes::Changes;
use edit::rewrite::{self, FileChange, Rewritten};
use edit::summary::summary;
use edit::text::{self, Splice};
use edit::unified::unified;
use edit::verify::Contents;
use edit::{NewBlob, Outline, Refusal};
use fbc::json::Raw;
use fbc::{Blob, Fbc, FileId, Format, LoadOptions, Problem};
use rayon::prelude::*;

use super::check::{Wanted, check};
use super::{attached, place};
use crate::exit::{Failure, Outcome, in_path};
use crate::images::Images;
use crate::interrupt::{self, Unfinished};
use crate::printer::{Printer, Style};
use crate::source::{self, Source};
use crate::{database, limits, report};

/// Which catalog is changed, and where the changed one goes
#[derive(clap::Args)]
pub(super) struct Where {
    /// Directory of the catalog
    #[arg(value_name = "CATALOG")]
    pub(super) catalog: PathBuf,
    /// Write the changed catalog to a new directory and leave this one as it is
    #[arg(long, value_name = "DIR")]
    pub(super) to: Option<PathBuf>,
    /// Print what would change as a unified diff, and change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not print what was done
    #[arg(short, long)]
    pub(super) quiet: bool,
}

/// The beginning of the names of directories that catalogs are written aside in.
pub(super) const ASIDE: &str = ".opm-edit-";

/// A catalog as it was read.
pub(crate) struct Loaded {
    /// Its directory.
    pub(super) root: PathBuf,
    pub(crate) fbc: Fbc,
    pub(crate) outline: Outline,
    /// What every blob says.
    pub(super) contents: Contents,
}

/// A file that changes.
pub(super) struct ChangedFile {
    /// Its path below the catalog.
    pub(super) path: PathBuf,
    /// Whether it is there already.
    pub(super) exists: bool,
    /// What becomes of it.
    pub(super) becomes: Becomes,
    pub(super) splices: Vec<Splice>,
}

/// What becomes of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Becomes {
    /// It has this text.
    Text(Vec<u8>),
    /// It is what that file is.
    CopyOf(PathBuf),
    /// It goes.
    Gone,
}

/// Where the blobs of a new package go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Layout {
    /// To `catalog.json` or `catalog.yaml`, as most of the catalog is written.
    Usual,
    /// To a JSON file with the name of the package, as the first design of catalogs showed it.
    First,
}

/// Makes a directory of what is named, if it is none: an image is unpacked, a database converted.
///
/// The second value removes what was made when it is dropped.
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
            let aside = Unfinished::private("opm-edit-")?;
            super::super::migrate::write(&fbc, aside.path(), Format::Json)?;
            Ok((aside.path().to_path_buf(), Some(aside)))
        }
    }
}

/// The same for the catalog that is changed. What is no directory stays as it is, so that the result goes elsewhere.
pub(super) fn fetched(
    place: &Where,
    images: &Images,
    printer: &Printer,
) -> Result<(Where, Option<Unfinished>), Failure> {
    if place.to.is_none() && !place.dry_run {
        let name = place.catalog.display();
        let elsewhere = image::Location::is_image(&name.to_string()) || place.catalog.exists();
        if elsewhere && !place.catalog.is_dir() {
            return Err(Failure::message(format!("{name} is not a directory: --to DIR says where the result goes")));
        }
        return Ok((Where { catalog: place.catalog.clone(), to: None, dry_run: false, quiet: place.quiet }, None));
    }
    let (catalog, aside) = directory(&place.catalog, images, printer)?;
    Ok((Where { catalog, to: place.to.clone(), dry_run: place.dry_run, quiet: place.quiet }, aside))
}

/// Looks at each blob while its text is at hand.
pub(crate) type Look<'a> = dyn Fn(&Blob, Raw<'_>) + Sync + 'a;

/// Changes a catalog as `verb` says, which returns what the user should know of it.
pub(super) fn change(
    place: &Where,
    printer: &mut Printer,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    change_looking(place, &|_, _| {}, printer, verb)
}

/// The same, with the text of the catalog at hand.
pub(super) fn change_with_text(
    place: &Where,
    printer: &mut Printer,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    change_loaded(place, Layout::Usual, printer, load_with_text, verb)
}

/// The same, with a look at each blob while it is loaded.
pub(super) fn change_looking(
    place: &Where,
    look: &Look<'_>,
    printer: &mut Printer,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    change_loaded(place, Layout::Usual, printer, |root, printer| load(root, look, printer), verb)
}

/// The same in place for a catalog in the first layout, which `load` loads.
pub(in crate::commands) fn change_first_layout(
    root: &Path,
    printer: &mut Printer,
    load: impl FnOnce(&Path, &Printer) -> Result<Loaded, Failure>,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    let place = Where { catalog: root.to_path_buf(), to: None, dry_run: false, quiet: true };
    change_loaded(&place, Layout::First, printer, load, verb)
}

fn change_loaded(
    place: &Where,
    layout: Layout,
    printer: &mut Printer,
    load: impl FnOnce(&Path, &Printer) -> Result<Loaded, Failure>,
    verb: impl FnOnce(&Loaded, &mut Outline) -> Result<Vec<String>, Refusal>,
) -> Outcome {
    let root = &place.catalog;
    let in_place = place.to.is_none() && !place.dry_run;
    let _lock = if in_place { Some(place::lock(root, printer)?) } else { None };
    if let Some(to) = &place.to {
        super::super::migrate::check_empty(to)?;
    }
    let loaded = load(root, printer)?;
    let mut outline = loaded.outline.clone();
    let notes = verb(&loaded, &mut outline).map_err(refused)?;
    let mut changes = Changes::between(&loaded.fbc, &loaded.outline, &outline).map_err(refused)?;
    if changes.is_empty() && place.to.is_none() {
        report(place, &notes, printer);
        return Ok(());
    }
    let mut new = new_files(&loaded.fbc, root, &changes, layout)?;
    let attached = attached::place(&loaded, &mut changes, &mut new)?;
    let mut files = rewrite_files(&loaded.fbc, root, &changes, &new)?;
    files.extend(attached.files);
    attached::remove(&loaded, &changes, &attached.used, &mut files)?;
    let parent = place::parent(place.to.as_deref().unwrap_or(root));
    let aside = match place.dry_run {
        true => Unfinished::create(&parent, ASIDE).or_else(|_| Unfinished::private("opm-edit-")),
        false => fs::create_dir_all(&parent).and_then(|()| Unfinished::create(&parent, ASIDE)),
    }
    .map_err(|error| {
        let help = if in_place { "; --to writes the changed catalog elsewhere" } else { "" };
        Failure::message(format!("{}: {error}: no room to write aside{help}", parent.display()))
    })?;
    let tree = aside.path().join("tree");
    place::stage(root, &tree, &files, place.to.is_none())?;
    check(&tree, root, &Wanted { loaded: &loaded, outline: &outline, changes: &changes, new: &new }, printer)?;
    if !loaded.fbc.is_current() {
        return Err(Failure::message(format!("{}: the catalog changed meanwhile; try again", root.display())));
    }
    report(place, &notes, printer);
    if place.dry_run {
        return show(root, &files, printer);
    }
    match &place.to {
        Some(to) => interrupt::put(&tree, to).map_err(|error| in_path(to, &error))?,
        None => place::replace(root, &aside, &files)?,
    }
    if let Some(done) = summary(&loaded.outline, &outline).filter(|_| !place.quiet) {
        printer.report(&done);
    }
    Ok(())
}

fn report(place: &Where, notes: &[String], printer: &Printer) {
    for note in notes.iter().filter(|_| !place.quiet) {
        printer.report(&format!("{} {note}", printer.paint(Style::Note, "note:")));
    }
}

/// Loads a catalog whose files can be read; whether it is valid is another question.
pub(crate) fn load(root: &Path, look: &Look<'_>, printer: &Printer) -> Result<Loaded, Failure> {
    load_keeping(root, look, false, printer)
}

/// The same, with the text of blobs for [`Texts`].
pub(super) fn load_with_text(root: &Path, printer: &Printer) -> Result<Loaded, Failure> {
    load_keeping(root, &|_, _| {}, true, printer)
}

fn load_keeping(root: &Path, look: &Look<'_>, keep_text: bool, printer: &Printer) -> Result<Loaded, Failure> {
    let metadata = fs::metadata(root).map_err(|error| in_path(root, &error))?;
    if !metadata.is_dir() {
        return Err(Failure::message(format!("{:?} is not a directory", root.display().to_string())));
    }
    let contents = Contents::default();
    let inspect = |blob: &Blob, text: Raw<'_>, _: &mut Vec<Problem>| {
        contents.note(blob, text);
        look(blob, text);
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
    Ok(Loaded { root: root.to_path_buf(), fbc, outline, contents })
}

/// The blobs of files that are new, by their paths below the catalog.
pub(super) type NewFiles = BTreeMap<PathBuf, Vec<NewBlob>>;

/// Finds the files for the blobs of new packages.
fn new_files(fbc: &Fbc, root: &Path, changes: &Changes, layout: Layout) -> Result<NewFiles, Failure> {
    let mut new = NewFiles::new();
    if changes.new_packages.is_empty() {
        return Ok(new);
    }
    let json = mostly_json(fbc);
    for (package, blobs) in &changes.new_packages {
        if matches!(package.as_str(), "." | "..") || package.contains(['/', '\0']) {
            let message = format!("invalid package name {package:?}: must be a single local path element");
            return Err(Failure::message(message));
        }
        let path = match layout {
            Layout::First if !package.is_empty() => Path::new(package).join(format!("{package}.json")),
            _ => Changes::path_for(package, json),
        };
        if fs::symlink_metadata(root.join(&path)).is_ok() {
            let message = format!("package {package:?} would go to {}, which is there already", path.display());
            return Err(Failure::message(message));
        }
        new.insert(path, blobs.clone());
    }
    Ok(new)
}

/// Puts the changes into the text of the files.
fn rewrite_files(fbc: &Fbc, root: &Path, changes: &Changes, new: &NewFiles) -> Result<Vec<ChangedFile>, Failure> {
    let mut files = changes
        .files
        .par_iter()
        .map(|(file, change)| rewrite_file(fbc, root, *file, change))
        .collect::<Result<Vec<_>, _>>()?;
    for (path, blobs) in new {
        let json = path.extension().is_some_and(|extension| extension == "json");
        let becomes = Becomes::Text(rewrite::new_file(blobs, json).into_bytes());
        files.push(ChangedFile { path: path.clone(), exists: false, becomes, splices: Vec::new() });
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
    let (becomes, splices) = match rewrite::rewrite(&old, change).map_err(named)? {
        Rewritten::Deleted => (Becomes::Gone, Vec::new()),
        Rewritten::Spliced(splices) => {
            let text = text::apply(old.as_bytes(), &splices)
                .ok_or_else(|| named(Refusal::new("changes overlap").help("make them one after the other")))?;
            (Becomes::Text(text), splices)
        }
    };
    Ok(ChangedFile { path, exists: true, becomes, splices })
}

fn read(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(|error| in_path(path, &error))?;
    String::from_utf8(bytes).map_err(|_| Failure::message(format!("{}: is not UTF-8", path.display())))
}

/// Returns whether most files of a catalog are JSON, going by the first bytes of some.
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
        let new = match &file.becomes {
            Becomes::Text(text) => Some(String::from_utf8_lossy(text)),
            Becomes::CopyOf(path) => {
                copied = fs::read(path).map_err(|error| in_path(path, &error))?;
                Some(String::from_utf8_lossy(&copied))
            }
            Becomes::Gone => None,
        };
        let path = file.path.display().to_string();
        let text = unified(&path, old.as_deref(), new.as_deref(), &file.splices);
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

/// Returns the files that change by their paths.
pub(super) fn by_path(files: &[ChangedFile]) -> HashMap<&Path, &ChangedFile> {
    files.iter().map(|file| (file.path.as_path(), file)).collect()
}

/// Reports why nothing is done.
pub(super) fn refused(refusal: Refusal) -> Failure {
    let help = refusal.help.map(|help| format!("\nhelp: {help}")).unwrap_or_default();
    Failure::message(format!("{}{help}", refusal.message))
}
