//! Deletes images from a registry that a mirror put there and no set needs any more.

use std::collections::{BTreeMap, BTreeSet};

use image::{Client, Digest, Reference};

use crate::destination::Target;
use crate::listed::Listed;
use crate::lock::{self, Lock, LockedImage, Role};
use crate::push::{RECORD, record_tag};

/// The images to delete, and the ones that stay although no set needs them.
#[derive(Debug, Default)]
pub struct Pruning {
    /// The images to delete, by digest.
    pub images: BTreeMap<String, Listed>,
    /// The sets whose record is deleted.
    pub sets: Vec<String>,
    /// Images that also have foreign tags, with those tags.
    pub foreign: BTreeMap<String, Vec<String>>,
    /// The number of sets recorded in the registry.
    pub known: usize,
}

/// Finds the images of recorded sets that no kept set needs.
///
/// # Errors
/// Fails when the registry does not respond or a record is invalid.
pub fn find(client: &Client, target: &Target, keep: &[Lock]) -> Result<Pruning, String> {
    let record = target.repository(RECORD)?;
    let tags = client.tags(&record).map_err(|error| error.to_string())?;
    let kept_tags: BTreeSet<String> = keep.iter().map(record_tag).collect();
    let mut kept: BTreeSet<(String, Digest)> = BTreeSet::new();
    for lock in keep {
        places(lock, target, |repository, digest, _, _| {
            kept.insert((repository.name(), digest));
        })?;
    }
    let mut pruning = Pruning { known: tags.len(), ..Pruning::default() };
    let mut ours: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut deletions: Deletions = BTreeMap::new();
    for tag in &tags {
        let Some(name) = record.with_tag(tag) else { continue };
        let lock = read(client, &name)?;
        let is_kept = kept_tags.contains(tag);
        places(&lock, target, |repository, digest, tag, image| {
            ours.entry(repository.name()).or_default().insert(tag.to_owned());
            if !is_kept && !kept.contains(&(repository.name(), digest)) {
                let listed = Listed { source: image.source.clone(), role: image.role };
                deletions.insert((repository.name(), digest), (repository.with_digest(digest), listed));
            }
        })?;
        if !is_kept {
            pruning.sets.push(tag.clone());
        }
    }
    exclude_foreign(client, deletions, &ours, &mut pruning)?;
    Ok(pruning)
}

/// Finds the images of a list that no kept set needs.
///
/// # Errors
/// Fails when the registry does not respond.
pub fn find_listed(client: &Client, target: &Target, list: &[Reference], keep: &[Lock]) -> Result<Pruning, String> {
    let mut kept: BTreeSet<(String, Digest)> = BTreeSet::new();
    for lock in keep {
        places(lock, target, |repository, digest, _, _| {
            kept.insert((repository.name(), digest));
        })?;
    }
    let mut pruning = Pruning::default();
    let mut ours: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut deletions: Deletions = BTreeMap::new();
    for (name, outcome) in list.iter().zip(client.current_digests(list)) {
        ours.entry(name.name()).or_default().extend(name.tag().map(str::to_owned));
        let Some(digest) = outcome.map_err(|error| format!("{name}: {error}"))? else { continue };
        // The mirror's own tag, for images referenced by digest.
        ours.entry(name.name()).or_default().insert(format!("sha256-{}", digest.hex()));
        if !kept.contains(&(name.name(), digest)) {
            let listed = Listed { source: name.to_string(), role: Role::Additional };
            deletions.insert((name.name(), digest), (name.with_digest(digest), listed));
        }
    }
    exclude_foreign(client, deletions, &ours, &mut pruning)?;
    Ok(pruning)
}

/// The images to delete, by repository and digest.
type Deletions = BTreeMap<(String, Digest), (Reference, Listed)>;

/// Excludes images that have foreign tags.
fn exclude_foreign(
    client: &Client,
    deletions: Deletions,
    ours: &BTreeMap<String, BTreeSet<String>>,
    pruning: &mut Pruning,
) -> Result<(), String> {
    let mut names: BTreeMap<(String, Digest), Vec<String>> = BTreeMap::new();
    let repositories: BTreeSet<&String> = deletions.keys().map(|(repository, _)| repository).collect();
    for repository in repositories {
        let reference = Reference::parse_name(repository).map_err(|error| error.to_string())?;
        let all = client.tags(&reference).map_err(|error| error.to_string())?;
        let own = ours.get(repository).cloned().unwrap_or_default();
        let others: Vec<Reference> =
            all.iter().filter(|tag| !own.contains(*tag)).filter_map(|tag| reference.with_tag(tag)).collect();
        for (other, outcome) in others.iter().zip(client.current_digests(&others)) {
            if let Some(digest) = outcome.map_err(|error| error.to_string())? {
                names.entry((repository.clone(), digest)).or_default().push(other.to_string());
            }
        }
    }
    for (place, (reference, listed)) in deletions {
        match names.remove(&place) {
            Some(names) => drop(pruning.foreign.insert(reference.to_string(), names)),
            None => drop(pruning.images.insert(reference.to_string(), listed)),
        }
    }
    Ok(())
}

/// Deletes images and the records of sets; returns the failures with their reasons.
pub fn remove(client: &Client, target: &Target, pruning: &Pruning) -> Vec<(String, String)> {
    let mut failed = Vec::new();
    let images: Vec<Reference> = pruning.images.keys().filter_map(|image| Reference::parse(image).ok()).collect();
    for (image, outcome) in images.iter().zip(client.remove(&images)) {
        if let Err(error) = outcome {
            failed.push((image.to_string(), error.to_string()));
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
            failed.push((name.to_string(), error.to_string()));
        }
    }
    failed
}

/// Visits all images of a set at a registry: repository, digest, tag, and the image of the lock.
fn places(
    lock: &Lock,
    target: &Target,
    mut found: impl FnMut(&Reference, Digest, &str, &LockedImage),
) -> Result<(), String> {
    for image in &lock.images {
        let repository = target.repository(&image.path)?;
        found(&repository, image.digest()?, &image.tag, image);
        for referrer in &image.referrers {
            let digest = referrer.digest.parse().map_err(|_| format!("{:?} is not a digest", referrer.digest))?;
            found(&repository, digest, referrer.tag.as_deref().unwrap_or_default(), image);
            // The fallback tag of registries without the referrers API.
            let subject = referrer.subject.as_deref().unwrap_or_default();
            found(&repository, digest, &subject.replace(':', "-"), image);
        }
    }
    Ok(())
}

/// Reads a lock from the record of a registry.
///
/// # Errors
/// Fails when the lock is missing or invalid.
pub fn read(client: &Client, name: &Reference) -> Result<Lock, String> {
    let named = |error: String| format!("{name}: {error}");
    let image = client.survey(&[(name.clone(), Vec::new())], false).pop();
    let surveyed = image.ok_or("no response")?.map_err(|error| named(error.to_string()))?;
    let options = client.options();
    let parts = image::Parts::of(&options.store, &surveyed.digest, &[], &options.limits)
        .map_err(|error| named(error.to_string()))?;
    let layer = parts.blobs.into_iter().last().ok_or_else(|| named("it contains no lock".to_owned()))?;
    let digest = layer.digest;
    if layer.size > lock::LIMIT {
        return Err(named("the lock is too large".to_owned()));
    }
    if let Some(error) =
        client.fetch_set(vec![image::Wanted { blob: layer, from: vec![name.clone().into()] }]).remove(&digest)
    {
        return Err(named(error.to_string()));
    }
    let text = options.store.read(&digest, lock::LIMIT).map_err(|error| named(error.to_string()))?;
    Lock::read(&text).map_err(named)
}
