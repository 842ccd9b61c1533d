//! The content that the destination already has: lists of blobs from a set or a registry, or the lock of an earlier
//! set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use image::Digest;

use crate::MirrorError;
use crate::error::at;
use crate::lock::{Lock, LockedImage};
use crate::set::{Inventory, read_lock};

/// Maximum size of a list.
const LIMIT: u64 = 256 << 20;

/// The content of the destination.
#[derive(Debug, Default)]
pub struct KnownBlobs {
    blobs: BTreeSet<Digest>,
    /// Images of locks with their mirrored platforms; empty means all.
    images: BTreeMap<Digest, Vec<String>>,
    /// The known locks of sets at the destination.
    locks: BTreeSet<Digest>,
}

/// What a set builds on: blobs at the destination and the sets that brought them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetBase {
    pub blobs: BTreeSet<Digest>,
    /// The known locks of those sets.
    pub locks: BTreeSet<Digest>,
}

impl KnownBlobs {
    /// Reads lists of blobs and locks: `blobs.txt` of a set, the directory of a set, the output of `verify --have`,
    /// `lock.json`.
    ///
    /// # Errors
    /// Fails when a file is none of these.
    pub fn read(paths: &[PathBuf]) -> Result<KnownBlobs, MirrorError> {
        let mut have = KnownBlobs::default();
        for path in paths {
            have.add(path)?;
        }
        Ok(have)
    }

    fn add(&mut self, path: &Path) -> Result<(), MirrorError> {
        let path = if path.is_dir() { path.join("mirror/blobs.txt") } else { path.to_owned() };
        let named = |error: MirrorError| error.named(path.display());
        let about = fs::metadata(&path).map_err(at(&path))?;
        if about.len() > LIMIT {
            return Err(named(MirrorError::TooLarge(LIMIT)));
        }
        let text = fs::read_to_string(&path).map_err(at(&path))?;
        if text.trim_start().starts_with('{') {
            let lock = Lock::read(text.as_bytes()).map_err(|error| named(error.into()))?;
            self.locks.insert(lock.digest());
            for image in &lock.images {
                let referrers = image.referrers.iter().filter_map(|referrer| referrer.digest.parse().ok());
                self.images.extend(referrers.map(|digest| (digest, Vec::new())));
                self.images.insert(image.digest()?, image.platforms.clone());
            }
            return Ok(());
        }
        self.blobs.extend(parse(&text).map_err(named)?);
        // The list of a set is next to its lock.
        if path.file_name().is_some_and(|name| name == "blobs.txt") {
            let lock = read_lock(&path.with_file_name("lock.json"));
            self.locks.extend(lock.ok().map(|lock| lock.digest()));
        }
        Ok(())
    }

    /// Returns the blobs of a set that the destination has. A lock names images, so only its images that are also in
    /// this set count.
    pub fn of(&self, images: &[LockedImage], inventory: &Inventory) -> SetBase {
        let mut found = self.blobs.clone();
        for (image, parts) in images.iter().zip(&inventory.by_image) {
            let known = |digest: &Digest| match self.images.get(digest) {
                Some(platforms) => platforms.is_empty() || *platforms == image.platforms,
                None => false,
            };
            let mut tops = image.tops();
            // An image counts with all its referrers, because they share one list of parts.
            if tops.next().is_some_and(|digest| known(&digest)) && tops.all(|digest| self.images.contains_key(&digest))
            {
                found.extend(parts.iter().copied());
            }
        }
        SetBase { blobs: found, locks: self.locks.clone() }
    }
}

/// Parses lines of a digest and an optional size.
///
/// # Errors
/// Fails at the first invalid line.
pub fn parse(text: &str) -> Result<BTreeSet<Digest>, MirrorError> {
    let mut found = BTreeSet::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let invalid = || MirrorError::BlobLine { line: number + 1, text: line.to_owned() };
        let mut words = line.split_ascii_whitespace();
        let digest = words.next().and_then(|word| word.parse().ok()).ok_or_else(invalid)?;
        if words.next().is_some_and(|size| size.parse::<u64>().is_err()) || words.next().is_some() {
            return Err(invalid());
        }
        found.insert(digest);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_digests_and_sizes() {
        let digest = Digest::of(b"x");
        assert_eq!(parse(&format!("{digest} 3\n\n{digest}\n")).unwrap().len(), 1);
        for bad in ["sha256:0 1", "hello", &format!("{digest} many"), &format!("{digest} 1 2")] {
            assert!(parse(bad).unwrap_err().to_string().starts_with("line 1:"), "{bad}");
        }
    }
}
