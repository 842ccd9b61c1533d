//! Finds the blobs of a set that are already in volumes and may have left its directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use image::Digest;

use super::read::read_list;
use super::{file_name, series};
use crate::lock::Lock;

/// Returns the blobs that the volumes in a directory contain completely. Writing volumes hashes them.
pub fn packed(directory: &Path, lock: &Lock, have: &BTreeSet<Digest>) -> BTreeSet<Digest> {
    let series = series(lock, have);
    let mut whole = BTreeSet::new();
    // The present parts of split blobs, and the total number of their parts.
    let mut parts: BTreeMap<Digest, (BTreeSet<usize>, usize)> = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok((list, _)) = read_list(&entry.path()) else { continue };
        let named = entry.file_name().to_str() == Some(&file_name(&series, list.number));
        if !named || list.lock != lock.digest().to_string() || list.series != series {
            continue;
        }
        for entry in list.entries.iter().filter(|entry| entry.name.starts_with("blobs/")) {
            let Ok(digest) = entry.digest.parse::<Digest>() else { continue };
            match entry.part {
                None => drop(whole.insert(digest)),
                Some((part, all)) => {
                    let found = parts.entry(digest).or_default();
                    found.0.insert(part);
                    found.1 = all;
                }
            }
        }
    }
    whole.extend(parts.into_iter().filter(|(_, (found, all))| found.len() == *all).map(|(digest, _)| digest));
    whole
}
