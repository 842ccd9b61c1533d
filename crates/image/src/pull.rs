//! Pulls images into a store.

use std::collections::BTreeMap;

use tokio::task::JoinSet;

use crate::StoredBlob;
use crate::client::{Client, Inner};
use crate::layout;
use crate::manifest::{ConfigFile, Descriptor, ImageIndex, ImageManifest, Platform};
use crate::platform;
use crate::policy::Admission;
use crate::progress::TransferEvent;
use crate::registry::{ManifestDocument, RegistrySource, stored};
use crate::{Digest, Error, ErrorKind, Location, Reference};

/// An image in a store.
#[derive(Debug, Clone)]
pub struct Image {
    /// The image, as named by the user.
    pub reference: String,
    /// The digest that the name resolved to: a manifest or an index.
    pub digest: Digest,
    /// The digest of its manifest.
    pub manifest_digest: Digest,
    /// Its manifest.
    pub manifest: ImageManifest,
    /// Its config.
    pub config: ConfigFile,
    /// Its layers, base first.
    pub layers: Vec<(Descriptor, StoredBlob)>,
}

impl Image {
    /// Returns the labels.
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.config.labels()
    }
}

impl Client {
    /// Pulls an image into the store; blobs that are present are not fetched again.
    ///
    /// # Errors
    /// Fails when the image does not exist or cannot be fetched completely.
    pub fn pull(&self, location: &Location) -> Result<Image, Error> {
        self.block_on(self.pull_async(location))
    }

    /// The async form of [`Client::pull`].
    ///
    /// # Errors
    /// Fails as [`Client::pull`] does.
    pub(crate) async fn pull_async(&self, location: &Location) -> Result<Image, Error> {
        let inner = self.inner();
        let admission = inner.allow(location)?;
        match location {
            Location::Registry(reference) => inner.pull_reference(reference, &admission).await,
            other => inner.open_file(other, &admission).await,
        }
    }

    /// Pulls images into the store, several concurrently, and returns them in the order of `locations`.
    pub fn pull_many(&self, locations: &[Location]) -> Vec<Result<Image, Error>> {
        self.block_on(async {
            let mut tasks = JoinSet::new();
            for (number, location) in locations.iter().enumerate() {
                let (client, location) = (self.clone(), location.clone());
                tasks.spawn(async move {
                    let inner = client.inner();
                    let _turn = inner.images.acquire().await;
                    (number, client.pull_async(&location).await)
                });
            }
            let lost = || Error::new(ErrorKind::Network, "the download was aborted");
            let mut images: Vec<Result<Image, Error>> = locations.iter().map(|_| Err(lost())).collect();
            while let Some(done) = tasks.join_next().await {
                if let Ok((number, outcome)) = done {
                    images[number] = outcome;
                }
            }
            images
        })
    }

    /// Reads the config of an image, including its labels, without fetching layers.
    ///
    /// # Errors
    /// Fails as [`Client::pull`] does.
    pub fn config(&self, location: &Location) -> Result<ConfigFile, Error> {
        let Location::Registry(reference) = location else { return Ok(self.pull(location)?.config) };
        let inner = self.inner();
        if inner.options.offline {
            return Ok(self.pull(location)?.config);
        }
        let admission = inner.allow(location)?;
        let name = reference.to_string();
        self.block_on(inner.try_sources(reference, |source| {
            let (inner, name, admission) = (inner.clone(), name.clone(), admission.clone());
            async move { inner.config_from(&name, &source, &admission).await }
        }))
    }

    /// Returns the platforms of an image: those listed in its index, or the one of its config.
    ///
    /// # Errors
    /// Fails as [`Client::pull`] does.
    pub fn platforms(&self, location: &Location) -> Result<Vec<Platform>, Error> {
        let inner = self.inner();
        if let (Location::Registry(reference), false) = (location, inner.options.offline) {
            let listed = self.block_on(inner.try_sources(reference, |source| {
                let inner = inner.clone();
                async move {
                    let document = inner.registry.manifest(&source, &source.reference.version()).await?;
                    let index = document.is_index().then(|| serde_json::from_slice::<ImageIndex>(&document.content));
                    index
                        .transpose()
                        .map_err(|error| Error::new(ErrorKind::Unsupported, format!("{}: {error}", source.reference)))
                }
            }))?;
            if let Some(index) = listed {
                return Ok(index.manifests.into_iter().filter_map(|image| image.platform).collect());
            }
        }
        let ConfigFile { os, architecture, variant, .. } = self.config(location)?;
        Ok(vec![Platform { os, architecture, variant, ..Platform::default() }])
    }

    /// Returns the current digest of a reference from the registry, without fetching the image.
    ///
    /// # Errors
    /// Fails when the image does not exist or the registry does not respond.
    pub fn head(&self, reference: &Reference) -> Result<Digest, Error> {
        self.block_on(self.head_async(reference))
    }

    /// The async form of [`Client::head`].
    ///
    /// # Errors
    /// Fails as [`Client::head`] does.
    pub(crate) async fn head_async(&self, reference: &Reference) -> Result<Digest, Error> {
        if let Some(digest) = reference.digest() {
            return Ok(*digest);
        }
        let inner = self.inner();
        if inner.options.offline {
            return inner.stored(reference).map(|descriptor| descriptor.digest);
        }
        let initializing = |error: Error| error.context(format!("initializing source docker://{reference}"));
        inner
            .try_sources(reference, |source| {
                let inner = inner.clone();
                async move { inner.registry.manifest_digest(&source, &source.reference.version()).await }
            })
            .await
            .map_err(initializing)
    }
}

impl Inner {
    async fn pull_reference(
        self: &std::sync::Arc<Self>,
        reference: &Reference,
        admission: &Admission,
    ) -> Result<Image, Error> {
        let initializing = |error: Error| error.context(format!("initializing source docker://{reference}"));
        let name = reference.to_string();
        let mut held = None;
        if self.options.offline {
            held = Some(self.stored(reference).map_err(initializing)?.digest);
        } else if let Some(digest) = reference.digest() {
            held = Some(*digest);
        }
        let image = match held {
            // The image may be stored completely.
            Some(digest) => self.complete(&name, None, digest, admission).await,
            None => Err(Error::new(ErrorKind::Offline, "not stored")),
        };
        let image = match image {
            Ok(image) => image,
            Err(error) if self.options.offline => return Err(error),
            Err(_) => {
                self.try_sources(reference, |source| {
                    let (inner, name, admission) = (self.clone(), name.clone(), admission.clone());
                    async move { inner.pull_from(&name, &source, &admission).await }
                })
                .await?
            }
        };
        let size = self.options.store.find_path(&image.digest).metadata().map(|about| about.len()).unwrap_or_default();
        let media_type = if image.digest == image.manifest_digest {
            image.manifest.media_type.clone().unwrap_or_else(|| crate::media_type::OCI_MANIFEST.into())
        } else {
            layout::media_type_of(&self.options.store, &image.digest)
        };
        layout::set_name(&self.options.store, &name, &Descriptor::new(&media_type, image.digest, size))
            .map_err(|error| Error::file("storing the image's name", &error))?;
        Ok(image)
    }

    /// Pulls from one source.
    async fn pull_from(
        self: std::sync::Arc<Self>,
        name: &str,
        source: &RegistrySource,
        admission: &Admission,
    ) -> Result<Image, Error> {
        let initializing = |error: Error| error.context(format!("initializing source docker://{name}"));
        let document = self.registry.manifest(source, &source.reference.version()).await.map_err(initializing)?;
        let digest = self.store_document(&document)?;
        self.complete(name, Some(source), digest, admission).await
    }

    async fn config_from(
        self: std::sync::Arc<Self>,
        name: &str,
        source: &RegistrySource,
        admission: &Admission,
    ) -> Result<ConfigFile, Error> {
        let initializing = |error: Error| error.context(format!("initializing source docker://{name}"));
        let document = self.registry.manifest(source, &source.reference.version()).await.map_err(initializing)?;
        let digest = self.store_document(&document)?;
        let (manifest_digest, manifest) = self.choose(name, Some(source), digest).await?;
        admission.check(&self, Some(source), &manifest_digest).await?;
        self.registry.fetch(source, &manifest.config, &self.options.store).await?;
        self.config(&manifest)
    }

    pub(crate) fn store_document(&self, document: &ManifestDocument) -> Result<Digest, Error> {
        let stored = self.options.store.put(&document.content);
        stored.map_err(|error| Error::file("storing a manifest", &error))
    }

    /// Resolves a stored manifest or index to an image and fetches missing parts from `source`.
    pub(crate) async fn complete(
        self: &std::sync::Arc<Self>,
        name: &str,
        source: Option<&RegistrySource>,
        digest: Digest,
        admission: &Admission,
    ) -> Result<Image, Error> {
        let (manifest_digest, manifest) = self.choose(name, source, digest).await?;
        admission.check(self, source, &manifest_digest).await?;
        let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
        for blob in std::iter::once(&manifest.config).chain(&manifest.layers) {
            let (inner, source, blob) = (self.clone(), source.cloned(), blob.clone());
            tasks.spawn(async move {
                let _turn = inner.blobs.acquire().await;
                match source {
                    Some(source) => inner.registry.fetch(&source, &blob, &inner.options.store).await.map(|_| ()),
                    None if stored(&inner.options.store, &blob).await?.is_some() => Ok(()),
                    None => Err(not_stored(&blob.digest)),
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            // Dropping the task set cancels the other blobs.
            done.unwrap_or_else(|error| Err(Error::new(ErrorKind::Network, error.to_string())))?;
        }
        self.image(name, digest, manifest_digest, manifest)
    }

    /// Resolves a stored manifest or index to the manifest of one image.
    pub(crate) async fn choose(
        &self,
        name: &str,
        source: Option<&RegistrySource>,
        digest: Digest,
    ) -> Result<(Digest, ImageManifest), Error> {
        let mut manifest_digest = digest;
        let mut document = self.read_document(&digest)?;
        let nesting = self.options.limits.nesting;
        for _ in 0..nesting {
            if !document.is_index() {
                break;
            }
            let index: ImageIndex = parse(&document.content, "index")?;
            let choosing =
                |error: Error| error.context(format!("choosing an image from manifest list docker://{name}"));
            let chosen = platform::choose(&index, self.options.platform.as_ref()).map_err(choosing)?;
            manifest_digest = chosen.digest;
            if self.read_document(&manifest_digest).is_err() {
                let source = source.ok_or_else(|| not_stored(&manifest_digest))?;
                let fetched = self.registry.manifest(source, &manifest_digest.to_string()).await?;
                self.store_document(&fetched)?;
            }
            document = self.read_document(&manifest_digest)?;
            if document.content.len() as u64 != chosen.size {
                let (is, size) = (document.content.len(), chosen.size);
                let text = format!("manifest {manifest_digest} has {is} bytes, its index says {size}");
                return Err(Error::new(ErrorKind::Digest, text));
            }
        }
        if document.is_index() {
            return Err(Error::new(ErrorKind::Limit, format!("indexes are nested deeper than {nesting}")));
        }
        self.options.progress.on(&TransferEvent::Resolved { reference: name, digest: &manifest_digest });
        let manifest: ImageManifest = parse(&document.content, "manifest")?;
        self.options.limits.check(&manifest)?;
        Ok((manifest_digest, manifest))
    }

    /// Returns an image whose blobs are all in the store.
    pub(crate) fn image(
        &self,
        name: &str,
        digest: Digest,
        manifest_digest: Digest,
        manifest: ImageManifest,
    ) -> Result<Image, Error> {
        let store = &self.options.store;
        let config = self.config(&manifest)?;
        let mut layers = Vec::new();
        for layer in &manifest.layers {
            let missing = || Error::new(ErrorKind::Digest, format!("layer {} is missing or damaged", layer.digest));
            let blob = store.blob_for(layer).map_err(|error| Error::file("reading a layer", &error))?;
            layers.push((layer.clone(), blob.ok_or_else(missing)?));
        }
        Ok(Image { reference: name.into(), digest, manifest_digest, manifest, config, layers })
    }

    fn config(&self, manifest: &ImageManifest) -> Result<ConfigFile, Error> {
        let config = self.options.store.read(&manifest.config.digest, self.options.limits.config);
        parse(&config.map_err(|error| Error::file("reading the config", &error))?, "config")
    }

    pub(crate) fn read_document(&self, digest: &Digest) -> Result<ManifestDocument, Error> {
        let content = self.options.store.read(digest, crate::registry::MANIFEST_LIMIT);
        ManifestDocument::new(content.map_err(|error| Error::file("reading a manifest", &error))?, None)
    }

    /// Returns the image that a reference resolved to when it was last pulled.
    pub(crate) fn stored(&self, reference: &Reference) -> Result<Descriptor, Error> {
        let stored = layout::named(&self.options.store, &reference.to_string())
            .map_err(|error| Error::file("reading the store", &error))?;
        let by_digest = || reference.digest().map(|digest| Descriptor::new("", *digest, 0));
        stored.or_else(by_digest).ok_or_else(|| {
            Error::new(ErrorKind::Offline, format!("{reference} is not stored, and network access is disabled"))
        })
    }
}

fn not_stored(digest: &Digest) -> Error {
    Error::new(ErrorKind::Offline, format!("{digest} is not stored, and network access is disabled"))
}

pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(content: &'a [u8], what: &str) -> Result<T, Error> {
    serde_json::from_slice(content)
        .map_err(|error| Error::new(ErrorKind::Unsupported, format!("invalid {what}: {error}")))
}
