//! `SHA256SUMS` beside volumes: for `sha256sum -c`, and to know a volume again that an earlier run wrote.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use image::{Digest, tar};

use super::{LIST, digest_of};

/// The name of the file.
const NAME: &str = "SHA256SUMS";
/// The largest file that is read.
const LIMIT: u64 = 16 << 20;

/// The sums of volumes in a directory, by their names.
pub(super) struct Sums {
    directory: PathBuf,
    sums: BTreeMap<String, Digest>,
}

impl Sums {
    /// Reads what earlier runs wrote; volumes that are not there any more are forgotten.
    pub(super) fn read(directory: &Path) -> Sums {
        let mut text = String::new();
        if let Ok(file) = File::open(directory.join(NAME)) {
            // What is no text is nothing that a run of ours wrote.
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

    /// Returns the size of a volume that is there already, whole and with this list in front.
    pub(super) fn holds(&self, path: &Path, name: &str, list: &[u8]) -> Option<u64> {
        let known = self.sums.get(name)?;
        let mut front = vec![0; tar::BLOCK + list.len()];
        File::open(path).ok()?.read_exact(&mut front).ok()?;
        let same = front[..tar::BLOCK] == tar::file_header(LIST, list.len() as u64) && front[tar::BLOCK..] == *list;
        let whole = same && digest_of(path).ok()? == *known;
        whole.then(|| fs::metadata(path).ok().map(|about| about.len()))?
    }

    /// Adds a volume that was written, so that the next run knows it again whatever becomes of this one.
    pub(super) fn add(&mut self, name: &str, digest: &Digest) -> Result<(), String> {
        self.sums.insert(name.to_owned(), *digest);
        let lines = self.sums.iter().map(|(name, digest)| format!("{}  {name}\n", digest.hex()));
        crate::set::write_whole(&self.directory.join(NAME), lines.collect::<String>().as_bytes())
    }
}
