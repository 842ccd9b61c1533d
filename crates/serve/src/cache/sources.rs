//! Fingerprints the files of a catalog directory, to detect changes since a cache was built.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use rayon::prelude::*;

use super::format::ContentDigest;

/// The number of bytes that are hashed at a time.
const CHUNK: usize = 256 << 10;
/// The maximum nesting of directories.
const MAX_DEPTH: usize = 64;
/// The resolution of file times: at most this on file systems with fractions of a second, else one or two seconds.
const STEP: Duration = Duration::from_millis(100);
const COARSE_STEP: Duration = Duration::from_secs(3);
/// Makes `open` non-blocking. This is the value of Linux on all but a few old processors.
const O_NONBLOCK: i32 = 0o4000;

/// The metadata of a file in a catalog directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The path relative to the root.
    pub(super) path: PathBuf,
    pub(super) size: u64,
    pub(super) modified: (i64, u32),
    pub(super) changed: (i64, u32),
    pub(super) inode: u64,
    /// Whether it is a regular file.
    regular: bool,
}

impl Stamp {
    /// Clears what depends on the machine and the time. No real file has such a stamp.
    pub(super) fn portable(self) -> Stamp {
        Stamp { modified: (0, 0), changed: (0, 0), inode: 0, ..self }
    }

    /// Returns until when the file can change without changing its stamp.
    fn fresh_until(&self) -> Duration {
        let (seconds, nanos) = self.changed;
        let step = if nanos == 0 { COARSE_STEP } else { STEP };
        Duration::new(u64::try_from(seconds).unwrap_or_default(), nanos) + step
    }
}

/// The fingerprint of a directory: the metadata of its files, which changes when any file does.
#[derive(Debug, Clone)]
pub struct Fingerprint {
    pub(super) stamps: Vec<Stamp>,
    /// How much longer a file can change with the same stamp, because it changed shortly before.
    fresh: Option<Duration>,
}

impl PartialEq for Fingerprint {
    fn eq(&self, other: &Fingerprint) -> bool {
        self.stamps == other.stamps
    }
}

impl Fingerprint {
    /// Takes the fingerprint of all files below `root`.
    ///
    /// # Errors
    /// Fails when a directory cannot be read.
    pub fn at(root: &Path) -> io::Result<Fingerprint> {
        Fingerprint::within(root, usize::MAX)
    }

    /// Takes the fingerprint of all files of a catalog directory, ignored or not, sorted by path. Version control never
    /// has content.
    ///
    /// Files that are not loaded are included: an ignore file may select them, and objects may be read from them.
    ///
    /// # Errors
    /// Fails when a directory cannot be read, or has more than `limit` files.
    pub(crate) fn within(root: &Path, limit: usize) -> io::Result<Fingerprint> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let found = AtomicUsize::new(0);
        let mut stamps = walk(&Walk { root, limit, found: &found }, Path::new(""), 0)?;
        stamps.sort_unstable_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
        let fresh = stamps.iter().map(Stamp::fresh_until).max().and_then(|until| until.checked_sub(now));
        Ok(Fingerprint { stamps, fresh })
    }

    /// Returns whether files may have changed since without changing the fingerprint.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh.is_some()
    }

    /// Returns the delay until no file is fresh, if that is soon.
    pub(super) fn until_stable(&self) -> Option<Duration> {
        self.fresh.filter(|rest| *rest <= STEP).map(|rest| rest + Duration::from_millis(1))
    }

    /// Returns the stamps to store in a cache: a file that may have changed since is compared by content.
    pub(super) fn stamps_to_store(&self) -> Vec<Stamp> {
        let keep = |stamp: &Stamp| if self.is_fresh() { stamp.clone().portable() } else { stamp.clone() };
        self.stamps.iter().map(keep).collect()
    }
}

/// A parallel walk through the directories below `root`: most of its time is spent in the kernel.
struct Walk<'a> {
    root: &'a Path,
    limit: usize,
    /// The number of files found so far.
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
        if fbc::is_version_control(&entry.file_name()) {
            continue;
        }
        let path = directory.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            directories.push(path);
            continue;
        }
        // A symbolic link counts as its target, a dangling one as nothing.
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
/// Fails when a file cannot be read, or grew.
pub(super) fn digests(root: &Path, stamps: &[Stamp]) -> io::Result<Vec<ContentDigest>> {
    stamps.par_iter().map(|stamp| file_digest(&root.join(&stamp.path), stamp)).collect()
}

fn file_digest(path: &Path, stamp: &Stamp) -> io::Result<ContentDigest> {
    // A pipe or a device may block, or have no end; loading reports it, unless it is ignored.
    if !stamp.regular {
        return Ok(ContentDigest::of(b"no regular file"));
    }
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // The path may name something else by now.
    let file = open_regular(path).map_err(named)?;
    let mut file = file.take(stamp.size.saturating_add(1));
    let mut hasher = twox_hash::XxHash3_128::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer) {
            Ok(0) if file.limit() == 0 => return Err(named(io::Error::other("the file changed while opm read it"))),
            Ok(0) => return Ok(ContentDigest(hasher.finish_128())),
            Ok(length) => hasher.write(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(named(error)),
        }
    }
}

/// Opens a regular file without blocking on a pipe.
fn open_regular(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("the file changed while opm read it")) }
}

/// Returns one digest of all paths and contents.
pub(super) fn total(stamps: &[Stamp], contents: &[ContentDigest]) -> ContentDigest {
    let mut list = Vec::new();
    for (stamp, content) in stamps.iter().zip(contents) {
        list.extend_from_slice(stamp.path.as_os_str().as_bytes());
        list.push(0);
        list.extend_from_slice(&content.0.to_le_bytes());
    }
    ContentDigest::of(&list)
}
