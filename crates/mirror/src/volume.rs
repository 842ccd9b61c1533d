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
use std::path::{Path, PathBuf};

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

/// Why a volume is invalid, or cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A text is not the size of a volume.
    #[error("{0:?}: expected a size such as 4G, 700M or 4GiB, at least 1MiB")]
    Size(String),
    /// A file of the set has a name that does not fit into a header.
    #[error("{0}: the name is too long for a volume")]
    LongName(String),
    /// The volume exists, with other content.
    #[error("{}: the file exists with other content and is not overwritten", .0.display())]
    Exists(PathBuf),
    /// The directory has no volumes.
    #[error("{}: the directory contains no volumes", .0.display())]
    Empty(PathBuf),
    /// No volumes were given.
    #[error("no volumes given")]
    NoVolumes,
    /// Two volumes do not belong together.
    #[error("{} and {} belong to different sets", .0.display(), .1.display())]
    Different(PathBuf, PathBuf),
    /// Two files claim to be the same volume.
    #[error("{} and {} are both volume {number}", one.display(), two.display())]
    Twice {
        /// The first file.
        one: PathBuf,
        /// The second file.
        two: PathBuf,
        /// The number of the volume.
        number: usize,
    },
    /// The volumes name their lock by an invalid digest.
    #[error("the lock of the volumes has no digest")]
    LockDigest,
    /// The volumes contain another lock than the one they name.
    #[error("the volumes do not belong to the lock they contain")]
    OtherLock,
    /// The digest of an entry is invalid.
    #[error("{}: {text:?} is not a digest", path.display())]
    Digest {
        /// The volume.
        path: PathBuf,
        text: String,
    },
    /// An entry is neither a blob nor one of the set's own files.
    #[error("{0:?} is not allowed in a volume")]
    NotAllowed(String),
    /// The volumes lack one of the set's own files.
    #[error("{name} is not in the volumes{}", if *first { "; it is in the first volume, which is missing" } else { "" })]
    Missing {
        /// The file.
        name: String,
        /// Whether the first volume is missing.
        first: bool,
    },
    /// The file ends too early.
    #[error("not a volume: the file is too short")]
    TooShort,
    /// The file starts in another way.
    #[error("not a volume, or its first header is damaged")]
    NotAVolume,
    /// The list cannot be parsed.
    #[error("{LIST} is damaged: {0}")]
    List(#[from] serde_json::Error),
    /// Another opm wrote the volume.
    #[error("{LIST} has version {0}, this opm supports {VERSION}")]
    Version(u32),
    /// The list has too many entries.
    #[error("the volume has more than {ENTRIES} entries")]
    TooManyEntries,
    /// The number of the volume is impossible.
    #[error("{LIST} is damaged: volume {number} of {count}")]
    Number {
        number: usize,
        /// The number of volumes.
        count: usize,
    },
    /// An entry is not where it should be.
    #[error("{LIST} is damaged: {0} has an invalid offset or size")]
    Offset(String),
    /// The file ends before an entry does.
    #[error("the volume is truncated: {0} is incomplete")]
    Truncated(String),
    /// A blob is too large for its purpose.
    #[error("{digest} has {size} bytes, the maximum is {limit}")]
    TooLarge {
        /// The blob.
        digest: Digest,
        /// Its size.
        size: u64,
        /// The maximum.
        limit: u64,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

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
    entries: Vec<VolumeEntry>,
}

/// A file in a volume, or a part of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VolumeEntry {
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
pub fn parse_size(text: &str) -> Result<u64, VolumeError> {
    match parse_bytes(text) {
        Some(size) if size >= SMALLEST => Ok(size),
        _ => Err(VolumeError::Size(text.to_owned())),
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
