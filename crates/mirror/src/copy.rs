//! Copies a set from registry to registry, on a machine that reaches both sides.

use std::collections::BTreeMap;
use std::path::Path;

use image::{BlobSource, CatalogImages};

use crate::MirrorError;
use crate::destination::MirrorDestination;
use crate::lock::Lock;
use crate::preflight::{SpaceNeed, disk_space};
use crate::push::{PushReport, Ready, sources};
use crate::request::{MirrorRequest, SelectionOptions};
use crate::selection::MirrorSelection;
use crate::session::MirrorSession;
use crate::set::sweep;

/// How a set is copied.
pub struct CopyOptions<'a> {
    /// How its content is selected.
    pub selection: &'a SelectionOptions,
    /// The maximum size of the blobs that are on the disk at a time; a single larger blob can exceed it.
    pub spool: u64,
    /// A temporary directory.
    pub scratch: &'a Path,
}

/// Copies what a request needs to a registry, and returns its lock unless images are missing; then nothing is sent.
///
/// # Errors
/// Fails when the request cannot be resolved, a check of the registry fails, or the set cannot be recorded. Images that
/// do not arrive are part of the report.
pub fn copy(
    request: MirrorRequest,
    target: &MirrorDestination,
    options: &CopyOptions<'_>,
    images: &dyn CatalogImages,
    session: &MirrorSession<'_>,
) -> Result<(PushReport, Option<Lock>), MirrorError> {
    let mut selection = MirrorSelection::resolve(request, options.selection, session)?;
    selection.settle(Vec::new(), options.selection.missing, session)?;
    if !selection.missing.is_empty() {
        let missing = selection.missing;
        return Ok((PushReport { lock: None, sent: None, missing, complete: false }, None));
    }
    selection.build(&options.scratch.join("catalogs"), images, session)?;
    let (lock, inventory) = selection.into_lock();
    // Remove the blobs of catalogs that were only read.
    sweep(session.store().root(), &inventory)?;
    let largest = inventory.blobs.values().map(|blob| blob.size).max().unwrap_or_default();
    let all: u64 = inventory.blobs.values().map(|blob| blob.size).sum();
    let bytes = all.min(options.spool.max(largest));
    disk_space(&[SpaceNeed { place: options.scratch.to_owned(), bytes }])?;
    let ready = Ready::check(&lock, &inventory, target, &BTreeMap::new(), session)?;
    let supply = BlobSource::Registries { from: sources(&lock, &inventory), spool: options.spool };
    let report = ready.send("copying", all, supply)?;
    Ok((report, Some(lock)))
}
