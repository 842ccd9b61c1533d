//! Stubs for builds without signature verification.

use ::signature::{Attached, Requirement};

use crate::client::Inner;
use crate::registry::{Document, Source};
use crate::{Digest, Error};

/// The signatures of an image: always none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    pub(crate) signatures: Vec<Attached>,
    pub(crate) searched: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Inner {
    pub(crate) async fn collect(&self, _: &Source, _: &Digest, _: &[Requirement]) -> Result<Collected, Error> {
        Ok(Collected::default())
    }

    pub(crate) fn add_attachments(&self, _: &str, _: &Document, _: &mut Collected) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn cache_signatures(&self, _: &Digest, _: &[Attached]) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn cached_signatures(&self, _: &Digest) -> Vec<Attached> {
        Vec::new()
    }
}
