//! The documents and blobs of an image: index, manifests, configs, layers.

use std::collections::{BTreeMap, HashSet};

use crate::manifest::{Descriptor, ImageIndex, ImageManifest, Platform};
use crate::pull::parse;
use crate::registry::{MANIFEST_LIMIT, ManifestDocument};
use crate::{Digest, Error, ErrorKind, ImageLimits, Store, platform};

/// The documents and blobs of an image in a store.
#[derive(Debug, Default)]
pub(crate) struct ImageGraph {
    /// Manifests and indexes, children before parents.
    pub(crate) documents: Vec<ManifestDocument>,
    /// Configs and layers, without duplicates.
    pub(crate) blobs: Vec<Descriptor>,
}

/// The remaining limits while an image is traversed. A document counts once, however often it is referenced.
pub(crate) struct GraphBudget {
    limits: ImageLimits,
    /// The platforms to follow in an index; empty means all.
    platforms: Vec<Platform>,
    documents: HashSet<Digest>,
    document_bytes: u64,
    blobs: HashSet<Digest>,
    blob_bytes: u64,
}

impl GraphBudget {
    pub(crate) fn new(limits: &ImageLimits) -> GraphBudget {
        GraphBudget {
            limits: *limits,
            platforms: Vec::new(),
            documents: HashSet::new(),
            document_bytes: 0,
            blobs: HashSet::new(),
            blob_bytes: 0,
        }
    }

    /// Skips the images of an index for other platforms.
    pub(crate) fn for_platforms(mut self, platforms: &[Platform]) -> GraphBudget {
        self.platforms = platforms.to_vec();
        self
    }

    /// Counts a manifest or an index; returns whether it is new and must be followed.
    pub(crate) fn admit(&mut self, digest: &Digest, depth: usize) -> Result<bool, Error> {
        if depth > self.limits.nesting {
            let text = format!("indexes are nested deeper than {}", self.limits.nesting);
            return Err(Error::new(ErrorKind::Limit, text));
        }
        if !self.documents.insert(*digest) {
            return Ok(false);
        }
        if self.documents.len() > self.limits.manifests {
            let text = format!("the image has more than {} manifests", self.limits.manifests);
            return Err(Error::new(ErrorKind::Limit, text));
        }
        Ok(true)
    }

    /// Returns the children of a document, without duplicates, if they are within the limits.
    pub(crate) fn children(&mut self, document: &ManifestDocument) -> Result<Vec<Child>, Error> {
        self.document_bytes += document.content.len() as u64;
        if self.document_bytes > self.limits.manifest_bytes {
            let text = format!("the manifests of the image have more than {} bytes", self.limits.manifest_bytes);
            return Err(Error::new(ErrorKind::Limit, text));
        }
        if document.is_index() {
            let index: ImageIndex = parse(&document.content, "index")?;
            let mut seen = HashSet::new();
            let kept = index.manifests.into_iter().filter(|image| platform::is_among(image, &self.platforms));
            let images = kept.map(|image| image.digest).filter(|digest| seen.insert(*digest));
            return Ok(images.map(Child::Document).collect());
        }
        let manifest: ImageManifest = parse(&document.content, "manifest")?;
        self.limits.check(&manifest)?;
        let blobs = std::iter::once(manifest.config).chain(manifest.layers);
        // Non-distributable layers are stored elsewhere; the registry does not have them.
        let ours: Vec<Descriptor> = blobs.filter(|blob| !is_foreign(blob)).collect();
        for blob in &ours {
            if self.blobs.insert(blob.digest) {
                self.blob_bytes = self.blob_bytes.saturating_add(blob.size);
            }
        }
        if self.blob_bytes > self.limits.image {
            return Err(Error::new(ErrorKind::Limit, self.limits.too_large()));
        }
        Ok(ours.into_iter().map(|blob| Child::Blob(Box::new(blob))).collect())
    }
}

impl ImageGraph {
    /// Collects everything that a manifest or an index in `store` refers to.
    ///
    /// # Errors
    /// Fails when a manifest is missing or invalid, or a limit is exceeded.
    pub(crate) fn of(store: &Store, digest: &Digest, limits: &ImageLimits) -> Result<ImageGraph, Error> {
        ImageGraph::of_platforms(store, digest, &[], limits)
    }

    /// Like [`ImageGraph::of`], limited to the images of an index for `platforms`; empty means all.
    pub(crate) fn of_platforms(
        store: &Store,
        digest: &Digest,
        platforms: &[Platform],
        limits: &ImageLimits,
    ) -> Result<ImageGraph, Error> {
        let mut graph = ImageGraph::default();
        let mut budget = GraphBudget::new(limits).for_platforms(platforms);
        graph.add(store, digest, 0, &mut budget, &mut HashSet::new())?;
        Ok(graph)
    }

    fn add(
        &mut self,
        store: &Store,
        digest: &Digest,
        depth: usize,
        budget: &mut GraphBudget,
        blobs: &mut HashSet<Digest>,
    ) -> Result<(), Error> {
        if !budget.admit(digest, depth)? {
            return Ok(());
        }
        let content = store
            .read(digest, MANIFEST_LIMIT)
            .map_err(|error| Error::file(format!("reading manifest {digest}"), &error))?;
        let document = ManifestDocument::new(content, None)?;
        for child in budget.children(&document)? {
            match child {
                Child::Document(digest) => self.add(store, &digest, depth + 1, budget, blobs)?,
                Child::Blob(blob) if blobs.insert(blob.digest) => self.blobs.push(*blob),
                Child::Blob(_) => {}
            }
        }
        self.documents.push(document);
        Ok(())
    }

    /// Returns the descriptor of the image itself.
    pub(crate) fn top(&self) -> Option<Descriptor> {
        self.documents.last().map(ManifestDocument::descriptor)
    }
}

/// A child of a manifest or an index.
pub(crate) enum Child {
    Document(Digest),
    Blob(Box<Descriptor>),
}

fn is_foreign(blob: &Descriptor) -> bool {
    let foreign = blob.media_type.contains("rootfs.foreign") || blob.media_type.contains("nondistributable");
    foreign && blob.other.contains_key("urls")
}

impl ManifestDocument {
    pub(crate) fn descriptor(&self) -> Descriptor {
        Descriptor::new(&self.media_type, self.digest, self.content.len() as u64)
    }

    /// Returns the subject, if this document is a referrer.
    pub(crate) fn subject(&self) -> Option<Digest> {
        #[derive(serde::Deserialize)]
        struct Subject {
            subject: Option<Descriptor>,
        }
        serde_json::from_slice::<Subject>(&self.content).ok()?.subject.map(|subject| subject.digest)
    }

    /// Returns the descriptor of this document for a list of referrers.
    pub(crate) fn referrer_descriptor(&self) -> Descriptor {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct About {
            artifact_type: Option<String>,
            config: Option<Descriptor>,
            #[serde(default)]
            annotations: BTreeMap<String, String>,
        }
        let mut descriptor = self.descriptor();
        if let Ok(about) = serde_json::from_slice::<About>(&self.content) {
            let kind = about.artifact_type.or(about.config.map(|config| config.media_type));
            descriptor.other.extend(kind.map(|kind| ("artifactType".to_owned(), kind.into())));
            descriptor.annotations = about.annotations;
        }
        descriptor
    }
}
