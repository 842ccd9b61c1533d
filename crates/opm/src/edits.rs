//! What edits of catalogs report on the terminal.

use edit::{EditError, InvalidEdit, Notices};
use fbc::Problem;

use crate::exit::Failure;
use crate::printer::Printer;
use crate::report;

impl Notices for Printer {
    fn warn(&self, warning: &str) {
        self.warning(warning);
    }
}

/// Converts the error of an edit into a failure, and reports the problems of catalogs.
pub(crate) fn failure(error: EditError, printer: &Printer) -> Failure {
    match error {
        EditError::Unreadable { fbc, problems } => {
            report::show(printer, &report::find(&fbc, &problems));
            Failure::Reported
        }
        EditError::Invalid(invalid) => {
            show_problems(&invalid, printer);
            Failure::fault(EditError::Invalid(invalid))
        }
        EditError::Text(error) => error.into(),
        error => Failure::fault(error),
    }
}

/// Reports the problems of an edited catalog with the paths of the original.
fn show_problems(invalid: &InvalidEdit, printer: &Printer) {
    let problems: &[Problem] = &invalid.problems;
    let mut found = report::find(&invalid.fbc, problems);
    for path in found.iter_mut().flat_map(report::LocatedProblem::paths_mut) {
        *path = invalid.original_path(path.as_ref()).display().to_string();
    }
    report::show(printer, &found);
}
