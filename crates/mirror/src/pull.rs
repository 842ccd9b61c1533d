//! Pulls a set: fetches everything that a request needs to a directory, and writes the lock when it is complete.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use image::{BlobRequest, CatalogImages, Descriptor, Digest, Error, ErrorKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::MirrorError;
use crate::catalog::pin;
use crate::known_blobs::KnownBlobs;
use crate::lock::{Lock, LockedImage};
use crate::preflight::{self, SpaceNeed};
use crate::report::{Cause, MissingImage, OnMissing, json};
use crate::request::{MirrorRequest, SelectionOptions, SetRequest};
use crate::selection::MirrorSelection;
use crate::session::MirrorSession;
use crate::set::{Inventory, SetDir};
use crate::verify::by_image;
use crate::volume::{self, CompleteSet, Written};

/// What a pull did.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullReport {
    /// The digest of the lock; `None` if the set is incomplete.
    pub lock: Option<String>,
    /// The number of images.
    pub images: usize,
    /// The number of unique blobs.
    pub blobs: usize,
    /// The total size of all unique parts.
    pub bytes: u64,
    /// The number of blobs that an earlier run moved to volumes, if it was complete already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_volumes: Option<usize>,
    pub missing: Vec<MissingImage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Written>,
}

/// The volumes to write.
#[derive(Debug, Clone)]
pub struct VolumePlan {
    /// The maximum size of each.
    pub size: u64,
    pub directory: PathBuf,
    /// Whether blobs are removed from the set once they are in a volume.
    pub drain: bool,
}

/// How a set is pulled.
pub struct PullOptions<'a> {
    /// How its content is selected.
    pub selection: &'a SelectionOptions,
    /// What the other side has.
    pub have: &'a KnownBlobs,
    /// The volumes that will be written.
    pub volumes: Option<&'a VolumePlan>,
    /// Whether the policy is enforced, so that all images are checked again.
    pub enforce_policy: bool,
}

/// A complete set.
pub struct Pulled {
    lock: Lock,
    inventory: Inventory,
}

impl Pulled {
    /// Writes the volumes of a set.
    ///
    /// # Errors
    /// Fails when a volume cannot be written, or exists with other content.
    pub fn write_volumes(&self, set: &SetDir, plan: &VolumePlan, have: &KnownBlobs) -> Result<Written, MirrorError> {
        let Pulled { lock, inventory } = self;
        let base = have.of(&lock.images, inventory);
        let from = CompleteSet { set, lock, inventory, base: &base };
        volume::write(&from, plan.size, &plan.directory, plan.drain)
    }
}

/// Fetches what a request needs to the directory of a set, which is the store of the session and locked for writing.
/// Returns the set if it is complete.
///
/// # Errors
/// Fails when the request cannot be resolved, or a file cannot be written. Missing images are part of the report.
pub fn pull(
    set: &SetDir,
    request: MirrorRequest,
    text: &[u8],
    options: &PullOptions<'_>,
    images: &dyn CatalogImages,
    session: &MirrorSession<'_>,
) -> Result<(PullReport, Option<Pulled>), MirrorError> {
    let pull = Pull { set, options, images, session, hashed: RefCell::default() };
    let earlier = set.lock().ok();
    let is_same = match (&earlier, &request) {
        (Some(lock), MirrorRequest::Lock(wanted)) => **wanted == *lock,
        (Some(lock), MirrorRequest::Set(request)) => is_current(lock, request, session)?,
        (None, _) => false,
    };
    // The same request and unchanged catalogs give the same selection.
    let request = match earlier {
        Some(lock) if is_same => MirrorRequest::Lock(Box::new(lock)),
        _ => request,
    };
    if let MirrorRequest::Lock(lock) = &request
        && is_same
        && let Some((inventory, moved)) = pull.packed(lock)
    {
        let mut report = report(lock, &inventory);
        report.in_volumes = Some(moved);
        let pulled = match request {
            MirrorRequest::Lock(lock) => Some(Pulled { lock: *lock, inventory }),
            MirrorRequest::Set(_) => None,
        };
        return Ok((report, pulled));
    }
    match pull.fetch(request, text)? {
        Ok(pulled) => Ok((report(&pulled.lock, &pulled.inventory), Some(pulled))),
        Err(missing) => Ok((PullReport { missing, ..PullReport::default() }, None)),
    }
}

fn report(lock: &Lock, inventory: &Inventory) -> PullReport {
    PullReport {
        lock: Some(lock.digest().to_string()),
        images: lock.images.len(),
        blobs: inventory.blobs.len(),
        bytes: inventory.bytes(),
        ..PullReport::default()
    }
}

/// Returns whether a lock is what a request would give: the request is the same, and the catalogs and additional images
/// still have their digests.
fn is_current(lock: &Lock, request: &SetRequest, session: &MirrorSession<'_>) -> Result<bool, MirrorError> {
    if lock.request != request.digest().to_string() {
        return Ok(false);
    }
    for catalog in &request.set.catalogs {
        let Some(digest) = pin(&catalog.source, session)? else { return Ok(false) };
        let source = catalog.source.to_string();
        if !lock.catalogs.iter().any(|it| it.source == source && it.digest == digest.to_string()) {
            return Ok(false);
        }
    }
    for image in &request.set.additional {
        let digest = session.client.head(&image.reference).map(|digest| digest.to_string()).ok();
        let source = image.reference.to_string();
        if !lock.images.iter().any(|it| it.source == source && Some(&it.digest) == digest.as_ref()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The context of a pull.
struct Pull<'a> {
    set: &'a SetDir,
    options: &'a PullOptions<'a>,
    images: &'a dyn CatalogImages,
    session: &'a MirrorSession<'a>,
    /// The content of the volumes of each lock, which takes long to hash.
    hashed: RefCell<BTreeMap<Digest, BTreeSet<Digest>>>,
}

impl Pull<'_> {
    /// Returns the parts of a complete set some or all of whose blobs have moved from the directory to volumes, and the
    /// number of these blobs.
    fn packed(&self, lock: &Lock) -> Option<(Inventory, usize)> {
        // With a policy, all images of the set are checked first.
        if !self.drains() || self.options.enforce_policy {
            return None;
        }
        let store = self.session.store();
        let all = Inventory::of(store, &lock.images, &self.session.client.options().limits).ok()?;
        let packed = self.in_volumes(lock, &all);
        let lacking = all.lacking(store, &lock.images);
        let complete = !lacking.is_empty() && lacking.iter().all(|one| packed.contains(&one.blob.digest));
        complete.then_some((all, lacking.len()))
    }

    /// Returns whether blobs move from the directory to volumes.
    fn drains(&self) -> bool {
        self.options.volumes.is_some_and(|volumes| volumes.drain)
    }

    /// Returns the blobs in the volumes of the set.
    fn in_volumes(&self, lock: &Lock, all: &Inventory) -> BTreeSet<Digest> {
        match self.options.volumes {
            Some(plan) if plan.drain => {
                let have = self.options.have;
                let packed = || volume::packed(&plan.directory, lock, &have.of(&lock.images, all).blobs);
                self.hashed.borrow_mut().entry(lock.digest()).or_insert_with(packed).clone()
            }
            _ => BTreeSet::new(),
        }
    }

    /// Fetches the missing blobs of a set to its directory, and returns the set, or what is missing.
    fn fetch(&self, request: MirrorRequest, text: &[u8]) -> Result<Result<Pulled, Vec<MissingImage>>, MirrorError> {
        let (set, session) = (self.set, self.session);
        let mut on_missing = self.options.selection.missing;
        // Only blobs of an existing lock can have moved to volumes.
        let mut known = None;
        if let MirrorRequest::Lock(lock) = &request {
            if lock.catalogs.iter().all(|catalog| !catalog.image.is_empty()) {
                // A complete lock is final: its bundles without images were dropped before.
                on_missing = OnMissing::Fail;
            }
            known = self.drains().then(|| lock.clone());
        }
        let options = SelectionOptions { missing: on_missing, ..self.options.selection.clone() };
        let mut selection = MirrorSelection::resolve(request, &options, session)?;
        let (store, all) = (session.store(), &selection.inventory);
        let mut wanted = all.lacking(store, &selection.images);
        if let Some(lock) = known {
            let packed = self.in_volumes(&lock, all);
            wanted.retain(|one| !packed.contains(&one.blob.digest));
        }
        self.check_space(&selection.images, all, &wanted)?;
        let mut failed = fetch_blobs(session, wanted);
        if let Some(full) = failed.values().find(|error| error.kind() == ErrorKind::File).cloned() {
            let left = all.lacking(store, &selection.images).iter().map(|one| self.left(&one.blob)).sum();
            return Err(MirrorError::Stopped { source: full, left });
        }
        let causes: BTreeMap<Digest, Cause> =
            failed.drain().map(|(digest, error)| (digest, Cause::from(&error))).collect();
        let failed = by_image(&selection.images, all, &causes);
        selection.settle(failed, on_missing, session)?;
        if !selection.missing.is_empty() {
            set.put("report.json", json(&selection.missing).as_bytes())?;
            return Ok(Err(selection.missing));
        }
        self.finish(selection, text).map(Ok)
    }

    /// Returns the remaining bytes of a blob.
    fn left(&self, blob: &Descriptor) -> u64 {
        let begun = self.set.root().join("partial").join(blob.digest.hex());
        blob.size - begun.metadata().map_or(0, |about| about.len()).min(blob.size)
    }

    /// Checks that the disks have space for the missing blobs and the volumes.
    fn check_space(&self, images: &[LockedImage], all: &Inventory, wanted: &[BlobRequest]) -> Result<(), MirrorError> {
        let to_come: u64 = wanted.iter().map(|one| self.left(&one.blob)).sum();
        let mut needs = vec![SpaceNeed { place: self.set.root().to_owned(), bytes: to_come }];
        if let Some(plan) = self.options.volumes {
            let have = self.options.have.of(images, all).blobs;
            let blobs = all.blobs.values().filter(|blob| !have.contains(&blob.digest));
            let bytes: u64 = blobs.map(|blob| blob.size).sum();
            let bytes = if plan.drain { bytes.min(plan.size) } else { bytes };
            let bytes = bytes.saturating_sub(existing_volumes(&plan.directory));
            needs.push(SpaceNeed { place: plan.directory.clone(), bytes });
        }
        Ok(preflight::disk_space(&needs)?)
    }

    /// Builds the catalogs, and writes the lock once the disk has everything that it names.
    fn finish(&self, mut selection: MirrorSelection, text: &[u8]) -> Result<Pulled, MirrorError> {
        let (set, session) = (self.set, self.session);
        let catalogs = set.own("catalogs");
        if set.lock().is_ok() {
            selection.compare(&catalogs, session)?;
        }
        selection.build(&catalogs, self.images, session)?;
        let (lock, inventory) = selection.into_lock();
        let store = session.store();
        // Now fetch the layers of original images that catalogs are built on.
        let mut wanted = inventory.lacking(store, &lock.images);
        let packed = self.in_volumes(&lock, &inventory);
        wanted.retain(|one| !packed.contains(&one.blob.digest));
        if let Some(error) = fetch_blobs(session, wanted).into_values().next() {
            return Err(MirrorError::Resumable(error));
        }
        let file = if text.trim_ascii_start().starts_with(b"{") { "request.json" } else { "set.yaml" };
        set.put(file, text)?;
        set.put("blobs.txt", inventory.list().as_bytes())?;
        set.put_index(&lock, &inventory)?;
        set.drop("report.json")?;
        // Sync first: a lock promises a complete set, even after a power failure.
        store.seal().map_err(crate::error::at(store.root()))?;
        set.put("lock.json", lock.to_text().as_bytes())?;
        // Remove the blobs of earlier sets, and those of catalogs that are only read.
        set.sweep(&inventory)?;
        Ok(Pulled { lock, inventory })
    }
}

/// Returns the size of the volumes of an earlier run: they stay, or are replaced by the same content.
fn existing_volumes(directory: &Path) -> u64 {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("mirror-"))
        .filter_map(|entry| entry.metadata().ok())
        .map(|about| about.len())
        .sum()
}

/// Fetches blobs, and returns the errors of those that failed.
fn fetch_blobs(session: &MirrorSession<'_>, wanted: Vec<BlobRequest>) -> HashMap<Digest, Error> {
    if wanted.is_empty() {
        return HashMap::new();
    }
    let total = wanted.iter().map(|one| one.blob.size).sum();
    let _running = session.progress.transfer("fetching", total);
    session.client.fetch_set(wanted)
}
