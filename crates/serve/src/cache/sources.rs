//! The files of a catalog directory: what a cache was made from, and whether it still is so.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use rayon::prelude::*;

use super::format::Digest;

/// How many bytes of a file are hashed at a time.
const CHUNK: usize = 256 << 10;
/// A directory nested deeper is no catalog.
const MAX_DEPTH: usize = 64;
/// File systems write down times in steps of at most this, if they know fractions of a second, and else of a second or
/// two.
const STEP: Duration = Duration::from_millis(100);
const COARSE_STEP: Duration = Duration::from_secs(3);
/// Opening does not wait. The number is that of Linux on every processor but a few old ones.
const O_NONBLOCK: i32 = 0o4000;

/// A file of a catalog directory, seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Its path below the root.
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) modified: (i64, u32),
    pub(super) changed: (i64, u32),
    pub(super) inode: u64,
    /// Whether it has content that can be read to its end.
    regular: bool,
}

impl Stamp {
    /// Forgets what depends on the machine and the day. No file looks like that.
    pub(super) fn portable(self) -> Stamp {
        Stamp { modified: (0, 0), changed: (0, 0), inode: 0, ..self }
    }

    /// Returns until when the file may change without looking otherwise.
    fn fresh_until(&self) -> Duration {
        let (seconds, nanos) = self.changed;
        let step = if nanos == 0 { COARSE_STEP } else { STEP };
        Duration::new(u64::try_from(seconds).unwrap_or_default(), nanos) + step
    }
}

/// What a directory looked like: what changes when anything in it does.
#[derive(Debug, Clone)]
pub struct Glance {
    pub(super) stamps: Vec<Stamp>,
    /// How much longer something may change again and look the same, because it changed shortly before.
    fresh: Option<Duration>,
}

impl PartialEq for Glance {
    fn eq(&self, other: &Glance) -> bool {
        self.stamps == other.stamps
    }
}

impl Glance {
    /// Looks at all files of the directory `root`.
    ///
    /// # Errors
    /// Fails when a directory cannot be read.
    pub fn at(root: &Path) -> io::Result<Glance> {
        Glance::within(root, usize::MAX)
    }

    /// Looks at all files of a catalog directory, ignored or not, by path.
    ///
    /// Files that do not count are here too: an ignore file decides about them, and objects may be
    /// read from them.
    ///
    /// # Errors
    /// Fails when a directory cannot be read, or has more than `limit` files.
    pub(crate) fn within(root: &Path, limit: usize) -> io::Result<Glance> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let found = AtomicUsize::new(0);
        let mut stamps = walk(&Walk { root, limit, found: &found }, Path::new(""), 0)?;
        stamps.sort_unstable_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
        let fresh = stamps.iter().map(Stamp::fresh_until).max().and_then(|until| until.checked_sub(now));
        Ok(Glance { stamps, fresh })
    }

    /// Returns whether files may have changed since and look the same.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.is_some()
    }

    /// Returns how long to wait until a look finds nothing fresh, if that is soon.
    pub(super) fn rest(&self) -> Option<Duration> {
        self.fresh.filter(|rest| *rest <= STEP).map(|rest| rest + Duration::from_millis(1))
    }

    /// Returns the stamps as a cache keeps them: a file that may have changed since is compared by content.
    pub(super) fn to_keep(&self) -> Vec<Stamp> {
        let keep = |stamp: &Stamp| if self.is_fresh() { stamp.clone().portable() } else { stamp.clone() };
        self.stamps.iter().map(keep).collect()
    }
}

/// A walk through the directories below `root`, on all processors: most of its time is spent in the kernel.
struct Walk<'a> {
    root: &'a Path,
    limit: usize,
    /// How many files were seen.
    found: &'a AtomicUsize,
}

fn walk(all: &Walk<'_>, directory: &Path, depth: usize) -> io::Result<Vec<Stamp>> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!("{}: nested too deeply", all.root.join(directory).display())));
    }
    let mut stamps = Vec::new();
    let mut directories = Vec::new();
    for entry in fs::read_dir(all.root.join(directory))? {
        let entry = entry?;
        let path = directory.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            directories.push(path);
            continue;
        }
        // A link counts as what it leads to, one that leads nowhere as nothing.
        let metadata = if kind.is_symlink() { fs::metadata(all.root.join(&path)) } else { entry.metadata() };
        let Ok(metadata) = metadata else { continue };
        if all.found.fetch_add(1, Relaxed) >= all.limit {
            return Err(io::Error::other(format!("more than {} files", all.limit)));
        }
        stamps.push(Stamp {
            path,
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec() as u32),
            changed: (metadata.ctime(), metadata.ctime_nsec() as u32),
            inode: metadata.ino(),
            regular: metadata.is_file(),
        });
    }
    let below: Vec<_> = directories.par_iter().map(|path| walk(all, path, depth + 1)).collect::<io::Result<_>>()?;
    stamps.extend(below.into_iter().flatten());
    Ok(stamps)
}

/// Returns the digest of each file's content.
///
/// # Errors
/// Fails when a file cannot be read, or is longer than it was.
pub(super) fn digests(root: &Path, stamps: &[Stamp]) -> io::Result<Vec<Digest>> {
    stamps.par_iter().map(|stamp| file_digest(&root.join(&stamp.path), stamp)).collect()
}

fn file_digest(path: &Path, stamp: &Stamp) -> io::Result<Digest> {
    // A pipe or a device may have nothing to read, or no end; loading reports it, unless it is ignored.
    if !stamp.regular {
        return Ok(Digest::of(b"no regular file"));
    }
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // What took its place meanwhile may be anything.
    let file = open_regular(path).map_err(named)?;
    let mut file = file.take(stamp.size.saturating_add(1));
    let mut hasher = twox_hash::XxHash3_128::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer) {
            Ok(0) if file.limit() == 0 => return Err(named(io::Error::other("file changed while it was being read"))),
            Ok(0) => return Ok(Digest(hasher.finish_128())),
            Ok(length) => hasher.write(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(named(error)),
        }
    }
}

/// Opens a file without waiting for a writer, should it be a pipe.
fn open_regular(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("file changed while it was being read")) }
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
