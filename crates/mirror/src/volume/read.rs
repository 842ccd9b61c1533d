//! Reads untrusted volumes: content is hashed before use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use image::{Digest, FileRange, Store, StoredBlob, tar};

use super::{ENTRIES, LIST, LIST_LIMIT, List, VERSION, VolumeError, digest_of};
use crate::MirrorError;
use crate::error::at;

/// Maximum size of one of the set's own files.
const OWN_LIMIT: u64 = 256 << 20;

/// Volumes of one series, given in any order.
#[derive(Debug)]
pub struct Volumes {
    pub lock: Digest,
    /// The numbers of the missing volumes.
    pub absent: Vec<usize>,
    /// The known locks of the sets that they build on.
    pub since: Vec<String>,
    /// The set's own files, with their digests.
    own: BTreeMap<String, (Digest, Vec<FileRange>)>,
    /// Manifests and blobs.
    blobs: HashMap<Digest, Vec<FileRange>>,
}

/// The parts of one file, by number.
type Parts = BTreeMap<usize, (usize, FileRange)>;

impl Volumes {
    /// Opens volumes from files or directories.
    ///
    /// # Errors
    /// Fails when a file is not a volume or its list is damaged, or the volumes belong to different series.
    pub fn open(paths: &[PathBuf]) -> Result<Volumes, MirrorError> {
        let mut files: BTreeSet<PathBuf> = BTreeSet::new();
        for path in paths {
            if path.is_dir() {
                let entries = fs::read_dir(path).map_err(at(path))?;
                let names = entries.flatten().map(|entry| entry.path());
                let found: Vec<PathBuf> = names.filter(|path| is_volume_name(path)).collect();
                if found.is_empty() {
                    return Err(VolumeError::Empty(path.clone()).into());
                }
                files.extend(found);
            } else {
                files.insert(path.clone());
            }
        }
        let mut lists: BTreeMap<usize, (PathBuf, List, u64)> = BTreeMap::new();
        for file in files {
            let (list, base) = read_list(&file).map_err(|error| MirrorError::from(error).named(file.display()))?;
            if let Some((other, first, _)) = lists.values().next()
                && (first.series != list.series || first.lock != list.lock || first.count != list.count)
            {
                return Err(VolumeError::Different(other.clone(), file).into());
            }
            if let Some((other, _, _)) = lists.get(&list.number) {
                // A copy of the same volume on another medium is fine.
                if digest_of(other).ok() != digest_of(&file).ok() {
                    let (one, two, number) = (other.clone(), file, list.number);
                    return Err(VolumeError::Twice { one, two, number }.into());
                }
                continue;
            }
            lists.insert(list.number, (file, list, base));
        }
        let Some((_, first, _)) = lists.values().next() else { return Err(VolumeError::NoVolumes.into()) };
        let lock = first.lock.parse().map_err(|_| VolumeError::LockDigest)?;
        let absent = (1..=first.count).filter(|number| !lists.contains_key(number)).collect();
        let since = first.since.clone();
        let mut volumes = Volumes { lock, absent, since, own: BTreeMap::new(), blobs: HashMap::new() };
        let mut parts: BTreeMap<(String, Digest), Parts> = BTreeMap::new();
        for (path, list, base) in lists.into_values() {
            for entry in list.entries {
                let digest: Digest = entry
                    .digest
                    .parse()
                    .map_err(|_| VolumeError::Digest { path: path.clone(), text: entry.digest.clone() })?;
                let piece = FileRange { path: path.clone(), offset: base + entry.offset, size: entry.size };
                match entry.part {
                    None => volumes.add(entry.name, digest, vec![piece])?,
                    Some((number, count)) => {
                        parts.entry((entry.name, digest)).or_default().insert(number, (count, piece));
                    }
                }
            }
        }
        for ((name, digest), parts) in parts {
            let count = parts.values().map(|(count, _)| *count).max().unwrap_or_default();
            // An entry with a part in a missing volume counts as missing.
            if parts.keys().copied().eq(1..=count) {
                volumes.add(name, digest, parts.into_values().map(|(_, piece)| piece).collect())?;
            }
        }
        Ok(volumes)
    }

    fn add(&mut self, name: String, digest: Digest, pieces: Vec<FileRange>) -> Result<(), VolumeError> {
        match name.strip_prefix("blobs/sha256/") {
            Some(hex) if hex == digest.hex() => drop(self.blobs.insert(digest, pieces)),
            None if is_own(&name) => drop(self.own.insert(name, (digest, pieces))),
            _ => return Err(VolumeError::NotAllowed(name)),
        }
        Ok(())
    }

    /// Returns all blobs in these volumes.
    pub fn blobs(&self) -> &HashMap<Digest, Vec<FileRange>> {
        &self.blobs
    }

    /// Returns the digests of everything in these volumes.
    pub(super) fn digests(&self) -> impl Iterator<Item = Digest> {
        self.own.values().map(|(digest, _)| *digest).chain(self.blobs.keys().copied())
    }

    /// Returns the names of the set's own files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.own.keys().map(String::as_str)
    }

    /// Reads one of the set's own files.
    ///
    /// # Errors
    /// Fails when it is missing or damaged.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, VolumeError> {
        let missing = || VolumeError::Missing { name: name.to_owned(), first: self.absent.contains(&1) };
        let (digest, pieces) = self.own.get(name).ok_or_else(missing)?;
        gather(digest, pieces, OWN_LIMIT)
    }

    /// Imports small blobs, such as manifests, into a store.
    ///
    /// # Errors
    /// Fails when one is damaged or the store cannot be written. Missing ones are skipped.
    pub fn import(&self, blobs: impl Iterator<Item = Digest>, limit: u64, store: &Store) -> Result<(), VolumeError> {
        for digest in blobs {
            if let Some(pieces) = self.blobs.get(&digest)
                && pieces.iter().map(|piece| piece.size).sum::<u64>() <= limit
            {
                let content = gather(&digest, pieces, limit)?;
                store.put(&content)?;
            }
        }
        Ok(())
    }

    /// Hashes everything; returns each damaged blob with its file.
    pub fn check(&self) -> Vec<(Digest, String)> {
        let mut damaged = Vec::new();
        let own = self.own.values().map(|(digest, pieces)| (digest, pieces));
        for (digest, pieces) in own.chain(&self.blobs) {
            if let Err(error) = StoredBlob::new(*digest, pieces.clone()).open().finish() {
                damaged.push((*digest, error.to_string()));
            }
        }
        damaged.sort();
        damaged
    }
}

fn is_volume_name(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with("mirror-") && name.ends_with(".tar")
}

/// Returns whether a name is one of the set's own files, without path traversal.
fn is_own(name: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0']);
    matches!(name, "oci-layout" | "index.json") || name.starts_with("mirror/") && name.split('/').all(plain)
}

/// Reads the list of a volume; returns it and the offset of the rest.
pub(super) fn read_list(path: &Path) -> Result<(List, u64), VolumeError> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut first = [0; tar::BLOCK];
    file.read_exact(&mut first).map_err(|_| VolumeError::TooShort)?;
    let octal = std::str::from_utf8(&first[124..135]).ok().and_then(|text| u64::from_str_radix(text, 8).ok());
    let size = octal.ok_or(VolumeError::NotAVolume)?;
    if first != tar::file_header(LIST, size) || size > LIST_LIMIT {
        return Err(VolumeError::NotAVolume);
    }
    let mut text = Vec::new();
    file.take(size).read_to_end(&mut text)?;
    let list: List = serde_json::from_slice(&text)?;
    if list.version != VERSION {
        return Err(VolumeError::Version(list.version));
    }
    if list.entries.len() > ENTRIES {
        return Err(VolumeError::TooManyEntries);
    }
    if list.number == 0 || list.number > list.count {
        return Err(VolumeError::Number { number: list.number, count: list.count });
    }
    let base = tar::entry_size(size);
    let mut at = tar::BLOCK as u64;
    for entry in &list.entries {
        let end = entry.offset.checked_add(entry.size).and_then(|end| end.checked_add(base));
        // Entries are contiguous, each preceded by its header.
        if entry.offset != at || end.is_none() {
            return Err(VolumeError::Offset(entry.name.clone()));
        }
        if end.is_some_and(|end| end > length) {
            return Err(VolumeError::Truncated(entry.name.clone()));
        }
        at = at.saturating_add(tar::entry_size(entry.size));
    }
    Ok((list, base))
}

fn gather(digest: &Digest, pieces: &[FileRange], limit: u64) -> Result<Vec<u8>, VolumeError> {
    let blob = StoredBlob::new(*digest, pieces.to_vec());
    if blob.size() > limit {
        return Err(VolumeError::TooLarge { digest: *digest, size: blob.size(), limit });
    }
    let mut content = Vec::new();
    blob.open().read_to_end(&mut content)?;
    Ok(content)
}
