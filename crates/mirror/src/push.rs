//! Pushes a set to a registry: blobs, manifests, referrers, tags, and catalogs last.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use image::{
    BlobPush, BlobPushSummary, BlobSource, Client, Descriptor, Digest, ImageManifest, ManifestPush, Parts, Reference,
    Store, media_type,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::destination::MirrorDestination;
use crate::error::parse_digest;
use crate::lock::{Lock, LockedImage, Role};
use crate::policy;
use crate::preflight;
use crate::report::{Cause, MissingImage};
use crate::session::MirrorSession;
use crate::set::{Inventory, MissingManifests, SetDir};
use crate::verify::{by_image, missing};
use crate::volume::{VolumeError, Volumes};
use crate::{DestinationError, MirrorError};

/// The repository that records the sets of a registry.
pub(crate) const RECORD: &str = "opm-mirror-locks";
/// The media type of a recorded lock.
const RECORD_TYPE: &str = "application/vnd.opm.mirror.lock.v1+json";
/// The transferred blobs of a push.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PushedBlobs {
    /// The number of sent blobs.
    pub blobs: usize,
    /// Their size.
    pub bytes: u64,
    /// The number of blobs that the registry took over from another of its repositories.
    pub mounted: usize,
    /// The number of blobs that were there.
    pub present: usize,
}

/// What a push or a copy did.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushReport {
    /// The digest of the lock; `None` if images are missing before the lock is made.
    pub lock: Option<String>,
    /// The transferred blobs; `None` if nothing was sent.
    pub sent: Option<PushedBlobs>,
    /// What is missing at the registry.
    pub missing: Vec<MissingImage>,
    /// Whether the catalogs are tagged, which is the last step.
    pub complete: bool,
}

/// How a set is pushed.
pub struct PushOptions<'a> {
    /// The expected digest of the lock.
    pub expected: Option<&'a str>,
    /// Whether the policy is enforced, with the signatures in the set.
    pub enforce_policy: bool,
}

/// Where a set is: a directory or volumes. Nothing but the lock is read yet.
pub struct SetPlace {
    lock: Lock,
    kind: PlaceKind,
}

enum PlaceKind {
    Directory(PathBuf),
    Volumes(Volumes),
}

impl SetPlace {
    /// Opens a directory or volumes.
    ///
    /// # Errors
    /// Fails when the set is incomplete, or the volumes are damaged.
    pub fn open(paths: &[PathBuf]) -> Result<SetPlace, MirrorError> {
        if let [only] = paths
            && only.join("oci-layout").is_file()
        {
            let set = SetDir::existing(only)?;
            let lock = set.lock().map_err(|error| MirrorError::IncompleteSet(Box::new(error)))?;
            return Ok(SetPlace { lock, kind: PlaceKind::Directory(only.clone()) });
        }
        let volumes = Volumes::open(paths)?;
        let lock = Lock::read(&volumes.read("mirror/lock.json")?)?;
        match lock.digest() == volumes.lock {
            true => Ok(SetPlace { lock, kind: PlaceKind::Volumes(volumes) }),
            false => Err(VolumeError::OtherLock.into()),
        }
    }

    /// Returns a store with the set that writes to another directory: the set may be on a read-only medium.
    ///
    /// # Errors
    /// Fails when the other directory cannot be written.
    pub fn store(&self, scratch: &Path) -> Result<Store, MirrorError> {
        let store = Store::open(scratch)?;
        Ok(match &self.kind {
            PlaceKind::Directory(below) => store.over(below),
            PlaceKind::Volumes(_) => store,
        })
    }
}

/// A set whose manifests are in the store of a session.
pub struct MirrorSet {
    /// Its lock.
    pub lock: Lock,
    /// Its parts.
    pub inventory: Inventory,
    /// `None` for a directory, whose blobs are in the store.
    pub(crate) volumes: Option<Volumes>,
}

impl MirrorSet {
    /// Reads the manifests of a set, in a session with the store of its place.
    ///
    /// # Errors
    /// Fails when a manifest is missing or damaged.
    pub fn read(place: SetPlace, session: &MirrorSession<'_>) -> Result<MirrorSet, MirrorError> {
        let SetPlace { lock, kind } = place;
        let (store, limits) = (session.store(), &session.client.options().limits);
        let volumes = match kind {
            PlaceKind::Directory(_) => {
                let inventory = Inventory::of(store, &lock.images, limits)?;
                return Ok(MirrorSet { lock, inventory, volumes: None });
            }
            PlaceKind::Volumes(volumes) => volumes,
        };
        let tops: Vec<Digest> = lock.images.iter().flat_map(LockedImage::tops).collect();
        volumes.import(tops.iter().copied(), image::MANIFEST_LIMIT, store)?;
        // Indexes reference more manifests.
        let inventory = loop {
            match Inventory::of(store, &lock.images, limits) {
                Ok(inventory) => break inventory,
                Err(missing) => import_children(&volumes, &tops, store, missing)?,
            }
        };
        Ok(MirrorSet { lock, inventory, volumes: Some(volumes) })
    }

    /// Returns whether the directory or the volumes have a blob.
    pub(crate) fn has(&self, digest: &Digest, session: &MirrorSession<'_>) -> bool {
        match &self.volumes {
            Some(volumes) => volumes.blobs().contains_key(digest),
            None => session.store().has_name(digest),
        }
    }

    fn supply(&self) -> BlobSource {
        match &self.volumes {
            Some(volumes) => BlobSource::Files(volumes.blobs().clone()),
            None => BlobSource::Store,
        }
    }

    /// Checks the images against the policy, with the signatures in the set, before anything is sent.
    fn check_policy(&self, options: &PushOptions<'_>, session: &MirrorSession<'_>) -> Result<(), MirrorError> {
        let lock = &self.lock;
        if !options.enforce_policy {
            let sources: Vec<Reference> = lock.images.iter().filter_map(policy::source).collect();
            session.notes(policy::ignored(session.client, sources.iter()).as_slice());
            return Ok(());
        }
        if let Some(volumes) = &self.volumes {
            let (store, limits) = (session.store(), &session.client.options().limits);
            let signatures = lock.images.iter().flat_map(policy::signatures);
            let parts = signatures.filter_map(|(_, digest)| Parts::of(store, &digest, &[], limits).ok());
            let payloads = parts.flat_map(|parts| parts.blobs).map(|blob| blob.digest);
            volumes.import(payloads, image::MANIFEST_LIMIT, store)?;
        }
        let refused = policy::refused(session.client, lock);
        if !refused.is_empty() {
            session.progress.missing(&refused);
            return Err(MirrorError::PolicyRefused);
        }
        if options.expected.is_none() && lock.images.iter().any(|image| policy::is_built(lock, image)) {
            session.progress.note(
                "catalogs that the set filtered have no signature and are not checked; --expect checks the whole set",
            );
        }
        Ok(())
    }

    /// Checks that every blob is available locally or in the registry, before anything is sent. Returns those that are
    /// in other repositories of the registry.
    fn check_complete(
        &self,
        target: &MirrorDestination,
        session: &MirrorSession<'_>,
    ) -> Result<BTreeMap<Digest, Reference>, MirrorError> {
        let client = session.client;
        let all = blob_pushes(&self.lock, &self.inventory, target)?;
        let lacking: Vec<_> = all.into_iter().filter(|push| !self.has(&push.blob.digest, session)).collect();
        if lacking.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut bad: BTreeMap<Digest, Cause> = BTreeMap::new();
        let mut absent = Vec::new();
        for (push, outcome) in lacking.iter().zip(client.missing_from(&lacking)) {
            match outcome {
                // One repository with the blob is enough: the others mount it from there.
                Ok(absent) if absent.len() < push.to.len() => {}
                Ok(_) => absent.push(push.blob.clone()),
                Err(error) => drop(bad.insert(push.blob.digest, (&error).into())),
            }
        }
        let near = match absent.is_empty() {
            true => BTreeMap::new(),
            false => elsewhere(client, target, &absent)?,
        };
        for blob in absent.iter().filter(|blob| !near.contains_key(&blob.digest)) {
            bad.insert(blob.digest, format!("{} is neither available locally nor in the registry", blob.digest).into());
        }
        if bad.is_empty() {
            return Ok(near);
        }
        session.progress.missing(&by_image(&self.lock.images, &self.inventory, &bad));
        let (volumes, since) =
            self.volumes.as_ref().map(|it| (it.absent.clone(), it.since.clone())).unwrap_or_default();
        Err(MirrorError::MissingBlobs { blobs: bad.len(), volumes, since, target: target.to_string() })
    }
}

fn import_children(
    volumes: &Volumes,
    tops: &[Digest],
    store: &Store,
    missing: MissingManifests,
) -> Result<(), MirrorError> {
    let mut children = Vec::new();
    for top in tops {
        let content = store.read(top, image::MANIFEST_LIMIT).unwrap_or_default();
        if let Ok(index) = serde_json::from_slice::<image::ImageIndex>(&content) {
            children.extend(index.manifests.into_iter().map(|image| image.digest));
        }
    }
    children.retain(|digest| volumes.blobs().contains_key(digest) && !store.has_name(digest));
    match children.is_empty() {
        true => Err(MirrorError::ManifestsInVolumes(missing)),
        false => Ok(volumes.import(children.into_iter(), image::MANIFEST_LIMIT, store)?),
    }
}

/// Checks the digest of a lock against the expected one.
pub(crate) fn check_expected(lock: &Lock, expected: Option<&str>) -> Result<(), MirrorError> {
    let found = lock.digest();
    match expected.filter(|expected| *expected != found.to_string()) {
        Some(expected) => Err(MirrorError::OtherSet { found, expected: expected.to_owned() }),
        None => Ok(()),
    }
}

/// Pushes a set to a registry. Catalogs are tagged after everything else, so clients see either the old set or the new
/// one.
///
/// # Errors
/// Fails when a check fails, and sends nothing then, or when the set cannot be recorded. Images that do not arrive are
/// part of the report.
pub fn push(
    set: &MirrorSet,
    target: &MirrorDestination,
    options: &PushOptions<'_>,
    session: &MirrorSession<'_>,
) -> Result<PushReport, MirrorError> {
    check_expected(&set.lock, options.expected)?;
    set.check_policy(options, session)?;
    let near = set.check_complete(target, session)?;
    let total = set.inventory.blobs.values().map(|blob| blob.size).sum();
    let ready = Ready::check(&set.lock, &set.inventory, target, &near, session)?;
    ready.send("sending", total, set.supply())
}

/// Sends the blobs of some volumes, without manifests and tags.
///
/// # Errors
/// Fails when the registry cannot mount the blobs later, or a blob cannot be sent.
pub fn push_part(
    paths: &[PathBuf],
    target: &MirrorDestination,
    session: &MirrorSession<'_>,
) -> Result<PushReport, MirrorError> {
    let volumes = Volumes::open(paths)?;
    preflight::parts(session.client, target)?;
    // Without the lock, the repositories of the blobs are unknown: send all to one repository and mount them later.
    let to = target.repository(RECORD)?;
    let pushes: Vec<BlobPush> = volumes
        .blobs()
        .iter()
        .map(|(digest, pieces)| {
            let size = pieces.iter().map(|piece| piece.size).sum();
            let blob = Descriptor::new("application/octet-stream", *digest, size);
            BlobPush { blob, to: vec![to.clone()], mount_from: None }
        })
        .collect();
    let running = session.progress.transfer("sending", pushes.iter().map(|push| push.blob.size).sum());
    let sent = session.client.push_blobs(pushes, BlobSource::Files(volumes.blobs().clone()));
    drop(running);
    let counts = PushedBlobs::from(&sent);
    match sent.failed.into_iter().next() {
        Some((digest, source)) => Err(MirrorError::Blob { digest, source }),
        None => {
            let lock = Some(volumes.lock.to_string());
            Ok(PushReport { lock, sent: Some(counts), missing: Vec::new(), complete: false })
        }
    }
}

impl From<&BlobPushSummary> for PushedBlobs {
    fn from(sent: &BlobPushSummary) -> PushedBlobs {
        PushedBlobs { blobs: sent.sent, bytes: sent.bytes, mounted: sent.mounted, present: sent.known }
    }
}

/// Returns the destination repository of an image.
fn place(target: &MirrorDestination, image: &LockedImage) -> Result<Reference, DestinationError> {
    target.repository(&image.path)
}

/// Returns the target repositories of each blob.
///
/// # Errors
/// Fails when a path is invalid at this registry, or different images have the same destination.
pub(crate) fn blob_pushes(
    lock: &Lock,
    inventory: &Inventory,
    target: &MirrorDestination,
) -> Result<Vec<BlobPush>, MirrorError> {
    preflight::paths(lock, target)?;
    let mut to: BTreeMap<Digest, BTreeMap<String, Reference>> = BTreeMap::new();
    let mut names: BTreeMap<(String, &str), &LockedImage> = BTreeMap::new();
    for (image, parts) in lock.images.iter().zip(&inventory.by_image) {
        let repository = place(target, image)?;
        let name = (repository.name(), image.tag.as_str());
        if let Some(other) = names.insert(name, image)
            && other.digest != image.digest
        {
            let (one, two) = (other.source.clone(), image.source.clone());
            let (name, tag) = (repository.name(), image.tag.clone());
            return Err(MirrorError::SameDestination { one, two, name, tag });
        }
        for part in parts.iter().filter(|part| inventory.blobs.contains_key(part)) {
            to.entry(*part).or_default().insert(repository.name(), repository.clone());
        }
    }
    let all = to.into_iter().filter_map(|(digest, to)| {
        let blob = inventory.blobs.get(&digest)?.clone();
        Some(BlobPush { blob, to: to.into_values().collect(), mount_from: None })
    });
    Ok(all.collect())
}

/// A set and a registry that passed the checks.
pub(crate) struct Ready<'a> {
    session: &'a MirrorSession<'a>,
    lock: &'a Lock,
    inventory: &'a Inventory,
    target: &'a MirrorDestination,
    blob_pushes: Vec<BlobPush>,
}

impl<'a> Ready<'a> {
    /// Checks that a set can be pushed to a registry. Manifests must be in the store of the session. Blobs in `mount_from`
    /// are in another repository of the registry.
    ///
    /// # Errors
    /// Fails when a check fails. Nothing is sent then.
    pub(crate) fn check(
        lock: &'a Lock,
        inventory: &'a Inventory,
        target: &'a MirrorDestination,
        mount_from: &BTreeMap<Digest, Reference>,
        session: &'a MirrorSession<'a>,
    ) -> Result<Ready<'a>, MirrorError> {
        let mut blob_pushes = blob_pushes(lock, inventory, target)?;
        for push in &mut blob_pushes {
            push.mount_from = mount_from.get(&push.blob.digest).cloned();
        }
        preflight::registry(session.client, lock, target)?;
        session.notes(&preflight::mounts(session.client, target, &blob_pushes)?);
        Ok(Ready { session, lock, inventory, target, blob_pushes })
    }

    /// Pushes everything to the registry, and records the set there.
    ///
    /// # Errors
    /// Fails when the lock is invalid or the set cannot be recorded.
    pub(crate) fn send(self, doing: &'static str, total: u64, supply: BlobSource) -> Result<PushReport, MirrorError> {
        let Ready { session, lock, inventory, target, blob_pushes } = self;
        let _running = session.progress.transfer(doing, total);
        let (sent, missing) = send_all(session.client, lock, inventory, target, blob_pushes, supply)?;
        let complete = missing.is_empty();
        if complete {
            record(session.client, lock, target)?;
        }
        Ok(PushReport { lock: Some(lock.digest().to_string()), sent: Some(sent), missing, complete })
    }
}

/// Pushes blobs, then images, then catalogs. Returns what is missing then.
fn send_all(
    client: &Client,
    lock: &Lock,
    inventory: &Inventory,
    target: &MirrorDestination,
    blob_pushes: Vec<BlobPush>,
    supply: BlobSource,
) -> Result<(PushedBlobs, Vec<MissingImage>), MirrorError> {
    let delivered = client.push_blobs(blob_pushes, supply);
    let mut failed: BTreeMap<usize, Cause> = BTreeMap::new();
    for (number, parts) in inventory.by_image.iter().enumerate() {
        if let Some(error) = parts.iter().find_map(|part| delivered.failed.get(part)) {
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
    let missing = failed.into_iter().map(|(number, cause)| missing(&lock.images[number], cause)).collect();
    Ok(((&delivered).into(), missing))
}

/// Pushes manifests, referrers and tags, in this order.
fn send(
    client: &Client,
    lock: &Lock,
    target: &MirrorDestination,
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
fn elsewhere(
    client: &Client,
    target: &MirrorDestination,
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
fn record(client: &Client, lock: &Lock, target: &MirrorDestination) -> Result<(), MirrorError> {
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
    let manifest = ImageManifest {
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
pub(crate) fn sources(lock: &Lock, inventory: &Inventory) -> HashMap<Digest, Vec<Arc<Reference>>> {
    let mut from: HashMap<Digest, Vec<Arc<Reference>>> = HashMap::new();
    for (image, parts) in lock.images.iter().zip(&inventory.by_image) {
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
