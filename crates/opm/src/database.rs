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
    let database = Database::read(path).map_err(|error| error.to_string())?;
    let warnings = database.convert(fbc, manifests, &options.limits).map_err(|error| error.to_string())?;
    warnings.iter().for_each(|warning| printer.warning(warning));
    Ok(())
}

/// Opens an existing database for changes.
pub(crate) fn existing(path: &Path) -> Result<Database, Failure> {
    if let Err(error) = path.metadata() {
        return Err(Failure::message(format!("{}: {error}", path.display())));
    }
    Database::write(path).map_err(failure)
}

/// Returns the strictness of a command.
pub(crate) fn strictness(permissive: bool) -> Strictness {
    if permissive { Strictness::Permissive } else { Strictness::Strict }
}

/// Converts a database error to a failure.
pub(crate) fn failure(error: Error) -> Failure {
    Failure::message(error.to_string())
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
