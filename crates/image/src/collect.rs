//! Fetches all documents of an image and of its referrers into the store, within the limits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::client::Inner;
use crate::graph::{Child, GraphBudget, ImageGraph};
use crate::layout::REF_NAME;
use crate::manifest::{Descriptor, ImageIndex, Platform};
use crate::pull::parse;
use crate::registry::{COSIGN, MANIFEST_LIMIT, RegistrySource, fallback_tag};
use crate::{Digest, Error, ErrorKind, Store, platform};

/// Maximum depth of referrers of referrers.
const REFERRER_DEPTH: usize = 3;

/// The source of an image.
#[derive(Clone)]
pub(crate) enum ImageOrigin {
    Registry(RegistrySource),
    /// A file whose content is in the store, with its index.
    Store(Arc<ImageIndex>),
}

/// A document to copy and its tag.
pub(crate) struct TaggedDocument {
    pub(crate) graph: ImageGraph,
    pub(crate) tag: Option<String>,
    /// The subject it refers to.
    pub(crate) subject: Option<(Digest, Descriptor)>,
}

/// A referrer and its tag.
type TaggedReferrer = (Descriptor, Option<String>);

/// Collects the documents of one image.
pub(crate) struct Gatherer<'a> {
    inner: &'a Inner,
    origin: &'a ImageOrigin,
    /// The target layout, if it may already hold parts of the image.
    held: Option<&'a Store>,
    budget: GraphBudget,
    platforms: Vec<Platform>,
    /// The referrers in the index of a file, by subject. Read once.
    listed_referrers: Option<HashMap<Digest, Vec<TaggedReferrer>>>,
}

impl<'a> Gatherer<'a> {
    pub(crate) fn new(inner: &'a Inner, origin: &'a ImageOrigin, held: Option<&'a Store>) -> Gatherer<'a> {
        let budget = GraphBudget::new(&inner.options.limits);
        Gatherer { inner, origin, held, budget, platforms: Vec::new(), listed_referrers: None }
    }

    /// Skips the images of an index for other platforms; an empty list keeps all.
    pub(crate) fn for_platforms(mut self, platforms: &[Platform]) -> Gatherer<'a> {
        self.budget = self.budget.for_platforms(platforms);
        self.platforms = platforms.to_vec();
        self
    }

    /// Follows indexes to the image of the selected platform.
    pub(crate) async fn choose_one(&self, mut digest: Digest) -> Result<Digest, Error> {
        let nesting = self.inner.options.limits.nesting;
        for _ in 0..=nesting {
            self.fetch_document(&digest).await?;
            let document = self.inner.read_document(&digest)?;
            if !document.is_index() {
                return Ok(digest);
            }
            let index: ImageIndex = parse(&document.content, "index")?;
            digest = platform::choose(&index, self.inner.options.platform.as_ref())?.digest;
        }
        Err(Error::new(ErrorKind::Limit, format!("indexes are nested deeper than {nesting}")))
    }

    /// Fetches all manifests of an image into the store.
    pub(crate) async fn image(&mut self, top: Digest) -> Result<ImageGraph, Error> {
        let mut waiting = vec![(top, 0)];
        while let Some((digest, depth)) = waiting.pop() {
            if !self.budget.admit(&digest, depth)? {
                continue;
            }
            self.fetch_document(&digest).await?;
            let document = self.inner.read_document(&digest)?;
            for child in self.budget.children(&document)? {
                if let Child::Document(digest) = child {
                    waiting.push((digest, depth + 1));
                }
            }
        }
        ImageGraph::of_platforms(&self.inner.options.store, &top, &self.platforms, &self.inner.options.limits)
    }

    async fn fetch_document(&self, digest: &Digest) -> Result<(), Error> {
        let inner = self.inner;
        if inner.read_document(digest).is_ok() {
            return Ok(());
        }
        if let Some(content) = self.held.and_then(|held| held.read(digest, MANIFEST_LIMIT).ok()) {
            let stored = inner.options.store.put(&content);
            return stored.map(|_| ()).map_err(|error| Error::file("storing a manifest", &error));
        }
        match self.origin {
            ImageOrigin::Store(_) => Err(Error::new(ErrorKind::NotFound, format!("{digest} is missing"))),
            ImageOrigin::Registry(source) => {
                let document = inner.registry.manifest(source, &digest.to_string()).await?;
                inner.store_document(&document).map(|_| ())
            }
        }
    }

    /// Fetches the referrers of an image and its parts, and the referrers of those.
    pub(crate) async fn referrers(&mut self, graph: &ImageGraph) -> Result<Vec<TaggedDocument>, Error> {
        let mut waiting: Vec<(Digest, usize)> = graph.documents.iter().rev().map(|it| (it.digest, 0)).collect();
        let mut seen: HashSet<Digest> = waiting.iter().map(|(digest, _)| *digest).collect();
        let mut items = Vec::new();
        while let Some((subject, depth)) = waiting.pop() {
            let mut further = Vec::new();
            for (referrer, tag) in self.referrers_of(&subject).await? {
                let digest = referrer.digest;
                if !seen.insert(digest) {
                    continue;
                }
                let graph = self.image(digest).await?;
                let described = self.inner.read_document(&digest)?.referrer_descriptor();
                let about = tag.is_none().then_some((subject, described));
                items.push(TaggedDocument { graph, tag, subject: about });
                if depth < REFERRER_DEPTH {
                    further.push((digest, depth + 1));
                }
            }
            waiting.extend(further.into_iter().rev());
        }
        Ok(items)
    }

    /// Lists the referrers of one document.
    async fn referrers_of(&mut self, subject: &Digest) -> Result<Vec<TaggedReferrer>, Error> {
        match self.origin {
            ImageOrigin::Registry(source) => {
                let registry = &self.inner.registry;
                let listed_referrers = registry.referrers(source, subject).await?;
                let mut found: Vec<TaggedReferrer> =
                    listed_referrers.into_iter().map(|referrer| (referrer, None)).collect();
                for kind in COSIGN {
                    let tag = format!("{}.{kind}", fallback_tag(subject));
                    let tagged = match registry.tagged(source, &tag).await {
                        // Some registries deny access to referrers that do not exist.
                        Err(error) if error.kind() == ErrorKind::Unauthorized => None,
                        outcome => outcome?,
                    };
                    if let Some(document) = tagged {
                        self.inner.store_document(&document)?;
                        found.push((document.descriptor(), Some(tag)));
                    }
                }
                Ok(found)
            }
            ImageOrigin::Store(index) => {
                let listed_referrers = self.listed_referrers.get_or_insert_with(|| listed_referrers(self.inner, index));
                Ok(listed_referrers.get(subject).cloned().unwrap_or_default())
            }
        }
    }
}

/// Reads the subject of each entry of a file's index.
fn listed_referrers(inner: &Inner, index: &ImageIndex) -> HashMap<Digest, Vec<TaggedReferrer>> {
    let mut found: HashMap<Digest, Vec<TaggedReferrer>> = HashMap::new();
    for entry in &index.manifests {
        let name = entry.annotations.get(REF_NAME).map(String::as_str).unwrap_or_default();
        let by_cosign = COSIGN.iter().find_map(|kind| {
            let hex = name.strip_prefix("sha256-")?.strip_suffix(kind)?.strip_suffix('.')?;
            format!("sha256:{hex}").parse::<Digest>().ok()
        });
        if let Some(subject) = by_cosign {
            found.entry(subject).or_default().push((entry.clone(), Some(name.to_owned())));
        } else if let Some(subject) = inner.read_document(&entry.digest).ok().and_then(|it| it.subject()) {
            found.entry(subject).or_default().push((entry.clone(), None));
        }
    }
    found
}
