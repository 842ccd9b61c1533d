//! Database indexes as sources of catalogs.

use std::path::Path;

use fbc::Fbc;
use legacy::{Database, Error, ManifestConversion, bounded};

use crate::error::SourceError;
use crate::load::SourceOptions;

/// The deprecation notice of database indexes.
pub const NOTICE: &str = "DEPRECATION NOTICE: sqlite-based catalogs and the commands for them are deprecated; \
                          'opm migrate' converts one to a file-based catalog";

/// Adds the content of a database to `fbc`, without changing the file.
///
/// # Errors
/// Fails when the database cannot be read.
pub fn load_database(fbc: &mut Fbc, path: &Path, options: &SourceOptions<'_>) -> Result<(), SourceError> {
    let progress = options.images.progress();
    progress.warn(NOTICE);
    let manifests = match (options.keep_text, options.migrate) {
        (false, _) => ManifestConversion::Omit,
        (true, false) => ManifestConversion::Objects,
        (true, true) => ManifestConversion::Metadata,
    };
    let database = read(path, &|warning| progress.warn(warning))?;
    let warnings = database.convert(fbc, manifests, &options.limits)?;
    warnings.into_iter().for_each(|warning| progress.warn(&bounded(warning)));
    Ok(())
}

/// Opens a database for reading, without changing the file.
///
/// # Errors
/// Fails when it cannot be read.
pub fn read(path: &Path, warn: &dyn Fn(&str)) -> Result<Database, Error> {
    let database = Database::read(path)?;
    database.warning()?.iter().for_each(|warning| warn(warning));
    Ok(database)
}
