//! The images of an OCI layout: `index.json`.
//!
//! The cache finds an image by the reference it was pulled by. Ref names of layouts do not allow all characters of a
//! reference, so they contain it in hexadecimal.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use crate::client::Inner;
use crate::graph::{Child, GraphBudget, ImageGraph};
use crate::manifest::{Descriptor, ImageIndex, ImageManifest, media_type};
use crate::policy::Admission;
use crate::pull::{Image, parse};
use crate::registry::{COSIGN, MANIFEST_LIMIT, ManifestDocument};
use crate::{Digest, Error, ErrorKind, Location, Store, archive, platform, scratch, shared};

/// The annotation with the name of an image.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";

/// Maximum size of `index.json`.
const INDEX_LIMIT: u64 = 64 << 20;

/// Returns the image that a reference was pulled as.
pub(crate) fn named(store: &Store, reference: &str) -> io::Result<Option<Descriptor>> {
    let name = hex(reference);
    let index = read_index(store.root())?;
    Ok(index.manifests.into_iter().find(|entry| entry.annotations.get(REF_NAME) == Some(&name)))
}

/// Records the image that a reference was pulled as.
pub(crate) fn set_name(store: &Store, reference: &str, image: &Descriptor) -> io::Result<()> {
    set_tag(store, Some(&hex(reference)), image)
}

/// Adds an image to `index.json`, replacing the entry with the same name.
pub(crate) fn set_tag(store: &Store, tag: Option<&str>, image: &Descriptor) -> io::Result<()> {
    // Lock the directory itself, so that the layout needs no extra lock file.
    let lock = File::open(store.root())?;
    lock.lock()?;
    let mut index = read_index(store.root())?;
    let mut image = image.clone();
    if let Some(tag) = tag {
        image.annotations.insert(REF_NAME.into(), tag.into());
    }
    let name = |entry: &Descriptor| entry.annotations.get(REF_NAME).cloned();
    if index.manifests.iter().any(|entry| name(entry) == name(&image) && entry.digest == image.digest) {
        return Ok(());
    }
    index.manifests.retain(|entry| tag.is_none() || name(entry) != name(&image));
    index.manifests.push(image);
    write_index(store.root(), &index)
}

/// Returns the media type of a stored document.
pub(crate) fn media_type_of(store: &Store, digest: &Digest) -> String {
    let content = store.read(digest, MANIFEST_LIMIT).unwrap_or_default();
    ManifestDocument::new(content, None)
        .map_or_else(|_| media_type::OCI_MANIFEST.into(), |document| document.media_type)
}

/// Reads `index.json`; a missing file gives an empty index.
pub(crate) fn read_index(root: &Path) -> io::Result<ImageIndex> {
    let mut content = Vec::new();
    match shared::open_named(&root.join("index.json"))? {
        Some(file) => file.take(INDEX_LIMIT + 1).read_to_end(&mut content)?,
        None => return Ok(empty_index()),
    };
    let to_error = |text: String| io::Error::new(io::ErrorKind::InvalidData, format!("index.json: {text}"));
    if content.len() as u64 > INDEX_LIMIT {
        return Err(to_error(format!("larger than {INDEX_LIMIT} bytes")));
    }
    serde_json::from_slice(&content).map_err(|error| to_error(error.to_string()))
}

pub(crate) fn write_index(root: &Path, index: &ImageIndex) -> io::Result<()> {
    let content = serde_json::to_vec(index).map_err(io::Error::other)?;
    scratch::write_atomic(&root.join("index.json"), &content)
}

pub(crate) fn empty_index() -> ImageIndex {
    ImageIndex {
        schema_version: 2,
        media_type: None,
        manifests: Vec::new(),
        annotations: Default::default(),
        other: Default::default(),
    }
}

/// Finds an image by its tag; without a tag, the only image.
pub(crate) fn choose(index: &ImageIndex, tag: Option<&str>) -> Result<Descriptor, Error> {
    let names: Vec<&str> =
        index.manifests.iter().filter_map(|it| it.annotations.get(REF_NAME).map(String::as_str)).collect();
    let known =
        |error: Error| if names.is_empty() { error } else { error.hint(format!("it has {}", names.join(", "))) };
    match (tag, index.manifests.as_slice()) {
        (None, [only]) => Ok(only.clone()),
        (None, []) => Err(Error::new(ErrorKind::NotFound, "the layout has no image")),
        (None, many) => {
            let text = format!("the layout has {} images; add a tag to choose one", many.len());
            Err(known(Error::new(ErrorKind::NotFound, text)))
        }
        (Some(tag), many) => many
            .iter()
            .find(|image| image.annotations.get(REF_NAME).is_some_and(|name| name == tag))
            .cloned()
            .ok_or_else(|| known(Error::new(ErrorKind::NotFound, format!("no image named {tag:?} in the layout")))),
    }
}

/// Writes an image to the layout at `path`, keeping its other images.
pub(crate) fn save_to(store: &Store, graph: &ImageGraph, path: &Path, tag: Option<&str>) -> Result<(), Error> {
    let target = Store::open(path).map_err(|error| Error::file(path.display(), &error))?;
    save(store, graph, &target, tag)
}

/// Writes an image to a layout, keeping its other images.
pub(crate) fn save(store: &Store, graph: &ImageGraph, target: &Store, tag: Option<&str>) -> Result<(), Error> {
    let to_error = |error: io::Error| Error::file(target.root().display(), &error);
    for blob in &graph.blobs {
        shared::open(&store.find_path(&blob.digest))
            .and_then(|file| copy_blob(file, &blob.digest, target, blob.size))
            .map_err(|error| Error::file(format!("blob {}", blob.digest), &error))?;
    }
    for document in &graph.documents {
        target.put(&document.content).map_err(to_error)?;
    }
    match graph.top() {
        Some(top) => set_tag(target, tag, &top).map_err(to_error),
        None => Ok(()),
    }
}

impl Inner {
    /// Reads an image from a directory or a file into the store.
    pub(crate) async fn open_file(
        self: &Arc<Self>,
        location: &Location,
        admission: &Admission,
    ) -> Result<Image, Error> {
        let (inner, location) = (self.clone(), location.clone());
        let work = move || {
            let top = inner.import(&location, false)?;
            inner.assemble(&location.to_string(), top)
        };
        let image = tokio::task::spawn_blocking(work)
            .await
            .unwrap_or_else(|error| Err(Error::new(ErrorKind::File, error.to_string())))?;
        admission.check(self, None, &image.manifest_digest).await?;
        Ok(image)
    }

    /// Copies an image from a directory or a file into the store, `whole` or the part for the selected platform.
    /// Returns the digest of its manifest or index.
    pub(crate) fn import(&self, location: &Location, whole: bool) -> Result<Digest, Error> {
        let reading = |error: Error| error.context(location);
        match location {
            Location::Layout { path, tag } => {
                let index = read_index(path).map_err(|error| reading(Error::file(path.display(), &error)))?;
                if !path.join("oci-layout").is_file() {
                    return Err(reading(Error::new(ErrorKind::NotFound, "the directory contains no OCI image layout")));
                }
                let top = choose(&index, tag.as_deref()).map_err(reading)?;
                let mut budget = GraphBudget::new(&self.options.limits);
                self.import_layout(&path.join("blobs/sha256"), top.digest, whole, 0, &mut budget).map_err(reading)?;
                Ok(top.digest)
            }
            Location::LayoutArchive { path, tag } => {
                archive::open_layout(path, tag.as_deref(), &self.options.store, &self.options.limits).map_err(reading)
            }
            Location::DockerArchive { path, reference } => {
                archive::open_docker(path, reference.as_deref(), &self.options.store, &self.options.limits)
                    .map_err(reading)
            }
            Location::Registry(_) => Err(reading(Error::new(ErrorKind::Unsupported, "a registry is not a file"))),
        }
    }

    fn import_layout(
        &self,
        folder: &Path,
        digest: Digest,
        whole: bool,
        depth: usize,
        budget: &mut GraphBudget,
    ) -> Result<(), Error> {
        if !budget.admit(&digest, depth)? {
            return Ok(());
        }
        let copy = |digest: &Digest, limit: u64| {
            let from = folder.join(digest.hex());
            shared::open_named(&from)
                .and_then(|file| copy_blob(file, digest, &self.options.store, limit))
                .map_err(|error| Error::file(from.display(), &error))
        };
        copy(&digest, MANIFEST_LIMIT)?;
        let document = self.read_document(&digest)?;
        if document.is_index() && !whole {
            let index: ImageIndex = parse(&document.content, "index")?;
            let chosen = platform::choose(&index, self.options.platform.as_ref())?.digest;
            return self.import_layout(folder, chosen, whole, depth + 1, budget);
        }
        for child in budget.children(&document)? {
            match child {
                Child::Document(digest) => self.import_layout(folder, digest, whole, depth + 1, budget)?,
                Child::Blob(blob) => copy(&blob.digest, self.options.limits.layer)?,
            }
        }
        Ok(())
    }

    /// Copies the referrers that a layout lists.
    pub(crate) fn import_referrers(&self, path: &Path, index: &ImageIndex) -> Result<(), Error> {
        let folder = path.join("blobs/sha256");
        let mut budget = GraphBudget::new(&self.options.limits);
        for entry in &index.manifests {
            let name = entry.annotations.get(REF_NAME).map(String::as_str).unwrap_or_default();
            let by_cosign =
                name.starts_with("sha256-") && COSIGN.iter().any(|kind| name.ends_with(&format!(".{kind}")));
            let mut content = Vec::new();
            let file = shared::open_named(&folder.join(entry.digest.hex())).ok().flatten();
            let read = file.is_some_and(|file| file.take(MANIFEST_LIMIT).read_to_end(&mut content).is_ok());
            let has_subject = read && ManifestDocument::new(content, None).is_ok_and(|it| it.subject().is_some());
            if by_cosign || has_subject {
                self.import_layout(&folder, entry.digest, true, 0, &mut budget)?;
            }
        }
        Ok(())
    }

    /// Loads the image of the selected platform from the store.
    pub(crate) fn assemble(&self, name: &str, top: Digest) -> Result<Image, Error> {
        let mut digest = top;
        let mut document = self.read_document(&digest)?;
        for _ in 0..self.options.limits.nesting {
            if !document.is_index() {
                break;
            }
            let index: ImageIndex = parse(&document.content, "index")?;
            digest = platform::choose(&index, self.options.platform.as_ref())?.digest;
            document = self.read_document(&digest)?;
        }
        let manifest: ImageManifest = parse(&document.content, "manifest")?;
        self.options.limits.check(&manifest)?;
        self.image(name, top, digest, manifest)
    }
}

/// Copies a blob into the store, which hashes what it writes.
fn copy_blob(from: Option<File>, digest: &Digest, store: &Store, limit: u64) -> io::Result<()> {
    if store.blob(digest)?.is_some() {
        return Ok(());
    }
    let missing = || io::Error::new(io::ErrorKind::NotFound, "there is no such file");
    let mut source = from.ok_or_else(missing)?.take(limit + 1);
    let mut writer = store.writer()?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match source.read(&mut buffer)? {
            0 => break,
            count => writer.write_all(&buffer[..count])?,
        }
    }
    if writer.size() > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("larger than {limit} bytes")));
    }
    writer.finish(Some(digest)).map(|_| ())
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}
