//! Loads catalogs for commands, and reports their problems.

use catalog::{Catalog, Warnings};
use fbc::Fbc;
use fbc::fault::{Class, Fault as _};
use source::{Failed, Images, Rejected, SourceError, SourceOptions};

use crate::exit::Failure;
use crate::printer::Printer;
use crate::{limits, report};

/// Loads sources in order into one [`Fbc`].
///
/// # Errors
/// Fails if a source has problems, after reporting the problems of all.
pub(crate) fn load(references: &[String], options: &SourceOptions<'_>, printer: &Printer) -> Result<Fbc, Failure> {
    source::load(references, options).map_err(|rejected| report_rejected(&rejected, printer))
}

/// Reports why sources cannot be used.
pub(crate) fn report_rejected(rejected: &Rejected, printer: &Printer) -> Failure {
    let mut class = Class::Refused;
    for (reference, failed) in &rejected.failed {
        match failed {
            Failed::Error(error) => {
                printer.error(&format!("render reference \"{reference}\": {error}"));
                if let Some(hint) = error.hint() {
                    printer.help(&hint);
                }
                if error.class() == Class::World {
                    class = Class::World;
                }
            }
            Failed::Problems(problems) => {
                printer.error(&format!("render reference \"{reference}\":"));
                report::show(printer, &report::find(&rejected.fbc, problems));
            }
        }
    }
    Failure::Printed(class)
}

/// Returns the failure for a directory with problems that is a bundle: its files are no catalog files.
pub(crate) fn bundle_instead(fbc: &Fbc) -> Option<Failure> {
    Some(SourceError::Bundle(fbc.bundle_directory()?.display().to_string()).into())
}

/// Loads and checks the catalog `reference`.
pub(crate) fn checked(reference: &str, keep_text: bool, images: &Images) -> Result<(Fbc, Catalog), Failure> {
    let options = SourceOptions { keep_text, ..SourceOptions::catalogs(limits::from_env()?, images) };
    Ok(source::open(reference, &options, Warnings::Off)?.valid()?)
}

/// Warns about blobs that are dropped because they have no package.
pub(crate) fn warn_of_dropped(fbc: &Fbc, printer: &Printer) {
    for blob in fbc.orphans() {
        let file = blob.origin.and_then(|(file, _)| fbc.full_path_of(file));
        let file = file.map(|path| format!("{}: ", path.display())).unwrap_or_default();
        let what = if &*blob.schema == fbc::blob::PACKAGE { "has no name" } else { "has no package" };
        printer.warning(&format!("{file}{} \"{}\" {what} and is dropped", blob.schema, blob.name));
    }
}
