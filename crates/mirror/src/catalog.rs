//! Opens the catalogs of a request at their digests, and cuts them to what is requested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use edit::filter::image_set::{ImageSetRequest as Wanted, PackageRequest};
use image::{Digest, ImageIndex, Platform, Reference};
use resolve::input::InputReader;
use serde_json::Value;
use source::{CONFIGS, CatalogDirectory, Images, data_only_catalog};

use crate::MirrorError;
use crate::catalog_image::{Program, decide};
use crate::catalog_selection::CatalogSelection;
use crate::imageset::{CatalogLocation, CatalogRequest};
use crate::installed::InstalledBundles;
use crate::lock::{LockError, LockedCatalog};
use crate::request::SelectionOptions;
use crate::session::MirrorSession;

/// The limits of a CatalogSource template.
const TEMPLATE: fbc::yaml::YamlLimits = fbc::yaml::YamlLimits { depth: 64, nodes: 1 << 16, bytes: 1 << 22 };

/// An open catalog.
pub(crate) struct OpenCatalog {
    pub(crate) source: CatalogLocation,
    /// Its digest.
    pub(crate) digest: Digest,
    /// Whether it is mirrored unchanged.
    pub(crate) whole: bool,
    /// The platforms to mirror; empty means all.
    pub(crate) platforms: Vec<Platform>,
    /// The selected part.
    pub(crate) part: CatalogSelection,
    /// The program in its image at the destination.
    pub(crate) program: Program,
    /// A note about that program.
    program_note: Option<String>,
    /// The directory of the catalog in its image at the destination, if that image only holds data.
    pub(crate) extract_content: Option<String>,
    /// The CatalogSource template.
    pub(crate) template: Option<Value>,
    /// The temporary directory of a converted database; its blobs are read from there later.
    _directory: CatalogDirectory,
}

/// What to open.
struct Opening {
    source: CatalogLocation,
    platforms: Vec<Platform>,
    full: bool,
    packages: Vec<PackageRequest>,
    /// The file of a CatalogSource template.
    template: Option<PathBuf>,
}

impl Opening {
    /// Returns what an image set requests.
    fn of_request(request: &CatalogRequest, base: &Path) -> Opening {
        Opening {
            source: request.source.clone(),
            platforms: request.platforms.clone(),
            full: request.full,
            packages: request.packages.clone(),
            template: request.template.as_ref().map(|file| base.join(file)),
        }
    }

    /// Returns the bundles that a lock names, at its digest.
    fn of_lock(catalog: &LockedCatalog) -> Result<Opening, LockError> {
        let wrong = || LockError::CatalogSource(catalog.source.clone());
        let digest: Digest = catalog.digest.parse().map_err(|_| wrong())?;
        let source = match catalog.source.strip_prefix("oci://") {
            Some(path) => CatalogLocation::Layout(path.into()),
            None => {
                CatalogLocation::Registry(Reference::parse(&catalog.source).map_err(|_| wrong())?.with_digest(digest))
            }
        };
        let packages = catalog.packages.iter().map(|(name, package)| {
            let channels =
                package.channels.iter().map(|(name, bundles)| (name.clone(), bundles.iter().cloned().collect()));
            PackageRequest {
                name: name.clone(),
                default_channel: Some(package.default_channel.clone()),
                exactly: Some(channels.collect::<BTreeMap<_, _>>()),
                ..PackageRequest::default()
            }
        });
        let packages = if catalog.whole { Vec::new() } else { packages.collect() };
        Ok(Opening { source, platforms: Vec::new(), full: catalog.whole, packages, template: None })
    }
}

/// Opens the catalogs of an image set and selects the requested bundles.
///
/// # Errors
/// Fails with all problems of all catalogs.
pub(crate) fn open_requested(
    requests: &[CatalogRequest],
    installed: Option<&InstalledBundles>,
    options: &SelectionOptions,
    session: &MirrorSession<'_>,
) -> Result<Vec<OpenCatalog>, MirrorError> {
    let openings = requests.iter().map(|request| Opening::of_request(request, &options.base));
    open_all(openings, installed, options, session)
}

/// Opens a catalog of a lock, and selects its bundles.
///
/// # Errors
/// Fails with all problems of the catalog.
pub(crate) fn open_locked(
    catalog: &LockedCatalog,
    options: &SelectionOptions,
    session: &MirrorSession<'_>,
) -> Result<Option<OpenCatalog>, MirrorError> {
    let options = SelectionOptions { with_dependencies: false, ..options.clone() };
    Ok(open_all([Opening::of_lock(catalog)?], None, &options, session)?.pop())
}

fn open_all(
    openings: impl IntoIterator<Item = Opening>,
    installed: Option<&InstalledBundles>,
    options: &SelectionOptions,
    session: &MirrorSession<'_>,
) -> Result<Vec<OpenCatalog>, MirrorError> {
    let mut found: Vec<(OpenCatalog, Option<Wanted>)> = Vec::new();
    let mut wrong: Vec<MirrorError> = Vec::new();
    for opening in openings {
        match open(opening, installed, options, session) {
            Ok(catalog) => found.push(catalog),
            Err(MirrorError::Several(errors)) => wrong.extend(errors),
            Err(error) => wrong.push(error),
        }
    }
    if wrong.is_empty() {
        let mut parts: Vec<(&mut CatalogSelection, Option<&Wanted>)> =
            found.iter_mut().map(|(catalog, wanted)| (&mut catalog.part, wanted.as_ref())).collect();
        let refused = CatalogSelection::choose(&mut parts);
        for ((catalog, _), reasons) in found.iter().zip(refused) {
            wrong.extend(reasons.into_iter().map(|reason| named(&catalog.source)(MirrorError::Problem(reason))));
        }
    }
    if !wrong.is_empty() {
        return Err(MirrorError::Several(wrong));
    }
    for (catalog, _) in &found {
        session.notes(&catalog.part.notes);
        session.notes(catalog.program_note.as_slice());
    }
    Ok(found.into_iter().map(|(catalog, _)| catalog).collect())
}

/// Returns a function that names the catalog that has an error.
pub(crate) fn named<T: ToString>(source: &T) -> impl Fn(MirrorError) -> MirrorError + use<T> {
    let name = format!("catalog {}", source.to_string());
    move |error| error.named(&name)
}

/// Resolves the tag of a catalog to its current digest.
pub(crate) fn pin(source: &CatalogLocation, session: &MirrorSession<'_>) -> Result<Option<Digest>, MirrorError> {
    let CatalogLocation::Registry(reference) = source else { return Ok(None) };
    session.client.head(reference).map(Some).map_err(|error| named(source)(error.into()))
}

/// Opens a catalog, of which everything is selected at first, and returns what to select.
fn open(
    opening: Opening,
    installed: Option<&InstalledBundles>,
    options: &SelectionOptions,
    session: &MirrorSession<'_>,
) -> Result<(OpenCatalog, Option<Wanted>), MirrorError> {
    let Opening { source, platforms, full, packages, template } = opening;
    let named = named(&source);
    let text = match (&source, pin(&source, session)?) {
        (CatalogLocation::Registry(reference), Some(digest)) => reference.with_digest(digest).to_string(),
        (CatalogLocation::Layout(path), _) => format!("oci:{}", path.display()),
        (CatalogLocation::Registry(reference), None) => reference.to_string(),
    };
    let image = session.images.fetch_one(&text).map_err(|error| named(error.into()))?.image;
    let directory = source::directory(&text, session.images, session.limits)?;
    let reader = installed.map(|_| InputReader::default());
    let (part, served) =
        CatalogSelection::read(directory.path(), session.limits, reader).map_err(|error| match error {
            MirrorError::Rules(invalid) => MirrorError::InvalidCatalog { catalog: text.clone(), invalid },
            error => named(error),
        })?;
    let template = template.map(|file| read_template(&file)).transpose().map_err(&named)?;
    let mut wanted = Wanted {
        full,
        packages,
        ignore_unknown: options.ignore_unknown,
        choose_default: options.choose_default,
        dependencies: options.with_dependencies,
        bridge: options.bridge,
    };
    if let (Some(installed), Some(served)) = (installed, served) {
        wanted.packages = installed.upgrade_paths(&text, served, &wanted.packages, session.progress)?;
    }
    // The bundles that a cluster needs are a part, even if the file requests the whole catalog.
    let whole = full && wanted.packages.is_empty() && installed.is_none();
    let (program, extract_content, program_note) = match whole {
        // It is not built.
        true => (Program::Nothing, data_only_catalog(&image.config), None),
        false => {
            let platforms = match platforms.is_empty() {
                true => platforms_of(session.images, &image.digest),
                false => platforms.clone(),
            };
            let decision = decide(&image, &source, &platforms, options, session).map_err(&named)?;
            let note = decision.left_out.map(|error| {
                format!(
                    "catalog {source}: its image contains no program, so clusters serve the catalog with their own opm \
                     ({error}); to include one, use {}",
                    error.remedies(options)
                )
            });
            let extracted = matches!(decision.program, Program::Nothing).then(|| CONFIGS.to_owned());
            (decision.program, extracted, note)
        }
    };
    let digest = image.digest;
    let catalog = OpenCatalog {
        source,
        digest,
        whole,
        platforms,
        part,
        program,
        program_note,
        extract_content,
        template,
        _directory: directory,
    };
    Ok((catalog, (!whole).then_some(wanted)))
}

/// Reads a CatalogSource template.
///
/// # Errors
/// Fails when the file is not such a template.
fn read_template(path: &Path) -> Result<Value, MirrorError> {
    let read = || -> Result<Value, MirrorError> {
        let text = std::fs::read(path)?;
        let mut json = Vec::new();
        fbc::yaml::to_json(&text, &TEMPLATE, &mut json)?;
        let value: Value = serde_json::from_slice(&json)?;
        crate::resources::check_template(&value)?;
        Ok(value)
    };
    read().map_err(|error| error.named(format!("template {}", path.display())))
}

/// Returns the platforms of an image.
fn platforms_of(images: &Images, digest: &Digest) -> Vec<Platform> {
    let Ok(client) = images.client() else { return Vec::new() };
    let content = client.options().store.read(digest, image::MANIFEST_LIMIT).unwrap_or_default();
    let Ok(index) = serde_json::from_slice::<ImageIndex>(&content) else { return Vec::new() };
    let known = index.manifests.into_iter().filter_map(|image| image.platform);
    let mut platforms: Vec<Platform> = known
        .filter(|platform| platform.os != "unknown" && !platform.architecture.is_empty())
        .map(|platform| Platform { other: Default::default(), ..platform })
        .collect();
    platforms.sort_by_key(ToString::to_string);
    platforms.dedup();
    platforms
}
