//! Decides which program a filtered catalog gets, and builds its image reproducibly.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use fbc::scratch::TempFolder;
use image::{
    BaseImage, BlobRequest, CatalogImages, ConfigFile, Descriptor, Digest, Image, ImageManifest, ImagePlan, Layer,
    LayerModes, Parts, Platform, ProgramError, Programs, Reference, Store, find_program,
};
use source::{CONFIGS, CONFIGS_LABEL};

use crate::MirrorError;
use crate::catalog::OpenCatalog;
use crate::imageset::CatalogLocation;
use crate::request::{CatalogProgram, SelectionOptions};
use crate::session::MirrorSession;

/// The program in the image of a catalog.
#[derive(Debug, Clone)]
pub(crate) enum Program {
    /// That of the original images.
    Original(Vec<OriginalImage>),
    /// Ours, for every platform of the original image.
    Ours(Programs),
    /// None: clusters extract the catalog and serve it with their own.
    Nothing,
}

/// An image to build on. Its layers need not be stored.
#[derive(Debug, Clone)]
pub(crate) struct OriginalImage {
    manifest: ImageManifest,
    config: ConfigFile,
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
    /// The original has no image for the requested platforms.
    #[error("--catalog-program original requires an image for {}, which the catalog does not have", listed(.0))]
    NoPlatform(Vec<Platform>),
}

fn listed(platforms: &[Platform]) -> String {
    platforms.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

impl ProgramRefusal {
    /// Returns the flags that include a program in a catalog image.
    pub(crate) fn remedies(&self, options: &SelectionOptions) -> Cow<'static, str> {
        let original = "--catalog-program original";
        match self {
            ProgramRefusal::NotInRegistry | ProgramRefusal::NoPlatform(_) => "--catalog-program ours".into(),
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
    original: &Image,
    source: &CatalogLocation,
    platforms: &[Platform],
    options: &SelectionOptions,
    session: &MirrorSession<'_>,
) -> Result<ProgramDecision, MirrorError> {
    let decided = |program| Ok(ProgramDecision { program, left_out: None });
    let refused = |refusal: ProgramRefusal| MirrorError::Program { remedies: refusal.remedies(options), refusal };
    match options.program {
        Some(CatalogProgram::Nothing) => decided(Program::Nothing),
        Some(CatalogProgram::Ours) => {
            decided(Program::Ours(ours(platforms, options).map_err(|error| refused(error.into()))?))
        }
        _ if !original.config.has_program() => decided(Program::Nothing),
        Some(CatalogProgram::Original) => {
            let CatalogLocation::Registry(reference) = source else {
                return Err(refused(ProgramRefusal::NotInRegistry));
            };
            let images = originals(&reference.with_digest(original.digest), &original.digest, platforms, session)?;
            if images.is_empty() {
                return Err(refused(ProgramRefusal::NoPlatform(platforms.to_vec())));
            }
            decided(Program::Original(images))
        }
        None => match ours(platforms, options) {
            Ok(programs) => decided(Program::Ours(programs)),
            Err(error) => Ok(ProgramDecision { program: Program::Nothing, left_out: Some(error.into()) }),
        },
    }
}

/// Fetches the manifests and configs of the original images.
fn originals(
    reference: &Reference,
    digest: &Digest,
    platforms: &[Platform],
    session: &MirrorSession<'_>,
) -> Result<Vec<OriginalImage>, MirrorError> {
    let (client, store) = (session.client, session.store());
    let limits = &client.options().limits;
    let surveyed = client.survey(&[(reference.clone(), platforms.to_vec())], false).pop();
    surveyed.ok_or(MirrorError::NoResponse)??;
    let mut images = Vec::new();
    for document in Parts::of(store, digest, platforms, limits)?.documents {
        let content = store.read(&document.digest, image::MANIFEST_LIMIT)?;
        let Ok(manifest) = serde_json::from_slice::<ImageManifest>(&content) else { continue };
        let wanted = BlobRequest { blob: manifest.config.clone(), from: vec![reference.clone().into()] };
        if let Some(error) = client.fetch_set(vec![wanted]).into_values().next() {
            return Err(error.into());
        }
        let config = serde_json::from_slice(&store.read(&manifest.config.digest, limits.config)?)?;
        images.push(OriginalImage { manifest, config });
    }
    Ok(images)
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
        Program::Original(images) => return build_on(images, directory, session.store()),
        Program::Ours(programs) => programs,
        Program::Nothing => &data.to_vec(),
    };
    images.build(directory, session.store(), programs).map_err(MirrorError::Build)
}

/// Builds on the original images: replaces their catalog and removes their stale cache.
fn build_on(originals: &[OriginalImage], directory: &Path, store: &Store) -> Result<Descriptor, MirrorError> {
    let scratch = TempFolder::private("opm-mirror-")?;
    let nothing = scratch.path().join("nothing");
    fs::write(&nothing, b"")?;
    let [removed, kept] = layers(directory, &nothing)?;
    let layers = [removed.write(store, 0, &|_| {})?, kept.write(store, 0, &|_| {})?];
    let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let mut images = Vec::new();
    for OriginalImage { manifest, config } in originals {
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
        images.push(image::build(store, &plan, &layers, Some(BaseImage { manifest, config }))?);
    }
    match images.as_slice() {
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
