//! All documents of an image and of what was made for it, brought into the store within the limits.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::client::Inner;
use crate::graph::{Budget, Child, Graph};
use crate::layout::REF_NAME;
use crate::manifest::{Descriptor, Index, Platform};
use crate::pull::parse;
use crate::registry::{COSIGN, MANIFEST_LIMIT, Source, fallback_tag};
use crate::{Digest, Error, ErrorKind, Store, platform};

/// How far signatures of signatures are followed.
const DEPTH: usize = 3;

/// Where an image comes from.
#[derive(Clone)]
pub(crate) enum Origin {
    Registry(Source),
    /// All that a file has is in the store; this is its list of images.
    Store(Arc<Index>),
}

/// Something to bring over, and the tag it has.
pub(crate) struct Item {
    pub(crate) graph: Graph,
    pub(crate) tag: Option<String>,
    /// What it was made for.
    pub(crate) subject: Option<(Digest, Descriptor)>,
}

/// Something that was made for an image, and the tag it has.
type Referrer = (Descriptor, Option<String>);

/// Collects the documents of one image.
pub(crate) struct Gatherer<'a> {
    inner: &'a Inner,
    origin: &'a Origin,
    /// Where the image goes to, if that can have some of it.
    held: Option<&'a Store>,
    budget: Budget,
    platforms: Vec<Platform>,
    /// What a file lists, by what it was made for. Read once.
    listed: Option<HashMap<Digest, Vec<Referrer>>>,
}

impl<'a> Gatherer<'a> {
    pub(crate) fn new(inner: &'a Inner, origin: &'a Origin, held: Option<&'a Store>) -> Gatherer<'a> {
        let budget = Budget::new(&inner.options.limits);
        Gatherer { inner, origin, held, budget, platforms: Vec::new(), listed: None }
    }

    /// Leaves out the images of an index that are for other platforms, if any is named.
    pub(crate) fn for_platforms(mut self, platforms: &[Platform]) -> Gatherer<'a> {
        self.budget = self.budget.for_platforms(platforms);
        self.platforms = platforms.to_vec();
        self
    }

    /// Follows indexes to the image of the platform.
    pub(crate) async fn choose_one(&self, mut digest: Digest) -> Result<Digest, Error> {
        let nesting = self.inner.options.limits.nesting;
        for _ in 0..=nesting {
            self.bring_document(&digest).await?;
            let document = self.inner.read_document(&digest)?;
            if !document.is_index() {
                return Ok(digest);
            }
            let index: Index = parse(&document.content, "index")?;
            digest = platform::choose(&index, self.inner.options.platform.as_ref())?.digest;
        }
        Err(Error::new(ErrorKind::Limit, format!("indexes are nested deeper than {nesting}")))
    }

    /// Brings all manifests of an image into the store.
    pub(crate) async fn image(&mut self, top: Digest) -> Result<Graph, Error> {
        let mut waiting = vec![(top, 0)];
        while let Some((digest, depth)) = waiting.pop() {
            if !self.budget.admit(&digest, depth)? {
                continue;
            }
            self.bring_document(&digest).await?;
            let document = self.inner.read_document(&digest)?;
            for child in self.budget.children(&document)? {
                if let Child::Document(digest) = child {
                    waiting.push((digest, depth + 1));
                }
            }
        }
        Graph::of_platforms(&self.inner.options.store, &top, &self.platforms, &self.inner.options.limits)
    }

    async fn bring_document(&self, digest: &Digest) -> Result<(), Error> {
        let inner = self.inner;
        if inner.read_document(digest).is_ok() {
            return Ok(());
        }
        if let Some(content) = self.held.and_then(|held| held.read(digest, MANIFEST_LIMIT).ok()) {
            let stored = inner.options.store.put(&content);
            return stored.map(|_| ()).map_err(|error| Error::file("storing a manifest", &error));
        }
        match self.origin {
            Origin::Store(_) => Err(Error::new(ErrorKind::NotFound, format!("{digest} is missing"))),
            Origin::Registry(source) => {
                let document = inner.registry.manifest(source, &digest.to_string()).await?;
                inner.store_document(&document).map(|_| ())
            }
        }
    }

    /// Brings what was made for an image and for its parts, and what was made for that.
    pub(crate) async fn referrers(&mut self, graph: &Graph) -> Result<Vec<Item>, Error> {
        let mut waiting: Vec<(Digest, usize)> = graph.documents.iter().rev().map(|it| (it.digest, 0)).collect();
        let mut seen: HashSet<Digest> = waiting.iter().map(|(digest, _)| *digest).collect();
        let mut items = Vec::new();
        while let Some((subject, depth)) = waiting.pop() {
            let mut further = Vec::new();
            for (referrer, tag) in self.made_for(&subject).await? {
                let digest = referrer.digest;
                if !seen.insert(digest) {
                    continue;
                }
                let graph = self.image(digest).await?;
                let described = self.inner.read_document(&digest)?.described();
                let about = tag.is_none().then_some((subject, described));
                items.push(Item { graph, tag, subject: about });
                if depth < DEPTH {
                    further.push((digest, depth + 1));
                }
            }
            waiting.extend(further.into_iter().rev());
        }
        Ok(items)
    }

    /// Lists what was made for one document.
    async fn made_for(&mut self, subject: &Digest) -> Result<Vec<Referrer>, Error> {
        match self.origin {
            Origin::Registry(source) => {
                let registry = &self.inner.registry;
                let listed = registry.referrers(source, subject).await?;
                let mut found: Vec<Referrer> = listed.into_iter().map(|referrer| (referrer, None)).collect();
                for kind in COSIGN {
                    let tag = format!("{}.{kind}", fallback_tag(subject));
                    let tagged = match registry.tagged(source, &tag).await {
                        // Some let nobody in where they have nothing.
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
            Origin::Store(index) => {
                let listed = self.listed.get_or_insert_with(|| listed(self.inner, index));
                Ok(listed.get(subject).cloned().unwrap_or_default())
            }
        }
    }
}

/// Reads what each entry of a file's list of images was made for.
fn listed(inner: &Inner, index: &Index) -> HashMap<Digest, Vec<Referrer>> {
    let mut found: HashMap<Digest, Vec<Referrer>> = HashMap::new();
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
