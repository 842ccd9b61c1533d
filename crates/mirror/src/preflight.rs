//! Checks before the first transfer: disk space, and a registry that responds and accepts uploads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fbc::spelling::size::bytes;
use image::{BlobPush, BlobSource, Client, Descriptor, Reference, media_type};

use crate::MirrorError;
use crate::destination::MirrorDestination;
use crate::lock::Lock;
use crate::push::{RECORD, empty};

/// The repository for trial uploads.
const SCRATCH: &str = "opm-mirror-preflight";

/// A directory and the number of bytes to write there.
#[derive(Debug, Clone)]
pub(crate) struct SpaceNeed {
    /// The directory, which need not exist yet.
    pub place: PathBuf,
    /// The number of bytes.
    pub bytes: u64,
}

/// A disk with too little free space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}: not enough space: {} needed, {} free, {} short\nhelp: free space or use another directory; nothing was transferred",
    place.display(),
    bytes(*needed),
    bytes(*free),
    bytes(needed - free)
)]
pub struct InsufficientSpace {
    /// A directory on the disk.
    pub place: PathBuf,
    /// The bytes to write.
    pub needed: u64,
    /// The free bytes.
    pub free: u64,
}

/// Checks the disk space for everything to be written. Directories on one disk share its space.
///
/// # Errors
/// Fails with the first disk that has too little space.
pub(crate) fn disk_space(needs: &[SpaceNeed]) -> Result<(), InsufficientSpace> {
    let mut disks: BTreeMap<u64, (PathBuf, u64)> = BTreeMap::new();
    for need in needs.iter().filter(|need| need.bytes > 0) {
        let Some(there) = existing(&need.place) else { continue };
        let Ok(about) = fs::metadata(&there) else { continue };
        let entry = disks.entry(about.dev()).or_insert_with(|| (there, 0));
        entry.1 = entry.1.saturating_add(need.bytes);
    }
    for (place, needed) in disks.into_values() {
        if let Some(free) = free(&place)
            && free < needed
        {
            return Err(InsufficientSpace { place, needed, free });
        }
    }
    Ok(())
}

/// Returns the free bytes of a directory's file system, if it reports them.
pub(crate) fn free(place: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(&existing(place)?).ok()?;
    // Some network file systems do not report their size.
    (about.f_blocks > 0).then(|| about.f_bavail.saturating_mul(about.f_frsize))
}

/// Returns the nearest existing ancestor of a path.
fn existing(place: &Path) -> Option<PathBuf> {
    let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    let whole = std::path::absolute(place).ok()?;
    whole.ancestors().find(|place| place.is_dir()).map(Path::to_owned)
}

/// Checks that every image has a valid destination repository.
///
/// # Errors
/// Fails with every path that is too long or otherwise invalid.
pub(crate) fn paths(lock: &Lock, target: &MirrorDestination) -> Result<(), MirrorError> {
    let invalid: BTreeSet<String> =
        lock.images.iter().filter_map(|image| Some(target.repository(&image.path).err()?.to_string())).collect();
    match invalid.is_empty() {
        true => Ok(()),
        false => {
            let invalid = invalid.into_iter().collect();
            Err(MirrorError::InvalidRepositories { target: target.to_string(), invalid })
        }
    }
}

/// Checks whether the registry supports mounting blobs across repositories, if the set needs it; returns notes on the
/// consequences.
///
/// # Errors
/// Fails when blobs exist in other repositories only and cannot be mounted.
pub(crate) fn mounts(
    client: &Client,
    target: &MirrorDestination,
    pushes: &[BlobPush],
) -> Result<Vec<String>, MirrorError> {
    let mountable = pushes.iter().filter(|push| push.mount_from.is_some()).count();
    let several = || pushes.iter().filter(|push| push.to.len() > 1);
    let Some(to) = pushes.iter().find(|it| it.mount_from.is_some()).or(several().next()).and_then(|it| it.to.first())
    else {
        return Ok(Vec::new());
    };
    if mounted(client, target, to)? {
        return Ok(Vec::new());
    }
    if mountable > 0 {
        return Err(MirrorError::NoMounts { blobs: mountable, host: target.host.clone() });
    }
    let more: u64 = several().map(|push| push.blob.size * (push.to.len() as u64 - 1)).sum();
    let count = several().count();
    Ok(vec![format!(
        "{} does not mount blobs across repositories: {count} blobs are sent once per repository, {:.1} MB more",
        target.host,
        more as f64 / 1e6
    )])
}

/// Checks that a registry accepts blobs without their images and mounts them later.
///
/// # Errors
/// Fails when it does not.
pub(crate) fn parts(client: &Client, target: &MirrorDestination) -> Result<(), MirrorError> {
    let scratch = target.repository(SCRATCH)?;
    match mounted(client, target, &scratch)? {
        true => Ok(()),
        false => Err(MirrorError::NoMountsForParts(target.host.clone())),
    }
}

/// Returns whether a repository can mount a blob from the record repository.
fn mounted(client: &Client, target: &MirrorDestination, to: &Reference) -> Result<bool, MirrorError> {
    let record = target.repository(RECORD)?;
    let blob = empty(&client.options().store)?;
    let sent = client.push_blobs(
        vec![BlobPush { blob: blob.clone(), to: vec![record.clone()], mount_from: None }],
        BlobSource::Store,
    );
    if let Some(source) = sent.failed.into_values().next() {
        return Err(MirrorError::NoUploads { repository: record.name(), source });
    }
    client.may_mount(&blob, &record, to).map_err(|error| MirrorError::from(error).named(to.name()))
}

/// Checks that a registry responds and accepts the set: starts and cancels an upload in one repository per path, and
/// if platforms are excluded, pushes an index that lacks an image.
///
/// # Errors
/// Fails with every path that is not writable, and the reason.
pub(crate) fn registry(client: &Client, lock: &Lock, target: &MirrorDestination) -> Result<(), MirrorError> {
    let mut places: BTreeMap<String, Reference> = BTreeMap::new();
    for path in lock.images.iter().map(|image| image.path.as_str()).chain([RECORD]) {
        let repository = target.repository(path)?;
        let name = repository.name();
        let parent = name.rsplit_once('/').map_or(name.as_str(), |(parent, _)| parent).to_owned();
        places.entry(parent).or_insert(repository);
    }
    let repositories: Vec<Reference> = places.into_values().collect();
    let outcomes = client.may_push(&repositories);
    let failed: Vec<String> = repositories
        .iter()
        .zip(&outcomes)
        .filter_map(|(repository, outcome)| {
            let error = outcome.as_ref().err()?;
            let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
            Some(format!("{}: {error}{help}", repository.name()))
        })
        .collect();
    if !failed.is_empty() {
        let depth = |number: &usize| repositories[*number].repository().split('/').count();
        let (refused, taken): (Vec<usize>, Vec<usize>) = (0..repositories.len()).partition(|it| outcomes[*it].is_err());
        let most = taken.iter().map(depth).max().unwrap_or_default();
        // Registries report a depth limit of paths in many ways.
        let deep = most > 0 && refused.iter().map(depth).all(|depth| depth > most);
        return Err(MirrorError::Unwritable { depth: deep.then_some(most), failed });
    }
    match lock.images.iter().any(|image| !image.platforms.is_empty()) {
        true => sparse(client, target),
        false => Ok(()),
    }
}

/// Checks that a registry accepts an index that lacks some of its images.
fn sparse(client: &Client, target: &MirrorDestination) -> Result<(), MirrorError> {
    let store = &client.options().store;
    let absent = Descriptor::of(media_type::OCI_MANIFEST, b"an image that no registry has");
    let index = image::build_index(store, &[absent])?;
    let name = target.repository(SCRATCH)?.with_digest(index.digest);
    match client.push_tags(&[(name.clone(), index.digest)]).pop() {
        Some(Ok(())) => {
            // It has served its purpose; a registry that forbids deletion keeps it.
            let _ = client.remove(&[name]);
            Ok(())
        }
        Some(Err(source)) => Err(MirrorError::Sparse { host: target.host.clone(), source }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_on_one_disk_share_its_space() {
        let dir = tempfile::tempdir().unwrap();
        let free = free(dir.path()).unwrap();
        let need = |name: &str, bytes| SpaceNeed { place: dir.path().join(name).join("deep"), bytes };
        assert_eq!(disk_space(&[need("a", 1 << 20), need("b", 1 << 20)]), Ok(()));
        let error = disk_space(&[need("a", free), need("b", free)]).unwrap_err();
        assert!(error.needed == 2 * free && error.free <= error.needed, "{error:?}");
        assert_eq!(disk_space(&[need("a", 0)]), Ok(()));
    }
}
