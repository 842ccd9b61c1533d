//! Serves a catalog image whose tag moves.

use serve::run::{Origin, Polled};
use source::Followed;

/// The image as the origin of a server's catalogs.
pub(crate) struct FollowedImage(pub(crate) Followed);

impl Origin for FollowedImage {
    fn poll(&self) -> Result<Polled, String> {
        Ok(match self.0.poll().map_err(|error| error.to_string())? {
            source::Polled::Unchanged => Polled::Unchanged,
            source::Polled::Catalog(directory) => Polled::Catalog(directory),
            source::Polled::Unusable(error) => Polled::Unusable(error.to_string()),
        })
    }

    fn served(&self) {
        self.0.served();
    }
}
