//! The interface to the renderer of web pages: requests, replies and the catalog data that pages show.

use std::io;
use std::sync::Arc;

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
        request: &PageRequest<'_>,
        summaries: Option<&PackageSummaries>,
        state: &ServerState,
    ) -> Option<PageReply>;

    /// Returns the served revision for open pages, in one line of JSON; `None` while no catalog is loaded.
    fn event(&self, summaries: Option<&PackageSummaries>, state: &ServerState) -> Option<String>;

    /// Notifies the renderer that a catalog replaced another.
    fn swapped(&self, old: &PackageSummaries, new: &PackageSummaries);

    /// Returns a counter that increases when pages of the same catalog change.
    fn changes(&self) -> u64;

    /// Drops data that was not used for a while, and returns whether there was any.
    fn tidy(&self) -> bool;
}

/// A request for a page.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// The path, without the slash at its start.
    pub path: &'a str,
    /// The query, without the question mark.
    pub query: &'a str,
    /// Whether the client prefers HTML.
    pub html: bool,
}

/// The kind of a reply, which decides its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    Page,
    /// A static file whose name contains a hash of its bytes.
    Asset,
    /// An icon from the catalog; its name changes with its bytes.
    Picture,
    /// Data.
    Data,
}

/// A reply.
#[derive(Debug, Clone)]
pub struct PageReply {
    pub status: u16,
    pub media_type: &'static str,
    /// The kind of content.
    pub kind: PageKind,
    /// The target of a redirect.
    pub location: Option<String>,
    /// The content.
    pub body: Vec<u8>,
}

/// The data of one catalog that pages are rendered from.
#[derive(Clone)]
pub struct PackageSummaries {
    pub(crate) cache: Arc<Cache>,
    pub(crate) blobs: Blobs,
}

impl PackageSummaries {
    /// Returns the digest of the catalog's content.
    pub fn revision(&self) -> String {
        self.cache.revision()
    }

    /// Returns the names of its packages, in order.
    pub fn packages(&self) -> Vec<String> {
        self.cache.package_names()
    }

    /// Returns the page data of a package.
    ///
    /// # Errors
    /// Fails when there is none, or it is damaged.
    pub fn summary(&self, package: &str) -> io::Result<Vec<u8>> {
        self.cache.summary(package)
    }

    /// Returns the icon of a package.
    ///
    /// # Errors
    /// Fails when there is no such package, or the icon is damaged.
    pub fn icon(&self, package: &str) -> io::Result<Vec<u8>> {
        self.cache.icon(package)
    }

    /// Returns the JSON of a bundle's blob.
    ///
    /// # Errors
    /// Fails with the reason why it cannot be read, or not yet.
    pub fn bundle(&self, package: &str, bundle: &str) -> io::Result<String> {
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
}
