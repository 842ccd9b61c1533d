//! What can be known before the first byte moves: room on a disk, a registry that answers and may be written to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use image::{Client, Delivery, Descriptor, Reference, Supply, media_type};

use crate::destination::Target;
use crate::lock::Lock;
use crate::push::{RECORD, empty};

/// The repository that things are tried in.
const SCRATCH: &str = "opm-mirror-preflight";

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

/// Checks that every image has a repository that a registry can have.
///
/// # Errors
/// Fails with every path that is too long or otherwise none.
pub fn paths(lock: &Lock, target: &Target) -> Result<(), String> {
    let wrong: BTreeSet<String> = lock.images.iter().filter_map(|image| target.repository(&image.path).err()).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let all = wrong.into_iter().collect::<Vec<_>>().join("\n  ");
    Err(format!("{target}: these repositories cannot be:\n  {all}\nhelp: use a shorter path behind the registry"))
}

/// Checks whether a registry gives blobs of one repository to others, where a set needs that, and returns what that
/// means for it.
///
/// # Errors
/// Fails when blobs are in the registry alone, and do not get to where they are needed.
pub fn mounts(client: &Client, target: &Target, deliveries: &[Delivery]) -> Result<Vec<String>, String> {
    let near = deliveries.iter().filter(|delivery| delivery.near.is_some()).count();
    let several = || deliveries.iter().filter(|delivery| delivery.to.len() > 1);
    let Some(to) = deliveries.iter().find(|it| it.near.is_some()).or(several().next()).and_then(|it| it.to.first())
    else {
        return Ok(Vec::new());
    };
    if mounted(client, target, to)? {
        return Ok(Vec::new());
    }
    if near > 0 {
        return Err(format!(
            "nothing was sent: {near} blobs are in other repositories of {}, which gives none to another\n\
             help: push a set or volumes that have all blobs",
            target.host
        ));
    }
    let more: u64 = several().map(|delivery| delivery.blob.size * (delivery.to.len() as u64 - 1)).sum();
    let count = several().count();
    Ok(vec![format!(
        "{} gives no blob of one repository to another, so that {count} are sent for each that needs them: {:.1} MB more",
        target.host,
        more as f64 / 1e6
    )])
}

/// Checks that a registry takes blobs without their images, and gives them to whoever needs them later.
///
/// # Errors
/// Fails when it does not.
pub fn parts(client: &Client, target: &Target) -> Result<(), String> {
    let scratch = target.repository(SCRATCH)?;
    if mounted(client, target, &scratch)? {
        return Ok(());
    }
    Err(format!(
        "nothing was sent: {} gives no blob of one repository to another, which --part relies on\n\
         help: give all volumes to one 'opm mirror push'",
        target.host
    ))
}

/// Returns whether a repository gets a blob from the one with the record.
fn mounted(client: &Client, target: &Target, to: &Reference) -> Result<bool, String> {
    let record = target.repository(RECORD)?;
    let blob = empty(&client.options().store).map_err(|error| error.to_string())?;
    let sent =
        client.send_set(vec![Delivery { blob: blob.clone(), to: vec![record.clone()], near: None }], Supply::Store);
    if let Some(error) = sent.failed.into_values().next() {
        return Err(format!("nothing was sent, because the registry takes nothing:\n  {}: {error}", record.name()));
    }
    client.may_mount(&blob, &record, to).map_err(|error| format!("{}: {error}", to.name()))
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
        // A registry that takes paths up to some depth says so in many ways.
        let deep = most > 0 && refused.iter().map(depth).all(|depth| depth > most);
        let (what, help) = match deep {
            true => (
                format!("no path of more than {most} components"),
                format!("\nhelp: --max-nested-paths {most} joins what is too much of a path"),
            ),
            false => ("nothing".to_owned(), String::new()),
        };
        return Err(format!("nothing was sent, because the registry takes {what}:\n  {}{help}", failed.join("\n  ")));
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
    let name = target.repository(SCRATCH)?.with_digest(index.digest);
    match client.send_names(&[(name.clone(), index.digest)]).pop() {
        Some(Ok(())) => {
            // It is of no further use; a registry that keeps everything keeps this, too.
            let _ = client.remove(&[name]);
            Ok(())
        }
        Some(Err(error)) => Err(format!(
            "{} refuses indexes without all their images, and 'platforms' leaves some out: {error}\n\
             help: remove 'platforms' from the file to bring all of them, or let the registry accept such indexes: \
             'validation.manifests.indexes.platforms: none' of distribution 3, 'FEATURE_SPARSE_INDEX: true' of Quay",
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
