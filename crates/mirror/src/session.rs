//! What all operations on a mirror share: one client with one store, and a listener.

use fbc::Limits;
use image::{Client, Store};
use source::{Images, RunningStage};

use crate::MirrorError;
use crate::report::MissingImage;

/// Hears what users should know at once.
pub trait MirrorProgress {
    /// A consequence of the request.
    fn note(&self, note: &str);

    /// Something is probably not intended.
    fn warn(&self, warning: &str);

    /// Images are missing, or failed.
    fn missing(&self, missing: &[MissingImage]);

    /// Blobs of this total size are transferred until the returned value is dropped. The client reports the bytes.
    fn transfer(&self, doing: &'static str, bytes: u64) -> Box<dyn RunningStage>;
}

/// One client with one store. Catalogs are opened and images are moved through it, under one policy.
pub struct MirrorSession<'a> {
    /// Pulls and unpacks catalogs.
    pub(crate) images: &'a Images,
    /// Moves images.
    pub(crate) client: &'a Client,
    /// Limits of catalogs.
    pub(crate) limits: &'a Limits,
    pub(crate) progress: &'a dyn MirrorProgress,
}

impl<'a> MirrorSession<'a> {
    /// Uses the client of `images` for everything.
    ///
    /// # Errors
    /// Fails when the settings of the client cannot be used.
    pub fn new(
        images: &'a Images,
        limits: &'a Limits,
        progress: &'a dyn MirrorProgress,
    ) -> Result<MirrorSession<'a>, MirrorError> {
        Ok(MirrorSession { images, client: images.client()?, limits, progress })
    }

    pub(crate) fn store(&self) -> &'a Store {
        &self.client.options().store
    }

    pub(crate) fn notes(&self, notes: &[String]) {
        notes.iter().for_each(|note| self.progress.note(note));
    }
}
