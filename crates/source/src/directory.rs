//! Catalogs as directories.

use std::fs;
use std::path::{Path, PathBuf};

use fbc::scratch::TempFolder;
use fbc::{Fbc, Format, Limits};

use crate::database::load_database;
use crate::error::{SourceError, at};
use crate::images::Images;
use crate::load::SourceOptions;
use crate::resolve::{NamedSource, resolve_one};
use crate::write::{CatalogLayout, write};

/// The directory of a catalog.
pub struct CatalogDirectory {
    path: PathBuf,
    /// The directory that exists only as long as this value.
    _made: Option<TempFolder>,
}

impl CatalogDirectory {
    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the directory of a catalog: unpacks an image, converts a database, and copies a single file.
///
/// # Errors
/// Fails when the source is a bundle, or cannot be read.
pub fn directory(reference: &str, images: &Images, limits: &Limits) -> Result<CatalogDirectory, SourceError> {
    let path = Path::new(reference);
    if path.is_dir() {
        return Ok(CatalogDirectory { path: path.to_path_buf(), _made: None });
    }
    match resolve_one(reference, images).map_err(|error| error.named(reference))? {
        NamedSource::Catalog(file) if file.is_file() => {
            let made = TempFolder::private("opm-catalog-")?;
            fs::copy(&file, made.path().join(file.file_name().unwrap_or_default())).map_err(at(&file))?;
            Ok(CatalogDirectory { path: made.path().to_path_buf(), _made: Some(made) })
        }
        NamedSource::Catalog(path) => Ok(CatalogDirectory { path, _made: None }),
        NamedSource::Bundle(..) => Err(SourceError::Bundle(reference.to_owned())),
        NamedSource::Database(file) => {
            let options = SourceOptions { keep_text: true, ..SourceOptions::catalogs(limits.clone(), images) };
            let mut fbc = Fbc::default();
            load_database(&mut fbc, &file, &options).map_err(|error| error.named(reference))?;
            let made = TempFolder::private("opm-catalog-")?;
            write(&fbc, made.path(), CatalogLayout::Catalog(Format::Json))?;
            Ok(CatalogDirectory { path: made.path().to_path_buf(), _made: Some(made) })
        }
    }
}
