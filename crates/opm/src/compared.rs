//! Catalogs to compare with on pages.

use fbc::Limits;
use site::others::OtherCatalogs;
use source::Images;

use crate::choice::InvalidValue;
use crate::commands::diff;
use crate::exit::Failure;
use crate::printer::Printer;

/// Loads catalogs by name and reference.
///
/// # Errors
/// Fails if a catalog is invalid, after reporting its problems.
pub(crate) fn load(
    named: &[(String, String)],
    images: &Images,
    limits: &Limits,
    printer: &Printer,
) -> Result<OtherCatalogs, Failure> {
    let load = |(name, reference): &(String, String)| {
        diff::load(reference, images, limits, printer).map(|(fbc, catalog)| (name.clone(), fbc, catalog))
    };
    Ok(OtherCatalogs::new(named.iter().map(load).collect::<Result<Vec<_>, Failure>>()?, limits)?)
}

/// Parses `NAME=SOURCE`.
pub(crate) fn named(text: &str) -> Result<(String, String), InvalidValue> {
    match text.split_once('=') {
        Some((name, source)) if !name.is_empty() && !source.is_empty() => Ok((name.to_owned(), source.to_owned())),
        _ => Err("expected NAME=SOURCE".into()),
    }
}
