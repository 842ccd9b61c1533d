//! Opens the catalogs of an image set at their current digests.

use std::collections::BTreeMap;
use std::path::Path;

use edit::filter::image_set::{PackageRequest, Request};
use image::{Digest, Index, Platform, ProgramError, Reference};
use mirror::imageset::{CatalogRequest, CatalogSource, ImageSet, Kind};
use mirror::lock::{Lock, LockedCatalog};
use mirror::part::Part;
use mirror::plan::Opened;
use source::{CONFIGS, CatalogDirectory, Images, data_only_catalog};

use super::catalog_image::{Program, ProgramRefusal, decide};
use super::flags::{ChoiceFlags, notes};
use super::installed::Installed;
use crate::exit::Failure;
use crate::limits;
use crate::printer::Printer;

/// Reads an image set, and reports all its problems.
pub(crate) fn image_set(
    file: &str,
    text: &[u8],
    kind: Kind,
    skip: &[String],
    printer: &Printer,
) -> Result<ImageSet, Failure> {
    let set = mirror::imageset::read(text, kind).map_err(|problems| {
        for problem in &problems {
            let help = problem.help.as_ref().map(|help| format!("\n  help: {help}")).unwrap_or_default();
            printer.error(&format!("{file}:{}: {}{help}", problem.line, problem.message));
        }
        Failure::Reported
    })?;
    let unsupported: Vec<&(&str, usize)> =
        set.unsupported.iter().filter(|(part, _)| !skip.iter().any(|skip| skip == part)).collect();
    if !unsupported.is_empty() {
        for (part, line) in &unsupported {
            printer.error(&format!(
                "{file}:{line}: {part} is not supported\n  help: --skip {part} ignores it; mirror it with another tool"
            ));
        }
        return Err(Failure::Reported);
    }
    Ok(set)
}

/// An open catalog.
pub(crate) struct Catalog {
    pub(crate) opened: Opened,
    /// The program in its image at the destination.
    pub(crate) program: Program,
    /// A note about that program.
    program_note: Option<String>,
    /// The temporary directory of a converted database; its blobs are read from there later.
    _directory: CatalogDirectory,
}

/// Resolves the tag of a catalog to its current digest.
pub(crate) fn pin(source: &CatalogSource, images: &Images) -> Result<Option<Digest>, Failure> {
    let CatalogSource::Registry(reference) = source else { return Ok(None) };
    let client = images.client()?;
    let failed = |error: image::Error| Failure::message(format!("catalog {source}: {error}"));
    client.head(reference).map(Some).map_err(failed)
}

/// Opens all catalogs of a set and selects the requested bundles; reports all problems of all catalogs.
pub(crate) fn catalogs(
    set: &ImageSet,
    choice: &ChoiceFlags,
    installed: Option<&Installed>,
    base: &Path,
    images: &Images,
    printer: &Printer,
) -> Result<Vec<Catalog>, Failure> {
    let mut found: Vec<(Catalog, Option<Request>)> = Vec::new();
    let mut wrong: Vec<String> = Vec::new();
    for request in &set.catalogs {
        match catalog(request, choice, installed, base, images, printer) {
            Ok(catalog) => found.push(catalog),
            Err(failure) => wrong.push(failure.text().ok_or(failure)?),
        }
    }
    if wrong.is_empty() {
        let mut parts: Vec<(&mut Part, Option<&Request>)> =
            found.iter_mut().map(|(catalog, wanted)| (&mut catalog.opened.part, wanted.as_ref())).collect();
        let refused = Part::choose(&mut parts);
        for ((catalog, _), reasons) in found.iter().zip(refused) {
            let source = &catalog.opened.request.source;
            wrong.extend(reasons.iter().map(|reason| format!("catalog {source}: {reason}")));
        }
    }
    if !wrong.is_empty() {
        wrong.iter().for_each(|text| printer.error(text));
        return Err(Failure::Reported);
    }
    for (catalog, _) in &found {
        notes(&catalog.opened.part.notes, printer);
        notes(catalog.program_note.as_slice(), printer);
    }
    Ok(found.into_iter().map(|(catalog, _)| catalog).collect())
}

/// Opens a catalog and selects the requested bundles.
fn catalog(
    request: &CatalogRequest,
    choice: &ChoiceFlags,
    installed: Option<&Installed>,
    base: &Path,
    images: &Images,
    printer: &Printer,
) -> Result<(Catalog, Option<Request>), Failure> {
    let source = &request.source;
    let named = |error: String| Failure::message(format!("catalog {source}: {error}"));
    let catalog_name = format!("catalog {source}");
    let text = match (source, pin(source, images)?) {
        (CatalogSource::Registry(reference), Some(digest)) => reference.with_digest(digest).to_string(),
        (CatalogSource::Layout(path), _) => format!("oci:{}", path.display()),
        (CatalogSource::Registry(reference), None) => reference.to_string(),
    };
    let fetched = images.fetch_one(&text).map_err(|error| named(error.to_string()))?;
    let digest = fetched.image.digest;
    let config = &fetched.image.config;
    let limits = limits::from_env()?;
    let directory = source::directory(&text, images, &limits)?;
    let mut wanted = Request {
        full: request.full,
        packages: request.packages.clone(),
        ignore_unknown: choice.ignore_unknown,
        choose_default: choice.choose_default,
        dependencies: choice.with_dependencies,
        bridge: choice.edges == "bridge",
    };
    if let Some(installed) = installed {
        wanted.packages = installed.upgrade_paths(&text, &wanted.packages, images, printer)?;
    }
    let part = Part::read(directory.path(), &limits);
    let part = part.map_err(|error| Failure::fault(error.named(&catalog_name)))?;
    let template = request.template.as_ref().map(|file| template(&base.join(file))).transpose().map_err(named)?;
    let mut request = request.clone();
    // The bundles that a cluster needs are a part, even if the file requests the whole catalog.
    request.full &= installed.is_none();
    let whole = request.is_whole();
    let (program, extract_content, program_note) = match whole {
        true => (Program::Original, data_only_catalog(config), None),
        false => {
            let platforms = match request.platforms.is_empty() {
                true => platforms_of(images, &digest),
                false => request.platforms.clone(),
            };
            let running = std::env::current_exe()?;
            let decision = decide(config, &request.source, &platforms, choice, &running).map_err(|refusal| {
                let remedies = match &refusal {
                    ProgramRefusal::Program(error) => remedies(error, choice),
                    ProgramRefusal::NotInRegistry => "--catalog-program ours".to_owned(),
                };
                named(format!("{refusal}\n  help: use {remedies}, or --catalog-program none"))
            })?;
            let note = decision.left_out.map(|error| {
                format!(
                    "catalog {source}: its image contains no program, so clusters serve the catalog with their own opm \
                     ({error}); to include one, use {}",
                    remedies(&error, choice)
                )
            });
            let extracted = matches!(decision.program, Program::Nothing).then(|| CONFIGS.to_owned());
            (decision.program, extracted, note)
        }
    };
    let opened = Opened { request, digest, part, template, extract_content };
    Ok((Catalog { opened, program, program_note, _directory: directory }, (!whole).then_some(wanted)))
}

/// Returns the flags that include a program in a catalog image.
fn remedies(error: &ProgramError, choice: &ChoiceFlags) -> String {
    let original = "--catalog-program original";
    match error {
        _ if !choice.takes_binary => original.to_owned(),
        ProgramError::Dynamic { platform, .. } | ProgramError::NoneFor { platform } => {
            format!("--binary {platform}=FILE with a static binary, or {original}")
        }
        _ => format!("--binary PLATFORM=FILE with another binary, or {original}"),
    }
}

/// Reads a CatalogSource template.
fn template(path: &Path) -> Result<serde_json::Value, String> {
    let named = |error: String| format!("template {}: {error}", path.display());
    let text = std::fs::read(path).map_err(|error| named(error.to_string()))?;
    let limits = fbc::yaml::Limits { depth: 64, nodes: 1 << 16, bytes: 1 << 22 };
    let mut json = Vec::new();
    fbc::yaml::to_json(&text, &limits, &mut json).map_err(|error| named(error.to_string()))?;
    let value: serde_json::Value = serde_json::from_slice(&json).map_err(|error| named(error.to_string()))?;
    mirror::resources::check_template(&value).map_err(|error| named(error.to_string()))?;
    Ok(value)
}

/// Returns the platforms of an image.
fn platforms_of(images: &Images, digest: &Digest) -> Vec<Platform> {
    let Ok(client) = images.client() else { return Vec::new() };
    let content = client.options().store.read(digest, 4 << 20).unwrap_or_default();
    let Ok(index) = serde_json::from_slice::<Index>(&content) else { return Vec::new() };
    let known = index.manifests.into_iter().filter_map(|image| image.platform);
    let mut platforms: Vec<Platform> = known
        .filter(|platform| platform.os != "unknown" && !platform.architecture.is_empty())
        .map(|platform| Platform { other: Default::default(), ..platform })
        .collect();
    platforms.sort_by_key(ToString::to_string);
    platforms.dedup();
    platforms
}

/// Returns the requests that reproduce a lock.
pub(crate) fn requests(lock: &Lock) -> Result<ImageSet, Failure> {
    let mut set = ImageSet::default();
    for catalog in &lock.catalogs {
        set.catalogs.push(request(catalog)?);
    }
    Ok(set)
}

fn request(catalog: &LockedCatalog) -> Result<CatalogRequest, Failure> {
    let wrong = || Failure::message(format!("catalog {}: the lock has no source for it", catalog.source));
    let digest: Digest = catalog.digest.parse().map_err(|_| wrong())?;
    let source = match catalog.source.strip_prefix("oci://") {
        Some(path) => CatalogSource::Layout(path.into()),
        None => CatalogSource::Registry(Reference::parse(&catalog.source).map_err(|_| wrong())?.with_digest(digest)),
    };
    let packages = catalog.packages.iter().map(|(name, package)| {
        let channels = package.channels.iter().map(|(name, bundles)| (name.clone(), bundles.iter().cloned().collect()));
        PackageRequest {
            name: name.clone(),
            default_channel: Some(package.default_channel.clone()),
            exactly: Some(channels.collect::<BTreeMap<_, _>>()),
            ..PackageRequest::default()
        }
    });
    Ok(CatalogRequest {
        source,
        full: catalog.whole,
        target_catalog: Some(catalog.path.clone()),
        target_tag: Some(catalog.tag.clone()),
        template: None,
        platforms: Vec::new(),
        packages: if catalog.whole { Vec::new() } else { packages.collect() },
    })
}
