//! Writes a catalog as a directory.

use std::fs;
use std::io::BufWriter;
use std::path::Path;

use fbc::{Arrangement, Blob, Fbc, Format};

use crate::error::{SourceError, at};

/// Writes a catalog with one directory per package.
///
/// # Errors
/// Fails when a package has no name for a directory, or a file cannot be written.
pub fn write(fbc: &Fbc, directory: &Path, format: Format) -> Result<(), SourceError> {
    let name = match format {
        Format::Json => "catalog.json",
        Format::Yaml => "catalog.yaml",
    };
    let blobs = fbc.in_order();
    for group in blobs.chunk_by(|a, b| a.package == b.package) {
        let package = &*group[0].package;
        let place = match package {
            "" => directory.to_path_buf(),
            name if !fbc::is_file_name(name) => return Err(SourceError::PackageName(name.to_owned())),
            name => directory.join(name),
        };
        if !package.is_empty() {
            fs::create_dir(&place).map_err(at(&place))?;
        }
        write_file(fbc, group, &place.join(name), format)?;
    }
    Ok(())
}

fn write_file(fbc: &Fbc, blobs: &[&Blob], path: &Path, format: Format) -> Result<(), SourceError> {
    let file = fs::File::create_new(path).map_err(at(path))?;
    let mut out = BufWriter::new(file);
    fbc.write_arranged(blobs, format, Arrangement::Complete, &mut out).map_err(at(path))
}
