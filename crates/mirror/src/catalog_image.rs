//! Decides which program a filtered catalog gets, and builds its image reproducibly.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use fbc::scratch::TempFolder;
use image::{
    BaseImage, BlobRequest, CatalogImages, ConfigFile, Descriptor, ImageManifest, ImagePlan, Layer, LayerModes, Parts,
    Platform, ProgramError, Programs, find_program,
};
use source::{CONFIGS, CONFIGS_LABEL};

use crate::MirrorError;
use crate::catalog::OpenCatalog;
use crate::imageset::CatalogLocation;
use crate::request::{CatalogProgram, SelectionOptions};
use crate::session::MirrorSession;

/// The maximum size of manifests.
const MANIFEST_LIMIT: u64 = 4 << 20;

/// The program in the image of a catalog.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// That of the original image.
    Original,
    /// Ours, for every platform of the original image.
    Ours(Programs),
    /// None: clusters extract the catalog and serve it with their own.
    Nothing,
}

/// The decision on the program of a filtered catalog.
pub(crate) struct ProgramDecision {
    pub(crate) program: Program,
    /// Why our program, the default, is left out.
    pub(crate) left_out: Option<ProgramRefusal>,
}

/// Why a filtered catalog cannot have the requested program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramRefusal {
    /// Our program cannot run in the image.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Only an image in a registry can be built on.
    #[error("--catalog-program original requires a catalog in a registry")]
    NotInRegistry,
}

impl ProgramRefusal {
    /// Returns the flags that include a program in a catalog image.
    pub(crate) fn remedies(&self, options: &SelectionOptions) -> Cow<'static, str> {
        let original = "--catalog-program original";
        match self {
            ProgramRefusal::NotInRegistry => "--catalog-program ours".into(),
            _ if !options.takes_binary => original.into(),
            ProgramRefusal::Program(ProgramError::Dynamic { platform, .. } | ProgramError::NoneFor { platform }) => {
                format!("--binary {platform}=FILE with a static binary, or {original}").into()
            }
            ProgramRefusal::Program(_) => format!("--binary PLATFORM=FILE with another binary, or {original}").into(),
        }
    }
}

/// Decides on the program of a filtered catalog, before anything is transferred. An image that only holds data stays
/// so unless our program is requested.
///
/// # Errors
/// Fails if our program is requested and cannot run in the image, or the original cannot be built on.
pub(crate) fn decide(
    original: &ConfigFile,
    source: &CatalogLocation,
    platforms: &[Platform],
    options: &SelectionOptions,
) -> Result<ProgramDecision, ProgramRefusal> {
    let decided = |program| Ok(ProgramDecision { program, left_out: None });
    match options.program {
        Some(CatalogProgram::Nothing) => decided(Program::Nothing),
        Some(CatalogProgram::Ours) => decided(Program::Ours(ours(platforms, options)?)),
        _ if !original.has_program() => decided(Program::Nothing),
        Some(CatalogProgram::Original) => match source {
            CatalogLocation::Registry(_) => decided(Program::Original),
            CatalogLocation::Layout(_) => Err(ProgramRefusal::NotInRegistry),
        },
        None => match ours(platforms, options) {
            Ok(programs) => decided(Program::Ours(programs)),
            Err(error) => Ok(ProgramDecision { program: Program::Nothing, left_out: Some(error.into()) }),
        },
    }
}

/// Returns our program for every platform.
fn ours(platforms: &[Platform], options: &SelectionOptions) -> Result<Programs, ProgramError> {
    // A binary runs on all variants of its architecture.
    let plain = |platform: &Platform| Platform { variant: String::new(), ..platform.clone() };
    let given: Vec<_> = options.binaries.iter().map(|(platform, path)| (plain(platform), path.clone())).collect();
    let wanted = if platforms.is_empty() { vec![Platform::host()] } else { platforms.to_vec() };
    let find = |platform: &Platform| {
        let platform = plain(platform);
        let program = find_program(&given, &options.running, &platform, true)?;
        Ok((platform, Some(program)))
    };
    wanted.iter().map(find).collect()
}

/// Builds the image of a catalog, whose selected part is in `directory`, into the store of the session.
///
/// # Errors
/// Fails when the image cannot be built.
pub(crate) fn build(
    catalog: &OpenCatalog,
    directory: &Path,
    images: &dyn CatalogImages,
    session: &MirrorSession<'_>,
) -> Result<Descriptor, MirrorError> {
    let data = [(Platform::of_data(), None)];
    let programs = match &catalog.program {
        Program::Original => return original(catalog, directory, session),
        Program::Ours(programs) => programs,
        Program::Nothing => &data.to_vec(),
    };
    images.build(directory, session.store(), programs).map_err(MirrorError::Build)
}

/// Builds on the original image: replaces its catalog and removes its stale cache.
fn original(catalog: &OpenCatalog, directory: &Path, session: &MirrorSession<'_>) -> Result<Descriptor, MirrorError> {
    let CatalogLocation::Registry(reference) = &catalog.source else {
        let refusal = ProgramRefusal::NotInRegistry;
        return Err(MirrorError::Problem(refusal.to_string()));
    };
    let (client, store) = (session.client, session.store());
    let limits = &client.options().limits;
    let pinned = reference.with_digest(catalog.digest);
    let surveyed = client.survey(&[(pinned.clone(), catalog.platforms.clone())], false).pop();
    surveyed.ok_or(MirrorError::NoResponse)??;
    let parts = Parts::of(store, &catalog.digest, &catalog.platforms, limits)?;
    let scratch = TempFolder::private("opm-mirror-")?;
    let nothing = scratch.path().join("nothing");
    fs::write(&nothing, b"")?;
    let [removed, kept] = layers(directory, &nothing)?;
    let built = [removed.write(store, 0, &|_| {})?, kept.write(store, 0, &|_| {})?];
    let mut images = Vec::new();
    for document in &parts.documents {
        let content = store.read(&document.digest, MANIFEST_LIMIT)?;
        let Ok(manifest) = serde_json::from_slice::<ImageManifest>(&content) else { continue };
        let digest = manifest.config.digest;
        let wanted = BlobRequest { blob: manifest.config.clone(), from: vec![pinned.clone().into()] };
        if let Some(error) = client.fetch_set(vec![wanted]).into_values().next() {
            return Err(error.into());
        }
        let config: ConfigFile = serde_json::from_slice(&store.read(&digest, limits.config)?)?;
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let plan = ImagePlan {
            platform: Platform {
                os: config.os.clone(),
                architecture: config.architecture.clone(),
                variant: config.variant.clone(),
                ..Platform::default()
            },
            labels: [(CONFIGS_LABEL.to_owned(), CONFIGS.to_owned())].into(),
            cmd: words(&["serve", CONFIGS]),
            history: vec!["opm mirror: the old catalog goes".into(), "opm mirror: what is kept of it".into()],
            ..ImagePlan::default()
        };
        let base = BaseImage { manifest: &manifest, config: &config };
        images.push(image::build(store, &plan, &built, Some(base))?);
    }
    match images.as_slice() {
        [] => Err(MirrorError::NoOriginal),
        [image] => Ok(image.clone()),
        images => Ok(image::build_index(store, images)?),
    }
}

/// Creates the layer that removes the old catalog and its cache, and the layer with the filtered catalog.
fn layers(directory: &Path, nothing: &Path) -> std::io::Result<[Layer; 2]> {
    let mut removed = Layer::new();
    removed.file("/.wh.configs", nothing, 0o644)?;
    removed.directory("/tmp", 0o1777);
    removed.file("/tmp/.wh.cache", nothing, 0o644)?;
    let mut kept = Layer::new();
    kept.tree(CONFIGS, directory, LayerModes::default())?;
    Ok([removed, kept])
}
