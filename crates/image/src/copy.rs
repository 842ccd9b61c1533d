//! Copies images between locations, together with their referrers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::client::{Client, Inner};
use crate::collect::{Gatherer, ImageOrigin, TaggedDocument};
use crate::graph::ImageGraph;
use crate::layout;
use crate::manifest::{Descriptor, ImageIndex};
use crate::policy::Admission;
use crate::progress::TransferEvent;
use crate::registry::{RegistrySource, UploadOutcome, stored};
use crate::{Digest, Error, ErrorKind, Location, Reference, archive};
use crate::{Store, StoredBlob};

/// What to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyPlan {
    /// Copies the image of one platform instead of the whole index.
    pub one_platform: bool,
    /// Copies signatures and other referrers, too.
    pub referrers: bool,
}

impl Default for CopyPlan {
    fn default() -> CopyPlan {
        CopyPlan { one_platform: false, referrers: true }
    }
}

/// The result of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CopySummary {
    /// The digest of the image, the same in both locations.
    pub digest: Digest,
    /// Manifests and indexes copied, without those of referrers.
    pub documents: usize,
    /// Referrers copied.
    pub referrers: usize,
    /// Referrers skipped, because the target format cannot hold them.
    pub left_out: usize,
    /// Blobs sent.
    pub sent: usize,
    /// Bytes of blobs sent.
    pub bytes: u64,
    /// Blobs that the target already had.
    pub known: usize,
}

#[derive(Default)]
struct Counts {
    sent: AtomicUsize,
    known: AtomicUsize,
    bytes: AtomicU64,
}

impl Client {
    /// Copies an image byte for byte: an index with all its images, and their referrers.
    ///
    /// Blobs that the target has are neither fetched nor sent.
    ///
    /// # Errors
    /// Fails when the source or the target fails. Blobs copied until then stay; the tag is written last.
    pub fn copy(&self, from: &Location, to: &Location, plan: CopyPlan) -> Result<CopySummary, Error> {
        self.block_on(self.copy_async(from, to, plan))
    }

    /// The async form of [`Client::copy`].
    ///
    /// # Errors
    /// Fails as [`Client::copy`] does.
    pub(crate) async fn copy_async(
        &self,
        from: &Location,
        to: &Location,
        plan: CopyPlan,
    ) -> Result<CopySummary, Error> {
        let inner = self.inner();
        let admission = inner.allow(from)?;
        match from {
            Location::Registry(reference) if inner.options.offline => {
                let top = inner.stored(reference)?.digest;
                inner.copy_graph(ImageOrigin::Store(Arc::new(layout::empty_index())), top, to, plan, &admission).await
            }
            Location::Registry(reference) => {
                let to = to.clone();
                inner
                    .try_sources(reference, |source| {
                        let (inner, to, admission) = (inner.clone(), to.clone(), admission.clone());
                        async move { inner.copy_from(&source, &to, plan, &admission).await }
                    })
                    .await
            }
            file => {
                let (work, location) = (inner.clone(), file.clone());
                let (top, index) = tokio::task::spawn_blocking(move || {
                    let top = work.import(&location, true)?;
                    Ok::<_, Error>((top, work.file_index(&location)?))
                })
                .await
                .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, error.to_string())))?;
                inner.copy_graph(ImageOrigin::Store(Arc::new(index)), top, to, plan, &admission).await
            }
        }
    }
}

impl Inner {
    async fn copy_from(
        self: &Arc<Self>,
        source: &RegistrySource,
        to: &Location,
        plan: CopyPlan,
        admission: &Admission,
    ) -> Result<CopySummary, Error> {
        let initializing = |error: Error| error.context(format!("initializing source docker://{}", source.reference));
        let document = self.registry.manifest(source, &source.reference.version()).await.map_err(initializing)?;
        let top = self.store_document(&document)?;
        self.copy_graph(ImageOrigin::Registry(source.clone()), top, to, plan, admission).await
    }

    async fn copy_graph(
        self: &Arc<Self>,
        origin: ImageOrigin,
        mut top: Digest,
        to: &Location,
        plan: CopyPlan,
        admission: &Admission,
    ) -> Result<CopySummary, Error> {
        // Blobs that the target layout holds are neither fetched nor written again.
        let held = match to {
            Location::Layout { path, .. } => Store::existing(path),
            _ => None,
        };
        let mut gatherer = Gatherer::new(self, &origin, held.as_ref());
        // A `docker save` archive holds a single image.
        if plan.one_platform || matches!(to, Location::DockerArchive { .. }) {
            top = gatherer.choose_one(top).await?;
        }
        let graph = gatherer.image(top).await?;
        let documents = graph.documents.len();
        // The policy applies to every copied image, as for a pull.
        let source = match &origin {
            ImageOrigin::Registry(source) => Some(source),
            ImageOrigin::Store(_) => None,
        };
        for document in graph.documents.iter().filter(|document| !document.is_index()) {
            admission.check(self, source, &document.digest).await?;
        }
        let mut items = if plan.referrers { gatherer.referrers(&graph).await? } else { Vec::new() };
        let referrers = items.len();
        let counts = Arc::new(Counts::default());
        let mut left_out = 0;
        match to {
            Location::Registry(reference) => {
                let target = self.target(reference)?;
                self.send_item(&origin, &target, graph, Some(reference), &counts).await?;
                for item in items {
                    let own = match &item.tag {
                        Some(tag) => target.reference.with_tag(tag),
                        None => item.graph.top().map(|top| target.reference.with_digest(top.digest)),
                    };
                    let lists_itself = self.send_item(&origin, &target, item.graph, own.as_ref(), &counts).await?;
                    if let Some((subject, referrer)) = item.subject.filter(|_| !lists_itself) {
                        self.registry.list_referrer(&target, &subject, &referrer).await?;
                    }
                }
            }
            file => {
                if matches!(file, Location::DockerArchive { .. }) {
                    left_out = std::mem::take(&mut items).len();
                }
                for one in std::iter::once(&graph).chain(items.iter().map(|item| &item.graph)) {
                    self.fetch_blobs(&origin, one, held.as_ref(), &counts).await?;
                }
                let (inner, file) = (self.clone(), file.clone());
                let work = move || inner.save_items(&graph, &items, &file, held);
                tokio::task::spawn_blocking(work)
                    .await
                    .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, error.to_string())))?;
            }
        }
        Ok(CopySummary {
            digest: top,
            documents,
            referrers: referrers - left_out,
            left_out,
            sent: counts.sent.load(Ordering::Relaxed),
            bytes: counts.bytes.load(Ordering::Relaxed),
            known: counts.known.load(Ordering::Relaxed),
        })
    }

    /// Sends an image to a registry; returns whether the registry lists referrers itself.
    async fn send_item(
        self: &Arc<Self>,
        origin: &ImageOrigin,
        target: &RegistrySource,
        graph: ImageGraph,
        name: Option<&Reference>,
        counts: &Arc<Counts>,
    ) -> Result<bool, Error> {
        let writing = |error: Error| error.context(format!("writing docker://{}", target.reference.name()));
        let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
        for blob in graph.blobs {
            let (inner, origin, target, counts) = (self.clone(), origin.clone(), target.clone(), Arc::clone(counts));
            tasks.spawn(async move {
                let _turn = inner.blobs.acquire().await;
                let name = target.reference.to_string();
                inner.options.progress.on(&TransferEvent::Started { reference: &name, blob: &blob, received: 0 });
                let way = inner.send_blob(&origin, &target, &blob).await?;
                inner
                    .options
                    .progress
                    .on(&TransferEvent::Finished { blob: &blob, cached: way != UploadOutcome::Uploaded });
                counts.add(&blob, way);
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap_or_else(|error| Err(Error::new(ErrorKind::Network, error.to_string()))).map_err(writing)?;
        }
        let mut lists_itself = false;
        let last = graph.documents.len().saturating_sub(1);
        for (number, document) in graph.documents.iter().enumerate() {
            let tag = name.and_then(Reference::tag).filter(|_| number == last);
            let version = tag.map_or_else(|| document.digest.to_string(), str::to_owned);
            lists_itself = self.registry.put_manifest(target, document, &version).await.map_err(writing)?;
        }
        Ok(lists_itself)
    }

    async fn send_blob(
        &self,
        origin: &ImageOrigin,
        target: &RegistrySource,
        blob: &Descriptor,
    ) -> Result<UploadOutcome, Error> {
        let store = &self.options.store;
        let ImageOrigin::Registry(source) = origin else {
            return self.registry.send(target, blob, None, async || self.stored_blob(blob)).await;
        };
        let same = source.reference.host() == target.reference.host();
        let other = same.then(|| source.reference.repository());
        self.registry.send(target, blob, other, async || self.registry.fetch(source, blob, store).await).await
    }

    /// Fetches all blobs of an image into the store, except those that the target, `held`, has.
    async fn fetch_blobs(
        self: &Arc<Self>,
        origin: &ImageOrigin,
        graph: &ImageGraph,
        held: Option<&Store>,
        counts: &Arc<Counts>,
    ) -> Result<(), Error> {
        let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
        for blob in graph.blobs.clone() {
            let (inner, origin, held, counts) = (self.clone(), origin.clone(), held.cloned(), Arc::clone(counts));
            tasks.spawn(async move {
                let _turn = inner.blobs.acquire().await;
                if let Some(held) = &held
                    && stored(held, &blob).await?.is_some()
                {
                    inner.options.progress.on(&TransferEvent::Finished { blob: &blob, cached: true });
                    counts.add(&blob, UploadOutcome::Existing);
                    return Ok(());
                }
                inner.fetch_blob(&origin, &blob).await?;
                counts.add(&blob, UploadOutcome::Uploaded);
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap_or_else(|error| Err(Error::new(ErrorKind::Network, error.to_string())))?;
        }
        Ok(())
    }

    async fn fetch_blob(&self, origin: &ImageOrigin, blob: &Descriptor) -> Result<StoredBlob, Error> {
        match origin {
            ImageOrigin::Registry(source) => self.registry.fetch(source, blob, &self.options.store).await,
            ImageOrigin::Store(_) => self.stored_blob(blob),
        }
    }

    fn save_items(
        &self,
        graph: &ImageGraph,
        items: &[TaggedDocument],
        to: &Location,
        held: Option<Store>,
    ) -> Result<(), Error> {
        let writing = |error: Error| error.context(format!("writing {to}"));
        let store = &self.options.store;
        let others = || items.iter().map(|item| (&item.graph, item.tag.as_deref()));
        match to {
            Location::Layout { path, tag } => {
                let target = match held {
                    Some(held) => held,
                    None => Store::open(path).map_err(|error| writing(Error::file(path.display(), &error)))?,
                };
                for (graph, tag) in others() {
                    layout::save(store, graph, &target, tag).map_err(writing)?;
                }
                layout::save(store, graph, &target, tag.as_deref()).map_err(writing)
            }
            Location::LayoutArchive { path, tag } => {
                let all: Vec<_> = std::iter::once((graph, tag.as_deref())).chain(others()).collect();
                archive::save_layout(store, &all, path).map_err(writing)
            }
            other => crate::push::save(store, graph, other),
        }
    }

    /// Reads the index of a location whose content is in the store.
    fn file_index(&self, location: &Location) -> Result<ImageIndex, Error> {
        match location {
            Location::Layout { path, .. } => {
                let index = layout::read_index(path).map_err(|error| Error::file(path.display(), &error))?;
                // Referrers are separate entries of the index and must be in the store, too.
                self.import_referrers(path, &index)?;
                Ok(index)
            }
            Location::LayoutArchive { path, .. } => archive::read_index(path, &self.options.limits),
            _ => Ok(layout::empty_index()),
        }
    }
}

impl Counts {
    fn add(&self, blob: &Descriptor, way: UploadOutcome) {
        if way == UploadOutcome::Uploaded {
            self.sent.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(blob.size, Ordering::Relaxed);
        } else {
            self.known.fetch_add(1, Ordering::Relaxed);
        }
    }
}
