//! The image of a catalog, followed as its tag moves.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fbc::{Fbc, Format};
use image::{Digest, Location};
use serve::run::{Origin, Polled};

use crate::commands::migrate;
use crate::exit::Failure;
use crate::images::{self, CONFIGS_LABEL, Fetched, Images, Kind, NotUnpacked};
use crate::printer::Printer;
use crate::{database, limits, source};

/// Brings the catalog of an image, and brings it again when the reference means another image.
pub(crate) struct Followed {
    images: Images,
    reference: String,
    brought: Mutex<Brought>,
}

#[derive(Default)]
struct Brought {
    /// What the reference meant last.
    digest: Option<Digest>,
    /// Where the newest image is unpacked.
    newest: Option<PathBuf>,
    /// Where the one that is served is.
    served: Option<PathBuf>,
}

impl Followed {
    pub(crate) fn new(images: Images, reference: &str) -> Followed {
        Followed { images, reference: reference.into(), brought: Mutex::default() }
    }

    /// Asks what the reference means now, unless that takes as long as pulling it.
    fn digest(&self) -> Result<Option<Digest>, String> {
        let location = Location::parse(&self.reference).map_err(|error| error.to_string())?;
        let Location::Registry(reference) = location else { return Ok(None) };
        self.images.client()?.head(&reference).map(Some).map_err(|error| error.to_string())
    }
}

impl Followed {
    /// Unpacks the catalog of an image; returns where the image is, and where in it the catalog.
    fn unpack(&self, fetched: &Fetched) -> Result<(PathBuf, PathBuf), NotUnpacked> {
        let unusable = |reason: String| NotUnpacked { reason, transient: false };
        let (path, is_database) = match &fetched.kind {
            Kind::Catalog(path) => (path, false),
            Kind::Database(path) => (path, true),
            Kind::Bundle => return Err(unusable(format!("image {:?} is a bundle, not a catalog", self.reference))),
            Kind::Other(_) => return Err(unusable(format!("image {:?} has no label {CONFIGS_LABEL}", self.reference))),
        };
        let root = self.images.try_unpack_aside(&fetched.image, Some(path.as_ref()))?;
        let found = images::inside(&root, path);
        match if is_database { found.and_then(|file| self.converted(&file)) } else { found } {
            Ok(catalog) => Ok((root, catalog)),
            Err(error) => {
                drop(fs::remove_dir_all(&root));
                Err(unusable(format!("image {:?}: {error}", self.reference)))
            }
        }
    }
}

impl Followed {
    /// Makes a file-based catalog of a database, next to it.
    fn converted(&self, file: &Path) -> Result<PathBuf, String> {
        let failed = |failure: Failure| match failure {
            Failure::Message(text) => text,
            other => format!("the database cannot be converted: {other:?}"),
        };
        let limits = limits::from_env().map_err(failed)?;
        let options = source::Options { keep_text: true, ..source::Options::catalogs(limits, &self.images) };
        let mut fbc = Fbc::default();
        database::load(&mut fbc, file, &options, &Printer::new())?;
        let directory = file.with_extension("catalog");
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        migrate::write(&fbc, &directory, Format::Json).map_err(failed)?;
        Ok(directory)
    }
}

impl Origin for Followed {
    fn poll(&self) -> Result<Polled, String> {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        if brought.digest.is_some() && self.digest()? == brought.digest {
            return Ok(Polled::Unchanged);
        }
        let fetched = self.images.fetch_one(&self.reference)?;
        if brought.digest == Some(fetched.image.digest) {
            return Ok(Polled::Unchanged);
        }
        let unpacked = self.unpack(&fetched);
        if let Err(NotUnpacked { reason, transient: true }) = unpacked {
            return Err(reason);
        }
        // Whatever it is, nobody asks for it again before it changes.
        brought.digest = Some(fetched.image.digest);
        if let Err(error) = self.images.forget_others(&fetched.image) {
            tracing::warn!(error, "blobs of an older image stay until the next one comes");
        }
        let (root, catalog) = match unpacked {
            Ok(unpacked) => unpacked,
            Err(NotUnpacked { reason, .. }) => return Ok(Polled::Unusable(reason)),
        };
        // One that was never served is of no use to anybody now.
        let unused = brought.newest.replace(root).filter(|unused| Some(unused) != brought.served.as_ref());
        unused.iter().for_each(|unused| drop(fs::remove_dir_all(unused)));
        Ok(Polled::Catalog(catalog))
    }

    fn served(&self) {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = brought.newest.clone();
        let before =
            std::mem::replace(&mut brought.served, newest).filter(|before| Some(before) != brought.newest.as_ref());
        before.iter().for_each(|before| drop(fs::remove_dir_all(before)));
    }
}
