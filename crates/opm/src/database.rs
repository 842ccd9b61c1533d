//! Helpers for the database commands.

use std::path::Path;

use legacy::{Changed, Database, Error, Strictness};
use source::SourceError;
use source::database::NOTICE;

use crate::exit::{Failure, Outcome};
use crate::printer::Printer;

/// Prints the deprecation notice of database indexes.
pub(crate) fn notice(printer: &Printer) {
    printer.warning(NOTICE);
}

/// Opens a database for reading, without changing the file.
pub(crate) fn read(path: &Path, printer: &Printer) -> Result<Database, Error> {
    source::database::read(path, &|warning| printer.warning(warning))
}

/// What to do if the database to change does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Create,
    Reject,
}

/// Changes a database in place: the way of every command that changes one.
pub(crate) fn change(path: &Path, missing: Missing, change: impl FnOnce(&Database) -> Outcome) -> Outcome {
    if missing == Missing::Reject {
        path.metadata().map_err(|error| Failure::world(format!("{}: {error}", path.display())))?;
    }
    change(&Database::write(path).map_err(failure)?)
}

/// Changes a database in place, or a copy that is then written to `output`.
pub(crate) fn change_to(
    output: Option<&Path>,
    path: &Path,
    missing: Missing,
    work: impl FnOnce(&Database) -> Outcome,
) -> Outcome {
    let Some(output) = output.filter(|output| !is_same_file(output, path)) else { return change(path, missing, work) };
    let copy = match missing {
        Missing::Create if !path.exists() => Database::temporary(),
        _ => Database::copy(path),
    };
    let copy = copy.map_err(failure)?;
    work(&copy)?;
    copy.publish(output).map_err(failure)
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Returns the strictness of a command.
pub(crate) fn strictness(permissive: bool) -> Strictness {
    if permissive { Strictness::Permissive } else { Strictness::Strict }
}

/// Converts a database error to a failure.
pub(crate) fn failure(error: Error) -> Failure {
    SourceError::from(error).into()
}

/// Reports the skipped steps and warnings of a database change.
pub(crate) fn report(changed: Result<Changed, Error>, printer: &Printer) -> Outcome {
    let changed = changed.map_err(failure)?;
    changed.warnings.iter().for_each(|warning| printer.warning(warning));
    forgive(&changed.skipped, printer)
}

/// Reports the errors that permissive mode ignored.
pub(crate) fn forgive(forgiven: &[String], printer: &Printer) -> Outcome {
    forgiven.iter().for_each(|text| printer.warning(&format!("permissive mode enabled: {text}")));
    Ok(())
}

#[cfg(test)]
mod tests;
