//! Serves a catalog image whose tag moves.

use serve::run::{Origin, OriginError, Polled};
use source::Followed;

/// The image as the origin of a server's catalogs.
pub(crate) struct FollowedImage(pub(crate) Followed);

impl Origin for FollowedImage {
    fn poll(&self) -> Result<Polled, OriginError> {
        Ok(match self.0.poll()? {
            source::Polled::Unchanged => Polled::Unchanged,
            source::Polled::Catalog(directory) => Polled::Catalog(directory),
            source::Polled::Unusable(error) => Polled::Unusable(error.into()),
        })
    }

    fn served(&self) {
        self.0.served();
    }
}
