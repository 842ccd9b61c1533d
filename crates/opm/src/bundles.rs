//! Bundles that a user names, read whole.

use std::path::{Path, PathBuf};

use bundle::Whole;
use fbc::Limits;

use crate::exit::Failure;
use crate::images::Images;
use crate::limits;
use crate::source::{self, Source};

/// A bundle that has been read.
pub(crate) struct Read {
    pub(crate) directory: PathBuf,
    /// The directory as the user wrote it; nothing for an image.
    pub(crate) shown: Option<String>,
    pub(crate) whole: Whole,
    pub(crate) limits: Limits,
}

/// Reads a bundle from a directory or an image.
pub(crate) fn read(reference: &str, images: &Images) -> Result<Read, Failure> {
    let local = Path::new(reference).is_dir();
    let named = |error: String| Failure::message(format!("\"{reference}\": {error}"));
    let directory = match source::resolve_one(reference, images).map_err(named)? {
        Source::Bundle(directory, _) => directory,
        Source::Catalog(path) if path.join("manifests").is_dir() => path,
        Source::Catalog(_) | Source::Database(_) => {
            return Err(Failure::message(format!(
                "\"{reference}\" is no bundle: there is no directory manifests in it"
            )));
        }
    };
    let limits = limits::from_env()?;
    let whole = bundle::read_whole(&directory, &limits).map_err(|error| Failure::message(error.to_string()))?;
    Ok(Read { directory, shown: local.then(|| reference.to_owned()), whole, limits })
}
