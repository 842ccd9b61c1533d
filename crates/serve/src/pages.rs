//! The interface to the renderer of web pages, and the catalog data that pages show.

use std::io;
use std::sync::Arc;

use site::console::{ConsoleReply, ConsoleRequest, ConsoleStore};
use site::others::OtherCatalogs;
use site::pages::changes::ComparedCatalog;

use crate::cache::Cache;
use crate::cache::store::{self, PrepareError};
use crate::content::{BlobFilter, ContentReader, ContentSelection};
use crate::live::{Blobs, ServerState};
use crate::load::{Quarantined, ServedDirectory};
use crate::snapshot::NoBlobs;

/// Renders pages of a catalog.
pub trait Pages: Send + Sync {
    /// Answers a request from one catalog, or while none is loaded; `None` if the path is unknown.
    fn answer(
        &self,
        request: &ConsoleRequest<'_>,
        summaries: Option<&PackageSummaries>,
        state: &ServerState,
    ) -> Option<ConsoleReply>;

    /// Returns the served revision for open pages, in one line of JSON; `None` while no catalog is loaded.
    fn event(&self, summaries: Option<&PackageSummaries>, state: &ServerState) -> Option<String>;

    /// Notifies the renderer that a catalog replaced another.
    fn swapped(&self, old: &PackageSummaries, new: &PackageSummaries);

    /// Returns a counter that increases when pages of the same catalog change.
    fn changes(&self) -> u64;

    /// Drops data that was not used for a while, and returns whether there was any.
    fn tidy(&self) -> bool;
}

/// The data of one catalog that pages are rendered from.
#[derive(Clone)]
pub struct PackageSummaries {
    pub(crate) cache: Arc<Cache>,
    pub(crate) blobs: Blobs,
}

impl ConsoleStore for PackageSummaries {
    fn revision(&self) -> String {
        self.cache.revision()
    }

    fn packages(&self) -> Vec<String> {
        self.cache.package_names()
    }

    fn summary(&self, package: &str) -> io::Result<Vec<u8>> {
        self.cache.summary(package)
    }

    fn icon(&self, package: &str) -> io::Result<Vec<u8>> {
        self.cache.icon(package)
    }

    fn bundle(&self, package: &str, bundle: &str) -> io::Result<String> {
        let content = match &self.blobs {
            Blobs::Ready(content) => content,
            Blobs::Loading => return Err(io::Error::other("the blobs of the catalog are still being loaded")),
            Blobs::Unavailable(reason) => return Err(io::Error::other(reason.clone())),
        };
        let filter = BlobFilter { schema: fbc::blob::BUNDLE.into(), package: package.into(), name: bundle.into() };
        let pick = content.find(&filter);
        let length = usize::try_from(content.length_of(pick)).map_err(io::Error::other)?;
        if length == 0 {
            return Err(io::Error::other("the catalog has no such blob"));
        }
        let mut reader = ContentReader::new(Arc::clone(content), ContentSelection::Lines(pick, 0));
        let bytes = reader.read(length)?;
        String::from_utf8(bytes).map_err(io::Error::other)
    }
}

impl PackageSummaries {
    /// Loads a catalog to render pages only: writes no cache and serves nothing.
    ///
    /// # Errors
    /// Fails when the catalog cannot be served, or its files change meanwhile.
    pub fn of(directory: &ServedDirectory) -> Result<(PackageSummaries, Vec<Quarantined>), PrepareError> {
        let mut prepared = store::prepare(directory, None, store::Integrity::Rebuild)?;
        let content = match crate::snapshot::blobs_of(directory, &prepared.cache, &mut prepared.reading) {
            Ok(content) => content,
            Err(NoBlobs::Changed) => return Err(io::Error::other("the catalog changed while it was read").into()),
            Err(NoBlobs::Failed(reason)) => return Err(io::Error::other(reason).into()),
        };
        let blobs = Blobs::Ready(Arc::new(content));
        Ok((PackageSummaries { cache: prepared.cache, blobs }, prepared.quarantined))
    }

    /// Returns all blobs of a package, a line each, as the API sends them.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    pub fn blobs(&self, package: &str) -> io::Result<Vec<u8>> {
        let Blobs::Ready(content) = &self.blobs else { return Ok(Vec::new()) };
        let pick = content.of_package(package);
        let length = usize::try_from(content.length_of(pick)).map_err(io::Error::other)?;
        ContentReader::new(Arc::clone(content), ContentSelection::Lines(pick, 0)).read(length)
    }

    /// Compares the catalog with all others.
    pub fn compare(&self, others: &OtherCatalogs) -> Vec<ComparedCatalog> {
        others.compare(&self.packages(), &|package| self.blobs(package))
    }
}
