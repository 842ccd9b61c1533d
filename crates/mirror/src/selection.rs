//! The selection of a request: catalogs cut to it, and all images they need by digest, with their manifests in the store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use image::{CatalogImages, Client, Digest, Location, Parts, Platform, Reference, SurveyedImage};

use crate::MirrorError;
use crate::catalog::{self, OpenCatalog, named};
use crate::catalog_selection::CatalogSelection;
use crate::destination::{PathLayout, path_of, tag_of};
use crate::imageset::{CatalogLocation, CatalogRequest, ImageSet};
use crate::lock::{LeftOut, Lock, LockError, LockedCatalog, LockedImage, LockedReferrer, Role};
use crate::policy;
use crate::report::{self, Cause, MissingImage, OnMissing};
use crate::request::{MirrorRequest, SelectionOptions, SetRequest};
use crate::session::MirrorSession;
use crate::set::Inventory;
use crate::verify::missing as missing_image;

/// Catalogs cut to a request, and the images they need, as far as these are available.
pub struct MirrorSelection {
    request: Digest,
    catalogs: Vec<SelectedCatalog>,
    /// The images, in the order of a lock.
    pub(crate) images: Vec<LockedImage>,
    /// The parts of the images.
    pub(crate) inventory: Inventory,
    left_out: Vec<LeftOut>,
    /// Unavailable content.
    pub(crate) missing: Vec<MissingImage>,
}

/// A selected catalog.
struct SelectedCatalog {
    locked: LockedCatalog,
    /// The catalog; `None` if its image needs not be built.
    open: Option<OpenCatalog>,
}

impl MirrorSelection {
    /// Opens catalogs and resolves images. Manifests go to the store of the session.
    ///
    /// # Errors
    /// Fails when a catalog cannot be opened or selected from, or different images have the same destination.
    pub fn resolve(
        request: MirrorRequest,
        options: &SelectionOptions,
        session: &MirrorSession<'_>,
    ) -> Result<MirrorSelection, MirrorError> {
        match request {
            MirrorRequest::Set(request) => MirrorSelection::of_set(&request, options, session),
            MirrorRequest::Lock(lock) => MirrorSelection::of_lock(*lock, options, session),
        }
    }

    /// Finds all images of an image set.
    pub(crate) fn of_set(
        request: &SetRequest,
        options: &SelectionOptions,
        session: &MirrorSession<'_>,
    ) -> Result<MirrorSelection, MirrorError> {
        let set = &request.set;
        let opened = catalog::open_requested(&set.catalogs, request.installed.as_ref(), options, session)?;
        let mut selection = MirrorSelection::new(request.digest());
        let requested: Vec<(&CatalogRequest, &OpenCatalog)> = set.catalogs.iter().zip(&opened).collect();
        selection.add_images(set, &requested, options, session)?;
        let locked = requested.iter().map(|(request, catalog)| locked_catalog(request, catalog, options.layout));
        let mut locked: Vec<LockedCatalog> = locked.collect();
        name_catalogs(&mut locked);
        check_places(&selection.images)?;
        let catalogs = locked.into_iter().zip(opened);
        selection.catalogs = catalogs.map(|(locked, open)| SelectedCatalog { locked, open: Some(open) }).collect();
        selection.take_inventory(session)
    }

    /// Takes over the selection of a lock. Only manifests that the store lacks are requested.
    pub(crate) fn of_lock(
        mut lock: Lock,
        options: &SelectionOptions,
        session: &MirrorSession<'_>,
    ) -> Result<MirrorSelection, MirrorError> {
        let mut selection = MirrorSelection::new(lock.request.parse().map_err(|_| LockError::NoRequest)?);
        selection.left_out = std::mem::take(&mut lock.left_out);
        let client = session.client;
        let (store, limits) = (session.store(), &client.options().limits);
        let there = |digest: &Digest, platforms: &[Platform]| Parts::of(store, digest, platforms, limits);
        // Do not request the images of catalogs that are built here.
        let (mut built, others): (Vec<LockedImage>, Vec<LockedImage>) =
            std::mem::take(&mut lock.images).into_iter().partition(|image| policy::is_built(&lock, image));
        // The set may have been pulled under another policy, or none.
        let enforced = client.enforced_policy()?.is_some();
        let sources: Vec<Reference> = others.iter().filter_map(policy::source).collect();
        session.notes(policy::ignored(client, sources.iter()).as_slice());
        drop(sources);
        let mut wanted: Vec<(Reference, Vec<Platform>)> = Vec::new();
        let mut artifacts: Vec<Reference> = Vec::new();
        let (mut of, mut of_artifacts): (Vec<usize>, Vec<usize>) = Default::default();
        for (number, image) in others.iter().enumerate() {
            let Some(reference) = policy::source(image) else { continue };
            let mut tops = image.tops();
            if let Some(digest) = tops.next()
                && (enforced || there(&digest, &image.platforms()).is_err())
            {
                wanted.push((reference.with_digest(digest), image.platforms()));
                of.push(number);
            }
            for digest in tops.filter(|digest| there(digest, &[]).is_err()) {
                artifacts.push(reference.with_digest(digest));
                of_artifacts.push(number);
            }
        }
        let mut lost: BTreeSet<usize> = BTreeSet::new();
        let surveyed = of.iter().zip(client.survey(&wanted, false));
        for (number, outcome) in surveyed.chain(of_artifacts.iter().zip(client.survey_artifacts(&artifacts))) {
            if let Err(error) = outcome {
                lost.insert(*number);
                selection.missing.push(missing_image(&others[*number], &error));
            }
        }
        drop((wanted, artifacts));
        let kept = others.into_iter().enumerate().filter(|(number, _)| !lost.contains(number));
        selection.images = kept.map(|(_, image)| image).collect();
        for locked in lock.catalogs {
            let whole = locked.image.parse::<Digest>().ok().and_then(|digest| there(&digest, &[]).ok());
            let is_there = whole.is_some_and(|parts| store.lacking(&parts.blobs).is_empty());
            // A filtered catalog is opened again, to check the image that it was built from.
            let open = match locked.whole || is_there && !enforced {
                true => {
                    selection.images.extend(built.extract_if(.., |image| image.digest == locked.image));
                    None
                }
                false => catalog::open_locked(&locked, options, session)?,
            };
            selection.catalogs.push(SelectedCatalog { locked, open });
        }
        selection.take_inventory(session)
    }

    fn new(request: Digest) -> MirrorSelection {
        MirrorSelection {
            request,
            catalogs: Vec::new(),
            images: Vec::new(),
            inventory: Inventory::default(),
            left_out: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Sorts the images and collects their parts, once.
    fn take_inventory(mut self, session: &MirrorSession<'_>) -> Result<MirrorSelection, MirrorError> {
        self.images.iter_mut().for_each(LockedImage::sort);
        self.images.sort_by(LockedImage::order);
        self.inventory = Inventory::of(session.store(), &self.images, &session.client.options().limits)?;
        Ok(self)
    }

    /// Adds the images of catalogs, additional images, and unfiltered catalogs.
    fn add_images(
        &mut self,
        set: &ImageSet,
        requested: &[(&CatalogRequest, &OpenCatalog)],
        options: &SelectionOptions,
        session: &MirrorSession<'_>,
    ) -> Result<(), MirrorError> {
        let client = session.client;
        let mut uses: BTreeMap<String, ImageUse> = BTreeMap::new();
        for (_, catalog) in requested {
            let needed = catalog.part.images().map_err(|error| MirrorError::from(error).named(&catalog.source))?;
            for one in needed {
                let role = if one.is_bundle { Role::Bundle } else { Role::Related };
                let platforms = &catalog.platforms;
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
                Ok(reference) if is_blocked(set, &text, &reference, options.layout) => self.left_out.push(LeftOut {
                    source: text,
                    reason: "blockedImages names it".to_owned(),
                    used_by: own.used_by.into_iter().collect(),
                }),
                Ok(reference) => {
                    wanted.push((reference, own.platforms.clone().unwrap_or_default()));
                    kept.push((text, own));
                }
                Err(cause) => self.missing.push(missing(text, None, &own, cause)),
            }
        }
        // Unfiltered catalogs, and the originals of filtered ones.
        for (request, catalog) in requested.iter().filter(|(_, catalog)| catalog.whole || options.keep_original) {
            if let CatalogLocation::Registry(reference) = &catalog.source {
                let mut own = ImageUse::new(Role::Catalog, &catalog.platforms);
                own.target_repo.clone_from(&request.target_catalog);
                own.target_tag = Some(match catalog.whole {
                    true => catalog_tag(request, &catalog.digest),
                    false => format!("sha256-{}", catalog.digest.hex()),
                });
                wanted.push((reference.with_digest(catalog.digest), catalog.platforms.clone()));
                kept.push((reference.to_string(), own));
            }
        }
        let mut notes = Vec::from_iter(policy::ignored(client, wanted.iter().map(|(reference, _)| reference)));
        let mut surveyed = client.survey(&wanted, options.referrers);
        // An image is mirrored without its referrers if those cannot be fetched.
        if options.referrers && options.missing == OnMissing::Keep {
            without_referrers(client, &wanted, &mut surveyed, &mut notes);
        }
        session.notes(&notes);
        for (((text, own), (reference, _)), outcome) in kept.into_iter().zip(&wanted).zip(surveyed) {
            match outcome {
                Err(error) => self.missing.push(missing(text, Some(reference), &own, Cause::from(&error))),
                Ok(surveyed) => match locked(client, text.clone(), &own, reference, &surveyed, options.layout) {
                    Ok(image) => self.images.push(image),
                    Err(error) => {
                        self.missing.push(missing(text, Some(reference), &own, error.to_string().into()));
                    }
                },
            }
        }
        Ok(())
    }

    /// Keeps some images, and the parts of these.
    fn retain(&mut self, kept: impl Fn(&LockedImage) -> bool) {
        self.inventory.retain(|number| self.images.get(number).is_some_and(&kept));
        self.images.retain(kept);
    }

    /// Handles missing images, and those that failed since, as requested: fails later, keeps or drops their bundles. If
    /// an image failed for another reason, such as an unreachable registry, the set stays as requested, and the run
    /// fails later. What is missing then remains.
    ///
    /// # Errors
    /// Fails if a bundle cannot be dropped.
    pub(crate) fn settle(
        &mut self,
        failed: Vec<MissingImage>,
        on_missing: OnMissing,
        session: &MirrorSession<'_>,
    ) -> Result<(), MirrorError> {
        let mut missing = std::mem::take(&mut self.missing);
        if !failed.is_empty() {
            let lost: BTreeSet<&str> = failed.iter().map(|one| one.image.as_str()).collect();
            self.retain(|image| !lost.contains(image.source.as_str()));
        }
        missing.extend(failed);
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        session.progress.missing(&missing);
        if missing.iter().any(|one| one.failed) && on_missing != OnMissing::Fail {
            session.progress.note("--missing applies to images that their registry does not have, not to failures");
            self.missing = missing;
            return Ok(());
        }
        match on_missing {
            OnMissing::Fail => {
                self.missing = missing;
                return Ok(());
            }
            OnMissing::Keep => {
                session.progress.warn("continuing without them: the catalog references images that the set lacks");
            }
            OnMissing::Drop => self.drop_bundles(&report::bundles(&missing), session)?,
        }
        self.left_out.extend(missing.into_iter().map(|one| LeftOut {
            source: one.image,
            reason: one.cause,
            used_by: one.used_by,
        }));
        Ok(())
    }

    fn drop_bundles(
        &mut self,
        bundles: &BTreeSet<(String, String)>,
        session: &MirrorSession<'_>,
    ) -> Result<(), MirrorError> {
        let unmet = |catalogs: &[SelectedCatalog]| {
            let parts: Vec<&CatalogSelection> =
                catalogs.iter().filter_map(|catalog| catalog.open.as_ref()).map(|open| &open.part).collect();
            CatalogSelection::unmet(&parts)
        };
        let before = unmet(&self.catalogs);
        for SelectedCatalog { locked, open } in &mut self.catalogs {
            let Some(open) = open.as_mut().filter(|open| !open.whole) else { continue };
            open.part.notes.clear();
            open.part.drop_bundles(bundles).map_err(named(&open.source))?;
            session.notes(&open.part.notes);
            locked.packages = open.part.packages();
        }
        // Report the remaining bundles that depend on dropped ones.
        session.notes(&unmet(&self.catalogs).difference(&before).cloned().collect::<Vec<_>>());
        let left: BTreeSet<String> = self.catalogs.iter().flat_map(|catalog| catalog.locked.bundles()).collect();
        // Drop images that only dropped bundles used.
        for image in &mut self.images {
            image.used_by.retain(|user| left.contains(user));
        }
        self.retain(|image| matches!(image.role, Role::Additional | Role::Catalog) || !image.used_by.is_empty());
        Ok(())
    }

    /// Reports bundles that had an upgrade in the catalogs of the earlier set below `place` and are stranded now.
    pub(crate) fn compare(&self, place: &Path, session: &MirrorSession<'_>) -> Result<(), MirrorError> {
        for SelectedCatalog { locked, open } in &self.catalogs {
            if let Some(open) = open {
                session.notes(&open.part.stranded_since(&place.join(&locked.name))?);
            }
        }
        Ok(())
    }

    /// Writes the selected part of each catalog to a directory below `place`, and builds its image in the store.
    ///
    /// # Errors
    /// Fails when a catalog is not valid any more, or cannot be written.
    pub(crate) fn build(
        &mut self,
        place: &Path,
        images: &dyn CatalogImages,
        session: &MirrorSession<'_>,
    ) -> Result<(), MirrorError> {
        for SelectedCatalog { locked, open } in &mut self.catalogs {
            let Some(open) = open else { continue };
            let directory = place.join(&locked.name);
            let _ = fs::remove_dir_all(&directory);
            let content = open.part.write(&directory).map_err(named(&locked.source))?.to_string();
            let (source, before) = (&locked.source, &locked.content);
            if !before.is_empty() && *before != content {
                session.progress.note(&format!(
                    "the selected part of catalog {source} has digest {content}, but {before} in the lock"
                ));
            }
            locked.content = content;
            if locked.whole {
                continue;
            }
            let in_image = |error: MirrorError| error.named(format!("image of catalog {source}"));
            let built = crate::catalog_image::build(open, &directory, images, session).map_err(in_image)?;
            let digest = built.digest.to_string();
            locked.extract_content.clone_from(&open.extract_content);
            if let Ok(expected) = locked.image.parse::<Digest>()
                && expected != built.digest
            {
                session.progress.note(&format!(
                    "the image of catalog {source} has digest {digest}, but {expected} in the lock: its serving program \
                     differs"
                ));
            }
            let mut image = LockedImage {
                source: source.clone(),
                digest: digest.clone(),
                media_type: built.media_type,
                bytes: 0,
                platforms: Vec::new(),
                referrers: Vec::new(),
                path: locked.path.clone(),
                tag: locked.tag.clone(),
                role: Role::Catalog,
                used_by: Vec::new(),
            };
            image.bytes = size_of(session.client, &image).map_err(|error| in_image(error.into()))?;
            let limits = &session.client.options().limits;
            if let Some(error) = self.inventory.add(session.store(), &image, limits).pop() {
                return Err(in_image(error.into()));
            }
            locked.image = digest;
            self.images.push(image);
        }
        Ok(())
    }

    /// Returns what is not available.
    pub fn missing(&self) -> &[MissingImage] {
        &self.missing
    }

    /// Returns the images.
    pub fn images(&self) -> &[LockedImage] {
        &self.images
    }

    /// Returns the lock of the selection, and the parts of its images.
    pub fn into_lock(self) -> (Lock, Inventory) {
        let MirrorSelection { request, catalogs, images, mut inventory, left_out, missing: _ } = self;
        let mut lock = Lock::new(request);
        lock.catalogs = catalogs.into_iter().map(|catalog| catalog.locked).collect();
        lock.left_out = left_out;
        // The parts of an image have its place in the list.
        let mut all: Vec<(LockedImage, Vec<Digest>)> = images.into_iter().zip(inventory.by_image).collect();
        all.sort_by(|(one, _), (other, _)| one.order(other));
        (lock.images, inventory.by_image) = all.into_iter().unzip();
        lock.sort();
        (lock, inventory)
    }
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

fn is_blocked(set: &ImageSet, text: &str, reference: &Reference, layout: PathLayout) -> bool {
    let destination = path_of(reference, layout);
    set.blocked.iter().any(|regex| regex.is_match(text) || regex.is_match(&destination))
}

fn missing(image: String, reference: Option<&Reference>, own: &ImageUse, cause: Cause) -> MissingImage {
    let meant = reference.map(ToString::to_string).filter(|meant| meant != image.trim_start_matches("docker://"));
    // A catalog was pinned before, so the pinned name adds nothing.
    let source = meant.filter(|_| own.role != Role::Catalog);
    MissingImage::new(image, source, own.role, own.used_by.iter().cloned().collect(), cause)
}

fn locked(
    client: &Client,
    source: String,
    own: &ImageUse,
    reference: &Reference,
    surveyed: &SurveyedImage,
    layout: PathLayout,
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
fn size_of(client: &Client, image: &LockedImage) -> Result<u64, image::Error> {
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
        (None, CatalogLocation::Registry(reference)) => tag_of(reference, digest),
        (None, CatalogLocation::Layout(_)) => "latest".to_owned(),
    }
}

fn locked_catalog(request: &CatalogRequest, catalog: &OpenCatalog, layout: PathLayout) -> LockedCatalog {
    let path = match (&request.target_catalog, &request.source) {
        (Some(path), _) => path.clone(),
        (None, CatalogLocation::Registry(reference)) => path_of(reference, layout),
        (None, CatalogLocation::Layout(path)) => {
            let last = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
            let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
            let name = last.chars().map(plain).collect::<String>();
            let name = name.trim_matches('-');
            if name.is_empty() { "catalog".to_owned() } else { name.to_owned() }
        }
    };
    let whole = catalog.whole;
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
