//! What stands in for signatures in a program that does not check them.

use ::signature::{Attached, Requirement};

use crate::client::Inner;
use crate::registry::Source;
use crate::{Digest, Error};

/// Signatures of an image: none.
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

    pub(crate) fn keep_signatures(&self, _: &Digest, _: &[Attached]) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn kept_signatures(&self, _: &Digest) -> Vec<Attached> {
        Vec::new()
    }
}
