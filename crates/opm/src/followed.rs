//! The image of a catalog, followed as its tag moves.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use image::{Digest, Location};
use serve::run::{News, Origin};

use crate::images::{self, CONFIGS_LABEL, Fetched, Images, Kind, NotUnpacked};

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
        let Kind::Catalog(path) = &fetched.kind else {
            let what = match fetched.kind {
                Kind::Bundle => "is a bundle, not a catalog".to_owned(),
                Kind::Database(_) => "is a database index; serve it with 'opm registry serve'".to_owned(),
                _ => format!("has no label {CONFIGS_LABEL}"),
            };
            return Err(unusable(format!("image {:?} {what}", self.reference)));
        };
        let root = self.images.try_unpack_aside(&fetched.image, Some(path.as_ref()))?;
        match images::inside(&root, path) {
            Ok(catalog) => Ok((root, catalog)),
            Err(error) => {
                drop(fs::remove_dir_all(&root));
                Err(unusable(format!("image {:?}: {error}", self.reference)))
            }
        }
    }
}

impl Origin for Followed {
    fn look(&self) -> Result<News, String> {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        if brought.digest.is_some() && self.digest()? == brought.digest {
            return Ok(News::None);
        }
        let fetched = self.images.fetch_one(&self.reference)?;
        if brought.digest == Some(fetched.image.digest) {
            return Ok(News::None);
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
            Err(NotUnpacked { reason, .. }) => return Ok(News::Unusable(reason)),
        };
        // One that was never served is of no use to anybody now.
        let unused = brought.newest.replace(root).filter(|unused| Some(unused) != brought.served.as_ref());
        unused.iter().for_each(|unused| drop(fs::remove_dir_all(unused)));
        Ok(News::Catalog(catalog))
    }

    fn served(&self) {
        let mut brought = self.brought.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = brought.newest.clone();
        let before =
            std::mem::replace(&mut brought.served, newest).filter(|before| Some(before) != brought.newest.as_ref());
        before.iter().for_each(|before| drop(fs::remove_dir_all(before)));
    }
}
