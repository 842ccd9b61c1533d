//! Serves a catalog image whose tag moves.

use serve::run::{CatalogOrigin, OriginError, PollOutcome};
use source::Followed;

/// The image as the origin of a server's catalogs.
pub(crate) struct FollowedImage(pub(crate) Followed);

impl CatalogOrigin for FollowedImage {
    fn poll(&self) -> Result<PollOutcome, OriginError> {
        Ok(match self.0.poll()? {
            source::FollowedChange::Unchanged => PollOutcome::Unchanged,
            source::FollowedChange::Catalog(directory) => PollOutcome::Catalog(directory),
            source::FollowedChange::Unusable(error) => PollOutcome::Unusable(error.into()),
        })
    }

    fn served(&self) {
        self.0.served();
    }
}
