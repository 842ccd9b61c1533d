//! Plans: what would be mirrored, its size, and where each image goes.

mod text;

use std::path::Path;

use image::{Digest, Reference};
use schemars::JsonSchema;
use serde::Serialize;

use crate::MirrorError;
use crate::destination::MirrorDestination;
use crate::known_blobs::KnownBlobs;
use crate::lock::{Lock, LockedImage};
use crate::report::MissingImage;
use crate::request::{MirrorRequest, SelectionOptions};
use crate::selection::MirrorSelection;
use crate::session::MirrorSession;
use crate::set::{Inventory, write_whole};

/// What would be mirrored, and its size.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// The selection; catalogs that are cut have no image yet.
    pub lock: Lock,
    /// The number of unique blobs.
    pub blobs: usize,
    /// The total size of all unique parts.
    pub bytes: u64,
    /// The part of that which the destination lacks.
    pub bytes_to_fetch: u64,
    pub missing: Vec<MissingImage>,
    /// Whether the lock lacks the missing images: it would be a smaller set that nobody requested.
    #[serde(skip)]
    pub incomplete: bool,
}

/// Plans a mirror. The manifests of all images go to the store of the session.
///
/// # Errors
/// Fails when the request cannot be resolved, an image cannot be checked, or the destination is invalid.
pub fn plan(
    request: MirrorRequest,
    options: &SelectionOptions,
    have: &KnownBlobs,
    target: Option<&MirrorDestination>,
    session: &MirrorSession<'_>,
) -> Result<PlanReport, MirrorError> {
    let mut selection = MirrorSelection::resolve(request, options, session)?;
    let missing = selection.missing.clone();
    selection.settle(Vec::new(), options.missing, session)?;
    if selection.missing.iter().any(|one| one.failed) {
        return Err(MirrorError::Unchecked);
    }
    let incomplete = !selection.missing.is_empty();
    let (lock, inventory) = selection.into_lock();
    if let Some(target) = target {
        crate::preflight::paths(&lock, target)?;
    }
    let have = have.of(&lock.images, &inventory).blobs;
    let lacking = inventory.blobs.values().filter(|blob| !have.contains(&blob.digest));
    let bytes_to_fetch = lacking.map(|blob| blob.size).sum();
    let (blobs, bytes) = (inventory.blobs.len(), inventory.bytes());
    Ok(PlanReport { lock, blobs, bytes, bytes_to_fetch, missing, incomplete })
}

/// The options of a mapping.
pub struct Mapping<'a> {
    /// The output directory.
    pub place: &'a Path,
    /// The destination registry.
    pub target: Option<&'a MirrorDestination>,
    /// The set that can already have blobs.
    pub set: Option<&'a Path>,
    /// Whether the images of an index get their own lines.
    pub children: bool,
}

impl Mapping<'_> {
    /// Writes `mapping.txt` with one line per image, and `missing.txt` with the images whose blobs a set lacks.
    ///
    /// # Errors
    /// Fails when a file cannot be written.
    pub fn write(&self, lock: &Lock, inventory: &Inventory) -> Result<(), MirrorError> {
        let there = |digest: &Digest| self.set.is_some_and(|set| set.join("blobs/sha256").join(digest.hex()).is_file());
        let (mut all, mut missing) = (String::new(), String::new());
        for (image, parts) in lock.images.iter().zip(&inventory.by_image) {
            let mut line = mapping_line(image, self.target);
            if self.children {
                let documents = parts.iter().filter(|part| inventory.documents.contains_key(part));
                let own = documents.filter(|digest| digest.to_string() != image.digest);
                line.extend(own.map(|digest| child_line(image, self.target, digest)));
            }
            all += &line;
            if !parts.iter().all(there) {
                missing += &line;
            }
        }
        write_whole(&self.place.join("mapping.txt"), all.as_bytes())?;
        if self.set.is_some() {
            write_whole(&self.place.join("missing.txt"), missing.as_bytes())?;
        }
        Ok(())
    }
}

/// Formats the mapping line of an image.
pub fn mapping_line(image: &LockedImage, target: Option<&MirrorDestination>) -> String {
    let source = image.source.trim_start_matches("docker://");
    format!("docker://{source}=docker://{}:{}\n", place_of(image, target), image.tag)
}

fn place_of(image: &LockedImage, target: Option<&MirrorDestination>) -> String {
    match target {
        Some(target) => format!("{}/{}", target.host, target.path(&image.path)),
        None => image.path.clone(),
    }
}

/// Formats the mapping line of an index or signature member, which has no tag.
fn child_line(image: &LockedImage, target: Option<&MirrorDestination>, digest: &Digest) -> String {
    let source = Reference::parse(image.source.trim_start_matches("docker://")).map(|source| source.name());
    format!("docker://{}@{digest}=docker://{}@{digest}\n", source.unwrap_or_default(), place_of(image, target))
}
