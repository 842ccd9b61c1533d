//! Printing of the database commands.

use std::path::Path;

use legacy::{Changed, Database, DatabaseTarget, OperationError};
use source::database::NOTICE;

use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;

/// Prints the deprecation notice of database indexes.
pub(crate) fn notice(printer: &Printer) {
    printer.warning(NOTICE);
}

/// Opens a database for reading, without changing the file.
pub(crate) fn read(path: &Path, printer: &Printer) -> Result<Database, legacy::Error> {
    source::database::read(path, &|warning| printer.warning(warning))
}

/// Changes a database, and prints the report.
pub(crate) fn change<E>(
    target: &DatabaseTarget,
    printer: &Printer,
    work: impl FnOnce(&Database) -> Result<Changed, E>,
) -> CommandResult
where
    E: From<legacy::Error>,
    Failure: From<E>,
{
    let changed = target.change(work)?;
    changed.warnings.iter().for_each(|warning| printer.warning(warning));
    forgive(&changed.skipped, printer);
    Ok(())
}

/// Prints the errors that permissive mode ignored.
pub(crate) fn forgive(forgiven: &[impl std::fmt::Display], printer: &Printer) {
    forgiven.iter().for_each(|text| printer.warning(&format!("permissive mode enabled: {text}")));
}

impl From<OperationError> for Failure {
    fn from(error: OperationError) -> Failure {
        match error.exit_code() {
            Some(code) => Failure::Exit(code, error.to_string()),
            None => Failure::fault(error),
        }
    }
}

impl From<legacy::Error> for Failure {
    fn from(error: legacy::Error) -> Failure {
        OperationError::from(error).into()
    }
}
