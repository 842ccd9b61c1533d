//! The catalogs of a simulated cluster, each with its name.

use resolve::input::CatalogInput;
use source::{CatalogInputError, Images};

use crate::choice::InvalidValue;
use crate::exit::Failure;
use crate::printer::Printer;
use crate::{limits, report};

/// Loads catalogs given as `[NAME=]SOURCE`.
///
/// # Errors
/// Fails if a catalog is invalid, after reporting all its problems.
pub(crate) fn load(
    references: &[String],
    priorities: &[(String, i64)],
    images: &Images,
    printer: &Printer,
) -> Result<Vec<CatalogInput>, Failure> {
    source::catalog_inputs(references, priorities, images, &limits::from_env()?).map_err(|error| match error {
        CatalogInputError::Source(error) => error.into(),
        error => {
            if let CatalogInputError::Invalid { fbc, problems, .. } = &error {
                report::show(printer, &report::find(fbc, problems.errors()));
            }
            Failure::fault(error)
        }
    })
}

/// Parses the value of `--priority`.
pub(crate) fn priority(text: &str) -> Result<(String, i64), InvalidValue> {
    let (name, number) = text.split_once('=').ok_or("expected NAME=NUMBER")?;
    Ok((name.to_owned(), number.parse().map_err(|_| "expected NAME=NUMBER")?))
}
