//! Access to images for commands: flags, store, and detection of the kind of an image.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

mod flags;

pub(crate) use flags::{PullFlags, TlsFlags, check_flags};
use image::{Client, Environment, Image, LayerFile, Location, Store, UnpackLimits};
use scratch::TempFolder;

use crate::interrupt::Unfinished;
use crate::progress::{Progress, Unit};
use crate::registry_settings::RegistrySettings;
use crate::transfer::Moved;

/// The label of a database index.
pub(crate) const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";
/// The label of a file-based catalog.
pub(crate) const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
/// The path of a catalog in the images that opm builds, and the default for an empty label.
pub(crate) const CONFIGS: &str = "/configs";
/// The history of the layers that `opm index` writes: the program, and the database.
pub(crate) const INDEX_LAYERS: [&str; 2] = ["opm index: the program", "opm index: the database"];
/// The label of a bundle.
pub(crate) const BUNDLE_LABEL: &str = "operators.operatorframework.io.bundle.package.v1";

/// The environment variable of the cache directory; images go to its directory `images`.
const CACHE_VARIABLE: &str = "OLM_CACHE_DIR";

/// The timeout of optional registry requests.
const OPTIONAL_TIMEOUT: Duration = Duration::from_secs(5);

/// Pulls and unpacks images. Creates directories and connections lazily.
pub(crate) struct Images {
    tls: TlsFlags,
    pull: PullFlags,
    policy: Option<PathBuf>,
    insecure_policy: bool,
    settings: RegistrySettings,
    moved: Arc<Moved>,
    tools: OnceLock<Tools>,
    /// The digests of pulled references.
    digests: Mutex<HashMap<String, image::Digest>>,
}

struct Tools {
    client: Client,
    /// The temporary directory for unpacked images; removed on drop and on interrupt.
    scratch: Unfinished,
}

/// Why an image could not be unpacked.
pub(crate) struct NotUnpacked {
    pub(crate) reason: String,
    /// Whether the failure is local, such as a full disk, so that a retry can succeed.
    pub(crate) transient: bool,
}

/// An image in the store, and its kind.
pub(crate) struct Fetched {
    pub(crate) image: Image,
    pub(crate) kind: Kind,
}

/// The kind of an image, from its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An index whose database is at this path.
    Database(String),
    /// A file-based catalog at this path.
    Catalog(String),
    /// A bundle.
    Bundle,
    /// Another image, with these labels.
    Other(BTreeMap<String, String>),
}

impl Kind {
    fn of(labels: BTreeMap<String, String>) -> Kind {
        if let Some(path) = labels.get(DATABASE_LABEL) {
            Kind::Database(path.clone())
        } else if let Some(path) = labels.get(CONFIGS_LABEL) {
            Kind::Catalog(path.clone())
        } else if labels.contains_key(BUNDLE_LABEL) {
            Kind::Bundle
        } else {
            Kind::Other(labels)
        }
    }
}

impl Images {
    pub(crate) fn new(tls: &TlsFlags, pull: &PullFlags) -> Images {
        Images {
            tls: tls.clone(),
            pull: pull.clone(),
            policy: None,
            insecure_policy: false,
            settings: RegistrySettings::default(),
            moved: Arc::default(),
            tools: OnceLock::new(),
            digests: Mutex::default(),
        }
    }

    /// Uses this policy instead of the user's or the system's.
    pub(crate) fn with_policy(mut self, policy: Option<PathBuf>) -> Images {
        self.policy = policy;
        self
    }

    /// Ignores the policy if `insecure` is set.
    pub(crate) fn with_insecure_policy(mut self, insecure: bool) -> Images {
        self.insecure_policy = insecure;
        self
    }

    /// Uses registry settings from the command line of another tool.
    pub(crate) fn with_settings(mut self, settings: RegistrySettings) -> Images {
        self.settings = settings;
        self
    }

    fn tools(&self) -> Result<&Tools, String> {
        if let Some(tools) = self.tools.get() {
            return Ok(tools);
        }
        let scratch = Unfinished::private("opm-images-").map_err(|error| {
            format!("{}: failed to create a directory for images: {error}", std::env::temp_dir().display())
        })?;
        let (place, store) = match (&self.pull.image_cache, Environment::current().image_cache()) {
            (Some(kept), _) => (kept.clone(), Store::open(kept)),
            (None, Some(kept)) => (kept.clone(), Store::in_cache(&kept)),
            (None, None) if self.pull.offline => {
                return Err(format!("--offline requires an image cache: set {CACHE_VARIABLE} or --image-cache"));
            }
            (None, None) => {
                let place = scratch.path().join("store");
                (place.clone(), Store::open(&place))
            }
        };
        let store = store.map_err(|error| format!("{}: {error}", place.display()))?;
        let mut options = image::Options::new(store);
        options.use_http = self.tls.uses_http();
        options.skip_tls_verify = self.tls.skips_verification();
        options.ca_files.extend(self.pull.ca_file.clone());
        options.platform.clone_from(&self.pull.platform);
        options.offline = self.pull.offline;
        options.policy.clone_from(&self.policy);
        options.insecure_policy = self.insecure_policy;
        self.settings.apply(&mut options)?;
        options.progress = Arc::clone(&self.moved) as Arc<dyn image::Progress>;
        let client = Client::new(options).map_err(|error| error.to_string())?;
        Ok(self.tools.get_or_init(|| Tools { client, scratch }))
    }

    /// Returns the registry client, for commands that do more than pull.
    pub(crate) fn client(&self) -> Result<&Client, String> {
        self.tools().map(|tools| &tools.client)
    }

    /// Shows transfer progress until the returned value is dropped.
    pub(crate) fn show(&self, doing: &'static str) -> Progress {
        self.moved.line(doing)
    }

    /// Pulls images concurrently, and returns them in order.
    pub(crate) fn fetch(&self, references: &[&str]) -> Vec<Result<Fetched, String>> {
        let tools = match self.tools() {
            Ok(tools) => tools,
            Err(error) => return references.iter().map(|_| Err(error.clone())).collect(),
        };
        let locations: Vec<_> = references.iter().map(|reference| Location::parse(reference)).collect();
        let known: Vec<Location> = locations.iter().filter_map(|location| location.as_ref().ok()).cloned().collect();
        let line = self.moved.line("pulling");
        let mut pulled = tools.client.pull_many(&known).into_iter();
        drop(line);
        let mut fetched = Vec::new();
        for (reference, location) in references.iter().zip(&locations) {
            let image = match location {
                Err(error) => Err(error.to_string()),
                Ok(_) => pulled.next().unwrap_or_else(|| unreachable!("one for each location")).map_err(|error| {
                    let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
                    format!("{error}{help}")
                }),
            };
            let named = |error| format!("failed to pull image {reference:?}: {error}");
            if let Ok(image) = &image {
                self.digests().insert((*reference).to_owned(), image.digest);
            }
            fetched.push(image.map_err(named).map(|image| Fetched { kind: Kind::of(image.labels()), image }));
        }
        fetched
    }

    /// Pulls one image.
    pub(crate) fn fetch_one(&self, reference: &str) -> Result<Fetched, String> {
        self.fetch(&[reference]).pop().unwrap_or_else(|| Err("no image was requested".into()))
    }

    /// Reads the configuration of an image, without pulling its layers.
    pub(crate) fn config(&self, reference: &str) -> Result<image::Config, String> {
        let named = |error: String| format!("failed to pull image {reference:?}: {error}");
        let location = Location::parse(reference).map_err(|error| named(error.to_string()))?;
        self.client()?.config(&location).map_err(|error| {
            let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
            named(format!("{error}{help}"))
        })
    }

    /// Returns the operating system and architecture of each image of a reference, without pulling layers.
    pub(crate) fn platforms(&self, reference: &str) -> Result<Vec<(String, String)>, String> {
        let location = Location::parse(reference).map_err(|error| error.to_string())?;
        let platforms = self.client()?.platforms(&location).map_err(|error| error.to_string())?;
        Ok(platforms.into_iter().map(|platform| (platform.os, platform.architecture)).collect())
    }

    /// Unpacks an image, or only the path `only`, into `target`, which must be empty or absent.
    fn unpack(&self, image: &Image, only: Option<&Path>, target: &Path) -> Result<(), NotUnpacked> {
        let layers: Vec<LayerFile> = image
            .layers
            .iter()
            .map(|(layer, blob)| LayerFile { path: blob.path().to_owned(), media_type: layer.media_type.clone() })
            .collect();
        let progress = Progress::start("unpacking", Unit::Bytes);
        let advance = |bytes| progress.add(bytes);
        let limits = UnpackLimits::default();
        match only {
            None => image::unpack(&layers, target, &limits, &advance),
            Some(only) => image::unpack_only(&[only], &layers, target, &limits, &advance),
        }
        .map(|_| ())
        .map_err(|error| NotUnpacked {
            reason: format!("failed to unpack image {:?}: {error}", image.reference),
            transient: error.is_transient(),
        })
    }

    /// Unpacks an image to a temporary directory, which lives as long as this value.
    pub(crate) fn unpack_aside(&self, image: &Image, only: Option<&Path>) -> Result<PathBuf, String> {
        self.try_unpack_aside(image, only).map_err(|error| error.reason)
    }

    /// Like [`Images::unpack_aside`], with an error that supports retries.
    pub(crate) fn try_unpack_aside(&self, image: &Image, only: Option<&Path>) -> Result<PathBuf, NotUnpacked> {
        let failed = |reason: String| NotUnpacked { reason, transient: true };
        let tools = self.tools().map_err(failed)?;
        let target = TempFolder::inside(tools.scratch.path(), "image-");
        let target = target.map_err(|error| failed(format!("{}: {error}", tools.scratch.path().display())))?;
        // Remove the directory unless the image was unpacked.
        self.unpack(image, only, target.path())?;
        Ok(target.keep())
    }

    /// Removes pulled blobs that are not part of `image`, unless the cache keeps them for later runs.
    pub(crate) fn forget_others(&self, image: &Image) -> Result<(), String> {
        let tools = self.tools()?;
        let store = tools.client.options().store.clone();
        if !store.root().starts_with(tools.scratch.path()) {
            return Ok(());
        }
        let blobs = image.manifest.layers.iter().chain([&image.manifest.config]).map(|blob| blob.digest);
        let needed: BTreeSet<String> =
            blobs.chain([image.digest, image.manifest_digest]).map(|digest| digest.hex()).collect();
        let failed = |error: std::io::Error| format!("{}: {error}", store.root().display());
        for entry in std::fs::read_dir(store.root().join("blobs/sha256")).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !needed.contains(&*entry.file_name().to_string_lossy()) {
                std::fs::remove_file(entry.path()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Pulls and unpacks images concurrently, and returns their directories in order.
    pub(crate) fn bundles(&self, references: &[&str]) -> Vec<Result<PathBuf, String>> {
        let unpacked = self.pinned_bundles(references).into_iter();
        unpacked.map(|unpacked| unpacked.map(|(directory, _)| directory)).collect()
    }

    /// Like [`Images::bundles`], but also returns each reference with its digest.
    pub(crate) fn pinned_bundles(&self, references: &[&str]) -> Vec<Result<(PathBuf, String), String>> {
        let fetched = references.iter().zip(self.fetch(references));
        let unpack = |(reference, fetched): (&&str, Result<Fetched, String>)| {
            Ok((self.unpack_aside(&fetched?.image, None)?, self.pulled_name(reference)))
        };
        fetched.map(unpack).collect()
    }

    /// Returns a reference with the digest of its pull; references that were not pulled stay unchanged.
    pub(crate) fn pulled_name(&self, reference: &str) -> String {
        let digest = self.digests().get(reference).copied();
        digest.map_or_else(|| reference.to_owned(), |digest| pinned(reference, digest))
    }

    fn digests(&self) -> MutexGuard<'_, HashMap<String, image::Digest>> {
        self.digests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a client for optional requests: without retries, and with a short timeout.
    fn optional_client(&self) -> Result<Client, String> {
        let mut options = self.client()?.options().clone();
        options.retries.count = 0;
        options.timeouts.connect = OPTIONAL_TIMEOUT;
        options.timeouts.idle = OPTIONAL_TIMEOUT;
        Client::new(options).map_err(|error| error.to_string())
    }

    /// Resolves a name to its current digest, as an optional request.
    pub(crate) fn digest_of(&self, name: &str) -> Result<image::Digest, String> {
        match Location::parse(name).map_err(|error| error.to_string())? {
            Location::Registry(name) => self.optional_client()?.head(&name).map_err(|error| error.to_string()),
            _ => Err(format!("{name} is not in a registry")),
        }
    }

    /// Reads the configuration of an image, as an optional request.
    pub(crate) fn config_of(&self, name: &str) -> Result<image::Config, String> {
        let location = Location::parse(name).map_err(|error| error.to_string())?;
        self.optional_client()?.config(&location).map_err(|error| error.to_string())
    }

    /// Resolves a reference to its current digest, and returns the reference with it.
    pub(crate) fn pin(&self, reference: &str) -> Result<String, String> {
        match Location::parse(reference).map_err(|error| error.to_string())? {
            Location::Registry(name) if name.digest().is_none() => {
                let digest = self.client()?.head(&name).map_err(|error| error.to_string())?;
                Ok(name.pinned(digest).to_string())
            }
            _ => Ok(reference.to_owned()),
        }
    }
}

/// Returns whether `opm index` built an image from scratch: it contains a database, perhaps opm, and nothing else.
pub(crate) fn is_index_from_scratch(config: &image::Config) -> bool {
    let is_ours = |step: &serde_json::Value| INDEX_LAYERS.iter().any(|layer| step["created_by"] == *layer);
    let layers = config.rootfs.diff_ids.len();
    layers > 0 && config.history.len() == layers && config.history.iter().all(is_ours)
}

/// Returns the directory of the catalog in an image that has no program to serve it.
pub(crate) fn data_only_catalog(config: &image::Config) -> Option<String> {
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
pub(crate) fn inside(root: &Path, path: &str) -> Result<PathBuf, String> {
    image::contained(root, Path::new(path)).map_err(|error| format!("{path} is not in the image: {error}"))
}
