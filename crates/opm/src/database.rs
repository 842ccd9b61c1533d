//! Database indexes as catalog sources, and helpers for the database commands.

use std::path::Path;

use fbc::Fbc;
use sqlite_index::{Changed, Database, Error, Manifests, Strictness};

use crate::exit::{Failure, Outcome};
use crate::printer::Printer;
use crate::source::Options;

/// Prints the deprecation notice of database indexes.
pub(crate) fn notice(printer: &Printer) {
    printer.warning(
        "DEPRECATION NOTICE: sqlite-based catalogs and the commands for them are deprecated; \
         'opm migrate' converts one to a file-based catalog",
    );
}

/// Adds the content of a database to `fbc`, without changing the file.
pub(crate) fn load(fbc: &mut Fbc, path: &Path, options: &Options<'_>, printer: &Printer) -> Result<(), String> {
    notice(printer);
    let manifests = match (options.keep_text, options.migrate) {
        (false, _) => Manifests::Omit,
        (true, false) => Manifests::Objects,
        (true, true) => Manifests::Metadata,
    };
    let text = |error: Error| bounded(error.to_string());
    let database = read(path, printer).map_err(text)?;
    let warnings = database.convert(fbc, manifests, &options.limits).map_err(text)?;
    warnings.into_iter().for_each(|warning| printer.warning(&bounded(warning)));
    Ok(())
}

/// Opens a database for reading, without changing the file.
pub(crate) fn read(path: &Path, printer: &Printer) -> Result<Database, Error> {
    let database = Database::read(path)?;
    database.warning()?.iter().for_each(|warning| printer.warning(warning));
    Ok(database)
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
        path.metadata().map_err(|error| Failure::message(format!("{}: {error}", path.display())))?;
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

/// Maximum length of a message about a database: names and values in it are as long as others want.
const MAX_MESSAGE: usize = 64 << 10;

/// Shortens a message about a database.
pub(crate) fn bounded(mut text: String) -> String {
    if text.len() > MAX_MESSAGE {
        text.truncate(text.floor_char_boundary(MAX_MESSAGE));
        text.push_str("...");
    }
    text
}

/// Converts a database error to a failure.
pub(crate) fn failure(error: Error) -> Failure {
    Failure::message(bounded(error.to_string()))
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
