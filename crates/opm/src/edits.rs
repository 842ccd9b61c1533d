//! What edits of catalogs report on the terminal.

use edit::{EditError, Notices};

use crate::exit::Failure;
use crate::printer::Printer;
use crate::{catalogs, report};

impl Notices for Printer {
    fn warn(&self, warning: &str) {
        self.warning(warning);
    }
}

/// Converts the error of an edit into a failure, and reports the problems of catalogs.
pub(crate) fn failure(error: EditError, printer: &Printer) -> Failure {
    match error {
        EditError::Unreadable { fbc, problems } => {
            if let Some(failure) = catalogs::bundle_instead(&fbc) {
                return failure;
            }
            report::show(printer, &report::find(&fbc, &problems));
            Failure::Reported
        }
        EditError::Invalid(invalid) => {
            report::show(printer, &report::find(&invalid.catalog, &invalid.problems));
            Failure::fault(EditError::Invalid(invalid))
        }
        EditError::Text(error) => error.into(),
        error => Failure::fault(error),
    }
}
