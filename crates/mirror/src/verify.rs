//! Verifies that a set is complete and undamaged: in a directory, in volumes, or in a registry.

use std::collections::{BTreeMap, BTreeSet};

use image::{BlobRequest, Client, Digest, Reference, Store};
use schemars::JsonSchema;
use serde::Serialize;

use crate::MirrorError;
use crate::destination::MirrorDestination;
use crate::error::parse_digest;
use crate::lock::{Lock, LockedImage};
use crate::push::{MirrorSet, blob_pushes, check_expected};
use crate::report::{Cause, MissingImage};
use crate::session::MirrorSession;
use crate::set::Inventory;

/// The state of a set.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyReport {
    /// The digest of the lock.
    pub lock: String,
    /// The number of images of the lock.
    pub images: usize,
    /// The missing and the damaged images.
    pub missing: Vec<MissingImage>,
    /// Damage that belongs to no image.
    pub damage: Vec<String>,
    /// The sizes of the undamaged parts.
    #[serde(skip)]
    pub have: BTreeMap<Digest, u64>,
}

impl VerifyReport {
    /// Returns whether the set is complete and undamaged.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.damage.is_empty()
    }

    /// Returns the undamaged parts as a list for `--have`.
    pub fn list(&self) -> String {
        self.have.iter().map(|(digest, size)| format!("{digest} {size}\n")).collect()
    }
}

/// Verifies a directory or volumes by hashing everything.
///
/// # Errors
/// Fails when the set is another one.
pub fn verify_set(
    set: &MirrorSet,
    expected: Option<&str>,
    session: &MirrorSession<'_>,
) -> Result<VerifyReport, MirrorError> {
    let MirrorSet { lock, inventory, volumes } = set;
    check_expected(lock, expected)?;
    let mut bad: BTreeMap<Digest, String> = BTreeMap::new();
    let mut damage = Vec::new();
    match volumes {
        None => bad = damaged(session.store(), inventory),
        Some(volumes) => {
            for (digest, error) in volumes.check() {
                match inventory.contains(&digest) {
                    true => drop(bad.insert(digest, error)),
                    false => damage.push(error),
                }
            }
            // A delta volume lacks the blobs of the other side, so only absent volumes count as damage.
            if !volumes.absent.is_empty() {
                damage.push(format!("missing volumes {:?}", volumes.absent));
                for digest in inventory.blobs.keys().filter(|digest| !set.has(digest, session)) {
                    bad.entry(*digest).or_insert_with(|| format!("{digest} is not in the given volumes"));
                }
            }
        }
    }
    let missing = by_image(&lock.images, inventory, &bad);
    let have = parts(inventory, |digest| set.has(digest, session) && !bad.contains_key(digest));
    Ok(VerifyReport { lock: lock.digest().to_string(), images: lock.images.len(), missing, damage, have })
}

/// Verifies that a registry has all of a set; with `deep`, also the content of every blob.
///
/// # Errors
/// Fails when the set is another one, or has no valid destination there.
pub fn verify_registry(
    lock: &Lock,
    target: &MirrorDestination,
    expected: Option<&str>,
    deep: bool,
    session: &MirrorSession<'_>,
) -> Result<VerifyReport, MirrorError> {
    check_expected(lock, expected)?;
    let client = session.client;
    // Fetch the manifests from the registry.
    let (mut wanted, mut artifacts) = (Vec::new(), Vec::new());
    let (mut of, mut of_artifacts) = (Vec::new(), Vec::new());
    for image in &lock.images {
        let repository = target.repository(&image.path)?;
        for (turn, digest) in image.tops().enumerate() {
            if turn == 0 {
                wanted.push((repository.with_digest(digest), image.platforms()));
                of.push(image);
            } else {
                artifacts.push(repository.with_digest(digest));
                of_artifacts.push(image);
            }
        }
    }
    let mut lacking = Vec::new();
    let mut lost: BTreeSet<&str> = BTreeSet::new();
    let surveyed = client.survey(&wanted, false).into_iter().chain(client.survey_artifacts(&artifacts));
    for (image, outcome) in of.into_iter().chain(of_artifacts).zip(surveyed) {
        if let Err(error) = outcome {
            lacking.push(missing(image, &error));
            lost.insert(&image.source);
        }
    }
    let mut rest = lock.clone();
    rest.images.retain(|image| !lost.contains(image.source.as_str()));
    let inventory = Inventory::of(session.store(), &rest.images, &client.options().limits)?;
    let (found, bad) = registry(client, &rest, &inventory, target, deep)?;
    let have = parts(&inventory, |digest| !bad.contains(digest));
    lacking.extend(found);
    let (digest, images) = (lock.digest().to_string(), lock.images.len());
    Ok(VerifyReport { lock: digest, images, missing: lacking, damage: Vec::new(), have })
}

/// Returns the sizes of some parts.
fn parts(inventory: &Inventory, exists: impl Fn(&Digest) -> bool) -> BTreeMap<Digest, u64> {
    let blobs = inventory.blobs.iter().map(|(digest, blob)| (*digest, blob.size));
    let documents = inventory.documents.iter().map(|(digest, size)| (*digest, *size));
    blobs.chain(documents).filter(|(digest, _)| exists(digest)).collect()
}

/// Reports the images affected by damaged or missing parts.
pub(crate) fn by_image<C>(images: &[LockedImage], inventory: &Inventory, bad: &BTreeMap<Digest, C>) -> Vec<MissingImage>
where
    C: Clone + Ord + Into<Cause>,
{
    let mut found = Vec::new();
    for (image, parts) in images.iter().zip(&inventory.by_image) {
        let causes: BTreeSet<&C> = parts.iter().filter_map(|part| bad.get(part)).collect();
        found.extend(causes.into_iter().map(|cause| missing(image, cause.clone())));
    }
    found
}

/// Reports a missing image.
pub(crate) fn missing(image: &LockedImage, cause: impl Into<Cause>) -> MissingImage {
    MissingImage::new(image.source.clone(), None, image.role, image.used_by.clone(), cause.into())
}

/// Returns the damaged and the missing blobs of a store, after hashing all of them.
fn damaged(store: &Store, inventory: &Inventory) -> BTreeMap<Digest, String> {
    let mut bad = BTreeMap::new();
    for (digest, blob) in &inventory.blobs {
        match store.blob(digest) {
            Ok(Some(found)) if found.size() == blob.size => {}
            Ok(None) if !store.has_name(digest) => drop(bad.insert(*digest, format!("{digest} is missing"))),
            Ok(_) => drop(bad.insert(*digest, format!("{digest} is damaged"))),
            Err(error) => drop(bad.insert(*digest, format!("{digest}: {error}"))),
        }
    }
    bad
}

/// Returns what a registry lacks of a set whose manifests are in the store, and the blobs among it.
fn registry(
    client: &Client,
    lock: &Lock,
    inventory: &Inventory,
    target: &MirrorDestination,
    deep: bool,
) -> Result<(Vec<MissingImage>, BTreeSet<Digest>), MirrorError> {
    let mut found = Vec::new();
    let mut asked: Vec<Reference> = Vec::new();
    let mut expected: Vec<(usize, String)> = Vec::new();
    for (number, image) in lock.images.iter().enumerate() {
        let repository = target.repository(&image.path)?;
        let own = std::iter::once((Some(&image.tag), &image.digest));
        let made = image.referrers.iter().map(|referrer| (referrer.tag.as_ref(), &referrer.digest));
        for (tag, digest) in own.chain(made) {
            asked.push(repository.with_digest(parse_digest(digest)?));
            expected.push((number, digest.clone()));
            if let Some(tag) = tag.and_then(|tag| repository.with_tag(tag)) {
                asked.push(tag);
                expected.push((number, digest.clone()));
            }
        }
    }
    for ((reference, (number, digest)), outcome) in asked.iter().zip(&expected).zip(client.current_digests(&asked)) {
        let cause = match outcome {
            Ok(Some(there)) if there.to_string() == *digest => continue,
            Ok(Some(there)) => format!("{reference} has digest {there} instead of {digest}"),
            Ok(None) => format!("{reference} does not exist"),
            Err(error) => {
                found.push(missing(&lock.images[*number], &error));
                continue;
            }
        };
        found.push(missing(&lock.images[*number], cause));
    }
    let pushes = blob_pushes(lock, inventory, target)?;
    let mut bad: BTreeMap<Digest, Cause> = BTreeMap::new();
    for (push, outcome) in pushes.iter().zip(client.missing_from(&pushes)) {
        match outcome {
            Ok(missing_from) if missing_from.is_empty() => {}
            Ok(missing_from) => {
                let names: Vec<String> = missing_from.iter().map(Reference::name).collect();
                let digest = push.blob.digest;
                bad.insert(digest, format!("blob {digest} is not in {}", names.join(", ")).into());
            }
            Err(error) => drop(bad.insert(push.blob.digest, (&error).into())),
        }
    }
    if deep {
        for push in pushes {
            let digest = push.blob.digest;
            let from = push.to.iter().take(1).map(|to| to.with_digest(digest).into()).collect();
            let failed = client.fetch_set(vec![BlobRequest { blob: push.blob, from }]);
            bad.extend(failed.into_iter().map(|(digest, error)| (digest, Cause::from(&error))));
            let _ = std::fs::remove_file(client.options().store.path_of(&digest));
        }
    }
    found.extend(by_image(&lock.images, inventory, &bad));
    found.sort();
    found.dedup();
    Ok((found, bad.into_keys().collect()))
}
