//! Pushes a set of images to a registry: blobs first, then manifests, tags last.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use crate::blob::{FileRange, StoredBlob};
use crate::client::{Client, Inner};
use crate::graph::{Child, GraphBudget, ImageGraph};
use crate::manifest::{Descriptor, Platform};
use crate::progress::TransferEvent;
use crate::registry::{ManifestDocument, UploadOutcome, stored};
use crate::scheduler::for_each_by_registry;
use crate::set::{BlobRequest, ROUNDS, retry_delay, settle};
use crate::{Digest, Error, ErrorKind, Reference};

/// Granularity of the spool: one kilobyte.
const SPOOL_UNIT: u64 = 1 << 10;

/// Where the blobs to push come from.
#[derive(Debug)]
pub enum BlobSource {
    Store,
    /// Byte ranges of files, such as archives.
    Files(HashMap<Digest, Vec<FileRange>>),
    /// Other registries. The store buffers at most `spool` bytes of them.
    Registries {
        /// Images that contain each blob.
        from: HashMap<Digest, Vec<Arc<Reference>>>,
        /// Maximum number of buffered bytes.
        spool: u64,
    },
}

/// A blob and its target repositories.
#[derive(Debug, Clone)]
pub struct BlobPush {
    pub blob: Descriptor,
    /// The target repositories, without duplicates.
    pub to: Vec<Reference>,
    /// Another repository of the registry that has the blob, to mount from.
    pub mount_from: Option<Reference>,
}

/// The result of pushing blobs.
#[derive(Debug, Default)]
pub struct BlobPushSummary {
    /// Blobs sent.
    pub sent: usize,
    /// Bytes sent.
    pub bytes: u64,
    /// Repositories that mounted a blob from another repository.
    pub mounted: usize,
    /// Repositories that already had a blob.
    pub known: usize,
    /// The failed blobs and their errors.
    pub failed: HashMap<Digest, Error>,
}

/// An image whose manifests are pushed to a repository by digest, without a tag.
#[derive(Debug, Clone)]
pub struct ManifestPush {
    /// The target repository.
    pub to: Reference,
    pub image: Digest,
    /// The platforms to push; empty means all.
    pub platforms: Vec<Platform>,
    /// The subject, if the image is a referrer that registries list by its subject.
    pub subject: Option<Digest>,
}

#[derive(Default)]
struct Counts {
    sent: AtomicUsize,
    bytes: AtomicU64,
    mounted: AtomicUsize,
    known: AtomicUsize,
}

impl Client {
    /// Pushes blobs to the repositories of a registry: sends each blob once and mounts it in the other repositories.
    /// Transient failures are retried after the remaining blobs are done.
    pub fn push_blobs(&self, mut pushes: Vec<BlobPush>, supply: BlobSource) -> BlobPushSummary {
        pushes.sort_by(|a, b| b.blob.size.cmp(&a.blob.size).then_with(|| a.blob.digest.cmp(&b.blob.digest)));
        let room = match &supply {
            BlobSource::Registries { spool, .. } => (spool / SPOOL_UNIT).clamp(1, u64::from(u32::MAX)),
            _ => 1,
        };
        let (supply, counts) = (Arc::new(supply), Arc::new(Counts::default()));
        let spool = Arc::new(Semaphore::new(usize::try_from(room).unwrap_or(usize::MAX >> 4)));
        let all = pushes.len();
        let failed = self.block_on(async {
            let mut failed: HashMap<Digest, Error> = HashMap::new();
            for round in 0..=ROUNDS {
                if round > 0 {
                    // Transient failures are retried: the registry may be back. A registry that accepted nothing is
                    // down.
                    pushes.retain(|it| failed.get(&it.blob.digest).is_some_and(|it| it.kind() == ErrorKind::Network));
                    if pushes.is_empty() || pushes.len() == all {
                        break;
                    }
                    tokio::time::sleep(retry_delay(self.inner().options.retries.first_delay, round)).await;
                }
                let items = pushes.iter().map(|push| (String::new(), push));
                let outcomes = for_each_by_registry(self.inner().options.parallel, items, |push: &BlobPush| {
                    let push = push.clone();
                    let (inner, supply, counts) = (self.inner(), Arc::clone(&supply), Arc::clone(&counts));
                    let spool = Arc::clone(&spool);
                    async move {
                        let outcome = inner.push_blob(&push, &supply, &spool, room, &counts).await;
                        (push.blob.digest, outcome)
                    }
                });
                settle(&mut failed, pushes.iter().map(|it| it.blob.digest), outcomes.await);
            }
            failed
        });
        BlobPushSummary {
            sent: counts.sent.load(Ordering::Relaxed),
            bytes: counts.bytes.load(Ordering::Relaxed),
            mounted: counts.mounted.load(Ordering::Relaxed),
            known: counts.known.load(Ordering::Relaxed),
            failed,
        }
    }

    /// Pushes the manifests of images by digest. All their blobs must be present. Returns the results in the order of
    /// `images`.
    pub fn push_manifests(&self, images: &[ManifestPush]) -> Vec<Result<(), Error>> {
        self.each(images, |inner, image| async move { inner.push_manifest(&image).await })
    }

    /// Tags images that are already in their repositories, with one request per tag.
    pub fn push_tags(&self, names: &[(Reference, Digest)]) -> Vec<Result<(), Error>> {
        self.each(names, |inner, (name, digest)| async move {
            let target = inner.target(&name)?;
            let document = inner.read_document(&digest)?;
            inner.registry.put_manifest(&target, &document, &name.version()).await.map(|_| ())
        })
    }

    /// Checks for each repository whether its registry responds and accepts uploads.
    pub fn may_push(&self, repositories: &[Reference]) -> Vec<Result<(), Error>> {
        self.each(repositories, |inner, repository| async move {
            let target = inner.target(&repository)?;
            inner.registry.check_push(&target).await
        })
    }

    /// Returns whether `to` can mount a blob from `from`, another repository of the same registry.
    ///
    /// # Errors
    /// Fails when the registry does not respond.
    pub fn may_mount(&self, blob: &Descriptor, from: &Reference, to: &Reference) -> Result<bool, Error> {
        let inner = self.inner();
        let target = inner.target(to)?;
        self.block_on(inner.registry.check_mount(&target, blob, from.repository()))
    }

    /// Returns the digest of each image that the registry has, looked up by digest or tag.
    pub fn current_digests(&self, images: &[Reference]) -> Vec<Result<Option<Digest>, Error>> {
        self.each(images, |inner, image| async move {
            let target = inner.target(&image)?;
            inner.registry.find_manifest(&target, &image.version()).await
        })
    }

    /// Returns for each image of a registry the digests that it reaches: its own, and those that its index lists,
    /// whether the registry has them or not. An image that does not exist reaches nothing.
    pub fn reached(&self, images: &[Reference]) -> Vec<Result<BTreeSet<Digest>, Error>> {
        self.each(images, |inner, image| async move { inner.reached(&image).await })
    }

    /// Returns the repositories that lack each of these blobs.
    pub fn missing_from(&self, pushes: &[BlobPush]) -> Vec<Result<Vec<Reference>, Error>> {
        self.each(pushes, |inner, push| async move {
            let mut missing_from = Vec::new();
            for to in push.to {
                if !inner.registry.has_blob(&inner.target(&to)?, &push.blob).await? {
                    missing_from.push(to);
                }
            }
            Ok(missing_from)
        })
    }

    /// Lists the tags of a repository; empty if the repository does not exist.
    ///
    /// # Errors
    /// Fails when the registry does not respond or has too many tags.
    pub fn tags(&self, repository: &Reference) -> Result<Vec<String>, Error> {
        let inner = self.inner();
        let target = inner.target(repository)?;
        self.block_on(inner.registry.tags(&target))
    }

    /// Deletes images from a registry by digest. Returns whether each existed.
    pub fn remove(&self, images: &[Reference]) -> Vec<Result<bool, Error>> {
        self.each(images, |inner, image| async move {
            let target = inner.target(&image)?;
            inner.registry.delete_manifest(&target, &image.version()).await
        })
    }

    /// Runs `work` for each item, several concurrently, and returns the results in the order of `items`.
    fn each<I, T, F, W>(&self, items: &[I], work: F) -> Vec<Result<T, Error>>
    where
        I: Clone + Send + Sync + 'static,
        T: Send + 'static,
        F: Fn(Arc<Inner>, I) -> W + Send + Sync,
        W: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let aborted = || Error::new(ErrorKind::Network, "the request was aborted");
        let mut outcomes: Vec<Result<T, Error>> = items.iter().map(|_| Err(aborted())).collect();
        let all = items.iter().enumerate().map(|item| (String::new(), item));
        let done = self.block_on(for_each_by_registry(self.inner().options.parallel, all, |(number, item)| {
            let future = work(self.inner(), item.clone());
            async move { (number, future.await) }
        }));
        for (number, outcome) in done {
            outcomes[number] = outcome;
        }
        outcomes
    }
}

impl Inner {
    async fn push_blob(
        &self,
        push: &BlobPush,
        supply: &BlobSource,
        spool: &Semaphore,
        room: u64,
        counts: &Counts,
    ) -> Result<(), Error> {
        let blob = &push.blob;
        let mut first = push.mount_from.as_ref().map(Reference::repository);
        let mut held = None;
        let mut cached = true;
        let mut absent = Vec::new();
        for to in &push.to {
            let target = self.target(to)?;
            if self.registry.is_down(&target) {
                let text = format!("skipped: {} has failed repeatedly", to.host());
                return Err(Error::new(ErrorKind::Network, text));
            }
            // A registry that ran out of disk space may fail existence checks until the blob is sent again.
            match self.registry.has_blob(&target, blob).await.unwrap_or(false) {
                true => {
                    counts.known.fetch_add(1, Ordering::Relaxed);
                    first = Some(to.repository());
                }
                false => absent.push((to, target)),
            }
        }
        for (to, target) in absent {
            let fetch = async || {
                if let BlobSource::Registries { from, .. } = supply
                    && from.contains_key(&blob.digest)
                    && held.is_none()
                    && stored(&self.options.store, blob).await?.is_none()
                {
                    let share = (blob.size / SPOOL_UNIT + 1).min(room);
                    held = spool.acquire_many(u32::try_from(share).unwrap_or(u32::MAX)).await.ok();
                }
                self.content_of(blob, supply).await
            };
            let way = self.registry.upload_missing(&target, blob, first, fetch).await;
            match way {
                Ok(UploadOutcome::Uploaded) => {
                    cached = false;
                    counts.sent.fetch_add(1, Ordering::Relaxed);
                    counts.bytes.fetch_add(blob.size, Ordering::Relaxed);
                }
                Ok(UploadOutcome::Mounted) => drop(counts.mounted.fetch_add(1, Ordering::Relaxed)),
                Ok(UploadOutcome::Existing) => drop(counts.known.fetch_add(1, Ordering::Relaxed)),
                Err(error) => return Err(error.context(format!("writing docker://{}", to.name()))),
            }
            first.get_or_insert(to.repository());
        }
        if held.is_some() {
            // The blob is pushed; free the spool for others.
            let _ = fs::remove_file(self.options.store.path_of(&blob.digest));
        }
        self.options.progress.on(&TransferEvent::Finished { blob, cached });
        Ok(())
    }

    async fn content_of(&self, blob: &Descriptor, supply: &BlobSource) -> Result<StoredBlob, Error> {
        match supply {
            BlobSource::Store => self.stored_blob(blob),
            BlobSource::Files(pieces) => {
                let missing =
                    || Error::new(ErrorKind::NotFound, format!("none of the files contains blob {}", blob.digest));
                let found = StoredBlob::new(blob.digest, pieces.get(&blob.digest).ok_or_else(missing)?.clone());
                if found.size() != blob.size {
                    let text = format!("blob {} has {} bytes instead of {}", blob.digest, found.size(), blob.size);
                    return Err(Error::new(ErrorKind::Digest, text));
                }
                Ok(found)
            }
            BlobSource::Registries { from, .. } => {
                // Blobs built by this process are in the store already.
                if let Some(from) = from.get(&blob.digest).cloned()
                    && stored(&self.options.store, blob).await?.is_none()
                {
                    self.fetch_from_any(&BlobRequest { blob: blob.clone(), from }).await?;
                }
                self.stored_blob(blob)
            }
        }
    }

    async fn reached(&self, image: &Reference) -> Result<BTreeSet<Digest>, Error> {
        let target = self.target(image)?;
        let mut budget = GraphBudget::new(&self.options.limits);
        let mut found = BTreeSet::new();
        let mut waiting = vec![(image.version(), 0)];
        while let Some((version, depth)) = waiting.pop() {
            let document = match self.registry.manifest(&target, &version).await {
                Ok(document) => document,
                Err(error) if error.is_missing() => continue,
                Err(error) => return Err(error),
            };
            found.insert(document.digest);
            if !document.is_index() || !budget.admit(&document.digest, depth)? {
                continue;
            }
            for child in budget.children(&document)? {
                if let Child::Document(digest) = child
                    && found.insert(digest)
                {
                    waiting.push((digest.to_string(), depth + 1));
                }
            }
        }
        Ok(found)
    }

    async fn push_manifest(&self, image: &ManifestPush) -> Result<(), Error> {
        let target = self.target(&image.to)?;
        let graph =
            ImageGraph::of_platforms(&self.options.store, &image.image, &image.platforms, &self.options.limits)?;
        let mut lists_itself = true;
        for document in &graph.documents {
            let version = document.digest.to_string();
            let known = match image.subject {
                None => self.registry.find_manifest(&target, &version).await.map(|known| known.is_some()),
                Some(_) => Ok(false),
            };
            if matches!(known, Ok(true)) {
                continue;
            }
            lists_itself = self.registry.put_manifest(&target, document, &version).await?;
            // A registry whose disk was full may hold a truncated manifest that it can neither read nor replace.
            if known.is_err() {
                self.registry.manifest(&target, &version).await.map_err(|error| {
                    error.hint(format!(
                        "{} has a damaged copy of the manifest and accepts no other before its garbage collection runs",
                        target.reference.host()
                    ))
                })?;
            }
        }
        if let Some(subject) = image.subject.filter(|_| !lists_itself)
            && let Some(top) = graph.documents.last().map(ManifestDocument::referrer_descriptor)
        {
            self.registry.list_referrer(&target, &subject, &top).await?;
        }
        Ok(())
    }
}
