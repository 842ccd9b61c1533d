//! What can be known before the first byte moves: room on a disk, a registry that answers and may be written to.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use image::{Client, Descriptor, Reference, media_type};

use crate::destination::Target;
use crate::lock::Lock;
use crate::push::RECORD;

/// A place on a disk, and how many bytes will be written there.
#[derive(Debug, Clone)]
pub struct Need {
    /// A directory, which need not be there yet.
    pub place: PathBuf,
    /// How many bytes.
    pub bytes: u64,
}

/// A disk that has too little room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLittle {
    /// A directory on it.
    pub place: PathBuf,
    /// How many bytes will be written.
    pub needed: u64,
    /// How many can be.
    pub free: u64,
}

/// Checks that there is room for everything that will be written. Places on one disk share its room.
///
/// # Errors
/// Fails with the first disk that has too little.
pub fn room(needs: &[Need]) -> Result<(), TooLittle> {
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
            return Err(TooLittle { place, needed, free });
        }
    }
    Ok(())
}

/// Returns how many bytes can be written to a directory, if its file system knows.
pub fn free(place: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(&existing(place)?).ok()?;
    // Some network file systems know nothing of their size.
    (about.f_blocks > 0).then(|| about.f_bavail.saturating_mul(about.f_frsize))
}

/// Returns the nearest directory above a place that is there.
fn existing(place: &Path) -> Option<PathBuf> {
    let place = if place.as_os_str().is_empty() { Path::new(".") } else { place };
    let whole = std::path::absolute(place).ok()?;
    whole.ancestors().find(|place| place.is_dir()).map(Path::to_owned)
}

/// Checks that a registry answers and takes what a set brings: an upload is begun and called off in one repository below
/// each path, and where platforms are left out, an index that lacks an image is offered.
///
/// # Errors
/// Fails with every path that cannot be written to, and why.
pub fn registry(client: &Client, lock: &Lock, target: &Target) -> Result<(), String> {
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
        .zip(outcomes)
        .filter_map(|(repository, outcome)| {
            let error = outcome.err()?;
            let help = error.help().map(|help| format!("\n  help: {help}")).unwrap_or_default();
            Some(format!("{}: {error}{help}", repository.name()))
        })
        .collect();
    if !failed.is_empty() {
        return Err(format!("nothing was sent, because the registry takes nothing:\n  {}", failed.join("\n  ")));
    }
    match lock.images.iter().any(|image| !image.platforms.is_empty()) {
        true => sparse(client, target),
        false => Ok(()),
    }
}

/// Checks that a registry takes an index that lacks some of its images.
fn sparse(client: &Client, target: &Target) -> Result<(), String> {
    let store = &client.options().store;
    let absent = Descriptor::of(media_type::OCI_MANIFEST, b"an image that no registry has");
    let index = image::build_index(store, &[absent]).map_err(|error| error.to_string())?;
    let name = target.repository("opm-mirror-preflight")?.with_digest(index.digest);
    match client.send_names(&[(name.clone(), index.digest)]).pop() {
        Some(Ok(())) => {
            // It is of no further use; a registry that keeps everything keeps this, too.
            let _ = client.remove(&[name]);
            Ok(())
        }
        Some(Err(error)) => Err(format!(
            "{} refuses indexes without all their images, and 'platforms' leaves some out: {error}\n\
             help: remove 'platforms' from the file to bring all of them, or let the registry accept such indexes",
            target.host
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_one_disk_share_its_room() {
        let dir = tempfile::tempdir().unwrap();
        let free = free(dir.path()).unwrap();
        let need = |name: &str, bytes| Need { place: dir.path().join(name).join("deep"), bytes };
        assert_eq!(room(&[need("a", 1 << 20), need("b", 1 << 20)]), Ok(()));
        let error = room(&[need("a", free), need("b", free)]).unwrap_err();
        assert!(error.needed == 2 * free && error.free <= error.needed, "{error:?}");
        assert_eq!(room(&[need("a", 0)]), Ok(()));
    }
}
