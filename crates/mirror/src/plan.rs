//! Resolves a request to images by digest, fetching manifests only.

use std::collections::{BTreeMap, BTreeSet};

use image::{Client, Digest, Location, Parts, Platform, Reference, SurveyedImage};

use crate::MirrorError;
use crate::destination::{Layout, path_of, tag_of};
use crate::imageset::{CatalogRequest, CatalogSource, ImageSet};
use crate::lock::{LeftOut, Lock, LockedCatalog, LockedImage, LockedReferrer, Role};
use crate::part::Part;
use crate::policy;
use crate::report::{Cause, Missing};

/// A loaded catalog.
pub struct Opened {
    /// The request for it.
    pub request: CatalogRequest,
    /// Its digest.
    pub digest: Digest,
    /// The selected part.
    pub part: Part,
    /// The CatalogSource template.
    pub template: Option<serde_json::Value>,
    /// The directory of the catalog in its image at the destination, if that image only holds data.
    pub extract_content: Option<String>,
}

/// How images are selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How a source path maps to a destination path.
    pub layout: Layout,
    /// Mirrors signatures and other referrers, too.
    pub referrers: bool,
    /// Mirrors the original image of a filtered catalog, too.
    pub keep_original: bool,
    /// Mirrors an image without its referrers if those cannot be fetched.
    pub keep_unsigned: bool,
}

/// The content to mirror, as far as it is available.
#[derive(Debug, Default)]
pub struct Plan {
    /// The catalogs; filtered ones have no image yet.
    pub catalogs: Vec<LockedCatalog>,
    /// The images.
    pub images: Vec<LockedImage>,
    /// Excluded content.
    pub left_out: Vec<LeftOut>,
    /// Unavailable content.
    pub missing: Vec<Missing>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The requirements on an image from all its users.
struct ImageUse {
    role: Role,
    used_by: BTreeSet<String>,
    /// The platforms to mirror; `None` means all.
    platforms: Option<Vec<Platform>>,
    target_repo: Option<String>,
    target_tag: Option<String>,
}

impl ImageUse {
    fn new(role: Role, platforms: &[Platform]) -> ImageUse {
        let platforms = (!platforms.is_empty()).then(|| platforms.to_vec());
        ImageUse { role, used_by: BTreeSet::new(), platforms, target_repo: None, target_tag: None }
    }

    /// Adds another user; if one needs all platforms, all are mirrored.
    fn join(&mut self, role: Role, platforms: &[Platform]) {
        self.role = self.role.min(role);
        match &mut self.platforms {
            Some(own) if !platforms.is_empty() => {
                for platform in platforms {
                    if !own.contains(platform) {
                        own.push(platform.clone());
                    }
                }
            }
            own => *own = None,
        }
    }
}

/// Finds all images of a set and their manifests.
///
/// # Errors
/// Fails when a catalog can no longer be read, or different images have the same destination.
pub fn plan(client: &Client, set: &ImageSet, opened: &[&Opened], options: Options) -> Result<Plan, MirrorError> {
    let mut plan = Plan::default();
    let mut uses: BTreeMap<String, ImageUse> = BTreeMap::new();
    for catalog in opened {
        let needed = catalog.part.images().map_err(|error| MirrorError::from(error).named(&catalog.request.source))?;
        for one in needed {
            let role = if one.is_bundle { Role::Bundle } else { Role::Related };
            let platforms = &catalog.request.platforms;
            let own = uses.entry(one.image).or_insert_with(|| ImageUse::new(role, platforms));
            own.join(role, platforms);
            own.used_by.insert(format!("{}/{}", one.package, one.bundle));
        }
    }
    for image in &set.additional {
        let text = image.reference.to_string();
        let own = uses.entry(text).or_insert_with(|| ImageUse::new(Role::Additional, &image.platforms));
        own.join(Role::Additional, &image.platforms);
        own.target_repo = own.target_repo.take().or(image.target_repo.clone());
        own.target_tag = own.target_tag.take().or(image.target_tag.clone());
    }
    let mut wanted: Vec<(Reference, Vec<Platform>)> = Vec::new();
    let mut kept: Vec<(String, ImageUse)> = Vec::new();
    for (text, own) in uses {
        match find(client, &text) {
            Ok(reference) if is_blocked(set, &text, &reference, options.layout) => plan.left_out.push(LeftOut {
                source: text,
                reason: "blockedImages names it".to_owned(),
                used_by: own.used_by.into_iter().collect(),
            }),
            Ok(reference) => {
                wanted.push((reference, own.platforms.clone().unwrap_or_default()));
                kept.push((text, own));
            }
            Err(cause) => plan.missing.push(missing(text, None, &own, cause)),
        }
    }
    // Unfiltered catalogs, and the originals of filtered ones.
    for catalog in opened.iter().filter(|catalog| catalog.request.is_whole() || options.keep_original) {
        if let CatalogSource::Registry(reference) = &catalog.request.source {
            let mut own = ImageUse::new(Role::Catalog, &catalog.request.platforms);
            own.target_repo.clone_from(&catalog.request.target_catalog);
            own.target_tag = Some(match catalog.request.is_whole() {
                true => catalog_tag(&catalog.request, &catalog.digest),
                false => format!("sha256-{}", catalog.digest.hex()),
            });
            wanted.push((reference.with_digest(catalog.digest), catalog.request.platforms.clone()));
            kept.push((reference.to_string(), own));
        }
    }
    plan.notes.extend(policy::ignored(client, wanted.iter().map(|(reference, _)| reference)));
    let mut surveyed = client.survey(&wanted, options.referrers);
    if options.referrers && options.keep_unsigned {
        without_referrers(client, &wanted, &mut surveyed, &mut plan.notes);
    }
    for (((text, own), (reference, _)), outcome) in kept.into_iter().zip(&wanted).zip(surveyed) {
        match outcome {
            Err(error) => plan.missing.push(missing(text, Some(reference), &own, Cause::from(&error))),
            Ok(surveyed) => match locked(client, text.clone(), &own, reference, &surveyed, options.layout) {
                Ok(image) => plan.images.push(image),
                Err(cause) => plan.missing.push(missing(text, Some(reference), &own, cause.to_string().into())),
            },
        }
    }
    plan.catalogs = opened.iter().map(|catalog| locked_catalog(catalog, options.layout)).collect();
    name_catalogs(&mut plan.catalogs);
    check_places(&plan.images)?;
    Ok(plan)
}

/// Retries images without their referrers if their registry does not have those.
fn without_referrers(
    client: &Client,
    wanted: &[(Reference, Vec<Platform>)],
    surveyed: &mut [Result<SurveyedImage, image::Error>],
    notes: &mut Vec<String>,
) {
    let failed: Vec<usize> =
        (0..wanted.len()).filter(|number| surveyed[*number].as_ref().is_err_and(image::Error::is_missing)).collect();
    let again: Vec<(Reference, Vec<Platform>)> = failed.iter().map(|number| wanted[*number].clone()).collect();
    for (number, outcome) in failed.into_iter().zip(client.survey(&again, false)) {
        if outcome.is_ok() {
            let cause = surveyed[number].as_ref().err().map(ToString::to_string).unwrap_or_default();
            notes.push(format!("{} is mirrored without its signatures and other referrers: {cause}", wanted[number].0));
            surveyed[number] = outcome;
        }
    }
}

/// Resolves an image name; `registries.conf` expands short names.
fn find(client: &Client, text: &str) -> Result<Reference, Cause> {
    let to_error = |text: &str| Cause {
        help: Some("not a valid image; --missing drop removes the bundles that reference it".to_owned()),
        ..Cause::from(text.to_owned())
    };
    let text = text.strip_prefix("docker://").unwrap_or(text);
    if text.is_empty() {
        return Err(to_error("the reference is empty"));
    }
    match client.locate(text) {
        Ok(Location::Registry(reference)) => Ok(reference),
        Ok(_) => Err(to_error("only images in registries can be mirrored")),
        Err(error) if error.is_missing() => Err(to_error(&error.to_string())),
        Err(error) => Err(Cause::from(&error)),
    }
}

fn is_blocked(set: &ImageSet, text: &str, reference: &Reference, layout: Layout) -> bool {
    let destination = path_of(reference, layout);
    set.blocked.iter().any(|regex| regex.is_match(text) || regex.is_match(&destination))
}

fn missing(image: String, reference: Option<&Reference>, own: &ImageUse, cause: Cause) -> Missing {
    let meant = reference.map(ToString::to_string).filter(|meant| meant != image.trim_start_matches("docker://"));
    // A catalog was pinned before, so the pinned name adds nothing.
    let source = meant.filter(|_| own.role != Role::Catalog);
    Missing::new(image, source, own.role, own.used_by.iter().cloned().collect(), cause)
}

fn locked(
    client: &Client,
    source: String,
    own: &ImageUse,
    reference: &Reference,
    surveyed: &SurveyedImage,
    layout: Layout,
) -> Result<LockedImage, image::Error> {
    let platforms = own.platforms.clone().unwrap_or_default();
    let written: Option<Reference> = Reference::parse(source.trim_start_matches("docker://")).ok();
    let tag = match &own.target_tag {
        Some(tag) => tag.clone(),
        None => tag_of(written.as_ref().unwrap_or(reference), &surveyed.digest),
    };
    // A short name is meaningful on this machine only.
    let source = if written.is_some() { source } else { reference.to_string() };
    let mut image = LockedImage {
        source,
        digest: surveyed.digest.to_string(),
        media_type: surveyed.media_type.clone(),
        bytes: 0,
        platforms: platforms.iter().map(ToString::to_string).collect(),
        referrers: surveyed
            .referrers
            .iter()
            .map(|made| LockedReferrer {
                digest: made.digest.to_string(),
                tag: made.tag.clone(),
                subject: made.subject.map(|subject| subject.to_string()),
            })
            .collect(),
        path: own.target_repo.clone().unwrap_or_else(|| path_of(reference, layout)),
        tag,
        role: own.role,
        used_by: own.used_by.iter().cloned().collect(),
    };
    image.bytes = size_of(client, &image)?;
    Ok(image)
}

/// Returns the size of an image in bytes, including its referrers.
///
/// # Errors
/// Fails when its manifests are not in the store.
pub fn size_of(client: &Client, image: &LockedImage) -> Result<u64, image::Error> {
    let options = client.options();
    let mut bytes: u64 = 0;
    for (number, top) in image.tops().enumerate() {
        let platforms = if number == 0 { image.platforms() } else { Vec::new() };
        let parts = Parts::of(&options.store, &top, &platforms, &options.limits)?;
        let sizes = parts.documents.iter().chain(&parts.blobs).map(|part| part.size);
        bytes = bytes.saturating_add(sizes.sum());
    }
    Ok(bytes)
}

/// Returns the destination tag of a catalog.
fn catalog_tag(request: &CatalogRequest, digest: &Digest) -> String {
    match (&request.target_tag, &request.source) {
        (Some(tag), _) => tag.clone(),
        (None, CatalogSource::Registry(reference)) => tag_of(reference, digest),
        (None, CatalogSource::Layout(_)) => "latest".to_owned(),
    }
}

fn locked_catalog(catalog: &Opened, layout: Layout) -> LockedCatalog {
    let request = &catalog.request;
    let path = match (&request.target_catalog, &request.source) {
        (Some(path), _) => path.clone(),
        (None, CatalogSource::Registry(reference)) => path_of(reference, layout),
        (None, CatalogSource::Layout(path)) => {
            let last = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
            let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
            let name = last.chars().map(plain).collect::<String>();
            let name = name.trim_matches('-');
            if name.is_empty() { "catalog".to_owned() } else { name.to_owned() }
        }
    };
    let whole = request.is_whole();
    LockedCatalog {
        source: request.source.to_string(),
        digest: catalog.digest.to_string(),
        name: String::new(),
        content: String::new(),
        image: if whole { catalog.digest.to_string() } else { String::new() },
        whole,
        path,
        tag: catalog_tag(request, &catalog.digest),
        template: catalog.template.clone(),
        extract_content: catalog.extract_content.clone(),
        packages: catalog.part.packages(),
    }
}

/// Gives every catalog a unique name from the last path component and the tag.
fn name_catalogs(catalogs: &mut [LockedCatalog]) {
    let mut taken = BTreeSet::new();
    for catalog in catalogs {
        let last = catalog.path.rsplit('/').next().unwrap_or_default();
        let tag: String = catalog.tag.chars().take(40).collect();
        let base = format!("{last}-{tag}");
        let mut name = base.clone();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            number += 1;
            name = format!("{base}-{number}");
        }
        catalog.name = name;
    }
}

/// Rejects different images with the same destination.
fn check_places(images: &[LockedImage]) -> Result<(), MirrorError> {
    let mut places: BTreeMap<(&str, &str), &LockedImage> = BTreeMap::new();
    let mut clashes = BTreeSet::new();
    for image in images {
        match places.get(&(&*image.path, &*image.tag)) {
            Some(other) if other.digest != image.digest => {
                let (one, two) = (&other.source, &image.source);
                clashes.insert(format!("{one} and {two} have the same destination {}:{}", image.path, image.tag));
            }
            _ => drop(places.insert((&image.path, &image.tag), image)),
        }
    }
    match clashes.is_empty() {
        true => Ok(()),
        false => Err(MirrorError::Clashes(clashes.into_iter().collect())),
    }
}

impl Plan {
    /// Turns the plan into a lock; filtered catalogs have their images now.
    pub fn into_lock(mut self, request: Digest) -> Lock {
        self.take_lock(request)
    }

    /// Creates a lock from the plan, moving the images out of it.
    pub fn take_lock(&mut self, request: Digest) -> Lock {
        let mut lock = Lock::new(request);
        lock.catalogs.clone_from(&self.catalogs);
        lock.images = std::mem::take(&mut self.images);
        lock.left_out.clone_from(&self.left_out);
        lock.sort();
        lock
    }
}
