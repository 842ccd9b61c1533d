//! Removing from a registry what a mirror put there and nobody needs any more.

use std::collections::{BTreeMap, BTreeSet};

use image::{Client, Digest, Reference};

use crate::destination::Target;
use crate::listed::Listed;
use crate::lock::{self, Lock, LockedImage, Role};
use crate::push::{RECORD, record_tag};

/// What is to be removed, and what stays though no set needs it.
#[derive(Debug, Default)]
pub struct Pruning {
    /// Images by digest, and what each is.
    pub images: BTreeMap<String, Listed>,
    /// Sets whose record goes.
    pub sets: Vec<String>,
    /// Images that somebody else named as well, with those names.
    pub foreign: BTreeMap<String, Vec<String>>,
    /// How many sets the registry got.
    pub known: usize,
}

/// Finds what no kept set needs among all that the registry got from mirrors.
///
/// # Errors
/// Fails when the registry does not answer, or a record there makes no sense.
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
    let mut gone: Gone = BTreeMap::new();
    for tag in &tags {
        let Some(name) = record.with_tag(tag) else { continue };
        let lock = read(client, &name)?;
        let is_kept = kept_tags.contains(tag);
        places(&lock, target, |repository, digest, tag, image| {
            ours.entry(repository.name()).or_default().insert(tag.to_owned());
            if !is_kept && !kept.contains(&(repository.name(), digest)) {
                let listed = Listed { source: image.source.clone(), role: image.role };
                gone.insert((repository.name(), digest), (repository.with_digest(digest), listed));
            }
        })?;
        if !is_kept {
            pruning.sets.push(tag.clone());
        }
    }
    spare(client, gone, &ours, &mut pruning)?;
    Ok(pruning)
}

/// Finds what a list names, but for what a kept set needs.
///
/// # Errors
/// Fails when the registry does not answer.
pub fn find_listed(client: &Client, target: &Target, list: &[Reference], keep: &[Lock]) -> Result<Pruning, String> {
    let mut kept: BTreeSet<(String, Digest)> = BTreeSet::new();
    for lock in keep {
        places(lock, target, |repository, digest, _, _| {
            kept.insert((repository.name(), digest));
        })?;
    }
    let mut pruning = Pruning::default();
    let mut ours: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut gone: Gone = BTreeMap::new();
    for (name, outcome) in list.iter().zip(client.are_there(list)) {
        ours.entry(name.name()).or_default().extend(name.tag().map(str::to_owned));
        let Some(digest) = outcome.map_err(|error| format!("{name}: {error}"))? else { continue };
        // A tag of the mirror itself, for images that are named by digest.
        ours.entry(name.name()).or_default().insert(format!("sha256-{}", digest.hex()));
        if !kept.contains(&(name.name(), digest)) {
            let listed = Listed { source: name.to_string(), role: Role::Additional };
            gone.insert((name.name(), digest), (name.with_digest(digest), listed));
        }
    }
    spare(client, gone, &ours, &mut pruning)?;
    Ok(pruning)
}

/// What goes, by repository and digest.
type Gone = BTreeMap<(String, Digest), (Reference, Listed)>;

/// Leaves images out that others have given a name.
fn spare(
    client: &Client,
    gone: Gone,
    ours: &BTreeMap<String, BTreeSet<String>>,
    pruning: &mut Pruning,
) -> Result<(), String> {
    let mut names: BTreeMap<(String, Digest), Vec<String>> = BTreeMap::new();
    let repositories: BTreeSet<&String> = gone.keys().map(|(repository, _)| repository).collect();
    for repository in repositories {
        let reference = Reference::parse_name(repository).map_err(|error| error.to_string())?;
        let all = client.tags(&reference).map_err(|error| error.to_string())?;
        let own = ours.get(repository).cloned().unwrap_or_default();
        let others: Vec<Reference> =
            all.iter().filter(|tag| !own.contains(*tag)).filter_map(|tag| reference.with_tag(tag)).collect();
        for (other, outcome) in others.iter().zip(client.are_there(&others)) {
            if let Some(digest) = outcome.map_err(|error| error.to_string())? {
                names.entry((repository.clone(), digest)).or_default().push(other.to_string());
            }
        }
    }
    for (place, (reference, listed)) in gone {
        match names.remove(&place) {
            Some(names) => drop(pruning.foreign.insert(reference.to_string(), names)),
            None => drop(pruning.images.insert(reference.to_string(), listed)),
        }
    }
    Ok(())
}

/// Removes images and the records of sets; returns what stayed, and why.
pub fn remove(client: &Client, target: &Target, pruning: &Pruning) -> Vec<(String, String)> {
    let mut failed = Vec::new();
    let images: Vec<Reference> = pruning.images.keys().filter_map(|image| Reference::parse(image).ok()).collect();
    for (image, outcome) in images.iter().zip(client.remove(&images)) {
        if let Err(error) = outcome {
            failed.push((image.to_string(), error.to_string()));
        }
    }
    // What could not be removed stays on record.
    if !failed.is_empty() {
        return failed;
    }
    let Ok(record) = target.repository(RECORD) else { return failed };
    for tag in &pruning.sets {
        let Some(name) = record.with_tag(tag) else { continue };
        let there = client.are_there(std::slice::from_ref(&name)).pop();
        if let Some(Ok(Some(digest))) = there
            && let Some(Err(error)) = client.remove(&[record.with_digest(digest)]).pop()
        {
            failed.push((name.to_string(), error.to_string()));
        }
    }
    failed
}

/// Goes through all images of a set at a registry: repository, digest, tag, and what it belongs to.
fn places(
    lock: &Lock,
    target: &Target,
    mut found: impl FnMut(&Reference, Digest, &str, &LockedImage),
) -> Result<(), String> {
    for image in &lock.images {
        let repository = target.repository(&image.path)?;
        found(&repository, image.digest()?, &image.tag, image);
        for referrer in &image.referrers {
            let digest = referrer.digest.parse().map_err(|_| format!("{:?} is no digest", referrer.digest))?;
            found(&repository, digest, referrer.tag.as_deref().unwrap_or_default(), image);
            // The list of a registry that has no other.
            let subject = referrer.subject.as_deref().unwrap_or_default();
            found(&repository, digest, &subject.replace(':', "-"), image);
        }
    }
    Ok(())
}

/// Reads a lock that a registry has on record.
///
/// # Errors
/// Fails when it is not there, or makes no sense.
pub fn read(client: &Client, name: &Reference) -> Result<Lock, String> {
    let named = |error: String| format!("{name}: {error}");
    let image = client.survey(&[(name.clone(), Vec::new())], false).pop();
    let surveyed = image.ok_or("no answer")?.map_err(|error| named(error.to_string()))?;
    let options = client.options();
    let parts = image::Parts::of(&options.store, &surveyed.digest, &[], &options.limits)
        .map_err(|error| named(error.to_string()))?;
    let layer = parts.blobs.into_iter().last().ok_or_else(|| named("it holds no lock".to_owned()))?;
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
