//! All that belongs to an image: an index, its manifests, their blobs.

use std::collections::{BTreeMap, HashSet};

use crate::manifest::{Descriptor, Index, Manifest};
use crate::pull::parse;
use crate::registry::{Document, MANIFEST_LIMIT};
use crate::{Digest, Error, ErrorKind, Store};

/// How deep indexes may be nested.
pub(crate) const NESTING: usize = 3;

/// How many manifests an image may consist of.
const DOCUMENTS: usize = 1000;

/// What an image consists of, in a store.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Manifests and indexes, those that are referred to before those that refer to them.
    pub(crate) documents: Vec<Document>,
    /// Configs and layers, each once.
    pub(crate) blobs: Vec<Descriptor>,
}

impl Graph {
    /// Follows a manifest or an index in `store` to all that belongs to it.
    ///
    /// # Errors
    /// Fails when a manifest is missing or is not understood.
    pub(crate) fn of(store: &Store, digest: &Digest) -> Result<Graph, Error> {
        let mut graph = Graph::default();
        graph.add(store, digest, 0, &mut HashSet::new())?;
        Ok(graph)
    }

    fn add(&mut self, store: &Store, digest: &Digest, depth: usize, seen: &mut HashSet<Digest>) -> Result<(), Error> {
        if !seen.insert(*digest) {
            return Ok(());
        }
        if depth > NESTING || seen.len() > DOCUMENTS {
            return Err(Error::new(ErrorKind::Limit, "the index is nested too deep or has too many images"));
        }
        let content = store
            .read(digest, MANIFEST_LIMIT)
            .map_err(|error| Error::file(format!("reading manifest {digest}"), &error))?;
        let document = Document::new(content, None)?;
        for child in children(&document)? {
            match child {
                Child::Document(digest) => self.add(store, &digest, depth + 1, seen)?,
                Child::Blob(blob) => {
                    if !self.blobs.iter().any(|known| known.digest == blob.digest) {
                        self.blobs.push(*blob);
                    }
                }
            }
        }
        self.documents.push(document);
        Ok(())
    }

    /// Returns the descriptor of the image itself.
    pub(crate) fn top(&self) -> Option<Descriptor> {
        self.documents.last().map(Document::descriptor)
    }
}

/// Something a manifest or an index refers to.
pub(crate) enum Child {
    Document(Digest),
    Blob(Box<Descriptor>),
}

/// Returns what a document refers to.
pub(crate) fn children(document: &Document) -> Result<Vec<Child>, Error> {
    if document.is_index() {
        let index: Index = parse(&document.content, "index")?;
        return Ok(index.manifests.into_iter().map(|image| Child::Document(image.digest)).collect());
    }
    let manifest: Manifest = parse(&document.content, "manifest")?;
    let blobs = std::iter::once(manifest.config).chain(manifest.layers);
    // Layers that must not be handed on lie elsewhere, and are not the registry's to give.
    let ours = blobs.filter(|blob| !is_foreign(blob));
    Ok(ours.map(|blob| Child::Blob(Box::new(blob))).collect())
}

fn is_foreign(blob: &Descriptor) -> bool {
    let foreign = blob.media_type.contains("rootfs.foreign") || blob.media_type.contains("nondistributable");
    foreign && blob.other.contains_key("urls")
}

impl Document {
    pub(crate) fn descriptor(&self) -> Descriptor {
        Descriptor::new(&self.media_type, self.digest, self.content.len() as u64)
    }

    /// Returns what signatures and the like are made for, if this is one.
    pub(crate) fn subject(&self) -> Option<Digest> {
        #[derive(serde::Deserialize)]
        struct Subject {
            subject: Option<Descriptor>,
        }
        serde_json::from_slice::<Subject>(&self.content).ok()?.subject.map(|subject| subject.digest)
    }

    /// Returns a descriptor as it stands in a list of what was made for something.
    pub(crate) fn described(&self) -> Descriptor {
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
