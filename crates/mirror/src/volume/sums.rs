//! `SHA256SUMS` next to volumes: for `sha256sum -c`, and to recognize volumes of an earlier run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use image::{Digest, tar};

use super::{LIST, digest_of};
use crate::MirrorError;

/// The name of the file.
const NAME: &str = "SHA256SUMS";
/// Maximum size of the file.
const LIMIT: u64 = 16 << 20;

/// The checksums of the volumes in a directory, by name.
pub(super) struct Sums {
    directory: PathBuf,
    sums: BTreeMap<String, Digest>,
}

impl Sums {
    /// Reads the checksums of earlier runs, dropping volumes that no longer exist.
    pub(super) fn read(directory: &Path) -> Sums {
        let mut text = String::new();
        if let Ok(file) = File::open(directory.join(NAME)) {
            // A run of opm always writes UTF-8.
            let _ = file.take(LIMIT).read_to_string(&mut text);
        }
        let sums = text.lines().filter_map(|line| {
            let (hex, name) = line.split_once("  ")?;
            let digest = format!("sha256:{hex}").parse().ok()?;
            let plain = !name.contains('/') && directory.join(name).is_file();
            plain.then(|| (name.to_owned(), digest))
        });
        Sums { directory: directory.to_owned(), sums: sums.collect() }
    }

    /// Returns the size of a complete volume that exists with this list.
    pub(super) fn holds(&self, path: &Path, name: &str, list: &[u8]) -> Option<u64> {
        let known = self.sums.get(name)?;
        let mut front = vec![0; tar::BLOCK + list.len()];
        File::open(path).ok()?.read_exact(&mut front).ok()?;
        let same = front[..tar::BLOCK] == tar::file_header(LIST, list.len() as u64) && front[tar::BLOCK..] == *list;
        let whole = same && digest_of(path).ok()? == *known;
        whole.then(|| fs::metadata(path).ok().map(|about| about.len()))?
    }

    /// Adds a written volume, so that the next run recognizes it even if this one fails.
    pub(super) fn add(&mut self, name: &str, digest: &Digest) -> Result<(), MirrorError> {
        self.sums.insert(name.to_owned(), *digest);
        let lines = self.sums.iter().map(|(name, digest)| format!("{}  {name}\n", digest.hex()));
        crate::set::write_whole(&self.directory.join(NAME), lines.collect::<String>().as_bytes())
    }
}
