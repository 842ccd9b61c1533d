//! Builds images of catalogs: the files, the cache that serves them, and a program.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use catalog::query::Query;
use fbc::fault::{Class, Fault};
use fbc::scratch::TempFolder;
use image::{
    BaseImage, BuiltLayer, CONFIGS, CONFIGS_LABEL, Descriptor, Image, ImagePlan, Layer, LayerModes, Platform, Programs,
    Store,
};

use crate::cache::store::{Fingerprint, PrepareError, build_portable};
use crate::load::{OnInvalid, ServedDirectory};
use crate::upstream::{self, UpstreamError};

/// The user of an image built from scratch.
pub const USER: &str = "1001";
/// The cache path in an image; as the path of the catalog, it is that of the Dockerfile of `opm generate dockerfile`.
const CACHE: &str = "/tmp/cache";
/// Any user of the image can read the cache, and the root group can rebuild it.
const CACHE_MODES: LayerModes = LayerModes { directory: 0o775, file: 0o664 };

/// An image to build.
pub struct BuildImage<'a> {
    /// The catalog; `None` for an image of the program alone.
    pub catalog: Option<ServedDirectory>,
    /// Whether to add the cache of upstream opm.
    pub upstream_cache: bool,
    /// The platforms, each with its program.
    pub programs: Programs,
    /// The other names of the program.
    pub names: Vec<&'static str>,
    /// The source of the base image, with its name; `None` to build from scratch.
    pub base: Option<&'a FetchBase<'a>>,
    /// The labels besides that of the catalog.
    pub labels: BTreeMap<String, String>,
    /// The timestamp of all files and layers.
    pub time: u64,
}

impl BuildImage<'_> {
    /// Returns the request for an image of programs alone, built from scratch.
    pub fn new(programs: Programs, names: Vec<&'static str>, time: u64) -> BuildImage<'static> {
        BuildImage { catalog: None, upstream_cache: false, programs, names, base: None, labels: BTreeMap::new(), time }
    }
}

/// Pulls the base image for a platform into a store.
pub type FetchBase<'a> = dyn Fn(&Platform, &Store) -> Result<Image, Box<dyn Fault>> + 'a;

/// Why an image cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildImageError {
    /// The catalog is not a directory.
    #[error("\"{}\" is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The catalog is invalid.
    #[error(transparent)]
    Catalog(#[from] PrepareError),
    /// An image cannot contain some of its files.
    #[error("an image cannot contain all files of the catalog:\n  {}", .0.join("\n  "))]
    Unportable(Vec<String>),
    /// The catalog changed between two reads.
    #[error("{}: the catalog changed during the build", .0.display())]
    Changed(PathBuf),
    /// The cache of upstream opm cannot be written.
    #[error("upstream cache: {0}")]
    Upstream(UpstreamError),
    /// The base image cannot be pulled.
    #[error("{0}")]
    Base(Box<dyn Fault>),
    /// A file cannot be read.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
    /// A file cannot be read or written; the error names it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Fault for BuildImageError {
    fn class(&self) -> Class {
        match self {
            BuildImageError::Base(error) => error.class(),
            BuildImageError::File { .. } | BuildImageError::Io(_) => Class::World,
            _ => Class::Refused,
        }
    }

    fn hint(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self {
            BuildImageError::Unportable(_) => {
                Some("replace links with copies and rename hidden files, or list them in .indexignore".into())
            }
            BuildImageError::Base(error) => error.hint(),
            _ => None,
        }
    }
}

/// Builds an image into a store: one manifest, or an index of several platforms. `progress` counts the packed bytes.
///
/// # Errors
/// Fails when the catalog is invalid or changes, the base image cannot be pulled, or a file cannot be read or written.
pub fn build(request: &BuildImage<'_>, store: &Store, progress: &dyn Fn(u64)) -> Result<Descriptor, BuildImageError> {
    let scratch = TempFolder::private("opm-build-")?;
    let write = |layer: &Layer| layer.write(store, request.time, progress);
    let catalog = match &request.catalog {
        Some(directory) => Some(catalog_layers(request, directory, scratch.path(), &write)?),
        None => None,
    };
    let mut images = Vec::new();
    for (platform, program) in &request.programs {
        let mut layers = Vec::new();
        let mut history = Vec::new();
        if let Some(program) = program {
            layers.push(write(&program_layer(program, &request.names)?)?);
            history.push("opm build: the program".to_owned());
        }
        if let Some(catalog) = &catalog {
            layers.extend(catalog.clone());
            history.extend(["opm build: the catalog".to_owned(), "opm build: its cache".to_owned()]);
        }
        images.push(assemble(request, store, platform, program.is_some(), &layers, history)?);
    }
    match images.as_slice() {
        [image] => Ok(image.clone()),
        images => Ok(image::build_index(store, images)?),
    }
}

/// Checks a catalog and writes its layers: the catalog and the cache.
fn catalog_layers(
    request: &BuildImage<'_>,
    directory: &ServedDirectory,
    scratch: &Path,
    write: &dyn Fn(&Layer) -> io::Result<BuiltLayer>,
) -> Result<[BuiltLayer; 2], BuildImageError> {
    let directory = ServedDirectory { on_invalid: OnInvalid::Fail, ..directory.clone() };
    // Everything below uses this copy: what was checked is what is packed.
    let configs = scratch.join("configs");
    stage(&directory, &configs)?;
    let directory = ServedDirectory { root: configs.clone(), ..directory };
    let cache = scratch.join("cache");
    let ours = build_portable(&directory, &cache)?;
    let theirs = request.upstream_cache.then(|| upstream_cache(&directory, &*ours.cache, scratch)).transpose()?;

    let mut catalog = Layer::new();
    catalog.tree(CONFIGS, &configs, LayerModes::default())?;
    let catalog = write(&catalog)?;
    let mut layer = Layer::new();
    layer.directory("/tmp", 0o1777);
    layer.tree(CACHE, &cache, CACHE_MODES)?;
    if let Some(theirs) = &theirs {
        let (place, modes) = (format!("{CACHE}/{}", upstream::CACHE), upstream::CACHE_MODES);
        let inside = LayerModes { directory: modes.directory, file: modes.file };
        layer.tree(&place, &theirs.join(upstream::CACHE), inside)?;
        layer.directory(&place, modes.root);
        layer.file(&format!("{CACHE}/{}", upstream::DIGEST), &theirs.join(upstream::DIGEST), modes.file)?;
    }
    Ok([catalog, write(&layer)?])
}

/// Checks a catalog and copies its files, and no others, to `target`.
fn stage(directory: &ServedDirectory, target: &Path) -> Result<(), BuildImageError> {
    let root = &directory.root;
    if !root.is_dir() {
        return Err(BuildImageError::NotADirectory(root.clone()));
    }
    let state = || Fingerprint::at(root).map_err(|error| BuildImageError::File { path: root.clone(), error });
    let before = state()?;
    let mut members = directory.members().map_err(PrepareError::Catalog)?;
    let unportable = members.remove_unportable(root)?;
    if !unportable.is_empty() {
        let line = |(path, reason): &(PathBuf, _)| format!("{} {reason}", root.join(path).display());
        return Err(BuildImageError::Unportable(unportable.iter().map(line).collect()));
    }
    members.copy_to(target)?;
    if state()? == before { Ok(()) } else { Err(BuildImageError::Changed(root.clone())) }
}

/// Writes the cache of upstream opm and returns its directory.
fn upstream_cache(
    directory: &ServedDirectory,
    answers: &dyn Query,
    scratch: &Path,
) -> Result<PathBuf, BuildImageError> {
    let target = scratch.join("upstream");
    std::fs::create_dir(&target)?;
    upstream::build(directory, answers, &target).map_err(BuildImageError::Upstream)?;
    Ok(target)
}

/// Returns the layer of a program, with symlinks for its other names.
///
/// # Errors
/// Fails when the program cannot be read.
pub fn program_layer(program: &Path, names: &[&str]) -> io::Result<Layer> {
    let mut layer = Layer::new();
    layer.file("/bin/opm", program, 0o755)?;
    for name in names {
        layer.symlink(&format!("/bin/{name}"), "opm");
    }
    Ok(layer)
}

fn assemble(
    request: &BuildImage<'_>,
    store: &Store,
    platform: &Platform,
    program: bool,
    layers: &[BuiltLayer],
    history: Vec<String>,
) -> Result<Descriptor, BuildImageError> {
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let serves = program && request.catalog.is_some();
    let base = request.base.map(|fetch| fetch(platform, store)).transpose().map_err(BuildImageError::Base)?;
    let mut labels = request.labels.clone();
    if request.catalog.is_some() {
        labels.insert(CONFIGS_LABEL.into(), CONFIGS.into());
    }
    let plan = ImagePlan {
        platform: platform.clone(),
        labels,
        entrypoint: program.then(|| words(&["/bin/opm"])).flatten(),
        cmd: if serves { words(&["serve", CONFIGS, &format!("--cache-dir={CACHE}")]) } else { None },
        ports: if serves { vec!["50051/tcp".into()] } else { Vec::new() },
        user: (program && base.is_none()).then(|| USER.to_owned()),
        created: request.time,
        history,
        ..ImagePlan::default()
    };
    let base = base.as_ref().map(|base| BaseImage { manifest: &base.manifest, config: &base.config });
    Ok(image::build(store, &plan, layers, base)?)
}
