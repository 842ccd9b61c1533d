//! Verifies that a set is complete and undamaged: in a directory, in volumes, or in a registry.

use std::collections::{BTreeMap, BTreeSet};

use image::{Client, Digest, Reference, Store, Wanted};

use crate::MirrorError;
use crate::destination::Target;
use crate::error::parse_digest;
use crate::lock::{Lock, LockedImage};
use crate::push::blob_pushes;
use crate::report::{Cause, Missing};
use crate::set::Contents;

/// Reports the images affected by damaged or missing parts.
pub fn by_image<C>(lock: &Lock, contents: &Contents, bad: &BTreeMap<Digest, C>) -> Vec<Missing>
where
    C: Clone + Ord + Into<Cause>,
{
    let mut found = Vec::new();
    for (image, parts) in lock.images.iter().zip(&contents.by_image) {
        let causes: BTreeSet<&C> = parts.iter().filter_map(|part| bad.get(part)).collect();
        found.extend(causes.into_iter().map(|cause| missing(image, cause.clone())));
    }
    found
}

/// Reports a missing image.
pub fn missing(image: &LockedImage, cause: impl Into<Cause>) -> Missing {
    Missing::new(image.source.clone(), None, image.role, image.used_by.clone(), cause.into())
}

/// Verifies the blobs of a directory by hashing them; those in `elsewhere` may be absent.
pub fn directory(store: &Store, contents: &Contents, elsewhere: &BTreeSet<Digest>) -> BTreeMap<Digest, String> {
    let mut bad = BTreeMap::new();
    for (digest, blob) in contents.blobs.iter().filter(|(digest, _)| !elsewhere.contains(digest)) {
        match store.blob(digest) {
            Ok(Some(found)) if found.size() == blob.size => {}
            Ok(None) if !store.path_of(digest).exists() => drop(bad.insert(*digest, format!("{digest} is missing"))),
            Ok(_) => drop(bad.insert(*digest, format!("{digest} is damaged"))),
            Err(error) => drop(bad.insert(*digest, format!("{digest}: {error}"))),
        }
    }
    bad
}

/// Verifies that a registry has all of a set; with `deep`, also the content of every blob. Returns what is missing,
/// and the blobs among it.
///
/// # Errors
/// Fails when the set has no valid destination there.
pub fn registry(
    client: &Client,
    lock: &Lock,
    contents: &Contents,
    target: &Target,
    deep: bool,
) -> Result<(Vec<Missing>, BTreeSet<Digest>), MirrorError> {
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
    let pushes = blob_pushes(lock, contents, target)?;
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
            let failed = client.fetch_set(vec![Wanted { blob: push.blob, from }]);
            bad.extend(failed.into_iter().map(|(digest, error)| (digest, Cause::from(&error))));
            let _ = std::fs::remove_file(client.options().store.path_of(&digest));
        }
    }
    found.extend(by_image(lock, contents, &bad));
    found.sort();
    found.dedup();
    Ok((found, bad.into_keys().collect()))
}
