//! The files of a catalog directory: what a cache was made from, and whether it still is so.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::format::Digest;

/// How many bytes of a file are hashed at a time.
const CHUNK: usize = 256 << 10;
/// A directory nested deeper is no catalog.
const MAX_DEPTH: usize = 64;

/// A file of a catalog directory, seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Its path below the root.
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) modified: (i64, u32),
    pub(super) changed: (i64, u32),
    pub(super) inode: u64,
}

impl Stamp {
    /// Forgets what depends on the machine and the day. No file looks like that.
    pub(super) fn portable(self) -> Stamp {
        Stamp { modified: (0, 0), changed: (0, 0), inode: 0, ..self }
    }
}

/// Lists all files of a catalog directory, ignored or not, by path.
///
/// Files that do not count are here too: an ignore file decides about them, and objects may be
/// read from them.
///
/// # Errors
/// Fails when a directory cannot be read.
pub(super) fn stamps(root: &Path) -> io::Result<Vec<Stamp>> {
    let mut stamps = Vec::new();
    walk(root, Path::new(""), 0, &mut stamps)?;
    stamps.sort_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
    Ok(stamps)
}

fn walk(root: &Path, directory: &Path, depth: usize, stamps: &mut Vec<Stamp>) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("{}: nested too deeply", root.join(directory).display())));
    }
    for entry in fs::read_dir(root.join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            walk(root, &path, depth + 1, stamps)?;
            continue;
        }
        // A link counts as what it leads to, one that leads nowhere as nothing.
        let Ok(metadata) = fs::metadata(root.join(&path)) else { continue };
        stamps.push(Stamp {
            path,
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec() as u32),
            changed: (metadata.ctime(), metadata.ctime_nsec() as u32),
            inode: metadata.ino(),
        });
    }
    Ok(())
}

/// Returns the digest of each file's content.
///
/// # Errors
/// Fails when a file cannot be read.
pub(super) fn digests(root: &Path, stamps: &[Stamp]) -> io::Result<Vec<Digest>> {
    stamps.par_iter().map(|stamp| file_digest(&root.join(&stamp.path))).collect()
}

fn file_digest(path: &Path) -> io::Result<Digest> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut file = File::open(path).map_err(named)?;
    let mut hasher = twox_hash::XxHash3_128::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Digest(hasher.finish_128())),
            Ok(length) => hasher.write(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(named(error)),
        }
    }
}

/// Returns one digest of all files and their contents.
pub(super) fn total(stamps: &[Stamp], contents: &[Digest]) -> Digest {
    let mut list = Vec::new();
    for (stamp, content) in stamps.iter().zip(contents) {
        list.extend_from_slice(stamp.path.as_os_str().as_bytes());
        list.push(0);
        list.extend_from_slice(&content.0.to_le_bytes());
    }
    Digest::of(&list)
}
