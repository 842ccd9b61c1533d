//! Verifies an edited catalog before it replaces the original.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use catalog::Warnings;
use fbc::blob::TextBuffer;
use fbc::json::{JsonPath, PathStep, Raw};
use fbc::scratch::TempFolder;
use fbc::{Blob, BlobContent, Fbc, FileId, Limits, LoadOptions, Place, Problem, Spot};
use resolve::input::{CatalogInput, InputReader};

use super::{EditableCatalog, NewFileBlobs, TREE};
use crate::changes::FileChanges;
use crate::error::{EditError, InvalidEdit, in_path};
use crate::outline::Outline;
use crate::refusal::EditRefusal;
use crate::verify::{BlobDigests, CatalogSnapshot, verify_only_planned_changes};

/// The expected state of an edited catalog.
pub(super) struct Expected<'a> {
    pub(super) before: &'a EditableCatalog,
    pub(super) outline: &'a Outline,
    pub(super) changes: &'a FileChanges,
    pub(super) new: &'a NewFileBlobs,
}

/// An edited catalog that may replace the original.
pub(super) struct Accepted {
    pub(super) staging: TempFolder,
    /// What clusters see of it.
    pub(super) source: CatalogInput,
    /// The number of its problems; the original has them, too.
    pub(super) problems: usize,
}

/// Checks that the edited catalog of `root` in `staging` has no problem that the original does not have, contains the
/// planned changes, and is otherwise unchanged.
pub(super) fn check(
    staging: TempFolder,
    root: &Path,
    expected: &Expected<'_>,
    limits: &Limits,
) -> Result<Accepted, EditError> {
    let Expected { before, outline, changes, new } = expected;
    let tree = staging.path().join(TREE);
    let digests = BlobDigests::of_changed(&before.digests, changes, new);
    let (rules, reader) = (catalog::inspect(Warnings::Off), InputReader::default());
    let inspect = |blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>| {
        digests.note(blob, text);
        reader.add(blob, text);
        rules(blob, text, problems);
    };
    let options = LoadOptions { limits: limits.clone(), inspect: Some(&inspect), ..LoadOptions::default() };
    let mut fbc = Fbc::default();
    let loaded = fbc.load_dir(&tree, &options).map_err(|error| in_path(&tree, error))?;
    let checked = catalog::check(&fbc, loaded, Warnings::Off);
    let problems: Vec<&Problem> = checked.errors().collect();
    if !problems.is_empty() {
        refuse_new(&problems, &tree, root, limits)?;
    }
    let was = CatalogSnapshot { fbc: &before.fbc, root, digests: &before.digests };
    let is = CatalogSnapshot { fbc: &fbc, root: &tree, digests: &digests };
    let differs = verify_only_planned_changes(was, changes, new, is).err();
    if let Some(path) = differs.as_ref().filter(|_| !before.fbc.is_current()) {
        return Err(EditError::FileChanged { path: root.join(path) });
    }
    if differs.is_some() || !Outline::new(&fbc).agrees_with(outline) {
        let message = "the edit cannot be applied to the text of the files, so nothing was changed; \
             first replace anchors, merge keys and duplicate keys in the affected parts";
        return Err(EditRefusal::new(message).into());
    }
    Ok(Accepted { staging, source: reader.finish(&fbc), problems: problems.len() })
}

/// Refuses an edit if the catalog before it lacks one of `problems`, which the edited catalog has.
fn refuse_new(problems: &[&Problem], tree: &Path, root: &Path, limits: &Limits) -> Result<(), EditError> {
    let rules = catalog::inspect(Warnings::Off);
    let options =
        LoadOptions { limits: limits.clone(), keep_text: true, inspect: Some(&rules), ..LoadOptions::default() };
    let (mut fbc, mut edited) = (Fbc::default(), Fbc::default());
    let loaded = fbc.load_dir(root, &options).map_err(|error| in_path(root, error))?;
    edited.load_dir(tree, &options).map_err(|error| in_path(tree, error))?;
    let checked = catalog::check(&fbc, loaded, Warnings::Off);
    let mut before: BTreeMap<_, usize> = BTreeMap::new();
    for problem in checked.errors() {
        *before.entry((problem.rule, &problem.scope, &problem.message)).or_default() += 1;
    }
    let mut new = Vec::new();
    for problem in problems {
        match before.get_mut(&(problem.rule, &problem.scope, &problem.message)) {
            Some(count) if *count > 0 => *count -= 1,
            _ => new.push((*problem).clone()),
        }
    }
    if new.is_empty() {
        return Ok(());
    }
    let positions = Positions::new(&fbc, &edited);
    let problems = new.into_iter().map(|problem| Problem {
        place: problem.place.as_ref().and_then(|place| positions.before(place)),
        first: problem.first.as_ref().and_then(|place| positions.before(place)),
        ..problem
    });
    let problems = problems.collect();
    drop(checked);
    Err(EditError::Invalid(Box::new(InvalidEdit { catalog: fbc, problems })))
}

/// Finds positions of an edited catalog in the catalog before the edit.
struct Positions<'a> {
    catalogs: [&'a Fbc; 2],
    before: HashMap<[&'a str; 3], &'a Blob>,
    edited: HashMap<(FileId, u64), &'a Blob>,
}

impl<'a> Positions<'a> {
    fn new(before: &'a Fbc, edited: &'a Fbc) -> Positions<'a> {
        let named = |blob: &'a Blob| ([&*blob.schema, &*blob.package, &*blob.name], blob);
        Positions {
            catalogs: [before, edited],
            before: before.blobs().iter().rev().map(named).collect(),
            edited: edited.blobs().iter().filter_map(|blob| Some((blob.origin?, blob))).collect(),
        }
    }

    /// Returns the position of the same value, or of the name of what the edit changes; `None` if the edit adds it.
    fn before(&self, place: &Place) -> Option<Place> {
        let Spot::Value { document, path } = &place.spot else { return None };
        let edited = self.edited.get(&(place.file, *document))?;
        let blob = self.before.get(&[&*edited.schema, &*edited.package, &*edited.name])?;
        let mut buffers = [TextBuffer::default(), TextBuffer::default()];
        let [old, new] = &mut buffers;
        let [of_old, of_new] = self.catalogs;
        let new = value(of_new.text(edited, new).ok()?, path)?.text().to_owned();
        let mut path = path.clone();
        if let (BlobContent::Channel { entries: edited }, BlobContent::Channel { entries }) =
            (&edited.content, &blob.content)
            && let [PathStep::Key(key), PathStep::Index(index), ..] = &mut path.0[..]
            && *key == "entries"
        {
            let name = &edited.get(*index)?.name;
            *index = entries.iter().position(|entry| entry.name == *name)?;
        }
        if value(of_old.text(blob, old).ok()?, &path).is_none_or(|old| old.text() != new) {
            path.0.truncate(if path.0.len() > 2 { 2 } else { 0 });
            path = path.then("name");
        }
        blob.place(path)
    }
}

/// Returns the value at a path.
fn value<'a>(blob: Raw<'a>, path: &JsonPath) -> Option<Raw<'a>> {
    path.0.iter().try_fold(blob, |value, step| match step {
        PathStep::Key(key) => value.get(key),
        PathStep::Index(index) => value.items().nth(*index),
    })
}
