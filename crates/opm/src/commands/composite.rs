//! `opm template render composite`: renders the components of several catalogs to files.

use source::{CompositeError, CompositeRequest, Images, InvalidDirectories};

use super::render_template::Bundles;
use crate::exit::{CommandResult, Failure};
use crate::printer::Printer;
use crate::report;

/// Renders all files, or prints why the catalogs would not be valid.
pub(super) fn run(
    request: &CompositeRequest<'_>,
    images: &Images,
    bundles: &mut Bundles<'_>,
    printer: &Printer,
) -> CommandResult {
    source::render_composite(request, images, bundles).map_err(|error| match error {
        CompositeError::Invalid(invalid) => {
            show(&invalid, printer);
            Failure::Reported
        }
        CompositeError::Source(error) => error.into(),
        error => Failure::fault(error),
    })
}

fn show(invalid: &InvalidDirectories, printer: &Printer) {
    for catalog in &invalid.catalogs {
        let shown = catalog.directory.to_string_lossy();
        printer.error(&format!("validation failed, {shown} is unchanged:"));
        let mut found = report::find(&catalog.fbc, catalog.problems.errors());
        for path in found.iter_mut().flat_map(report::LocatedProblem::paths_mut) {
            *path = path.replace(&*catalog.copy.to_string_lossy(), &shown);
        }
        report::show(printer, &found);
    }
}
