//! Reads the bundles that a user names.

use std::path::{Path, PathBuf};

use bundle::{Finding, Whole};
use fbc::Limits;

use crate::exit::Failure;
use crate::findings;
use crate::images::Images;
use crate::interrupt::Unfinished;
use crate::limits;
use crate::source::{self, Source};

/// A loaded bundle.
pub(crate) struct Read {
    pub(crate) directory: PathBuf,
    /// The directory as the user wrote it; `None` for an image.
    pub(crate) shown: Option<String>,
    pub(crate) whole: Whole,
    pub(crate) limits: Limits,
    /// The temporary directory for objects from a catalog. The user cannot open its files.
    pub(crate) scratch: Option<Unfinished>,
}

impl Read {
    /// Reads a bundle directory.
    pub(crate) fn from_directory(directory: PathBuf, shown: Option<String>) -> Result<Read, Failure> {
        let limits = limits::from_env()?;
        let whole = bundle::read_whole(&directory, &limits).map_err(|error| Failure::message(error.to_string()))?;
        Ok(Read { directory, shown, whole, limits, scratch: None })
    }

    /// Adds lines to findings if the user can open the bundle's files.
    pub(crate) fn locate(&self, found: &mut [Finding]) {
        match self.scratch {
            None => findings::locate(found, &self.directory, self.shown.as_deref(), &self.limits),
            Some(_) => found.iter_mut().for_each(|finding| finding.file.clear()),
        }
    }
}

/// Reads a bundle from a directory or an image.
pub(crate) fn read(reference: &str, images: &Images) -> Result<Read, Failure> {
    let local = Path::new(reference).is_dir();
    let named = |error: String| Failure::message(format!("\"{reference}\": {error}"));
    let directory = match source::resolve_one(reference, images).map_err(named)? {
        Source::Bundle(directory, _) => directory,
        Source::Catalog(path) if path.join("manifests").is_dir() => path,
        Source::Catalog(_) | Source::Database(_) => return Err(no_bundle(reference)),
    };
    Read::from_directory(directory, local.then(|| reference.to_owned()))
}

/// Returns the failure for a reference that is not a bundle.
pub(crate) fn no_bundle(reference: &str) -> Failure {
    Failure::message(format!("\"{reference}\" is not a bundle: it has no directory 'manifests'"))
}
