//! Decides which program a filtered catalog gets, and builds its image reproducibly.

use std::fs;
use std::path::Path;

use image::{
    Base, Client, Config, Descriptor, Digest, ImagePlan, Layer, Manifest, Modes, Parts, Platform, ProgramError, Wanted,
    find_program,
};
use mirror::imageset::CatalogSource;
use mirror::lock::{LockedCatalog, LockedImage, Role};
use mirror::plan::size_of;
use source::{CONFIGS, CONFIGS_LABEL};

use super::flags::{CatalogProgram, ChoiceFlags};
use super::open::Catalog;
use crate::commands::build::{self, Programs};
use crate::exit::Failure;
use crate::images::TlsFlags;
use crate::interrupt::Unfinished;
use crate::printer::Printer;

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
pub(crate) struct Decision {
    pub(crate) program: Program,
    /// Why our program, the default, is left out.
    pub(crate) left_out: Option<ProgramError>,
}

/// Why a filtered catalog cannot have the requested program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramRefusal {
    /// Our program cannot run in the image.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Only an image in a registry can be built on.
    #[error("--catalog-program original requires a catalog in a registry")]
    NotInRegistry,
}

/// Decides on the program of a filtered catalog, before anything is transferred. An image that only holds data stays
/// so unless our program is requested.
///
/// # Errors
/// Fails if our program is requested and cannot run in the image, or the original cannot be built on.
pub(crate) fn decide(
    original: &Config,
    source: &CatalogSource,
    platforms: &[Platform],
    choice: &ChoiceFlags,
    running: &Path,
) -> Result<Decision, ProgramRefusal> {
    let decided = |program| Ok(Decision { program, left_out: None });
    let ours = || ours(platforms, choice, running);
    match choice.catalog_program {
        Some(CatalogProgram::Nothing) => decided(Program::Nothing),
        Some(CatalogProgram::Ours) => decided(Program::Ours(ours()?)),
        _ if !original.has_program() => decided(Program::Nothing),
        Some(CatalogProgram::Original) => match source {
            CatalogSource::Registry(_) => decided(Program::Original),
            CatalogSource::Layout(_) => Err(ProgramRefusal::NotInRegistry),
        },
        None => match ours() {
            Ok(programs) => decided(Program::Ours(programs)),
            Err(error) => Ok(Decision { program: Program::Nothing, left_out: Some(error) }),
        },
    }
}

/// Returns our program for every platform.
fn ours(platforms: &[Platform], choice: &ChoiceFlags, running: &Path) -> Result<Programs, ProgramError> {
    // A binary runs on all variants of its architecture.
    let plain = |platform: &Platform| Platform { variant: String::new(), ..platform.clone() };
    let given: Vec<_> = choice.binary.iter().map(|(platform, path)| (plain(platform), path.clone())).collect();
    let wanted = if platforms.is_empty() { vec![Platform::host()] } else { platforms.to_vec() };
    let find = |platform: &Platform| {
        let platform = plain(platform);
        let program = find_program(&given, running, &platform, true)?;
        Ok((platform, Some(program)))
    };
    wanted.iter().map(find).collect()
}

/// Builds the image of the catalog in `directory` into the client's store, and returns its lock entry.
pub(crate) fn build_one(
    locked: &LockedCatalog,
    catalog: &Catalog,
    directory: &Path,
    client: &Client,
    tls: &TlsFlags,
    printer: &Printer,
) -> Result<LockedImage, Failure> {
    let named = |failure: Failure| failure.context(format!("image of catalog {}", locked.source));
    let store = &client.options().store;
    let built = match &catalog.program {
        Program::Original => original(catalog, directory, client).map_err(|error| named(Failure::message(error)))?,
        Program::Ours(programs) => {
            build::into_store(directory, store, programs.clone(), tls, printer).map_err(named)?
        }
        Program::Nothing => {
            build::into_store(directory, store, vec![(build::data_platform(), None)], tls, printer).map_err(named)?
        }
    };
    let mut image = LockedImage {
        source: locked.source.clone(),
        digest: built.digest.to_string(),
        media_type: built.media_type,
        bytes: 0,
        platforms: Vec::new(),
        referrers: Vec::new(),
        path: locked.path.clone(),
        tag: locked.tag.clone(),
        role: Role::Catalog,
        used_by: Vec::new(),
    };
    image.bytes = size_of(client, &image).map_err(|error| named(Failure::message(error.to_string())))?;
    Ok(image)
}

/// Builds on the original image: replaces its catalog and removes its stale cache.
fn original(catalog: &Catalog, directory: &Path, client: &Client) -> Result<Descriptor, String> {
    let CatalogSource::Registry(reference) = &catalog.opened.request.source else {
        return Err(ProgramRefusal::NotInRegistry.to_string());
    };
    let options = client.options();
    let store = &options.store;
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let pinned = reference.with_digest(catalog.opened.digest);
    let platforms = &catalog.opened.request.platforms;
    let surveyed = client.survey(&[(pinned.clone(), platforms.clone())], false).pop();
    surveyed.ok_or("no answer")?.map_err(|error| text(&error))?;
    let parts = Parts::of(store, &catalog.opened.digest, platforms, &options.limits).map_err(|error| text(&error))?;
    let scratch = Unfinished::private("opm-mirror-").map_err(|error| text(&error))?;
    let nothing = scratch.path().join("nothing");
    fs::write(&nothing, b"").map_err(|error| text(&error))?;
    let layers = layers(directory, &nothing).map_err(|error| text(&error))?;
    let write = |layer: &Layer| layer.write(store, 0, &|_| {}).map_err(|error| text(&error));
    let built = [write(&layers[0])?, write(&layers[1])?];
    let mut images = Vec::new();
    for document in &parts.documents {
        let content = store.read(&document.digest, 4 << 20).map_err(|error| text(&error))?;
        let Ok(manifest) = serde_json::from_slice::<Manifest>(&content) else { continue };
        let digest = manifest.config.digest;
        let failed =
            client.fetch_set(vec![Wanted { blob: manifest.config.clone(), from: vec![pinned.clone().into()] }]);
        if let Some(error) = failed.into_values().next() {
            return Err(text(&error));
        }
        let config = store.read(&digest, options.limits.config).map_err(|error| text(&error))?;
        let config: Config = serde_json::from_slice(&config).map_err(|error| text(&error))?;
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
        let base = Base { manifest: &manifest, config: &config };
        images.push(image::build(store, &plan, &built, Some(base)).map_err(|error| text(&error))?);
    }
    match images.as_slice() {
        [] => Err("the original has no image to build on".to_owned()),
        [image] => Ok(image.clone()),
        images => image::build_index(store, images).map_err(|error| text(&error)),
    }
}

/// Creates the layer that removes the old catalog and its cache, and the layer with the filtered catalog.
fn layers(directory: &Path, nothing: &Path) -> std::io::Result<[Layer; 2]> {
    let mut removed = Layer::new();
    removed.file("/.wh.configs", nothing, 0o644)?;
    removed.directory("/tmp", 0o1777);
    removed.file("/tmp/.wh.cache", nothing, 0o644)?;
    let mut kept = Layer::new();
    kept.tree(CONFIGS, directory, Modes::default())?;
    Ok([removed, kept])
}

/// Returns the image digest that a lock expects, if any.
pub(crate) fn expected(locked: &LockedCatalog) -> Option<Digest> {
    locked.image.parse().ok()
}
