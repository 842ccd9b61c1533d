//! From what somebody wants to images by digest: nothing but manifests is asked for.

use std::collections::{BTreeMap, BTreeSet};

use image::{Client, Digest, Location, Parts, Platform, Reference, Surveyed};

use crate::destination::{Layout, path_of, tag_of};
use crate::imageset::{CatalogRequest, CatalogSource, ImageSet};
use crate::lock::{LeftOut, Lock, LockedCatalog, LockedImage, LockedReferrer, Role};
use crate::part::Part;
use crate::report::{Cause, Missing};

/// A catalog that was opened.
pub struct Opened {
    /// What is asked for of it.
    pub request: CatalogRequest,
    /// The digest it has.
    pub digest: Digest,
    /// What is kept of it.
    pub part: Part,
    /// A CatalogSource to start from.
    pub template: Option<serde_json::Value>,
}

/// How images are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How the path of a source becomes one at the destination.
    pub layout: Layout,
    /// Signatures and the like go along.
    pub referrers: bool,
    /// The original image of a catalog that is not whole goes along.
    pub keep_original: bool,
    /// An image whose signatures cannot be fetched goes over without them.
    pub keep_unsigned: bool,
}

/// What is to be brought over, as far as it is there.
#[derive(Debug, Default)]
pub struct Plan {
    /// The catalogs; those that are not whole have no image yet.
    pub catalogs: Vec<LockedCatalog>,
    /// The images.
    pub images: Vec<LockedImage>,
    /// What nobody wants.
    pub left_out: Vec<LeftOut>,
    /// What is not there.
    pub missing: Vec<Missing>,
    /// What else the user should know.
    pub notes: Vec<String>,
}

/// What wants an image, and what it wants of it.
struct Use {
    role: Role,
    used_by: BTreeSet<String>,
    /// Nothing means all platforms.
    platforms: Option<Vec<Platform>>,
    target_repo: Option<String>,
    target_tag: Option<String>,
}

impl Use {
    fn new(role: Role, platforms: &[Platform]) -> Use {
        let platforms = (!platforms.is_empty()).then(|| platforms.to_vec());
        Use { role, used_by: BTreeSet::new(), platforms, target_repo: None, target_tag: None }
    }

    /// Adds another user: whoever wants all platforms gets them for everybody.
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

/// Finds all images of a set and what they are.
///
/// # Errors
/// Fails when a catalog cannot be read any more, or different images would go to one place.
pub fn plan(client: &Client, set: &ImageSet, opened: &[&Opened], options: Options) -> Result<Plan, String> {
    let mut plan = Plan::default();
    let mut uses: BTreeMap<String, Use> = BTreeMap::new();
    for catalog in opened {
        let needed = catalog.part.images().map_err(|error| format!("{}: {error}", catalog.request.source))?;
        for one in needed {
            let role = if one.is_bundle { Role::Bundle } else { Role::Related };
            let platforms = &catalog.request.platforms;
            let own = uses.entry(one.image).or_insert_with(|| Use::new(role, platforms));
            own.join(role, platforms);
            own.used_by.insert(format!("{}/{}", one.package, one.bundle));
        }
    }
    for image in &set.additional {
        let text = image.reference.to_string();
        let own = uses.entry(text).or_insert_with(|| Use::new(Role::Additional, &image.platforms));
        own.join(Role::Additional, &image.platforms);
        own.target_repo = own.target_repo.take().or(image.target_repo.clone());
        own.target_tag = own.target_tag.take().or(image.target_tag.clone());
    }
    let mut wanted: Vec<(Reference, Vec<Platform>)> = Vec::new();
    let mut kept: Vec<(String, Use)> = Vec::new();
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
    // Catalogs that go over as they are, and originals of others.
    for catalog in opened.iter().filter(|catalog| catalog.request.is_whole() || options.keep_original) {
        if let CatalogSource::Registry(reference) = &catalog.request.source {
            let mut own = Use::new(Role::Catalog, &catalog.request.platforms);
            own.target_repo.clone_from(&catalog.request.target_catalog);
            own.target_tag = Some(match catalog.request.is_whole() {
                true => catalog_tag(&catalog.request, &catalog.digest),
                false => format!("sha256-{}", catalog.digest.hex()),
            });
            wanted.push((reference.with_digest(catalog.digest), catalog.request.platforms.clone()));
            kept.push((reference.to_string(), own));
        }
    }
    if let Some(policy) = client.ignored_policy(wanted.iter().map(|(reference, _)| reference)) {
        let policy = policy.display();
        plan.notes.push(format!("{policy} asks more of these images, and does not count; --enforce-policy obeys it"));
    }
    let mut surveyed = client.survey(&wanted, options.referrers);
    if options.referrers && options.keep_unsigned {
        without_referrers(client, &wanted, &mut surveyed, &mut plan.notes);
    }
    for (((text, own), (reference, _)), outcome) in kept.into_iter().zip(&wanted).zip(surveyed) {
        match outcome {
            Err(error) => plan.missing.push(missing(text, Some(reference), &own, Cause::from(&error))),
            Ok(surveyed) => match locked(client, text.clone(), &own, reference, &surveyed, options.layout) {
                Ok(image) => plan.images.push(image),
                Err(cause) => plan.missing.push(missing(text, Some(reference), &own, cause.into())),
            },
        }
    }
    plan.catalogs = opened.iter().map(|catalog| locked_catalog(catalog, options.layout)).collect();
    name_catalogs(&mut plan.catalogs);
    check_places(&plan.images)?;
    Ok(plan)
}

/// Takes images whose signatures and the like cannot be fetched without them.
fn without_referrers(
    client: &Client,
    wanted: &[(Reference, Vec<Platform>)],
    surveyed: &mut [Result<Surveyed, image::Error>],
    notes: &mut Vec<String>,
) {
    let failed: Vec<usize> = (0..wanted.len()).filter(|number| surveyed[*number].is_err()).collect();
    let again: Vec<(Reference, Vec<Platform>)> = failed.iter().map(|number| wanted[*number].clone()).collect();
    for (number, outcome) in failed.into_iter().zip(client.survey(&again, false)) {
        if outcome.is_ok() {
            let cause = surveyed[number].as_ref().err().map(ToString::to_string).unwrap_or_default();
            notes.push(format!("{} goes over without what was made for it: {cause}", wanted[number].0));
            surveyed[number] = outcome;
        }
    }
}

/// Finds the image that a text names; short names mean what `registries.conf` makes of them.
fn find(client: &Client, text: &str) -> Result<Reference, Cause> {
    let wrong = |text: &str| Cause {
        text: text.to_owned(),
        tries: 0,
        help: Some("this can be no image; --missing drop leaves the bundles out that name it".to_owned()),
    };
    let text = text.strip_prefix("docker://").unwrap_or(text);
    if text.is_empty() {
        return Err(wrong("the reference is empty"));
    }
    match client.locate(text) {
        Ok(Location::Registry(reference)) => Ok(reference),
        Ok(_) => Err(wrong("only images in registries can be brought over")),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

fn is_blocked(set: &ImageSet, text: &str, reference: &Reference, layout: Layout) -> bool {
    let destination = path_of(reference, layout);
    set.blocked.iter().any(|regex| regex.is_match(text) || regex.is_match(&destination))
}

fn missing(image: String, reference: Option<&Reference>, own: &Use, cause: Cause) -> Missing {
    let meant = reference.map(ToString::to_string).filter(|meant| meant != image.trim_start_matches("docker://"));
    // A catalog is pinned before, which says nothing that its name does not.
    let source = meant.filter(|_| own.role != Role::Catalog);
    let Cause { text, tries, help } = cause;
    Missing { image, role: own.role, source, cause: text, tries, used_by: own.used_by.iter().cloned().collect(), help }
}

fn locked(
    client: &Client,
    source: String,
    own: &Use,
    reference: &Reference,
    surveyed: &Surveyed,
    layout: Layout,
) -> Result<LockedImage, String> {
    let platforms = own.platforms.clone().unwrap_or_default();
    let written: Option<Reference> = Reference::parse(source.trim_start_matches("docker://")).ok();
    let tag = match &own.target_tag {
        Some(tag) => tag.clone(),
        None => tag_of(written.as_ref().unwrap_or(reference), &surveyed.digest),
    };
    // A short name means something on this machine alone.
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
    image.bytes = size_of(client, &image).map_err(|error| error.to_string())?;
    Ok(image)
}

/// Returns how many bytes an image has, with what was made for it.
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

/// Returns the tag of a catalog at the destination.
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
        packages: catalog.part.packages(),
    }
}

/// Gives every catalog a name of its own: the last part of its path, and its tag.
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

/// Refuses different images at one place.
fn check_places(images: &[LockedImage]) -> Result<(), String> {
    let mut places: BTreeMap<(&str, &str), &LockedImage> = BTreeMap::new();
    let mut clashes = BTreeSet::new();
    for image in images {
        match places.get(&(&*image.path, &*image.tag)) {
            Some(other) if other.digest != image.digest => {
                let (one, two) = (&other.source, &image.source);
                clashes.insert(format!("{one} and {two} would both go to {}:{}", image.path, image.tag));
            }
            _ => drop(places.insert((&image.path, &image.tag), image)),
        }
    }
    if clashes.is_empty() {
        return Ok(());
    }
    let list = clashes.into_iter().collect::<Vec<_>>().join("\n  ");
    Err(format!("different images would meet at the destination:\n  {list}\nhelp: --layout host keeps them apart"))
}

impl Plan {
    /// Makes a lock of the plan; catalogs that are not whole have their images now.
    pub fn into_lock(mut self, request: Digest) -> Lock {
        self.lend(request)
    }

    /// Makes a lock of the plan, which is without its images then.
    pub fn lend(&mut self, request: Digest) -> Lock {
        let mut lock = Lock::new(request);
        lock.catalogs.clone_from(&self.catalogs);
        lock.images = std::mem::take(&mut self.images);
        lock.left_out.clone_from(&self.left_out);
        lock.sort();
        lock
    }
}
