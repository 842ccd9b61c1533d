//! Deletes images from a registry that a mirror put there and no set needs any more.

use std::collections::{BTreeMap, BTreeSet};

use image::{Client, Digest, Reference};
use schemars::JsonSchema;
use serde::Serialize;

use crate::MirrorError;
use crate::destination::MirrorDestination;
use crate::error::parse_digest;
use crate::listed::ListedImage;
use crate::lock::{self, Lock, LockedImage, Role};
use crate::push::{RECORD, record_tag};
use crate::session::MirrorSession;

/// The removed images, or those to remove.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PruneReport {
    /// The images, by digest.
    pub images: BTreeMap<String, ListedImage>,
    /// Images that stay because tags of others need them, with those tags.
    pub foreign: BTreeMap<String, Vec<String>>,
    /// The sets that the registry records; `None` for a list of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sets: Option<PrunedSets>,
    /// Whether the images were removed.
    pub removed: bool,
    /// Images that cannot be removed, with the reasons.
    pub failed: BTreeMap<String, String>,
}

/// The sets that a registry records.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct PrunedSets {
    /// The number of sets that are not kept.
    pub unneeded: usize,
    /// The number of all sets.
    pub known: usize,
}

/// What happened to the images of a list.
#[derive(Debug, Serialize)]
pub struct RemovalReport {
    /// The number of images and signatures to remove, including those that failed.
    pub removed: usize,
    /// Images that stay because tags of others need them, with those tags.
    pub foreign: BTreeMap<String, Vec<String>>,
    /// Images that the registry does not have.
    pub absent: Vec<String>,
    /// Images that cannot be removed, with the reasons.
    pub failed: BTreeMap<String, String>,
}

/// The images to delete, and the ones that stay although no set needs them.
#[derive(Debug, Default)]
struct Pruning {
    /// The images to delete, by digest.
    images: BTreeMap<String, ListedImage>,
    /// The sets whose record is deleted.
    sets: Vec<String>,
    /// Images that foreign tags reach, with those tags.
    foreign: BTreeMap<String, Vec<String>>,
    /// Images of a list that the registry does not have.
    absent: Vec<String>,
    /// The number of sets recorded in the registry.
    known: usize,
}

/// Finds the images of recorded sets that no kept set needs.
///
/// # Errors
/// Fails when the registry does not respond or a record is invalid.
fn find(client: &Client, target: &MirrorDestination, keep: &[Lock]) -> Result<Pruning, MirrorError> {
    let record = target.repository(RECORD)?;
    let tags = client.tags(&record)?;
    let kept_tags: BTreeSet<String> = keep.iter().map(record_tag).collect();
    let mut pruning = Pruning { known: tags.len(), ..Pruning::default() };
    let mut candidates = Candidates::new(target, keep)?;
    for tag in &tags {
        let Some(name) = record.with_tag(tag) else { continue };
        let lock = read(client, &name)?;
        let is_kept = kept_tags.contains(tag);
        places(&lock, target, |repository, digest, tag, image| {
            candidates.own.entry(repository.name()).or_default().insert(tag);
            if !is_kept {
                let listed = ListedImage { source: image.source.clone(), role: image.role };
                candidates.add(repository, digest, listed);
            }
        })?;
        if !is_kept {
            pruning.sets.push(tag.clone());
        }
    }
    candidates.exclude_reached(client, &mut pruning)?;
    Ok(pruning)
}

/// Finds the images of a list that no kept set needs.
///
/// # Errors
/// Fails when the registry does not respond.
fn find_listed(
    client: &Client,
    target: &MirrorDestination,
    list: &[Reference],
    keep: &[Lock],
) -> Result<Pruning, MirrorError> {
    let mut pruning = Pruning::default();
    let mut candidates = Candidates::new(target, keep)?;
    for (name, outcome) in list.iter().zip(client.current_digests(list)) {
        let Some(digest) = outcome.map_err(|error| MirrorError::from(error).named(name))? else {
            pruning.absent.push(name.to_string());
            continue;
        };
        let own = candidates.own.entry(name.name()).or_default();
        own.extend(name.tag().map(|tag| OwnTag::Of(tag.to_owned(), digest)));
        // The mirror's own tag, for images referenced by digest.
        own.insert(OwnTag::Of(format!("sha256-{}", digest.hex()), digest));
        candidates.add(name, digest, ListedImage { source: name.to_string(), role: Role::Additional });
    }
    candidates.exclude_reached(client, &mut pruning)?;
    Ok(pruning)
}

/// A tag that the mirror created.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum OwnTag {
    /// The tag of an image. Once it has another digest, it belongs to someone else.
    Of(String, Digest),
    /// The list of referrers of an image, in registries without the referrers API. It keeps none of them.
    Referrers(String),
}

/// The images that may be deleted: those of sets that are not kept, unless something else reaches them.
struct Candidates {
    /// By repository and digest.
    images: BTreeMap<(String, Digest), (Reference, ListedImage)>,
    /// The tags of the mirror in each repository.
    own: BTreeMap<String, BTreeSet<OwnTag>>,
    /// The images of kept sets in each repository.
    kept: BTreeMap<String, BTreeSet<Digest>>,
}

impl Candidates {
    fn new(target: &MirrorDestination, keep: &[Lock]) -> Result<Candidates, MirrorError> {
        let mut kept: BTreeMap<String, BTreeSet<Digest>> = BTreeMap::new();
        for lock in keep {
            places(lock, target, |repository, digest, _, _| {
                kept.entry(repository.name()).or_default().insert(digest);
            })?;
        }
        Ok(Candidates { images: BTreeMap::new(), own: BTreeMap::new(), kept })
    }

    fn add(&mut self, repository: &Reference, digest: Digest, listed: ListedImage) {
        self.images.insert((repository.name(), digest), (repository.with_digest(digest), listed));
    }

    /// Excludes what kept sets and foreign tags reach, directly or through an index.
    fn exclude_reached(mut self, client: &Client, pruning: &mut Pruning) -> Result<(), MirrorError> {
        let repositories: BTreeSet<String> = self.images.keys().map(|(repository, _)| repository.clone()).collect();
        for name in repositories {
            let repository = Reference::parse_name(&name)?;
            let kept = self.kept.remove(&name).unwrap_or_default();
            let roots: Vec<Reference> = kept.iter().map(|digest| repository.with_digest(*digest)).collect();
            for reached in client.reached(&roots) {
                for digest in reached?.into_iter().chain(kept.iter().copied()) {
                    self.images.remove(&(name.clone(), digest));
                }
            }
            let foreign = self.foreign_tags(client, &repository)?;
            for (tag, reached) in foreign.iter().zip(client.reached(&foreign)) {
                for digest in reached? {
                    if self.images.contains_key(&(name.clone(), digest)) {
                        let names = pruning.foreign.entry(repository.with_digest(digest).to_string()).or_default();
                        names.push(tag.to_string());
                    }
                }
            }
        }
        let all = self.images.into_values().map(|(reference, listed)| (reference.to_string(), listed));
        pruning.images = all.filter(|(reference, _)| !pruning.foreign.contains_key(reference)).collect();
        Ok(())
    }

    /// Returns the tags of a repository that the mirror did not create, or that someone else has moved.
    fn foreign_tags(&self, client: &Client, repository: &Reference) -> Result<Vec<Reference>, MirrorError> {
        let own = self.own.get(&repository.name()).cloned().unwrap_or_default();
        let all = client.tags(repository)?;
        let tags: Vec<Reference> = all.iter().filter_map(|tag| repository.with_tag(tag)).collect();
        let mut foreign = Vec::new();
        for (name, outcome) in tags.iter().zip(client.current_digests(&tags)) {
            let Some(digest) = outcome? else { continue };
            let tag = name.tag().unwrap_or_default().to_owned();
            if !own.contains(&OwnTag::Referrers(tag.clone())) && !own.contains(&OwnTag::Of(tag, digest)) {
                foreign.push(name.clone());
            }
        }
        Ok(foreign)
    }
}

/// Images that no kept set needs.
pub struct Unneeded {
    pruning: Pruning,
    /// The sets that the registry records; `None` for a list of images.
    sets: Option<PrunedSets>,
}

/// Finds the images of recorded sets, or of a list, that no kept set needs.
///
/// # Errors
/// Fails when the registry does not respond or a record is invalid.
pub fn find_unneeded(
    target: &MirrorDestination,
    list: Option<&[Reference]>,
    keep: &[Lock],
    session: &MirrorSession<'_>,
) -> Result<Unneeded, MirrorError> {
    let pruning = match list {
        None => find(session.client, target, keep)?,
        Some(list) => find_listed(session.client, target, list, keep)?,
    };
    let sets = list.is_none().then_some(PrunedSets { unneeded: pruning.sets.len(), known: pruning.known });
    Ok(Unneeded { pruning, sets })
}

impl Unneeded {
    /// Returns the images, by digest.
    pub fn images(&self) -> &BTreeMap<String, ListedImage> {
        &self.pruning.images
    }

    /// Removes the images and the records of their sets, if `removed`, or only reports them.
    pub fn prune(self, target: &MirrorDestination, removed: bool, session: &MirrorSession<'_>) -> PruneReport {
        let Unneeded { pruning, sets } = self;
        let failed = if removed { remove(session.client, target, &pruning) } else { BTreeMap::new() };
        PruneReport { images: pruning.images, foreign: pruning.foreign, sets, removed, failed }
    }
}

/// Removes the images of a list by digest, and with `signatures` their sigstore signatures, too.
///
/// # Errors
/// Fails when the registry does not respond. Images that cannot be removed are part of the report.
pub fn remove_listed(
    target: &MirrorDestination,
    list: &[Reference],
    signatures: bool,
    session: &MirrorSession<'_>,
) -> Result<RemovalReport, MirrorError> {
    let client = session.client;
    let Pruning { images, foreign, absent, .. } = find_listed(client, target, list, &[])?;
    let mut failed = BTreeMap::new();
    let mut digests: Vec<Reference> = images.keys().filter_map(|image| Reference::parse(image).ok()).collect();
    if signatures {
        let tags = digests.iter().filter_map(|it| it.with_tag(&format!("sha256-{}.sig", it.digest()?.hex())));
        let tags: Vec<Reference> = tags.collect();
        for (name, outcome) in tags.iter().zip(client.current_digests(&tags)) {
            match outcome {
                // Unsigned images are fine.
                Ok(found) => digests.extend(found.map(|digest| name.with_digest(digest))),
                Err(error) => drop(failed.insert(name.to_string(), error.to_string())),
            }
        }
    }
    digests.sort_by_key(ToString::to_string);
    digests.dedup();
    for (name, outcome) in digests.iter().zip(client.remove(&digests)) {
        if let Err(error) = outcome {
            failed.insert(name.to_string(), error.to_string());
        }
    }
    Ok(RemovalReport { removed: digests.len(), foreign, absent, failed })
}

/// Deletes images and the records of sets; returns the failures with their reasons.
fn remove(client: &Client, target: &MirrorDestination, pruning: &Pruning) -> BTreeMap<String, String> {
    let mut failed = BTreeMap::new();
    let images: Vec<Reference> = pruning.images.keys().filter_map(|image| Reference::parse(image).ok()).collect();
    for (image, outcome) in images.iter().zip(client.remove(&images)) {
        if let Err(error) = outcome {
            failed.insert(image.to_string(), error.to_string());
        }
    }
    // A set with remaining images stays on record.
    if !failed.is_empty() {
        return failed;
    }
    let Ok(record) = target.repository(RECORD) else { return failed };
    for tag in &pruning.sets {
        let Some(name) = record.with_tag(tag) else { continue };
        let there = client.current_digests(std::slice::from_ref(&name)).pop();
        if let Some(Ok(Some(digest))) = there
            && let Some(Err(error)) = client.remove(&[record.with_digest(digest)]).pop()
        {
            failed.insert(name.to_string(), error.to_string());
        }
    }
    failed
}

/// Visits all images of a set at a registry: repository, digest, tag, and the image of the lock.
fn places(
    lock: &Lock,
    target: &MirrorDestination,
    mut found: impl FnMut(&Reference, Digest, OwnTag, &LockedImage),
) -> Result<(), MirrorError> {
    for image in &lock.images {
        let repository = target.repository(&image.path)?;
        let digest = image.digest()?;
        found(&repository, digest, OwnTag::Of(image.tag.clone(), digest), image);
        for referrer in &image.referrers {
            let digest = parse_digest(&referrer.digest)?;
            found(&repository, digest, OwnTag::Of(referrer.tag.clone().unwrap_or_default(), digest), image);
            let subject = referrer.subject.as_deref().unwrap_or_default();
            found(&repository, digest, OwnTag::Referrers(subject.replace(':', "-")), image);
        }
    }
    Ok(())
}

/// Reads a lock from the record of a registry.
///
/// # Errors
/// Fails when the lock is missing or invalid.
pub(crate) fn read(client: &Client, name: &Reference) -> Result<Lock, MirrorError> {
    let named = |error: MirrorError| error.named(name);
    let image = client.survey_artifacts(std::slice::from_ref(name)).pop();
    let surveyed = image.ok_or(MirrorError::NoResponse)?.map_err(|error| named(error.into()))?;
    let options = client.options();
    let parts = image::Parts::of(&options.store, &surveyed.digest, &[], &options.limits)
        .map_err(|error| named(error.into()))?;
    let layer = parts.blobs.into_iter().last().ok_or_else(|| named(MirrorError::NoLockInRecord))?;
    let digest = layer.digest;
    if layer.size > lock::LIMIT {
        return Err(named(MirrorError::LargeRecord));
    }
    if let Some(error) =
        client.fetch_set(vec![image::BlobRequest { blob: layer, from: vec![name.clone().into()] }]).remove(&digest)
    {
        return Err(named(error.into()));
    }
    let text = options.store.read(&digest, lock::LIMIT).map_err(|error| named(error.into()))?;
    Lock::read(&text).map_err(|error| named(error.into()))
}
