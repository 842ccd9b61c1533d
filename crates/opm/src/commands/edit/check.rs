//! Verifies an edited catalog before it replaces the original.

use std::path::Path;

use catalog::Warnings;
use edit::Outline;
use edit::changes::Changes;
use edit::verify::{self, Contents, Edition};
use fbc::json::Raw;
use fbc::{Blob, Fbc, LoadOptions, Problem};

use super::workbench::{Loaded, NewFiles};
use crate::exit::{Failure, Outcome, in_path};
use crate::printer::Printer;
use crate::{limits, report};

/// The expected state of an edited catalog.
pub(super) struct Expected<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) outline: &'a Outline,
    pub(super) changes: &'a Changes,
    pub(super) new: &'a NewFiles,
}

/// Checks that the catalog in `tree` is valid, contains the intended changes, and is otherwise unchanged.
pub(super) fn check(tree: &Path, root: &Path, expected: &Expected<'_>, printer: &Printer) -> Outcome {
    let Expected { loaded: before, outline, changes, new } = expected;
    let contents = Contents::of_changed(&before.contents, changes, new);
    let rules = catalog::inspect(Warnings::Off);
    let inspect = |blob: &Blob, text: Raw<'_>, problems: &mut Vec<Problem>| {
        contents.note(blob, text);
        rules(blob, text, problems);
    };
    let options = LoadOptions {
        limits: limits::from_env()?,
        keep_text: false,
        inspect: Some(&inspect),
        ..LoadOptions::default()
    };
    let mut fbc = Fbc::default();
    let loaded = fbc.load_dir(tree, &options).map_err(|error| in_path(tree, &error))?;
    let checked = catalog::check(&fbc, loaded, Warnings::Off);
    if let Err(problems) = &checked.catalog {
        let mut found = report::find(&fbc, problems.errors());
        for path in found.iter_mut().flat_map(report::Found::paths_mut) {
            let below = Path::new(&*path).strip_prefix(tree).map(|below| root.join(below));
            if let Ok(below) = below {
                *path = below.display().to_string();
            }
        }
        report::show(printer, &found);
        return Err(Failure::message("the edited catalog would not be valid, so nothing was changed"));
    }
    let was = Edition { fbc: &before.fbc, root, contents: &before.contents };
    let is = Edition { fbc: &fbc, root: tree, contents: &contents };
    let differs = verify::unchanged_but(was, changes, new, is).err();
    if let Some(path) = differs.as_ref().filter(|_| !before.fbc.is_current()) {
        return Err(Failure::message(format!(
            "{}: the file changed during the edit; try again",
            root.join(path).display()
        )));
    }
    if differs.is_some() || !Outline::new(&fbc).agrees_with(outline) {
        return Err(Failure::message(
            "the edit cannot be applied to the text of the files, so nothing was changed; \
             first replace anchors, merge keys and duplicate keys in the affected parts",
        ));
    }
    Ok(())
}
