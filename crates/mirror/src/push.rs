//! Pushes a set to a registry: blobs, manifests, referrers, tags, and catalogs last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use image::{
    BlobPush, BlobPushSummary, BlobSource, Client, Descriptor, Digest, Manifest, ManifestPush, Reference, Store,
    media_type,
};

use crate::destination::Target;
use crate::error::parse_digest;
use crate::lock::{Lock, LockedImage, Role};
use crate::preflight;
use crate::report::{Cause, Missing};
use crate::set::Contents;
use crate::verify::missing;
use crate::{MirrorError, TargetError};

/// The repository that records the sets of a registry.
pub const RECORD: &str = "opm-mirror-locks";
/// The media type of a recorded lock.
const RECORD_TYPE: &str = "application/vnd.opm.mirror.lock.v1+json";

/// The result of a push.
#[derive(Debug, Default)]
pub struct Pushed {
    /// The transfer counts.
    pub delivered: BlobPushSummary,
    /// What is missing at the registry.
    pub missing: Vec<Missing>,
    /// Whether the catalogs are tagged, which is the last step.
    pub complete: bool,
}

/// Returns the destination repository of an image.
fn place(target: &Target, image: &LockedImage) -> Result<Reference, TargetError> {
    target.repository(&image.path)
}

/// Returns the target repositories of each blob.
///
/// # Errors
/// Fails when a path is invalid at this registry, or different images have the same destination.
pub fn blob_pushes(lock: &Lock, contents: &Contents, target: &Target) -> Result<Vec<BlobPush>, MirrorError> {
    preflight::paths(lock, target)?;
    let mut to: BTreeMap<Digest, BTreeMap<String, Reference>> = BTreeMap::new();
    let mut names: BTreeMap<(String, &str), &LockedImage> = BTreeMap::new();
    for (image, parts) in lock.images.iter().zip(&contents.by_image) {
        let repository = place(target, image)?;
        let name = (repository.name(), image.tag.as_str());
        if let Some(other) = names.insert(name, image)
            && other.digest != image.digest
        {
            let (one, two) = (other.source.clone(), image.source.clone());
            let (name, tag) = (repository.name(), image.tag.clone());
            return Err(MirrorError::SameDestination { one, two, name, tag });
        }
        for part in parts.iter().filter(|part| contents.blobs.contains_key(part)) {
            to.entry(*part).or_default().insert(repository.name(), repository.clone());
        }
    }
    let all = to.into_iter().filter_map(|(digest, to)| {
        let blob = contents.blobs.get(&digest)?.clone();
        Some(BlobPush { blob, to: to.into_values().collect(), mount_from: None })
    });
    Ok(all.collect())
}

/// A set and a registry that passed the checks.
pub struct Ready<'a> {
    client: &'a Client,
    aside: &'a Client,
    lock: &'a Lock,
    contents: &'a Contents,
    target: &'a Target,
    blob_pushes: Vec<BlobPush>,
    /// Notes for the user before the transfer.
    pub notes: Vec<String>,
}

/// Checks that a set can be pushed to a registry. Manifests must be in the client's store. Blobs in `mount_from` are in
/// another repository of the registry. New blobs are written to the store of `aside`, because the set may be on a
/// read-only medium.
///
/// # Errors
/// Fails when a check fails. Nothing is sent then.
pub fn ready<'a>(
    client: &'a Client,
    aside: &'a Client,
    lock: &'a Lock,
    contents: &'a Contents,
    target: &'a Target,
    mount_from: &BTreeMap<Digest, Reference>,
) -> Result<Ready<'a>, MirrorError> {
    let mut blob_pushes = blob_pushes(lock, contents, target)?;
    for push in &mut blob_pushes {
        push.mount_from = mount_from.get(&push.blob.digest).cloned();
    }
    preflight::registry(aside, lock, target)?;
    let notes = preflight::mounts(aside, target, &blob_pushes)?;
    Ok(Ready { client, aside, lock, contents, target, blob_pushes, notes })
}

impl Ready<'_> {
    /// Pushes everything to the registry.
    ///
    /// Catalogs are tagged after everything else, so clients see either the old set or the new one.
    ///
    /// # Errors
    /// Fails when the lock is invalid or the set cannot be recorded.
    pub fn send(self, supply: BlobSource) -> Result<Pushed, MirrorError> {
        let Ready { client, aside, lock, contents, target, blob_pushes, notes: _ } = self;
        let mut pushed = push(client, lock, contents, target, blob_pushes, supply)?;
        if pushed.missing.is_empty() {
            record(aside, lock, target)?;
            pushed.complete = true;
        }
        Ok(pushed)
    }
}

fn push(
    client: &Client,
    lock: &Lock,
    contents: &Contents,
    target: &Target,
    blob_pushes: Vec<BlobPush>,
    supply: BlobSource,
) -> Result<Pushed, MirrorError> {
    let mut pushed = Pushed { delivered: client.push_blobs(blob_pushes, supply), ..Pushed::default() };
    let mut failed: BTreeMap<usize, Cause> = BTreeMap::new();
    for (number, parts) in contents.by_image.iter().enumerate() {
        if let Some(error) = parts.iter().find_map(|part| pushed.delivered.failed.get(part)) {
            failed.insert(number, error.into());
        }
    }
    let is_catalog = |number: &usize| lock.images[*number].role == Role::Catalog;
    let images: Vec<usize> = (0..lock.images.len()).filter(|number| !is_catalog(number)).collect();
    send(client, lock, target, &images, &mut failed)?;
    // A catalog must not reference missing images.
    if failed.is_empty() {
        let catalogs: Vec<usize> = (0..lock.images.len()).filter(is_catalog).collect();
        send(client, lock, target, &catalogs, &mut failed)?;
    }
    for (number, cause) in failed {
        pushed.missing.push(missing(&lock.images[number], cause));
    }
    Ok(pushed)
}

/// Pushes manifests, referrers and tags, in this order.
fn send(
    client: &Client,
    lock: &Lock,
    target: &Target,
    numbers: &[usize],
    failed: &mut BTreeMap<usize, Cause>,
) -> Result<(), MirrorError> {
    let mut groups: BTreeMap<(String, Digest), Vec<usize>> = BTreeMap::new();
    for number in numbers.iter().filter(|number| !failed.contains_key(number)) {
        let image = &lock.images[*number];
        groups.entry((place(target, image)?.name(), image.digest()?)).or_default().push(*number);
    }
    let groups: Vec<Vec<usize>> = groups.into_values().collect();
    let mut sent = Vec::new();
    for group in &groups {
        let image = &lock.images[group[0]];
        sent.push(ManifestPush {
            to: place(target, image)?,
            image: image.digest()?,
            platforms: image.platforms(),
            subject: None,
        });
    }
    note(&groups, client.push_manifests(&sent), failed);
    // Registries without the referrers API need a read-modify-write of an index, so referrers are pushed
    // sequentially.
    let longest = lock.images.iter().map(|image| image.referrers.len()).max().unwrap_or_default();
    for turn in 0..longest {
        let (mut own, mut sent) = (Vec::new(), Vec::new());
        for group in groups.iter().filter(|group| !failed.contains_key(&group[0])) {
            let image = &lock.images[group[0]];
            let Some(referrer) = image.referrers.get(turn) else { continue };
            sent.push(ManifestPush {
                to: place(target, image)?,
                image: parse_digest(&referrer.digest)?,
                platforms: Vec::new(),
                subject: referrer.subject.as_deref().map(parse_digest).transpose()?,
            });
            own.push(group.clone());
        }
        note(&own, client.push_manifests(&sent), failed);
    }
    let (mut own, mut names) = (Vec::new(), Vec::new());
    for number in groups.iter().flatten().filter(|number| !failed.contains_key(number)) {
        let image = &lock.images[*number];
        let repository = place(target, image)?;
        let tags = image.referrers.iter().filter_map(|it| Some((it.tag.as_ref()?, &it.digest)));
        for (tag, digest) in tags.chain([(&image.tag, &image.digest)]) {
            let name = repository.with_tag(tag).ok_or_else(|| MirrorError::Tag(tag.clone()))?;
            names.push((name, parse_digest(digest)?));
            own.push(vec![*number]);
        }
    }
    note(&own, client.push_tags(&names), failed);
    Ok(())
}

fn note(groups: &[Vec<usize>], outcomes: Vec<Result<(), image::Error>>, failed: &mut BTreeMap<usize, Cause>) {
    for (group, outcome) in groups.iter().zip(outcomes) {
        if let Err(error) = outcome {
            failed.extend(group.iter().map(|number| (*number, Cause::from(&error))));
        }
    }
}

/// Finds blobs in repositories that earlier sets filled.
///
/// # Errors
/// Fails when the registry does not respond.
pub fn elsewhere(
    client: &Client,
    target: &Target,
    blobs: &[Descriptor],
) -> Result<BTreeMap<Digest, Reference>, MirrorError> {
    let record = target.repository(RECORD)?;
    let mut repositories: BTreeMap<String, Reference> = BTreeMap::from([(record.name(), record.clone())]);
    for tag in client.tags(&record)? {
        let Some(name) = record.with_tag(&tag) else { continue };
        for image in &crate::prune::read(client, &name)?.images {
            let repository = place(target, image)?;
            repositories.insert(repository.name(), repository);
        }
    }
    let to: Vec<Reference> = repositories.into_values().collect();
    let asked: Vec<BlobPush> =
        blobs.iter().map(|blob| BlobPush { blob: blob.clone(), to: to.clone(), mount_from: None }).collect();
    let mut found = BTreeMap::new();
    for (push, outcome) in asked.iter().zip(client.missing_from(&asked)) {
        let absent = outcome?;
        if let Some(has) = to.iter().find(|to| !absent.contains(to)) {
            found.insert(push.blob.digest, has.clone());
        }
    }
    Ok(found)
}

/// Records the lock in the registry, to identify the mirror's images later.
fn record(client: &Client, lock: &Lock, target: &Target) -> Result<(), MirrorError> {
    let store = &client.options().store;
    let text = lock.to_text();
    let (digest, blobs) = record_image(store, &text)?;
    let to = target.repository(RECORD)?;
    let blob_pushes = blobs.into_iter().map(|blob| BlobPush { blob, to: vec![to.clone()], mount_from: None }).collect();
    let sent = client.push_blobs(blob_pushes, BlobSource::Store);
    if let Some(error) = sent.failed.into_values().next() {
        return Err(MirrorError::Recording(error));
    }
    let tag = record_tag(lock);
    let tag = to.with_tag(&tag).ok_or(MirrorError::Tag(tag))?;
    match client.push_tags(&[(tag, digest)]).pop() {
        Some(Err(error)) => Err(MirrorError::Recording(error)),
        _ => Ok(()),
    }
}

/// Returns the tag of a recorded lock.
pub(crate) fn record_tag(lock: &Lock) -> String {
    format!("sha256-{}", lock.digest().hex())
}

/// Stores the empty config blob of records.
pub(crate) fn empty(store: &Store) -> std::io::Result<Descriptor> {
    store.put(b"{}")?;
    Ok(Descriptor::of("application/vnd.oci.empty.v1+json", b"{}"))
}

fn record_image(store: &Store, text: &str) -> std::io::Result<(Digest, Vec<Descriptor>)> {
    let config = empty(store)?;
    store.put(text.as_bytes())?;
    let layer = Descriptor::of(RECORD_TYPE, text.as_bytes());
    let manifest = Manifest {
        schema_version: 2,
        media_type: Some(media_type::OCI_MANIFEST.into()),
        config: config.clone(),
        layers: vec![layer.clone()],
        annotations: BTreeMap::new(),
        other: [("artifactType".to_owned(), RECORD_TYPE.into())].into_iter().collect(),
    };
    let digest = store.put(&serde_json::to_vec(&manifest).map_err(std::io::Error::other)?)?;
    Ok((digest, vec![config, layer]))
}

/// Returns the source images of each blob, for a copy without a directory.
pub fn sources(lock: &Lock, contents: &Contents) -> HashMap<Digest, Vec<Arc<Reference>>> {
    let mut from: HashMap<Digest, Vec<Arc<Reference>>> = HashMap::new();
    for (image, parts) in lock.images.iter().zip(&contents.by_image) {
        let Ok(reference) = Reference::parse(image.source.trim_start_matches("docker://")) else { continue };
        let reference = Arc::new(reference);
        let mut seen = BTreeSet::new();
        for part in parts.iter().filter(|part| seen.insert(**part)) {
            let all = from.entry(*part).or_default();
            if all.len() < 4 {
                all.reserve_exact(1);
                all.push(Arc::clone(&reference));
            }
        }
    }
    from
}
