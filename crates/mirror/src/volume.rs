//! Volumes: plain tar files of a chosen size that carry a set, or what is new of it.
//!
//! Each starts with `volume.json`, which says what is in it and where; so nothing has to be unpacked. The first also has
//! the lock, the catalogs and all manifests. A blob that is larger than a volume is cut into parts.

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
pub use write::{Written, write};

/// The name of the list in front.
const LIST: &str = "volume.json";
/// The version of the form.
const VERSION: u32 = 1;
/// How many entries a volume may have.
const ENTRIES: usize = 1_000_000;
/// The largest list.
const LIST_LIMIT: u64 = 256 << 20;
/// The smallest volume.
pub const SMALLEST: u64 = 1 << 20;

/// What is in a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    version: u32,
    /// The digest of the lock.
    lock: String,
    /// What all volumes of one run have in common: the lock, and what the other side has.
    series: String,
    /// Which volume this is, from 1.
    number: usize,
    /// How many there are.
    count: usize,
    /// The digests of the locks of sets that it builds on, as far as they are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    since: Vec<String>,
    entries: Vec<Entry>,
}

/// A file in a volume, or a part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    /// `blobs/sha256/<hex>`, or a file of the set's own.
    name: String,
    /// Where it starts, counted from the end of this list in the file.
    offset: u64,
    size: u64,
    /// The digest of the whole file.
    digest: String,
    /// Which part of the whole this is, and how many there are; nothing if it is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<(usize, usize)>,
}

/// Returns what the names of all volumes of a set have in common: the lock, and what the other side has.
fn series(lock: &Lock, have: &BTreeSet<Digest>) -> String {
    let own = lock.digest().hex();
    if have.is_empty() {
        return own[..12].to_owned();
    }
    let known: Vec<String> = have.iter().map(ToString::to_string).collect();
    let base = Digest::of(known.join("\n").as_bytes());
    format!("{}-since-{}", &own[..12], &base.hex()[..8])
}

/// Returns the name of a volume.
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

/// Reads a size: `4G` is 4·10⁹ bytes, `4GiB` is 4·2³⁰.
///
/// # Errors
/// Fails when the text is none, or too small for a volume.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Some(size) if size >= SMALLEST => Ok(size),
        _ => Err(format!("{text:?}: expected a size such as 4G, 700M or 4GiB, at least 1MiB")),
    }
}

/// Reads a number of bytes, with a unit or without.
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
