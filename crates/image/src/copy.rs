//! Bringing images from one place to another, with what was made for them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::task::JoinSet;

use crate::client::{Client, Inner};
use crate::graph::{Child, Graph, NESTING, children};
use crate::layout::{self, REF_NAME};
use crate::manifest::{Descriptor, Index};
use crate::progress::Event;
use crate::pull::parse;
use crate::registry::{COSIGN, Source, Way, fallback_tag};
use crate::{Digest, Error, ErrorKind, Location, Reference, archive, platform};

/// How far signatures of signatures are followed.
const DEPTH: usize = 3;

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyPlan {
    /// Only the image of one platform, not the whole index.
    pub one_platform: bool,
    /// Signatures and other things that were made for the image, too.
    pub referrers: bool,
}

impl Default for CopyPlan {
    fn default() -> CopyPlan {
        CopyPlan { one_platform: false, referrers: true }
    }
}

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// The digest of the image, which is the same in both places.
    pub digest: Digest,
    /// How many manifests and indexes went over, those of signatures and the like not counted.
    pub documents: usize,
    /// How many things that were made for the image went over.
    pub referrers: usize,
    /// How many things that were made for it could not be kept, because the form has no place for them.
    pub left_out: usize,
    /// How many blobs were sent.
    pub sent: usize,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many blobs were in the other place already.
    pub known: usize,
}

#[derive(Default)]
struct Counts {
    sent: AtomicUsize,
    known: AtomicUsize,
    bytes: AtomicU64,
}

/// Where an image comes from.
#[derive(Clone)]
enum Origin {
    Registry(Source),
    /// All that a file has is in the store; this is its list of images.
    Store(Arc<Index>),
}

/// Something to bring over, and the tag it has.
struct Item {
    graph: Graph,
    tag: Option<String>,
    /// What it was made for.
    subject: Option<(Digest, Descriptor)>,
}

impl Client {
    /// Copies an image, byte for byte: an index with all its images, and what was made for them.
    ///
    /// What the other place has is not sent again, and not even fetched.
    ///
    /// # Errors
    /// Fails when one of the places does not work. What was copied until then stays; the name comes last.
    pub fn copy(&self, from: &Location, to: &Location, plan: CopyPlan) -> Result<Copied, Error> {
        self.block_on(self.copy_async(from, to, plan))
    }

    /// Does what [`Client::copy`] does, for those who can wait in other ways.
    ///
    /// # Errors
    /// Fails as [`Client::copy`] does.
    pub async fn copy_async(&self, from: &Location, to: &Location, plan: CopyPlan) -> Result<Copied, Error> {
        let inner = self.inner();
        inner.allow(from)?;
        match from {
            Location::Registry(reference) if inner.options.offline => {
                let top = inner.stored(reference)?.digest;
                inner.copy_graph(Origin::Store(Arc::new(layout::empty_index())), top, to, plan).await
            }
            Location::Registry(reference) => {
                let to = to.clone();
                inner
                    .at_each_source(reference, |source| {
                        let (inner, to) = (inner.clone(), to.clone());
                        async move { inner.copy_from(&source, &to, plan).await }
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
                inner.copy_graph(Origin::Store(Arc::new(index)), top, to, plan).await
            }
        }
    }
}

impl Inner {
    async fn copy_from(self: &Arc<Self>, source: &Source, to: &Location, plan: CopyPlan) -> Result<Copied, Error> {
        let initializing = |error: Error| error.context(format!("initializing source docker://{}", source.reference));
        let document = self.registry.manifest(source, &source.reference.version()).await.map_err(initializing)?;
        let top = self.store_document(&document)?;
        self.copy_graph(Origin::Registry(source.clone()), top, to, plan).await
    }

    async fn copy_graph(
        self: &Arc<Self>,
        origin: Origin,
        mut top: Digest,
        to: &Location,
        plan: CopyPlan,
    ) -> Result<Copied, Error> {
        // A file of `docker save` has room for one image only.
        if plan.one_platform || matches!(to, Location::DockerArchive { .. }) {
            top = self.choose_one(&origin, top).await?;
        }
        self.gather(&origin, top, 0).await?;
        let graph = Graph::of(&self.options.store, &top)?;
        let documents = graph.documents.len();
        let mut items = Vec::new();
        if plan.referrers {
            let subjects: Vec<Digest> = graph.documents.iter().map(|document| document.digest).collect();
            let mut seen: HashSet<Digest> = subjects.iter().copied().collect();
            for subject in subjects {
                self.add_referrers(&origin, subject, 0, &mut seen, &mut items).await?;
            }
        }
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
                    self.fetch_blobs(&origin, one, &counts).await?;
                }
                let (inner, file) = (self.clone(), file.clone());
                let work = move || inner.save_items(&graph, &items, &file);
                tokio::task::spawn_blocking(work)
                    .await
                    .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, error.to_string())))?;
            }
        }
        Ok(Copied {
            digest: top,
            documents,
            referrers: referrers - left_out,
            left_out,
            sent: counts.sent.load(Ordering::Relaxed),
            bytes: counts.bytes.load(Ordering::Relaxed),
            known: counts.known.load(Ordering::Relaxed),
        })
    }

    /// Follows indexes to the image of the platform.
    async fn choose_one(&self, origin: &Origin, mut digest: Digest) -> Result<Digest, Error> {
        for _ in 0..=NESTING {
            self.bring_document(origin, &digest).await?;
            let document = self.read_document(&digest)?;
            if !document.is_index() {
                return Ok(digest);
            }
            let index: Index = parse(&document.content, "index")?;
            digest = platform::choose(&index, self.options.platform.as_ref())?.digest;
        }
        Err(Error::new(ErrorKind::Limit, format!("indexes are nested deeper than {NESTING}")))
    }

    async fn bring_document(&self, origin: &Origin, digest: &Digest) -> Result<(), Error> {
        if self.options.store.blob(digest).is_some() {
            return Ok(());
        }
        match origin {
            Origin::Store(_) => Err(Error::new(ErrorKind::NotFound, format!("{digest} is missing"))),
            Origin::Registry(source) => {
                let document = self.registry.manifest(source, &digest.to_string()).await?;
                self.store_document(&document).map(|_| ())
            }
        }
    }

    /// Brings all manifests that belong to an image into the store.
    async fn gather(&self, origin: &Origin, top: Digest, depth: usize) -> Result<(), Error> {
        let mut waiting = vec![(top, depth)];
        while let Some((digest, depth)) = waiting.pop() {
            if depth > NESTING {
                return Err(Error::new(ErrorKind::Limit, format!("indexes are nested deeper than {NESTING}")));
            }
            self.bring_document(origin, &digest).await?;
            let document = self.read_document(&digest)?;
            for child in children(&document)? {
                if let Child::Document(digest) = child {
                    waiting.push((digest, depth + 1));
                }
            }
        }
        Ok(())
    }

    /// Adds what was made for `subject`, and what was made for that.
    async fn add_referrers(
        &self,
        origin: &Origin,
        subject: Digest,
        depth: usize,
        seen: &mut HashSet<Digest>,
        items: &mut Vec<Item>,
    ) -> Result<(), Error> {
        let mut found: Vec<(Descriptor, Option<String>)> = Vec::new();
        match origin {
            Origin::Registry(source) => {
                let listed = self.registry.referrers(source, &subject).await?;
                found.extend(listed.into_iter().map(|referrer| (referrer, None)));
                for kind in COSIGN {
                    let tag = format!("{}.{kind}", fallback_tag(&subject));
                    if let Some(document) = self.registry.tagged(source, &tag).await? {
                        self.store_document(&document)?;
                        found.push((document.descriptor(), Some(tag)));
                    }
                }
            }
            Origin::Store(index) => {
                for entry in &index.manifests {
                    let name = entry.annotations.get(REF_NAME);
                    let ours = COSIGN.iter().map(|kind| format!("{}.{kind}", fallback_tag(&subject)));
                    if let Some(tag) = ours.into_iter().find(|tag| Some(tag) == name) {
                        found.push((entry.clone(), Some(tag)));
                    } else if self.read_document(&entry.digest).is_ok_and(|it| it.subject() == Some(subject)) {
                        found.push((entry.clone(), None));
                    }
                }
            }
        }
        for (referrer, tag) in found {
            if !seen.insert(referrer.digest) {
                continue;
            }
            self.gather(origin, referrer.digest, 0).await?;
            let graph = Graph::of(&self.options.store, &referrer.digest)?;
            let digest = referrer.digest;
            let described = self.read_document(&digest)?.described();
            let about = tag.is_none().then_some((subject, described));
            items.push(Item { graph, tag, subject: about });
            if depth < DEPTH {
                Box::pin(self.add_referrers(origin, digest, depth + 1, seen, items)).await?;
            }
        }
        Ok(())
    }

    /// Sends an image to a registry; tells whether the registry lists by itself what it was made for.
    async fn send_item(
        self: &Arc<Self>,
        origin: &Origin,
        target: &Source,
        graph: Graph,
        name: Option<&Reference>,
        counts: &Arc<Counts>,
    ) -> Result<bool, Error> {
        let writing = |error: Error| error.context(format!("writing docker://{}", target.reference.name()));
        let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
        for blob in graph.blobs {
            let (inner, origin, target, counts) = (self.clone(), origin.clone(), target.clone(), Arc::clone(counts));
            tasks.spawn(async move {
                let _turn = inner.blobs.acquire().await;
                let way = inner.send_blob(&origin, &target, &blob).await?;
                inner.options.progress.on(&Event::Finished { blob: &blob, cached: way != Way::Sent });
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

    async fn send_blob(&self, origin: &Origin, target: &Source, blob: &Descriptor) -> Result<Way, Error> {
        let store = &self.options.store;
        let Origin::Registry(source) = origin else {
            return self.registry.send(target, blob, store, None, async || Ok(())).await;
        };
        let same = source.reference.host() == target.reference.host();
        let other = same.then(|| source.reference.repository());
        self.registry.send(target, blob, store, other, async || self.registry.fetch(source, blob, store).await).await
    }

    async fn fetch_blobs(self: &Arc<Self>, origin: &Origin, graph: &Graph, counts: &Arc<Counts>) -> Result<(), Error> {
        let Origin::Registry(source) = origin else {
            graph.blobs.iter().for_each(|blob| counts.add(blob, Way::Sent));
            return Ok(());
        };
        let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
        for blob in graph.blobs.clone() {
            let (inner, source, counts) = (self.clone(), source.clone(), Arc::clone(counts));
            tasks.spawn(async move {
                let _turn = inner.blobs.acquire().await;
                inner.registry.fetch(&source, &blob, &inner.options.store).await?;
                counts.add(&blob, Way::Sent);
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap_or_else(|error| Err(Error::new(ErrorKind::Network, error.to_string())))?;
        }
        Ok(())
    }

    fn save_items(&self, graph: &Graph, items: &[Item], to: &Location) -> Result<(), Error> {
        let writing = |error: Error| error.context(format!("writing {to}"));
        let store = &self.options.store;
        let others = || items.iter().map(|item| (&item.graph, item.tag.as_deref()));
        match to {
            Location::Layout { path, tag } => {
                for (graph, tag) in others() {
                    layout::save(store, graph, path, tag).map_err(writing)?;
                }
                layout::save(store, graph, path, tag.as_deref()).map_err(writing)
            }
            Location::LayoutArchive { path, tag } => {
                let all: Vec<_> = std::iter::once((graph, tag.as_deref())).chain(others()).collect();
                archive::save_layout(store, &all, path).map_err(writing)
            }
            other => crate::push::save(store, graph, other),
        }
    }

    /// Returns the list of images of a file whose content is in the store.
    fn file_index(&self, location: &Location) -> Result<Index, Error> {
        match location {
            Location::Layout { path, .. } => {
                let index = layout::read_index(path).map_err(|error| Error::file(path.display(), &error))?;
                // What was made for the image is listed beside it, and has to be in the store as well.
                self.import_referrers(path, &index)?;
                Ok(index)
            }
            Location::LayoutArchive { path, .. } => archive::read_index(path, &self.options.limits),
            _ => Ok(layout::empty_index()),
        }
    }
}

impl Counts {
    fn add(&self, blob: &Descriptor, way: Way) {
        if way == Way::Sent {
            self.sent.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(blob.size, Ordering::Relaxed);
        } else {
            self.known.fetch_add(1, Ordering::Relaxed);
        }
    }
}
