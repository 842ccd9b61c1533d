//! Volumes: plain tar files of a chosen size that carry a set, or its delta.
//!
//! Each volume starts with `volume.json`, which lists the entries and their offsets, so nothing needs unpacking. The
//! first volume also has the lock, the catalogs and all manifests. A blob larger than a volume is split into parts.

mod packed;
mod read;
mod sums;
#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use image::{Digest, Hasher};
use serde::{Deserialize, Serialize};

use crate::lock::Lock;

pub use packed::packed;
pub use read::Volumes;
pub use write::{CompleteSet, Written, write};

/// The name of the list at the start of a volume.
const LIST: &str = "volume.json";
/// The version of the format.
const VERSION: u32 = 1;
/// Maximum number of entries in a volume.
const ENTRIES: usize = 1_000_000;
/// Maximum size of the list.
const LIST_LIMIT: u64 = 256 << 20;
/// Minimum size of a volume.
pub const SMALLEST: u64 = 1 << 20;

/// The contents of a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    version: u32,
    /// The digest of the lock.
    lock: String,
    /// Identifies the volumes of one run: the lock and the content of the destination.
    series: String,
    /// The number of this volume, starting at 1.
    number: usize,
    /// The number of volumes.
    count: usize,
    /// The known locks of the sets that this one builds on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    since: Vec<String>,
    entries: Vec<Entry>,
}

/// A file in a volume, or a part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    /// `blobs/sha256/<hex>`, or one of the set's own files.
    name: String,
    /// The offset from the end of this list.
    offset: u64,
    size: u64,
    /// The digest of the whole file.
    digest: String,
    /// The number of this part and of all parts; `None` for a whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<(usize, usize)>,
}

/// Returns the common name prefix of the volumes of a set, from the lock and the content of the destination.
fn series(lock: &Lock, have: &BTreeSet<Digest>) -> String {
    let own = lock.digest().hex();
    if have.is_empty() {
        return own[..12].to_owned();
    }
    let known: Vec<String> = have.iter().map(ToString::to_string).collect();
    let base = Digest::of(known.join("\n").as_bytes());
    format!("{}-since-{}", &own[..12], &base.hex()[..8])
}

/// Returns the file name of a volume.
fn file_name(series: &str, number: usize) -> String {
    format!("mirror-{series}-{number:04}.tar")
}

/// Hashes a file.
fn digest_of(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// Parses a size: `4G` is 4·10⁹ bytes, `4GiB` is 4·2³⁰.
///
/// # Errors
/// Fails when the text is not a size or too small for a volume.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Some(size) if size >= SMALLEST => Ok(size),
        _ => Err(format!("{text:?}: expected a size such as 4G, 700M or 4GiB, at least 1MiB")),
    }
}

/// Parses a number of bytes with an optional unit.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "k" | "K" | "kB" => 1000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "T" | "TB" => 1_000_000_000_000,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        "TiB" | "Ti" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor))
}
