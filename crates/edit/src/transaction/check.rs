//! Verifies an edited catalog before it replaces the original.

use std::path::Path;

use catalog::Warnings;
use fbc::json::Raw;
use fbc::scratch::TempFolder;
use fbc::{Blob, Fbc, Limits, LoadOptions, Problem};
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

/// Checks that the edited catalog of `root` in `staging` is valid, contains the planned changes, and is otherwise
/// unchanged. Returns the staging directory, and what clusters see of the edited catalog.
pub(super) fn check(
    staging: TempFolder,
    root: &Path,
    expected: &Expected<'_>,
    limits: &Limits,
) -> Result<(TempFolder, CatalogInput), EditError> {
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
    if let Err(problems) = &checked.catalog {
        let problems = problems.errors().cloned().collect();
        let catalog = root.to_path_buf();
        return Err(EditError::Invalid(Box::new(InvalidEdit { fbc, problems, catalog, tree, _staging: staging })));
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
    let source = reader.finish(&fbc);
    Ok((staging, source))
}
