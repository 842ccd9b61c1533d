//! Finds the content of a set that is already in volumes and may have left its directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use image::Digest;

use super::read::{Volumes, read_list};
use super::{file_name, series};
use crate::lock::Lock;

/// Returns the files and blobs that the volumes of a set in a directory contain completely. Hashes all of them: a
/// volume with a valid checksum can contain a damaged blob.
pub fn packed(directory: &Path, lock: &Lock, have: &BTreeSet<Digest>) -> BTreeSet<Digest> {
    let (series, lock) = (series(lock, have), lock.digest().to_string());
    let own = |path: &PathBuf| {
        read_list(path).is_ok_and(|(list, _)| {
            let name = path.file_name().and_then(|name| name.to_str());
            name == Some(&file_name(&series, list.number)) && list.lock == lock && list.series == series
        })
    };
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let Ok(volumes) = Volumes::open(&files.filter(own).collect::<Vec<_>>()) else { return BTreeSet::new() };
    let damaged: BTreeSet<Digest> = volumes.check().into_iter().map(|(digest, _)| digest).collect();
    volumes.digests().filter(|digest| !damaged.contains(digest)).collect()
}
