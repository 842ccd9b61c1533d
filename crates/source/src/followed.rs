//! Follows the tag of a catalog image.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fbc::{Fbc, Format, Limits};
use image::{Digest, Location};

use crate::database::load_database;
use crate::error::{SourceError, at};
use crate::images::{Fetched, ImageKind, Images, UnpackedIndex};
use crate::load::SourceOptions;
use crate::write::{CatalogLayout, write};

/// Unpacks the catalog of an image, and again whenever its reference resolves to another image.
pub struct Followed {
    images: Images,
    limits: Limits,
    reference: String,
    state: Mutex<Unpacked>,
}

/// What has changed.
#[derive(Debug)]
pub enum FollowedChange {
    /// Nothing.
    Unchanged,
    /// There is another catalog, in this directory.
    Catalog(PathBuf),
    /// There is another image, which cannot be used.
    Unusable(SourceError),
}

#[derive(Default)]
struct Unpacked {
    /// The digest at the last poll.
    digest: Option<Digest>,
    /// The directory of the newest image.
    newest: Option<PathBuf>,
    /// The directory of the served image.
    served: Option<PathBuf>,
}

impl Followed {
    /// Follows `reference`.
    pub fn new(images: Images, reference: &str, limits: Limits) -> Followed {
        Followed { images, limits, reference: reference.into(), state: Mutex::default() }
    }

    /// Resolves the reference. Returns `None` if that takes as long as pulling the image.
    fn digest(&self) -> Result<Option<Digest>, SourceError> {
        let Location::Registry(reference) = Location::parse(&self.reference)? else { return Ok(None) };
        Ok(Some(self.images.client()?.head(&reference)?))
    }

    /// Unpacks the catalog of an image; returns the directories of the image and of its catalog.
    fn unpack(&self, fetched: &Fetched) -> Result<(PathBuf, PathBuf), SourceError> {
        let (path, is_database) = match &fetched.kind {
            ImageKind::Catalog(path) => (path, false),
            ImageKind::Database(path) => (path, true),
            ImageKind::Bundle => return Err(SourceError::BundleImage(self.reference.clone())),
            ImageKind::Other(_) => return Err(SourceError::NoCatalogLabel(self.reference.clone())),
        };
        let UnpackedIndex { root, path } = self.images.index(&fetched.image, path)?;
        match if is_database { self.converted(&path) } else { Ok(path) } {
            Ok(catalog) => Ok((root, catalog)),
            Err(error) => {
                drop(fs::remove_dir_all(&root));
                Err(error.of_image(&self.reference))
            }
        }
    }

    /// Converts a database to a file-based catalog next to it.
    fn converted(&self, file: &Path) -> Result<PathBuf, SourceError> {
        let options = SourceOptions { keep_text: true, ..SourceOptions::catalogs(self.limits.clone(), &self.images) };
        let mut fbc = Fbc::default();
        load_database(&mut fbc, file, &options)?;
        let directory = file.with_extension("catalog");
        fs::create_dir(&directory).map_err(at(&directory))?;
        write(&fbc, &directory, CatalogLayout::Catalog(Format::Json))?;
        Ok(directory)
    }

    /// Checks for another image, and unpacks it.
    ///
    /// # Errors
    /// Fails when the image cannot be pulled, or for a local reason.
    pub fn poll(&self) -> Result<FollowedChange, SourceError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.digest.is_some() && self.digest()? == state.digest {
            return Ok(FollowedChange::Unchanged);
        }
        let fetched = self.images.fetch_one(&self.reference)?;
        if state.digest == Some(fetched.image.digest) {
            return Ok(FollowedChange::Unchanged);
        }
        let unpacked = match self.unpack(&fetched) {
            Err(error) if error.is_transient() => return Err(error),
            unpacked => unpacked,
        };
        // Even if the image is unusable, do not pull it again until it changes.
        state.digest = Some(fetched.image.digest);
        if let Err(error) = self.images.forget_others(&fetched.image) {
            let error = error.to_string();
            tracing::warn!(error, "failed to remove the blobs of an older image; retrying after the next update");
        }
        let (root, catalog) = match unpacked {
            Ok(unpacked) => unpacked,
            Err(error) => return Ok(FollowedChange::Unusable(error)),
        };
        // Remove an older image that was never served.
        let unused = state.newest.replace(root).filter(|unused| Some(unused) != state.served.as_ref());
        unused.iter().for_each(|unused| drop(fs::remove_dir_all(unused)));
        Ok(FollowedChange::Catalog(catalog))
    }

    /// Removes the image that was served before: the newest one is served now.
    pub fn served(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = state.newest.clone();
        let before =
            std::mem::replace(&mut state.served, newest).filter(|before| Some(before) != state.newest.as_ref());
        before.iter().for_each(|before| drop(fs::remove_dir_all(before)));
    }
}
