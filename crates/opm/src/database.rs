//! Database indexes as sources of catalogs, and what all commands that work on them share.

use std::path::Path;

use fbc::Fbc;
use sqlite_index::{Changed, Database, Error, Manifests, Strictness};

use crate::exit::{Failure, Outcome};
use crate::printer::Printer;
use crate::source::Options;

/// Reports that databases are a thing of the past.
pub(crate) fn notice(printer: &Printer) {
    printer.warning(
        "DEPRECATION NOTICE: sqlite-based catalogs and the commands for them are deprecated; \
         'opm migrate' turns one into a file-based catalog",
    );
}

/// Adds the content of a database to what is loaded already; the file stays as it is.
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

/// Opens a database to change what is in it.
pub(crate) fn existing(path: &Path) -> Result<Database, Failure> {
    if let Err(error) = path.metadata() {
        return Err(Failure::message(format!("{}: {error}", path.display())));
    }
    Database::write(path).map_err(failure)
}

/// Returns how strict a command is.
pub(crate) fn strictness(permissive: bool) -> Strictness {
    if permissive { Strictness::Permissive } else { Strictness::Strict }
}

/// Makes a failure of what went wrong with a database.
pub(crate) fn failure(error: Error) -> Failure {
    Failure::message(error.to_string())
}

/// Reports what a change of a database left undone, or could not do after it.
pub(crate) fn report(changed: Result<Changed, Error>, printer: &Printer) -> Outcome {
    let changed = changed.map_err(failure)?;
    changed.warnings.iter().for_each(|warning| printer.warning(warning));
    forgive(&changed.skipped, printer)
}

/// Reports what a forgiving command did not do.
pub(crate) fn forgive(skipped: &[String], printer: &Printer) -> Outcome {
    skipped.iter().for_each(|text| printer.warning(&format!("permissive mode enabled: {text}")));
    Ok(())
}

#[cfg(test)]
mod tests;
