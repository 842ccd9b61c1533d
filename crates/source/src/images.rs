//! Pulls and unpacks images, and tells their kinds apart.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use catalog::{DATABASE_LABEL, INDEX_LAYERS};
use fbc::scratch::TempFolder;
use image::{
    CONFIGS, CONFIGS_LABEL, Client, Environment, Image, LayerFile, Location, Platform, Retries, Store, UnpackLimits,
};

use crate::error::{SourceError, at};
use crate::progress::{RunningStage, SourceProgress, SourceStage};

/// The label of a bundle.
pub(crate) const BUNDLE_LABEL: &str = "operators.operatorframework.io.bundle.package.v1";

/// The timeout of optional registry requests.
const OPTIONAL_TIMEOUT: Duration = Duration::from_secs(5);

/// How images are pulled.
#[derive(Clone, Debug)]
pub struct PullSettings {
    /// Whether to use plain HTTP.
    pub use_http: bool,
    /// Whether to skip the verification of certificates.
    pub skip_tls_verify: bool,
    /// CA certificates in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// The platform to select from an index.
    pub platform: Option<Platform>,
    /// The directory that keeps pulled images; defaults to that of the environment.
    pub image_cache: Option<PathBuf>,
    /// Whether to use only kept images.
    pub offline: bool,
    /// The policy file; defaults to the user's or the system's.
    pub policy: Option<PathBuf>,
    /// Whether to ignore the policy.
    pub insecure_policy: bool,
    /// Settings that only other tools have flags for.
    pub registry: RegistrySettings,
    /// The source of credentials, certificates and other settings.
    pub environment: Environment,
}

impl PullSettings {
    /// Returns the default settings in an environment.
    pub fn new(environment: Environment) -> PullSettings {
        PullSettings {
            use_http: false,
            skip_tls_verify: false,
            ca_file: None,
            platform: None,
            image_cache: None,
            offline: false,
            policy: None,
            insecure_policy: false,
            registry: RegistrySettings::default(),
            environment,
        }
    }

    /// Returns the options of a client.
    fn options(&self, store: Store) -> Result<image::ClientOptions, SourceError> {
        let mut options = image::ClientOptions::new(store);
        options.use_http = self.use_http;
        options.skip_tls_verify = self.skip_tls_verify;
        options.ca_files.extend(self.ca_file.clone());
        options.platform.clone_from(&self.platform);
        options.offline = self.offline;
        options.policy.clone_from(&self.policy);
        options.insecure_policy = self.insecure_policy;
        options.environment = self.environment.clone();
        self.registry.apply(&mut options)?;
        Ok(options)
    }
}

/// Registry settings that the command lines of other tools support and opm's does not.
#[derive(Clone, Debug, Default)]
pub struct RegistrySettings {
    /// A credentials file that takes precedence over all others.
    pub auth_file: Option<PathBuf>,
    /// The retry policy.
    pub retries: Option<Retries>,
    /// Whether to verify certificates, by host; overrides the global setting.
    pub certificates: BTreeMap<String, bool>,
}

impl RegistrySettings {
    fn apply(&self, options: &mut image::ClientOptions) -> Result<(), SourceError> {
        if let Some(file) = &self.auth_file {
            let name = file.to_str().ok_or_else(|| SourceError::AuthFile(file.clone()))?;
            fs::metadata(file).map_err(at(file))?;
            options.environment = options.environment.clone().with("REGISTRY_AUTH_FILE", name);
        }
        options.retries = self.retries.unwrap_or(options.retries);
        options.certificates.clone_from(&self.certificates);
        Ok(())
    }
}

/// Pulls and unpacks images. Creates directories and connections lazily.
pub struct Images {
    settings: PullSettings,
    progress: Arc<dyn SourceProgress>,
    transfers: Arc<dyn image::TransferProgress>,
    tools: OnceLock<Tools>,
    /// The digests of pulled references.
    digests: Mutex<HashMap<String, image::Digest>>,
}

struct Tools {
    client: Client,
    /// The temporary directory for unpacked images; removed on drop and on interrupt.
    scratch: TempFolder,
}

/// The catalog or the database of an image.
#[derive(Debug)]
pub struct UnpackedIndex {
    /// The directory of the unpacked image.
    pub root: PathBuf,
    /// The catalog or the database in it.
    pub path: PathBuf,
}

/// An image in the store, and its kind.
pub struct Fetched {
    pub image: Image,
    /// Its kind.
    pub kind: ImageKind,
}

/// The kind of an image, from its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageKind {
    /// An index whose database is at this path.
    Database(String),
    /// A file-based catalog at this path.
    Catalog(String),
    Bundle,
    /// Another image, with these labels.
    Other(BTreeMap<String, String>),
}

impl ImageKind {
    fn of(labels: BTreeMap<String, String>) -> ImageKind {
        if let Some(path) = labels.get(DATABASE_LABEL) {
            ImageKind::Database(path.clone())
        } else if let Some(path) = labels.get(CONFIGS_LABEL) {
            ImageKind::Catalog(path.clone())
        } else if labels.contains_key(BUNDLE_LABEL) {
            ImageKind::Bundle
        } else {
            ImageKind::Other(labels)
        }
    }
}

impl Images {
    /// Prepares to pull images; `transfers` receives the events of the client.
    pub fn new(
        settings: PullSettings,
        progress: Arc<dyn SourceProgress>,
        transfers: Arc<dyn image::TransferProgress>,
    ) -> Images {
        Images { settings, progress, transfers, tools: OnceLock::new(), digests: Mutex::default() }
    }

    /// Prepares to move images into and out of one store, for commands that do more than pull; `adjust` changes the
    /// options of the client.
    ///
    /// # Errors
    /// Fails when the settings cannot be used.
    pub fn in_store(
        settings: PullSettings,
        progress: Arc<dyn SourceProgress>,
        store: Store,
        adjust: impl FnOnce(&mut image::ClientOptions),
    ) -> Result<Images, SourceError> {
        let mut options = settings.options(store)?;
        adjust(&mut options);
        let transfers = Arc::clone(&options.progress);
        let tools = OnceLock::from(Tools { client: Client::new(options)?, scratch: scratch()? });
        Ok(Images { settings, progress, transfers, tools, digests: Mutex::default() })
    }

    /// Returns the settings.
    pub fn settings(&self) -> &PullSettings {
        &self.settings
    }

    /// Returns the receiver of progress and warnings.
    pub fn progress(&self) -> &dyn SourceProgress {
        &*self.progress
    }

    fn tools(&self) -> Result<&Tools, SourceError> {
        if let Some(tools) = self.tools.get() {
            return Ok(tools);
        }
        let scratch = scratch()?;
        let (place, store) = match (&self.settings.image_cache, self.settings.environment.image_cache()) {
            (Some(kept), _) => (kept.clone(), Store::open(kept)),
            (None, Some(kept)) => (kept.clone(), Store::in_cache(&kept)),
            (None, None) if self.settings.offline => return Err(SourceError::NoCache),
            (None, None) => {
                let place = scratch.path().join("store");
                (place.clone(), Store::open(&place))
            }
        };
        let mut options = self.settings.options(store.map_err(at(&place))?)?;
        options.progress = Arc::clone(&self.transfers);
        let client = Client::new(options)?;
        Ok(self.tools.get_or_init(|| Tools { client, scratch }))
    }

    /// Returns the registry client, for commands that do more than pull.
    ///
    /// # Errors
    /// Fails when the settings cannot be used.
    pub fn client(&self) -> Result<&Client, SourceError> {
        self.tools().map(|tools| &tools.client)
    }

    /// Shows transfer progress until the returned value is dropped.
    pub fn show(&self, doing: &'static str) -> Box<dyn RunningStage> {
        self.progress.start(SourceStage::Transfer(doing))
    }

    /// Pulls images concurrently, and returns them in order.
    pub fn fetch(&self, references: &[&str]) -> Vec<Result<Fetched, SourceError>> {
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => {
                let error = Arc::new(error);
                return references.iter().map(|_| Err(SourceError::Shared(Arc::clone(&error)))).collect();
            }
        };
        let locations: Vec<_> = references.iter().map(|reference| Location::parse(reference)).collect();
        let known: Vec<Location> = locations.iter().filter_map(|location| location.as_ref().ok()).cloned().collect();
        let line = self.show("pulling");
        let mut pulled = client.pull_many(&known).into_iter();
        drop(line);
        let mut fetched = Vec::new();
        for (reference, location) in references.iter().zip(locations) {
            let image = match location {
                Err(error) => Err(error.into()),
                Ok(_) => pulled.next().unwrap_or_else(|| unreachable!("one for each location")),
            };
            if let Ok(image) = &image {
                self.digests().insert((*reference).to_owned(), image.digest);
            }
            fetched.push(
                image
                    .map(|image| Fetched { kind: ImageKind::of(image.labels()), image })
                    .map_err(|source| SourceError::Pull { reference: (*reference).to_owned(), source }),
            );
        }
        fetched
    }

    /// Pulls one image.
    ///
    /// # Errors
    /// Fails when the image cannot be pulled.
    pub fn fetch_one(&self, reference: &str) -> Result<Fetched, SourceError> {
        self.fetch(&[reference]).pop().unwrap_or_else(|| unreachable!("one for each reference"))
    }

    /// Reads the configuration of an image, without pulling its layers.
    ///
    /// # Errors
    /// Fails when the configuration cannot be pulled.
    pub fn config(&self, reference: &str) -> Result<image::ConfigFile, SourceError> {
        let failed = |source| SourceError::Pull { reference: reference.to_owned(), source };
        let location = Location::parse(reference).map_err(|error| failed(error.into()))?;
        self.client()?.config(&location).map_err(failed)
    }

    /// Returns the operating system and architecture of each image of a reference, without pulling layers.
    ///
    /// # Errors
    /// Fails when the list cannot be pulled.
    pub fn platforms(&self, reference: &str) -> Result<Vec<(String, String)>, SourceError> {
        let platforms = self.client()?.platforms(&Location::parse(reference)?)?;
        Ok(platforms.into_iter().map(|platform| (platform.os, platform.architecture)).collect())
    }

    /// Unpacks an image, or only the paths `only`, into `target`, which must be empty or absent.
    fn unpack(&self, image: &Image, only: &[&Path], target: &Path) -> Result<(), SourceError> {
        let layers: Vec<LayerFile> = image
            .layers
            .iter()
            .map(|(layer, blob)| LayerFile { blob: blob.clone(), media_type: layer.media_type.clone() })
            .collect();
        let running = self.progress.start(SourceStage::Unpacking);
        let advance = |bytes| running.advance(bytes);
        let limits = UnpackLimits::default();
        match only {
            [] => image::unpack(&layers, target, &limits, &advance),
            only => image::unpack_only(only, &layers, target, &limits, &advance),
        }
        .map(|_| ())
        .map_err(|source| SourceError::Unpack { reference: image.reference.clone(), source })
    }

    /// Unpacks an image to a temporary directory, which lives as long as this value.
    ///
    /// # Errors
    /// Fails when the image cannot be unpacked.
    pub fn unpack_to_temp(&self, image: &Image) -> Result<PathBuf, SourceError> {
        self.unpack_only_to_temp(image, &[])
    }

    /// Unpacks the catalog or the database at `path` of an image to a temporary directory, which lives as long as this
    /// value.
    ///
    /// # Errors
    /// Fails when the image does not contain it, or cannot be unpacked.
    pub fn index(&self, image: &Image, path: &str) -> Result<UnpackedIndex, SourceError> {
        let log = format!("{path}-wal");
        let root = self.unpack_only_to_temp(image, &[path.as_ref(), log.as_ref()])?;
        let found = inside(&root, path).and_then(|path| match inside(&root, &log).map(|log| log.metadata()) {
            Ok(Ok(metadata)) if metadata.len() > 0 => Err(SourceError::UnfinishedLog(log)),
            _ => Ok(path),
        });
        match found {
            Ok(path) => Ok(UnpackedIndex { root, path }),
            Err(error) => {
                drop(fs::remove_dir_all(&root));
                Err(error.of_image(&image.reference))
            }
        }
    }

    fn unpack_only_to_temp(&self, image: &Image, only: &[&Path]) -> Result<PathBuf, SourceError> {
        let scratch = self.tools()?.scratch.path();
        let target = TempFolder::inside(scratch, "image-").map_err(at(scratch))?;
        // Remove the directory unless the image was unpacked.
        self.unpack(image, only, target.path())?;
        Ok(target.keep())
    }

    /// Removes pulled blobs that are not part of `image`, unless the cache keeps them for later runs.
    ///
    /// # Errors
    /// Fails when a blob cannot be removed.
    pub fn forget_others(&self, image: &Image) -> Result<(), SourceError> {
        let tools = self.tools()?;
        let store = tools.client.options().store.clone();
        if !store.root().starts_with(tools.scratch.path()) {
            return Ok(());
        }
        let blobs = image.manifest.layers.iter().chain([&image.manifest.config]).map(|blob| blob.digest);
        let needed: BTreeSet<String> =
            blobs.chain([image.digest, image.manifest_digest]).map(|digest| digest.hex()).collect();
        for entry in fs::read_dir(store.root().join("blobs/sha256")).map_err(at(store.root()))? {
            let entry = entry.map_err(at(store.root()))?;
            if !needed.contains(&*entry.file_name().to_string_lossy()) {
                fs::remove_file(entry.path()).map_err(at(store.root()))?;
            }
        }
        Ok(())
    }

    /// Pulls and unpacks images concurrently, and returns their directories in order.
    pub fn bundles(&self, references: &[&str]) -> Vec<Result<PathBuf, SourceError>> {
        let unpacked = self.pinned_bundles(references).into_iter();
        unpacked.map(|unpacked| unpacked.map(|(directory, _)| directory)).collect()
    }

    /// Like [`Images::bundles`], but also returns each reference with its digest.
    pub fn pinned_bundles(&self, references: &[&str]) -> Vec<Result<(PathBuf, String), SourceError>> {
        let fetched = references.iter().zip(self.fetch(references));
        fetched.map(|(reference, fetched)| self.unpack_pinned(reference, fetched?)).collect()
    }

    /// Like [`Images::pinned_bundles`], for one.
    ///
    /// # Errors
    /// Fails when the image cannot be pulled or unpacked.
    pub fn pinned_bundle(&self, reference: &str) -> Result<(PathBuf, String), SourceError> {
        self.unpack_pinned(reference, self.fetch_one(reference)?)
    }

    fn unpack_pinned(&self, reference: &str, fetched: Fetched) -> Result<(PathBuf, String), SourceError> {
        Ok((self.unpack_to_temp(&fetched.image)?, self.pulled_name(reference)))
    }

    /// Returns a reference with the digest of its pull; references that were not pulled stay unchanged.
    pub fn pulled_name(&self, reference: &str) -> String {
        let digest = self.digests().get(reference).copied();
        digest.map_or_else(|| reference.to_owned(), |digest| pinned(reference, digest))
    }

    fn digests(&self) -> MutexGuard<'_, HashMap<String, image::Digest>> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a client for optional requests: without retries, and with a short timeout.
    fn optional_client(&self) -> Result<Client, SourceError> {
        let mut options = self.client()?.options().clone();
        options.retries.count = 0;
        options.timeouts.connect = OPTIONAL_TIMEOUT;
        options.timeouts.idle = OPTIONAL_TIMEOUT;
        Ok(Client::new(options)?)
    }

    /// Resolves a name to its current digest, as an optional request.
    ///
    /// # Errors
    /// Fails when the registry does not tell it in time.
    fn digest_of(&self, name: &str) -> Result<image::Digest, SourceError> {
        match Location::parse(name)? {
            Location::Registry(name) => Ok(self.optional_client()?.head(&name)?),
            _ => Err(SourceError::NotInRegistry(name.to_owned())),
        }
    }

    /// Resolves a tag to its current digest, as an optional request, and returns the image by digest alone: some nodes
    /// reject references with both.
    ///
    /// # Errors
    /// Fails when the registry does not tell it in time.
    pub fn by_digest(&self, tag: &str) -> Result<String, SourceError> {
        let repository = tag.rsplit_once(':').map_or(tag, |(repository, _)| repository);
        Ok(format!("{repository}@{}", self.digest_of(tag)?))
    }

    /// Reads the configuration of an image, as an optional request.
    ///
    /// # Errors
    /// Fails when the registry does not tell it in time.
    pub fn config_of(&self, name: &str) -> Result<image::ConfigFile, SourceError> {
        let location = Location::parse(name)?;
        Ok(self.optional_client()?.config(&location)?)
    }

    /// Resolves a reference to its current digest, and returns the reference with it.
    ///
    /// # Errors
    /// Fails when the registry does not tell it.
    pub fn pin(&self, reference: &str) -> Result<String, SourceError> {
        match Location::parse(reference)? {
            Location::Registry(name) if name.digest().is_none() => {
                let digest = self.client()?.head(&name)?;
                Ok(name.pinned(digest).to_string())
            }
            _ => Ok(reference.to_owned()),
        }
    }
}

/// Creates the temporary directory for unpacked images.
fn scratch() -> Result<TempFolder, SourceError> {
    TempFolder::private("opm-images-").map_err(|source| SourceError::Scratch { path: std::env::temp_dir(), source })
}

/// Returns whether `opm index` built an image from scratch: it contains a database, perhaps opm, and nothing else.
pub fn is_index_from_scratch(config: &image::ConfigFile) -> bool {
    let is_ours = |step: &serde_json::Value| INDEX_LAYERS.iter().any(|layer| step["created_by"] == *layer);
    let layers = config.rootfs.diff_ids.len();
    layers > 0 && config.history.len() == layers && config.history.iter().all(is_ours)
}

/// Returns the directory of the catalog in an image that has no program to serve it.
pub fn data_only_catalog(config: &image::ConfigFile) -> Option<String> {
    let directory = config.labels().remove(CONFIGS_LABEL).filter(|_| !config.has_program())?;
    Some(match directory.trim_matches('/') {
        "" => CONFIGS.to_owned(),
        directory => format!("/{directory}"),
    })
}

/// Adds the digest to a registry reference; other references stay unchanged.
pub(crate) fn pinned(reference: &str, digest: image::Digest) -> String {
    match Location::parse(reference) {
        Ok(Location::Registry(name)) if name.digest().is_none() => name.pinned(digest).to_string(),
        _ => reference.to_owned(),
    }
}

/// Resolves `path` in an unpacked image, without leaving its root.
///
/// # Errors
/// Fails when the image does not have the path.
pub fn inside(root: &Path, path: &str) -> Result<PathBuf, SourceError> {
    image::contained(root, Path::new(path)).map_err(|source| SourceError::NotInside { path: path.to_owned(), source })
}
