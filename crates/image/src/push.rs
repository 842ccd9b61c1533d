//! Pushes images from a store to registries, directories and files.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::StoredBlob;
use crate::client::{Client, Inner};
use crate::graph::ImageGraph;
use crate::progress::TransferEvent;
use crate::registry::RegistrySource;
use crate::{Descriptor, Digest, Error, ErrorKind, Location, Reference, Store, archive, layout};

impl Client {
    /// Pushes an image, or an index with all its images, from the store to a location.
    ///
    /// Blobs that the registry has are not sent again. A layout keeps its other images; a file is replaced.
    ///
    /// # Errors
    /// Fails when a part of the image is missing from the store, or the target rejects it.
    pub fn push(&self, image: &Digest, to: &Location) -> Result<(), Error> {
        self.block_on(self.push_async(image, to))
    }

    /// The async form of [`Client::push`].
    ///
    /// # Errors
    /// Fails as [`Client::push`] does.
    pub(crate) async fn push_async(&self, image: &Digest, to: &Location) -> Result<(), Error> {
        let inner = self.inner();
        let graph = ImageGraph::of(&inner.options.store, image, &inner.options.limits)?;
        match to {
            Location::Registry(reference) => inner.push_graph(graph, reference).await,
            other => {
                let (inner, other) = (inner.clone(), other.clone());
                let work = move || save(&inner.options.store, &graph, &other);
                tokio::task::spawn_blocking(work)
                    .await
                    .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, error.to_string())))
            }
        }
    }
}

impl Inner {
    /// Returns a blob of the store to read; a missing blob is an error.
    pub(crate) fn stored_blob(&self, blob: &Descriptor) -> Result<StoredBlob, Error> {
        let missing =
            || Error::new(ErrorKind::NotFound, format!("blob {} is missing from the store or damaged", blob.digest));
        let found = self.options.store.find(blob).map_err(|error| Error::file("reading a blob", &error))?;
        found.ok_or_else(missing)
    }

    /// Returns the source that a push to `reference` uses.
    pub(crate) fn target(&self, reference: &Reference) -> Result<RegistrySource, Error> {
        if self.options.offline {
            return Err(Error::new(ErrorKind::Offline, format!("{reference}: network access is disabled")));
        }
        // Mirrors are read-only; the last candidate is the registry itself.
        let candidates = self.conf()?.candidates(reference)?;
        Ok(candidates
            .into_iter()
            .last()
            .map_or_else(|| RegistrySource::new(reference.clone()), |candidate| candidate.source))
    }

    async fn push_graph(self: &Arc<Self>, graph: ImageGraph, reference: &Reference) -> Result<(), Error> {
        let writing = |error: Error| error.context(format!("writing docker://{reference}"));
        let target = self.target(reference)?;
        let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
        for blob in graph.blobs {
            let (inner, target) = (self.clone(), target.clone());
            tasks.spawn(async move {
                let _turn = inner.blobs.acquire().await;
                let name = target.reference.to_string();
                inner.options.progress.on(&TransferEvent::Started { reference: &name, blob: &blob, received: 0 });
                let stored = async || inner.stored_blob(&blob);
                let sent = inner.registry.send(&target, &blob, None, stored).await?;
                let cached = sent != crate::registry::UploadOutcome::Uploaded;
                inner.options.progress.on(&TransferEvent::Finished { blob: &blob, cached });
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap_or_else(|error| Err(Error::new(ErrorKind::Network, error.to_string()))).map_err(writing)?;
        }
        let last = graph.documents.len().saturating_sub(1);
        for (number, document) in graph.documents.iter().enumerate() {
            let version = match reference.tag() {
                Some(tag) if number == last && reference.digest().is_none() => tag.to_owned(),
                _ => document.digest.to_string(),
            };
            if number == last && reference.digest().is_some_and(|digest| *digest != document.digest) {
                let text = format!("the image has digest {}, which does not match", document.digest);
                return Err(writing(Error::new(ErrorKind::Digest, text)));
            }
            self.registry.put_manifest(&target, document, &version).await.map_err(writing)?;
        }
        Ok(())
    }
}

/// Writes an image to a directory or a file.
pub(crate) fn save(store: &Store, graph: &ImageGraph, to: &Location) -> Result<(), Error> {
    let writing = |error: Error| error.context(format!("writing {to}"));
    let outcome = match to {
        Location::Layout { path, tag } => layout::save_to(store, graph, path, tag.as_deref()),
        Location::LayoutArchive { path, tag } => archive::save_layout(store, &[(graph, tag.as_deref())], path),
        Location::DockerArchive { path, reference } => archive::save_docker(store, graph, path, reference.as_deref()),
        Location::Registry(_) => Err(Error::new(ErrorKind::Unsupported, "a registry is not a file")),
    };
    outcome.map_err(writing)
}
